#include "runtime/machine/disk_space.hpp"

#include <cerrno>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST_CASE("a disk with room takes a file, and keeps none") {
  const Directory folder;
  CHECK(try_free_space(folder / "", kMiB));
  CHECK(fs::is_empty(folder / ""));
}

TEST_CASE("a folder that takes no file has no room, and the error names it") {
  const Directory folder;
  const auto space = try_free_space(folder / "not there", kMiB);
  REQUIRE(!space);
  CHECK(space.error().message.contains("cannot write 1 MiB"));
  CHECK(space.error().message.contains((folder / "not there").string()));
}

TEST_CASE("a full disk and a quota are no room") {
  const Directory folder;
  for (const int code : {ENOSPC, EDQUOT, EIO}) {
    CHECK(!try_free_space(folder / "", kMiB,
                          [&](int, std::int64_t) { return code; }));
    CHECK(fs::is_empty(folder / ""));
  }
}

TEST_CASE("a signal is no full disk") {
  const Directory folder;
  int signals = 3;
  CHECK(try_free_space(folder / "", kMiB, [&](int, std::int64_t) {
    return signals-- > 0 ? EINTR : 0;
  }));
  CHECK(signals == -1);
}

TEST_CASE("a file system that cannot promise room says what is free") {
  const Directory folder;
  for (const int code : {ENOSYS, EOPNOTSUPP}) {
    const auto cannot = [&](int, std::int64_t) { return code; };
    CHECK(try_free_space(folder / "", kMiB, cannot));
    CHECK(!try_free_space(folder / "", std::int64_t{1} << 60, cannot));
  }
}

}  // namespace
}  // namespace weft
