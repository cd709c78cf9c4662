#include "runtime/kernel_cache.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace weft;
namespace fs = std::filesystem;

TEST_CASE("the folder of kernels is there before the first is built") {
  // A model without a kernel of ours is checked too: in a sandbox that shows
  // this folder and can't be made without it.
  const fs::path run = fs::temp_directory_path() /
                       ("weft-kernel-cache-" + std::to_string(getpid()));
  const KernelCache cache(run / "build", run / "scratch");
  CHECK(fs::is_directory(cache.folder()));
  fs::remove_all(run);
}
