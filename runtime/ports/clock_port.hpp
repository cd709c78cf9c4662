// port/clock: answers each TimerRequest with TimerFired when its time has come.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/host/port.hpp"

namespace weft {

class ClockPort : public Port {
 public:
  ClockPort();
  ~ClockPort() override;

  void start(const Message& request, Reply reply) override;

  /// A timer that is due within seconds is worth waiting for.
  std::string waits_for() const override;

 private:
  struct Alarm {
    std::uint64_t effect = 0;
    Reply reply;
  };
  void loop(std::stop_token stop);

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::multimap<std::chrono::steady_clock::time_point, Alarm> alarms_;
  std::jthread thread_;
};

}  // namespace weft
