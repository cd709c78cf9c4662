// A port's work in a queue. Work that is cancelled before it begins is answered
// at once. Its turn may come minutes later, and the head distrusts a node that
// does not answer a cancelled request.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "runtime/host/port.hpp"
#include "runtime/machine/work_queue.hpp"

namespace weft {

inline bool has_failed(const Message& reply) {
  return std::visit(
      [](const auto& m) {
        if constexpr (requires { m.failure.code; }) {
          return static_cast<bool>(m.failure);
        } else {
          return false;
        }
      },
      reply);
}

/// Answers `request` with the result of `work`, once.
inline void push_cancellable(WorkQueue& queue, const Message& request,
                             const std::stop_token& cancelled,
                             Port::Reply reply, std::function<Message()> work) {
  using OnStop = std::stop_callback<std::function<void()>>;
  const auto is_taken = std::make_shared<std::atomic<bool>>(false);
  const auto on_stop =
      std::make_shared<OnStop>(cancelled, [is_taken, request, reply] {
        if (!is_taken->exchange(true)) reply(cancelled_reply(request));
      });
  queue.push([=, work = std::move(work), reply = std::move(reply)] {
    (void)on_stop;  // lives until the work has ended
    if (is_taken->exchange(true)) return;
    Message message = work();
    // What ended before it could be stopped is an answer as any other.
    const bool is_stopped = cancelled.stop_requested() && has_failed(message);
    reply(is_stopped ? cancelled_reply(request) : std::move(message));
  });
}

}  // namespace weft
