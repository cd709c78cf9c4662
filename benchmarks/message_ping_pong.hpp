// Roles with nothing to think about, for what the machinery itself costs: a hub
// throws balls to peers, each passes them on, until every ball has made its
// hops. A ball is the message that workers hear most.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "actors/role.hpp"
#include "runtime/host/replay.hpp"

namespace weft::benchmark {

constexpr int kPeers = 8;

inline Address peer(std::uint64_t i) {
  return "peer/" + std::to_string(i % kPeers);
}

/// What a worker hears most often; about 400 bytes.
inline CheckReply ball(std::uint64_t hops) {
  CheckReply reply;
  reply.effect = hops;
  reply.verdict.correct = true;
  reply.verdict.kind = "correct";
  reply.verdict.cases = 6;
  reply.verdict.max_error = 4.98e-7;
  reply.verdict.framework_error = 1.13e-6;
  reply.verdict.tolerance = 6.1e-5;
  reply.verdict.controls = {
      {"zeros", true}, {"constant", true}, {"input", true}, {"stale", true}};
  reply.wall_ms = 1234;
  return reply;
}

/// Throws the balls and waits until each has made its hops.
class Hub : public Role {
 public:
  Hub(int balls, std::uint64_t hops) : balls_(balls), hops_(hops) {}
  void receive(const Address&, const Message& message,
               Context& context) override {
    if (std::holds_alternative<LeaseReleased>(message)) {
      if (--balls_ == 0) context.send(address::user, RunFinished{0, "done"});
      return;
    }
    for (int i = 0; i < balls_; ++i) {
      context.send(peer(static_cast<std::uint64_t>(i)), ball(hops_));
    }
  }

 private:
  int balls_;
  std::uint64_t hops_;
};

/// Passes a ball on to the next peer.
class Peer : public Role {
 public:
  explicit Peer(std::uint64_t self) : self_(self) {}
  void receive(const Address&, const Message& message,
               Context& context) override {
    const auto& reply = std::get<CheckReply>(message);
    if (reply.effect == 0) return context.send("hub", LeaseReleased{});
    CheckReply next = reply;
    --next.effect;
    context.send(peer(self_ + 1), next);
  }

 private:
  std::uint64_t self_;
};

inline Replay::MakeRole players(int balls, std::uint64_t hops) {
  return [balls, hops](const Address& address) -> std::unique_ptr<Role> {
    if (address == "hub") return std::make_unique<Hub>(balls, hops);
    if (kind_of(address) != "peer") return nullptr;
    return std::make_unique<Peer>(std::stoull(instance_of(address)));
  };
}

}  // namespace weft::benchmark
