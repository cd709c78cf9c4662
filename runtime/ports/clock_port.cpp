#include "runtime/ports/clock_port.hpp"

#include <utility>

namespace weft {

ClockPort::ClockPort()
    : thread_([this](std::stop_token stop) { loop(stop); }) {}

ClockPort::~ClockPort() = default;

void ClockPort::start(const Message& request, Reply reply) {
  const auto& timer = std::get<TimerRequest>(request);
  const auto due = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds(timer.after_ms);
  const std::lock_guard lock(mutex_);
  alarms_.emplace(due, Alarm{timer.effect, std::move(reply)});
  wake_.notify_one();
}

std::string ClockPort::waits_for() const {
  // Longer than a retry's backoff. Alarms of leases that were given back stay
  // until they are due, minutes later.
  constexpr std::chrono::seconds kSoon{20};
  const std::lock_guard lock(mutex_);
  const bool is_soon =
      !alarms_.empty() &&
      alarms_.begin()->first < std::chrono::steady_clock::now() + kSoon;
  return is_soon ? "" : "a timer";
}

void ClockPort::loop(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    if (alarms_.empty()) {
      wake_.wait(lock, stop, [this] { return !alarms_.empty(); });
      continue;
    }
    const auto due = alarms_.begin()->first;
    if (std::chrono::steady_clock::now() < due) {
      wake_.wait_until(lock, stop, due,
                       [&] { return alarms_.begin()->first < due; });
      continue;
    }
    const Alarm alarm = std::move(alarms_.begin()->second);
    alarms_.erase(alarms_.begin());
    lock.unlock();
    alarm.reply(TimerFired{alarm.effect});
    lock.lock();
  }
}

}  // namespace weft
