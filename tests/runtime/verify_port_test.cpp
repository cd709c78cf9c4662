#include "runtime/ports/verify_port.hpp"

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

class NoBlobs : public Blobs {
 public:
  Result<std::string> get(std::string_view) override {
    return fail(ErrorCode::failed, "there are no blobs");
  }
  std::string put(std::string_view) override { return ""; }
};

TEST_CASE("what candidates left is removed, and what is not theirs stays") {
  const Directory folder;
  NoBlobs blobs;
  KernelCache cache(folder / "builds", folder / "builds-scratch", {});
  VerifyPort::Options options;
  options.scratch = folder / "cpu";
  options.slots = 2;
  VerifyPort port(blobs, cache, std::move(options));
  for (const char* slot : {"cpu/slot0", "cpu/slot1", "cpu/subjects"}) {
    fs::create_directories(folder / slot);
    std::ofstream(folder / slot / "large") << "bytes";
  }
  port.empty_idle_slots();
  CHECK(fs::is_empty(folder / "cpu/slot0"));
  CHECK(fs::is_empty(folder / "cpu/slot1"));
  CHECK(fs::exists(folder / "cpu/subjects/large"));
  // Its slots are there for others again.
  port.empty_idle_slots();
}

}  // namespace
}  // namespace weft
