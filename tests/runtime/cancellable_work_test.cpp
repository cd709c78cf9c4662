#include "runtime/ports/cancellable_work.hpp"

#include <doctest/doctest.h>

#include <latch>
#include <optional>

namespace weft {
namespace {

/// The answer to a request, when there is one.
struct Answer {
  std::optional<BuildReply> reply;
  std::latch came{1};
  Port::Reply take() {
    return [this](Message message) {
      CHECK(!reply);
      reply = std::get<BuildReply>(std::move(message));
      came.count_down();
    };
  }
};

BuildRequest request(std::uint64_t effect) {
  BuildRequest made;
  made.effect = effect;
  return made;
}

Message reply(std::uint64_t effect) { return BuildReply{effect, {}, "", 1}; }

TEST_CASE("work that is cancelled before its turn is answered at once") {
  std::latch may_end{1};
  Answer first, second;
  {
    WorkQueue queue(1);
    push_cancellable(queue, request(1), {}, first.take(), [&] {
      may_end.wait();
      return reply(1);
    });
    std::stop_source stop;
    push_cancellable(queue, request(2), stop.get_token(), second.take(), [] {
      FAIL("it is not wanted");
      return reply(2);
    });
    stop.request_stop();
    second.came.wait();  // while the first one holds the only thread
    CHECK(second.reply->failure.code == "cancelled");
    may_end.count_down();
    first.came.wait();
  }
  CHECK(!first.reply->failure);
}

TEST_CASE("work that ended before it could be stopped is an answer") {
  Answer answer;
  WorkQueue queue(1);
  std::stop_source stop;
  push_cancellable(queue, request(1), stop.get_token(), answer.take(), [&] {
    stop.request_stop();
    return reply(1);
  });
  answer.came.wait();
  CHECK(!answer.reply->failure);
}

}  // namespace
}  // namespace weft
