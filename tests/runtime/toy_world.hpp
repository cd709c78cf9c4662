// A run small enough to know by heart: a counter that asks the clock for three
// ticks, one after the other, and ends. For the hosts and the replayer.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/role.hpp"
#include "runtime/host/port.hpp"

namespace weft {

inline const Address counter_address = "counter";
constexpr std::uint64_t kToyTicks = 3;

/// What begins a toy run.
inline Message toy_start() { return RunStart{}; }

/// Says that it counts, and asks for the next tick.
class Counter : public Role {
 public:
  void receive(const Address&, const Message& message,
               Context& context) override {
    if (std::holds_alternative<RunStart>(message)) return ask(1, context);
    const auto* fired = std::get_if<TimerFired>(&message);
    if (!fired) return;
    ++ticks_;
    if (fired->effect < kToyTicks) return ask(fired->effect + 1, context);
    context.send(address::user,
                 RunFinished{0, std::to_string(ticks_) + " ticks"});
  }

 private:
  static void ask(std::uint64_t tick, Context& context) {
    const std::string blob =
        context.blobs().put("tick " + std::to_string(tick));
    context.send(address::user, Progress{"", "tick", blob});
    context.send(address::clock, TimerRequest{tick, 10});
  }

  std::uint64_t ticks_ = 0;
};

inline std::unique_ptr<Role> make_counter(const Address& address) {
  if (address == counter_address) return std::make_unique<Counter>();
  return nullptr;
}

/// Hands every request to `act`, and remembers its number.
class ToyPort : public Port {
 public:
  using Act = std::function<void(const TimerRequest&, const Reply&)>;

  ToyPort(std::vector<std::uint64_t>& asked, Act act)
      : asked_(asked), act_(std::move(act)) {}

  void start(const Message& request, Reply reply) override {
    const auto& timer = std::get<TimerRequest>(request);
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(timer.effect);
    }
    act_(timer, reply);
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t>& asked_;
  Act act_;
};

inline void answer(const TimerRequest& request, const Port::Reply& reply) {
  reply(TimerFired{request.effect});
}

inline Ports toy_ports(std::vector<std::uint64_t>& asked, ToyPort::Act act) {
  Ports ports;
  ports[address::clock] = std::make_unique<ToyPort>(asked, std::move(act));
  return ports;
}

}  // namespace weft
