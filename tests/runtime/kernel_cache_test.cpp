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

TEST_CASE("nothing is built for a target that there is not") {
  const fs::path run = fs::temp_directory_path() /
                       ("weft-kernel-target-" + std::to_string(getpid()));
  KernelCache cache(run / "build", run / "scratch");
  const auto built = cache.build("abacus", "int x;", 1'000);
  REQUIRE_FALSE(built.has_value());
  CHECK(built.error().code == ErrorCode::wrong_input);
  CHECK(built.error().message.contains("abacus"));
  fs::remove_all(run);
}
