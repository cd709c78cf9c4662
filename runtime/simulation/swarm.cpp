#include "runtime/simulation/swarm.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "actors/broker.hpp"
#include "actors/pending_effects.hpp"
#include "runtime/bus/head_protocol.hpp"
#include "runtime/bus/node_protocol.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/host/port.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/simulation/invariants.hpp"
#include "runtime/simulation/simulated_ports.hpp"

namespace weft {
namespace {

const Address asker = "asker";
const std::string run_name = "run";
constexpr std::int64_t kTickMs = 100;
constexpr std::int64_t kSilenceMs = 3'000;
constexpr std::int64_t kFaultsEndMs = 30'000;
constexpr int kSlotsMax = 3;
constexpr int kPrefetchMax = 2;
/// The broker is told of more than a node has: else no credit would ever
/// matter.
constexpr int kOverstated = 4;

class NoBlobs : public Blobs {
 public:
  Result<std::string> get(std::string_view) override {
    return fail(ErrorCode::failed, "there are no blobs");
  }
  std::string put(std::string_view) override { return ""; }
};

/// A machine that runs a node's process, or will again, and its link.
struct NodeMachine {
  std::string name;
  int slots = 1;
  int incarnation = 0;  // of the process
  int connection = 0;
  std::unique_ptr<NodeProtocol> process;  // null: none runs
  bool hangs = false;
  bool is_cut = false;
  std::deque<std::function<void()>> waiting;  // until it goes on
  std::int64_t last_to_head_ms = 0;
  std::int64_t last_to_node_ms = 0;

  std::string peer() const {
    return name + "." + std::to_string(incarnation) + "." +
           std::to_string(connection);
  }
};

class Swarm {
 public:
  Swarm(std::uint64_t seed, const SwarmOptions& options)
      : options_(options), random_(seed) {}

  SwarmEnd run();

 private:
  void begin();
  void plan_faults();
  void after(std::int64_t ms, std::function<void()> what) {
    events_.emplace(now_ms_ + ms, std::move(what));
  }
  void broken(const std::string& problem) {
    if (end_.problem.empty()) end_.problem = problem;
  }

  // Machines
  void boot(std::size_t i);
  void tick_node(std::size_t i);
  void disturb(std::size_t i);
  void go_on(std::size_t i);
  void at_node(std::size_t i, std::function<void(NodeProtocol&)> what);
  void drain(std::size_t i);
  void perform(std::size_t i, node_action::Send& send);
  void perform(std::size_t i, node_action::Work& work);
  void perform(std::size_t i, node_action::Stop& stop);
  void perform(std::size_t i, node_action::Reconnect&);
  void perform(std::size_t i, node_action::Quit&);
  template <class Other>
  void perform(std::size_t, Other&) {}

  // The head
  void make_head();
  void restart_head();
  void tick_head();
  void drain_head();
  void perform(head_action::Send& send);
  void perform(head_action::Joined& joined);
  void perform(head_action::NodeGone& nodes_lost);
  void perform(head_action::Answered& answered);
  void perform(head_action::Dropped& dropped);
  void perform(head_action::Late&) { ++end_.late; }
  template <class Other>
  void perform(Other&) {}
  void check_credits();

  // Its roles
  void post(const Address& from, std::uint64_t cause,
            const std::vector<Outgoing>& sent);
  void deliver(Envelope envelope);
  void ask_port(const Envelope& request, const Message& message);
  void hear(const Message& message);
  void inform_broker(const std::string& node, int slots, bool left = false);

  SwarmOptions options_;
  Random random_;
  SwarmEnd end_;
  std::int64_t now_ms_ = 1;
  std::multimap<std::int64_t, std::function<void()>> events_;

  std::vector<NodeMachine> machines_;
  std::map<std::string, std::size_t> by_peer_;

  std::unique_ptr<HeadProtocol> head_;
  HeadProtocol::Counters before_;  // of heads that died
  std::uint64_t next_session_ = 1;
  std::map<std::string, int> present_;  // told the broker: slots
  std::map<std::uint64_t, NodeRequest> open_;
  std::map<std::uint64_t, Message> asked_;

  NoBlobs blobs_;
  Broker broker_;
  PendingEffects effects_;
  Invariants invariants_;
  EffectLedger ledger_;
  std::uint64_t seq_ = 0;
  std::deque<Envelope> posted_;
  bool is_delivering_ = false;
  int ended_ = 0;
};

void Swarm::begin() {
  make_head();
  // The head works, too: there is always a location.
  post(asker, 0,
       {{address::broker, Capacities{{{"cpu", 1}}, 1'000'000, "", 5'000}}});
  for (int i = 0; i < options_.nodes; ++i) {
    NodeMachine& machine = machines_.emplace_back();
    machine.name = "n" + std::to_string(i);
    machine.slots = static_cast<int>(1 + pick(random_, kSlotsMax));
    const auto number = static_cast<std::size_t>(i);
    after(pick(random_, 5'000), [this, number] { boot(number); });
    after(pick(random_, kTickMs), [this, number] { tick_node(number); });
  }
  for (int i = 0; i < options_.pieces; ++i) {
    after(pick(random_, 10'000), [this] {
      Context context(blobs_, now_ms_ * 1000);
      LeaseTerms terms;
      terms.ttl_ms = 120'000;
      effects_.start(address::build, BuildRequest{}, terms, context);
      post(asker, 0, context.take_outbox());
    });
  }
  plan_faults();
  tick_head();
}

void Swarm::plan_faults() {
  const auto faults =
      static_cast<int>(options_.nodes * options_.faults_per_node);
  for (int i = 0; i < faults; ++i) {
    const auto which = static_cast<std::size_t>(pick(random_, options_.nodes));
    after(pick(random_, kFaultsEndMs), [this, which] { disturb(which); });
  }
  for (int i = 0; i < options_.head_deaths; ++i) {
    after(pick(random_, kFaultsEndMs), [this] { restart_head(); });
  }
}

SwarmEnd Swarm::run() {
  begin();
  while (end_.problem.empty() && ended_ < options_.pieces) {
    const auto next = events_.begin();
    now_ms_ = std::max(now_ms_, next->first);
    const auto what = std::move(next->second);
    events_.erase(next);
    what();
    if (now_ms_ > options_.time_max_ms) broken("the work does not end");
  }
  end_.took_ms = now_ms_;
  end_.events = seq_;
  end_.resent = before_.resent + head_->counters().resent;
  if (end_.problem.empty() && !open_.empty()) {
    // Late replies of lost locations are no reason to wait.
    broken("work is done, and the head waits for answers");
  }
  if (end_.problem.empty() && broker_.in_use("cpu") != 0) {
    broken("all work is done, and the head's core is leased");
  }
  for (const auto& [node, slots] : present_) {
    if (end_.problem.empty() && broker_.in_use("cpu", node) != 0) {
      broken("all work is done, and a core of " + node + " is leased");
    }
  }
  return end_;
}

// Machines

void Swarm::boot(std::size_t i) {
  NodeMachine& machine = machines_[i];
  if (machine.process) return;
  ++machine.incarnation;
  machine.connection = 0;
  machine.hangs = machine.is_cut = false;
  machine.waiting.clear();
  NodeProtocol::Options options;
  options.hello.wire_min = wire::kWireVersionMin;
  options.hello.wire_max = wire::kWireVersion;
  options.hello.name = machine.name;
  options.hello.incarnation = "p" + std::to_string(machine.incarnation);
  options.hello.slots = {{"cpu", machine.slots}};
  machine.process = std::make_unique<NodeProtocol>(options);
  by_peer_[machine.peer()] = i;
}

void Swarm::tick_node(std::size_t i) {
  after(kTickMs, [this, i] { tick_node(i); });
  NodeMachine& machine = machines_[i];
  if (!machine.process || machine.hangs) return;
  machine.process->tick(now_ms_);
  drain(i);
}

/// One of the things that happen to machines; each passes.
void Swarm::disturb(std::size_t i) {
  NodeMachine& machine = machines_[i];
  if (!machine.process || machine.hangs || machine.is_cut) return;
  const std::int64_t for_ms = 200 + pick(random_, 10'000);
  switch (options_.only_leaves ? 3 : pick(random_, 4)) {
    case 0:
      by_peer_.erase(machine.peer());
      machine.process.reset();
      after(for_ms, [this, i] { boot(i); });
      return;
    case 1:
      machine.hangs = true;
      break;
    case 2:
      machine.is_cut = true;
      break;
    case 3: {
      const bool is_full = !options_.only_leaves && happens(random_, 300);
      machine.process->leave(now_ms_, is_full ? "its disk is full" : "");
      return drain(i);
    }
  }
  after(for_ms, [this, i] { go_on(i); });
}

void Swarm::go_on(std::size_t i) {
  NodeMachine& machine = machines_[i];
  machine.hangs = machine.is_cut = false;
  auto waiting = std::move(machine.waiting);
  machine.waiting.clear();
  for (auto& what : waiting) what();
}

/// Something that the process of now is to hear of: once it hears at all.
void Swarm::at_node(std::size_t i, std::function<void(NodeProtocol&)> what) {
  NodeMachine& machine = machines_[i];
  const int incarnation = machine.incarnation;
  std::function<void()> act = [this, i, incarnation, what = std::move(what)] {
    NodeMachine& same = machines_[i];
    if (!same.process || same.incarnation != incarnation) return;
    what(*same.process);
    drain(i);
  };
  if (machine.hangs) {
    machine.waiting.push_back(std::move(act));
  } else {
    act();
  }
}

void Swarm::drain(std::size_t i) {
  if (!machines_[i].process) return;
  for (NodeAction& action : machines_[i].process->take_actions()) {
    std::visit([&](auto& item) { perform(i, item); }, action);
  }
}

void Swarm::perform(std::size_t i, node_action::Send& send) {
  NodeMachine& machine = machines_[i];
  if (machine.is_cut || happens(random_, options_.lost_frames)) return;
  const std::int64_t due =
      std::max(machine.last_to_head_ms, now_ms_ + 1 + pick(random_, 20));
  machine.last_to_head_ms = due;
  after(due - now_ms_, [this, peer = machine.peer(), frame = send.frame] {
    head_->on_frame(peer, frame.header, frame.body ? *frame.body : "", now_ms_);
    head_->flush(now_ms_);
    drain_head();
  });
}

void Swarm::perform(std::size_t i, node_action::Work& work) {
  const auto message = decode(work.type, work.body);
  BuildReply reply;
  reply.effect = effect_of(*message);
  after(20 + pick(random_, 3'000),
        [this, i, id = work.id, reply, was = machines_[i].incarnation] {
          if (machines_[i].incarnation != was) return;
          at_node(i, [this, id, reply](NodeProtocol& node) {
            node.result(id, std::string(BuildReply::name), encode(reply), {},
                        now_ms_);
          });
        });
}

/// The work says soon that it was stopped.
void Swarm::perform(std::size_t i, node_action::Stop& stop) {
  const auto asked = asked_.find(stop.id);
  if (asked == asked_.end()) return;
  after(5, [this, i, id = stop.id, reply = cancelled_reply(asked->second),
            was = machines_[i].incarnation] {
    if (machines_[i].incarnation != was) return;
    at_node(i, [this, id, reply](NodeProtocol& node) {
      node.result(id, std::string(BuildReply::name), encode(reply), {},
                  now_ms_);
    });
  });
}

void Swarm::perform(std::size_t i, node_action::Reconnect&) {
  NodeMachine& machine = machines_[i];
  by_peer_.erase(machine.peer());
  ++machine.connection;
  by_peer_[machine.peer()] = i;
}

void Swarm::perform(std::size_t i, node_action::Quit&) {
  after(0, [this, i] {
    by_peer_.erase(machines_[i].peer());
    machines_[i].process.reset();
  });
  after(500 + pick(random_, 5'000), [this, i] { boot(i); });
}

// The head

void Swarm::make_head() {
  HeadProtocol::Options options;
  options.run = run_name;
  options.start = "start";
  options.first_session = next_session_;
  options.heartbeat_ms = kSilenceMs / 5;
  options.silence_ms = kSilenceMs;
  options.prefetch = options_.prefetch;
  head_ = std::make_unique<HeadProtocol>(options);
  next_session_ += 1'000'000;
}

/// What its roles know is in the journal; what it knew of nodes is not.
void Swarm::restart_head() {
  before_.resent += head_->counters().resent;
  make_head();
  for (const auto& [node, slots] : present_) head_->expect(node, now_ms_);
  const auto open = open_;
  for (const auto& [id, request] : open) head_->submit(request, now_ms_);
  drain_head();
}

void Swarm::tick_head() {
  after(kTickMs, [this] { tick_head(); });
  head_->tick(now_ms_);
  drain_head();
  check_credits();
}

void Swarm::check_credits() {
  for (const auto& node : head_->nodes(now_ms_)) {
    const auto slots = node.hello.slots.find("cpu");
    if (slots == node.hello.slots.end()) continue;
    const auto most = static_cast<std::size_t>(slots->second + kPrefetchMax);
    if (node.asked > most) {
      broken("node " + node.hello.name + " of " +
             std::to_string(slots->second) + " slots was sent " +
             std::to_string(node.asked) + " requests");
    }
  }
}

void Swarm::drain_head() {
  for (HeadAction& action : head_->take_actions()) {
    std::visit([this](auto& item) { perform(item); }, action);
  }
}

void Swarm::perform(head_action::Send& send) {
  const auto found = by_peer_.find(send.peer);
  if (found == by_peer_.end()) return;
  const std::size_t i = found->second;
  NodeMachine& machine = machines_[i];
  if (machine.is_cut || happens(random_, options_.lost_frames)) return;
  const std::int64_t due =
      std::max(machine.last_to_node_ms, now_ms_ + 1 + pick(random_, 20));
  machine.last_to_node_ms = due;
  after(due - now_ms_, [this, i, peer = send.peer, frame = send.frame] {
    if (machines_[i].peer() != peer || !machines_[i].process) return;
    at_node(i, [this, frame](NodeProtocol& node) {
      node.on_frame(frame.header, frame.body ? *frame.body : "", now_ms_);
      node.flush(now_ms_);
    });
  });
}

/// As HeadBus does.
void Swarm::perform(head_action::Joined& joined) {
  const std::string& name = joined.hello.name;
  const bool goes_on = present_.contains(name) && joined.knows_run;
  if (present_.contains(name) && !goes_on) inform_broker(name, 0);
  present_[name] = kOverstated * joined.hello.slots.at("cpu");
  ++end_.joined;
  if (!goes_on) inform_broker(name, present_[name]);
}

void Swarm::perform(head_action::NodeGone& nodes_lost) {
  for (const NodeRequest& request : nodes_lost.requests) {
    if (open_.erase(request.id) == 0 || !nodes_lost.politely) continue;
    const bool may_be_why = nodes_lost.disk_full && request.was_sent;
    if (may_be_why) ++end_.full;
    const std::string code = may_be_why ? "disk_full" : "node_lost";
    post(address::at(address::build, nodes_lost.node), request.id,
         {{asker, failed_reply(asked_.at(request.id), {code, "it left"})}});
  }
  if (!present_.contains(nodes_lost.node)) return;
  ++(nodes_lost.politely ? end_.left : end_.nodes_lost);
  present_.erase(nodes_lost.node);
  inform_broker(nodes_lost.node, 0, nodes_lost.politely);
}

void Swarm::perform(head_action::Answered& answered) {
  const std::uint64_t id = answered.request.id;
  if (open_.erase(id) == 0) {
    return broken("request " + std::to_string(id) + " is answered twice");
  }
  const auto reply = decode(answered.type, answered.body);
  post(address::at(address::build, answered.request.node), id,
       {{asker, *reply}});
  after(pick(random_, 20), [this, id] {
    head_->journaled(id, now_ms_);
    head_->flush(now_ms_);
    drain_head();
  });
}

void Swarm::perform(head_action::Dropped& dropped) {
  const std::uint64_t id = dropped.request.id;
  open_.erase(id);
  post(address::at(address::build, dropped.request.node), id,
       {{asker, cancelled_reply(asked_.at(id))}});
}

// Its roles

void Swarm::inform_broker(const std::string& node, int slots, bool left) {
  Capacities capacities;
  capacities.location = node;
  if (slots > 0 || left) capacities.units = {{"cpu", slots}};
  post(address::node(node), 0, {{address::broker, capacities}});
}

void Swarm::post(const Address& from, std::uint64_t cause,
                 const std::vector<Outgoing>& sent) {
  for (Envelope& envelope : to_envelopes(from, cause, sent)) {
    posted_.push_back(std::move(envelope));
  }
  if (is_delivering_) return;
  is_delivering_ = true;
  while (!posted_.empty() && end_.problem.empty()) {
    Envelope next = std::move(posted_.front());
    posted_.pop_front();
    deliver(std::move(next));
  }
  is_delivering_ = false;
}

void Swarm::deliver(Envelope envelope) {
  envelope.seq = ++seq_;
  envelope.at_us = now_ms_ * 1000;
  ledger_.settle(envelope);
  broken(invariants_.take(envelope));
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return broken(message.error().message);
  if (is_port(envelope.dst)) return ask_port(envelope, *message);
  if (envelope.dst == asker) return hear(*message);
  if (envelope.dst != address::broker) return;
  Context context(blobs_, envelope.at_us);
  broker_.receive(envelope.src, *message, context);
  post(address::broker, envelope.seq, context.take_outbox());
}

void Swarm::ask_port(const Envelope& request, const Message& message) {
  const auto answer_later = [&](std::int64_t ms, const Message& reply) {
    after(ms, [this, from = request.dst, to = request.src, cause = request.seq,
               reply] { post(from, cause, {{to, reply}}); });
  };
  if (const auto* timer = std::get_if<TimerRequest>(&message)) {
    return answer_later(timer->after_ms, TimerFired{timer->effect});
  }
  const std::string node = node_of(location_of(request.dst));
  if (const auto* cancel = std::get_if<CancelEffect>(&message)) {
    for (const auto& [id, open] : open_) {
      if (effect_of(asked_.at(id)) != cancel->effect) continue;
      head_->cancel(id, now_ms_);
      return drain_head();
    }
    return;
  }
  if (node.empty()) {
    BuildReply reply;
    reply.effect = effect_of(message);
    return answer_later(20 + pick(random_, 3'000), reply);
  }
  NodeRequest wish;
  wish.id = request.seq;
  wish.node = node;
  wish.port = address::build;
  wish.type = request.type;
  wish.body = std::make_shared<const std::string>(request.body);
  open_[wish.id] = wish;
  asked_[wish.id] = message;
  head_->submit(std::move(wish), now_ms_);
  drain_head();
}

void Swarm::hear(const Message& message) {
  Context context(blobs_, now_ms_ * 1000);
  const auto end = effects_.receive(message, context);
  post(asker, seq_, context.take_outbox());
  if (!end) return;
  ++ended_;
  if (!end->failure) {
    ++end_.answered;
  } else if (end->failure.code == "node_lost" ||
             end->failure.code == "disk_full") {
    ++end_.given_up;
  } else {
    broken("a piece of work ends with: " + end->failure.message);
  }
}

}  // namespace

SwarmEnd simulate_swarm(std::uint64_t seed, const SwarmOptions& options) {
  return Swarm(seed, options).run();
}

}  // namespace weft
