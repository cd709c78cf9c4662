#include "runtime/ports/clock_port.hpp"

#include <doctest/doctest.h>

#include <future>
#include <vector>

namespace weft {
namespace {

TEST_CASE("alarms ring in the order of their times, not of the requests") {
  std::vector<std::uint64_t> rung;
  std::promise<void> all;
  ClockPort port;
  const auto ring = [&](Message message) {
    rung.push_back(std::get<TimerFired>(message).effect);
    if (rung.size() == 3) all.set_value();
  };
  port.start(TimerRequest{3, 300}, ring);
  port.start(TimerRequest{1, 0}, ring);
  port.start(TimerRequest{2, 100}, ring);
  all.get_future().wait();
  CHECK(rung == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("a clock with alarms to come ends at once, without ringing") {
  bool rung = false;
  {
    ClockPort port;
    port.start(TimerRequest{1, 3'600'000}, [&](Message) { rung = true; });
  }
  CHECK(!rung);
}

}  // namespace
}  // namespace weft
