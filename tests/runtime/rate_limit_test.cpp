#include "runtime/bus/rate_limit.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace weft {
namespace {

TEST_CASE("a limit allows a burst, then so many a second") {
  RateLimit limit(3, 2);
  std::int64_t now_ms = 1'796'000'000'000;
  int taken = 0;
  for (int i = 0; i < 10; ++i) taken += limit.take(now_ms);
  CHECK(taken == 3);
  now_ms += 1'000;
  for (int i = 0; i < 10; ++i) taken += limit.take(now_ms);
  CHECK(taken == 5);
  now_ms += 3'600'000;
  for (int i = 0; i < 10; ++i) taken += limit.take(now_ms);
  CHECK(taken == 8);
  now_ms -= 1'000'000;  // whose clock goes back gains nothing
  CHECK_FALSE(limit.take(now_ms));
}

TEST_CASE("a peer cannot fill the log, and what is left out is counted") {
  std::int64_t now_ms = 1'000;
  std::vector<std::string> lines;
  const LogLine log =
      limited_log([&](const std::string& line) { lines.push_back(line); },
                  [&] { return now_ms; });
  for (int i = 0; i < 100'000; ++i) log("node n1 answered too late");
  CHECK(lines.size() == 5'000);
  now_ms += 1'000;
  log("node n2 joined");
  CHECK(lines.size() == 5'002);
  CHECK(lines[5'000].contains("95000 lines"));
  CHECK(lines[5'001] == "node n2 joined");
}

TEST_CASE("a peer's line is cut") {
  std::vector<std::string> lines;
  const LogLine log =
      limited_log([&](const std::string& line) { lines.push_back(line); },
                  [] { return std::int64_t{1}; });
  log(std::string(100'000, 'x'));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() < 1'010);
}

}  // namespace
}  // namespace weft
