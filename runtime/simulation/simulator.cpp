#include "runtime/simulation/simulator.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/host/port.hpp"
#include "runtime/simulation/invariants.hpp"
#include "runtime/simulation/simulated_classes.hpp"
#include "runtime/simulation/simulated_ports.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

std::string why_not(const Replay& replay) {
  return replay.error() ? replay.error()->message
                        : to_string(*replay.divergence());
}

class MemoryBlobs : public Blobs {
 public:
  Result<std::string> get(std::string_view hash) override {
    const auto found = bytes_.find(hash);
    if (found != bytes_.end()) return found->second;
    return fail(ErrorCode::failed, "no blob " + std::string(hash));
  }
  std::string put(std::string_view bytes) override {
    std::string hash = content_hash(bytes);
    bytes_.try_emplace(hash, bytes);
    return hash;
  }

  SimulatedBlobs& all() { return bytes_; }

 private:
  SimulatedBlobs bytes_;
};

class Simulator {
 public:
  Simulator(std::uint64_t seed, const SimulationOptions& options)
      : options_(options), random_(seed) {}

  SimulationEnd run();

 private:
  void begin();
  void go_on(const SimulatedOrigin& recorded_run);
  RunStart simulated_start();
  void add_locations();
  void add_nodes_of_classes();
  void change_location();
  void hand_back(const Location& location);
  void inform(const Capacities& location);
  std::vector<Location> lose_node(const std::string& node);
  void cancel(const Envelope& word, const CancelEffect& effect);
  bool step();
  bool advance_clock();
  void journal_next(const Address& sender);
  void handle_next(const Address& role);
  void ask_port(const Envelope& request);
  void ask_model(const Envelope& request, const LlmRequest& call);
  void crash_and_resume();
  void resume();
  void check_replay();
  void broken(const std::string& problem) {
    if (end_.problem.empty()) end_.problem = problem;
  }

  const SimulationOptions& options_;
  Random random_;
  MemoryBlobs blobs_;
  Invariants invariants_;
  SimulationEnd end_;
  std::int64_t now_us_ = 0;
  bool finished_ = false;

  /// The resources of a connected location. A crash of the head leaves them as
  /// they are.
  struct Offer {
    Capacities capacities;
    bool is_there = true;
    bool has_changed = false;  ///< since the run began
  };
  RunStart start_;
  std::vector<Offer> locations_;
  std::map<std::uint64_t, LlmReply> model_answers_;  // by request: on disk

  // The head's memory: gone in a crash. Ordered maps: the run must depend on
  // the seed alone.
  std::map<Address, std::unique_ptr<Role>> roles_;
  std::map<Address, std::deque<Envelope>> mailboxes_;
  std::map<Address, std::deque<std::vector<Envelope>>> posted_;  // by sender
  std::multimap<std::int64_t, std::pair<Envelope, Message>>
      answers_;                                                // by time
  using Effect = std::tuple<Address, Address, std::uint64_t>;  // asker, port
  std::map<Effect, Envelope> asked_;  // of ports; a lost reply's, too
  EffectLedger ledger_;
};

RunStart Simulator::simulated_start() {
  RunStart start;
  start.problem_name = "simulated.py";
  start.problem = blobs_.put(
      "class Model(nn.Module):\n"
      "    def __init__(self):\n"
      "        super().__init__()\n"
      "    def forward(self, x):\n"
      "        return x\n");
  start.options.seeds = {"library", "compiler"};
  static const char* const rules[] = {"weft", "kernelbench", "both"};
  start.options.accept = rules[pick(random_, 3)];
  start.seeks_products = true;
  start.options.target = options_.target;
  start.options.jobs = static_cast<int>(1 + pick(random_, 3));
  start.options.variants_max = static_cast<int>(1 + pick(random_, 4));
  for (const std::string& source : options_.more_sources) {
    start.options.seeds.push_back(source);
    if (source == "llm") start.options.llm = simulated_models(random_);
  }
  start.machine.cores = static_cast<int>(1 + pick(random_, 4));
  // From hardly enough for the capture to more than the run takes.
  if (happens(random_, 300)) {
    start.options.budget_ms = 1'000 * (1 + pick(random_, 600));
  }
  // Some are as an older weft would have begun them.
  start.vocabulary = happens(random_, 100) ? 1 : vocabulary_version;
  const bool has_gpus = happens(random_, 600);
  const std::int64_t gpus = has_gpus ? 1 + pick(random_, 8) : 0;
  for (std::int64_t i = 0; i < gpus; ++i) {
    // Two kinds of devices: one's kernels are not for the other.
    Gpu gpu{i % 3 == 2 ? "another GPU" : "a GPU",
            "sm_90",
            132,
            std::int64_t{80} << 30,
            50 << 20,
            227 << 10};
    gpu.uuid = "GPU-" + std::to_string(i);
    start.machine.gpus.push_back(gpu);
  }
  return start;
}

void Simulator::begin() {
  if (start_.problem.empty()) {
    start_ = simulated_start();
    if (options_.classes > 0) {
      add_classes(start_, options_.classes, random_);
      end_.head_judges = head_can(start_, capability::judge);
    }
    end_.devices = static_cast<int>(start_.machine.gpus.size());
    if (options_.classes > 0) {
      add_nodes_of_classes();
    } else if (start_.vocabulary > 1) {
      add_locations();
    }
  }
  posted_[address::user].push_back(
      to_envelopes(address::user, 0, {{address::extractor, start_}}));
}

/// The head's devices, which the extractor tells of, and a node or two that
/// tell of themselves.
void Simulator::add_locations() {
  for (const Gpu& gpu : start_.machine.gpus) {
    Capacities device;
    device.location = location_of_gpu(gpu);
    device.units = {{"gpu", kGpuUnits}, {gpu_memory, gpu.memory_bytes}};
    device.gpu = gpu;
    locations_.push_back({device});
  }
  const auto nodes = pick(random_, 3);
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    locations_.push_back(
        {Capacities{{{"cpu", 1 + pick(random_, 4)}}, 10'000, name}, false});
    if (start_.machine.gpus.empty()) continue;
    Offer device = locations_.front();
    device.capacities.location = name + "/GPU-of-" + name;
    device.is_there = false;
    locations_.push_back(device);
  }
}

/// Nodes that join as soon as the run has begun, and may go and come back.
void Simulator::add_nodes_of_classes() {
  for (Capacities& capacities :
       simulated_nodes(start_, options_.classes, random_)) {
    locations_.push_back({std::move(capacities), true, true});
  }
}

/// With a location that goes, some of what it works on goes unanswered; the
/// rest had left it before.
void Simulator::change_location() {
  if (locations_.empty()) return;
  Offer& offer = locations_[static_cast<std::size_t>(
      pick(random_, static_cast<std::int64_t>(locations_.size())))];
  offer.is_there = !offer.is_there;
  offer.has_changed = true;
  const Location& changed = offer.capacities.location;
  if (offer.is_there) return inform(offer.capacities);
  if (happens(random_, options_.faults.politely)) {
    inform(Capacities{{}, 10'000, changed});
    ++end_.locations_left;
    return hand_back(changed);
  }
  ++end_.locations_lost;
  std::vector<Location> lost = {changed};
  if (const std::string node = node_of(changed); node.empty()) {
    inform(Capacities{{}, 10'000, changed});
  } else {
    lost = lose_node(node);
  }
  std::erase_if(answers_, [&](const auto& item) {
    const Location location = location_of(item.second.first.dst);
    return std::ranges::find(lost, location) != lost.end() &&
           happens(random_, 800);
  });
}

/// The node dies, and all its locations with it.
std::vector<Location> Simulator::lose_node(const std::string& node) {
  NodeLost loss{node, {}, "it died"};
  for (Offer& offer : locations_) {
    if (node_of(offer.capacities.location) != node) continue;
    offer.is_there = false;
    offer.has_changed = true;
    loss.locations.push_back(offer.capacities.location);
  }
  const Address from = address::node(node);
  posted_[from].push_back(to_envelopes(from, 0, {{address::broker, loss}}));
  return loss.locations;
}

/// Whoever waits for an answer from there is told that there will be none, and
/// sometimes that it went for want of room.
void Simulator::hand_back(const Location& location) {
  std::map<std::uint64_t, Envelope> open;
  std::erase_if(answers_, [&](const auto& item) {
    const Envelope& request = item.second.first;
    if (location_of(request.dst) != location) return false;
    open[request.seq] = request;
    return true;
  });
  const char* const code =
      happens(random_, options_.faults.full) ? "disk_full" : "node_lost";
  for (const auto& [seq, request] : open) {
    const auto asked = decode(request.type, request.body);
    if (!asked) return broken(asked.error().message);
    answers_.emplace(now_us_,
                     std::pair{request, failed_reply(*asked, {code, "left"})});
  }
}

void Simulator::inform(const Capacities& location) {
  const Address node = address::node(node_of(location.location));
  posted_[node].push_back(to_envelopes(node, 0, {{address::broker, location}}));
}

/// As a head does that resumes. No location is known that would come or go.
void Simulator::go_on(const SimulatedOrigin& recorded_run) {
  blobs_.all() = recorded_run.blobs;
  for (const Envelope& envelope : recorded_run.journal) {
    end_.journal.push_back(envelope);
    now_us_ = envelope.at_us;
    broken(invariants_.take(envelope));
    if (envelope.dst != address::user) continue;
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return broken(message.error().message);
    const auto* finished = std::get_if<RunFinished>(&*message);
    if (!finished) continue;
    finished_ = true;
    end_.exit_code = finished->exit_code;
  }
  resume();
}

SimulationEnd Simulator::run() {
  if (options_.recorded_run) {
    go_on(*options_.recorded_run);
  } else {
    begin();
  }
  while (!finished_ && end_.problem.empty()) {
    if (end_.journal.size() > options_.events_max) {
      broken("the run does not end");
    } else if (!step() && !advance_clock()) {
      broken("nothing can happen any more, and the run has not ended");
    }
  }
  // The host lets the roles finish speaking, with no port to answer them.
  while (end_.problem.empty() && step()) {
  }
  if (end_.problem.empty()) broken(invariants_.at_end());
  if (end_.problem.empty()) check_replay();
  end_.events = end_.journal.size();
  end_.blobs = std::move(blobs_.all());
  return std::move(end_);
}

/// Does one thing that can be done now: journal a sender's next batch, or let a
/// role handle its next envelope. False when there is nothing.
bool Simulator::step() {
  std::vector<std::pair<bool, Address>> choices;
  for (const auto& [sender, batches] : posted_) {
    if (!batches.empty()) choices.emplace_back(true, sender);
  }
  for (const auto& [role, mail] : mailboxes_) {
    if (!mail.empty()) choices.emplace_back(false, role);
  }
  if (choices.empty()) return false;
  const auto& [is_batch, who] = choices[static_cast<std::size_t>(
      pick(random_, static_cast<std::int64_t>(choices.size())))];
  now_us_ += pick(random_, 1000);
  if (is_batch) {
    journal_next(who);
  } else {
    handle_next(who);
  }
  if (!finished_ && happens(random_, options_.faults.location))
    change_location();
  if (!finished_ && happens(random_, options_.faults.crash)) crash_and_resume();
  return true;
}

/// Time passes until the next answer of a port.
bool Simulator::advance_clock() {
  if (answers_.empty()) return false;
  const auto next = answers_.begin();
  now_us_ = std::max(now_us_, next->first);
  auto [request, reply] = std::move(next->second);
  answers_.erase(next);
  posted_[request.dst].push_back(
      to_envelopes(request.dst, request.seq, {{request.src, reply}}));
  return true;
}

void Simulator::journal_next(const Address& sender) {
  const std::vector<Envelope> batch = std::move(posted_[sender].front());
  posted_[sender].pop_front();
  for (Envelope envelope : batch) {
    envelope.seq = end_.journal.size() + 1;
    envelope.at_us = now_us_;
    ledger_.settle(envelope);
    end_.journal.push_back(envelope);
    broken(invariants_.take(envelope));
    if (envelope.type == RunStart::name && options_.classes > 0) {
      for (const Offer& offer : locations_) inform(offer.capacities);
    }
    if (envelope.dst == address::user) {
      if (envelope.type != RunFinished::name) continue;
      finished_ = true;
      const auto message = decode(envelope.type, envelope.body);
      end_.exit_code = std::get<RunFinished>(*message).exit_code;
    } else if (is_port(envelope.dst)) {
      if (!finished_) ask_port(envelope);
    } else if (envelope.dst != stale_address) {
      mailboxes_[envelope.dst].push_back(envelope);
    }
  }
}

void Simulator::handle_next(const Address& address) {
  const Envelope envelope = std::move(mailboxes_[address].front());
  mailboxes_[address].pop_front();
  auto& role = roles_[address];
  if (!role) role = options_.make_role(address);
  if (!role) return broken("nobody stands at " + address);
  const auto message = decode(envelope.type, envelope.body);
  if (!message) return broken(message.error().message);
  Context context(blobs_, envelope.at_us);
  role->receive(envelope.src, *message, context);
  auto envelopes = to_envelopes(address, envelope.seq, context.take_outbox());
  if (!envelopes.empty()) posted_[address].push_back(std::move(envelopes));
}

void Simulator::ask_port(const Envelope& request) {
  const auto message = decode(request.type, request.body);
  if (!message) return broken(message.error().message);
  // The clock is the head's own: it is never lost.
  if (const auto* timer = std::get_if<TimerRequest>(&*message)) {
    answers_.emplace(now_us_ + timer->after_ms * 1000,
                     std::pair{request, Message{TimerFired{timer->effect}}});
    return;
  }
  if (const auto* effect = std::get_if<CancelEffect>(&*message)) {
    return cancel(request, *effect);
  }
  asked_[{request.src, request.dst, effect_of(*message)}] = request;
  if (const auto* call = std::get_if<LlmRequest>(&*message)) {
    return ask_model(request, *call);
  }
  if (happens(random_, options_.faults.lost)) return;
  const Message reply = happens(random_, options_.faults.failed)
                            ? simulated_failure(*message, random_)
                            : simulated_answer(*message, blobs_, random_);
  const int copies = happens(random_, options_.faults.doubled) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    answers_.emplace(now_us_ + 1000 * pick(random_, 60'000),
                     std::pair{request, reply});
  }
}

/// What was answered before the head died is on its disk; a call that was under
/// way then may have been billed.
void Simulator::ask_model(const Envelope& request, const LlmRequest& call) {
  const auto [known, is_new] = model_answers_.try_emplace(request.seq);
  if (!is_new) {
    if (known->second.http_status == 0 || happens(random_, 500)) {
      known->second = LlmReply{};
      known->second.effect = call.effect;
      known->second.failure = {"node_lost", "the head died", 0};
      known->second.billed_maybe = true;
    }
    answers_.emplace(now_us_, std::pair{request, Message{known->second}});
    return;
  }
  ++end_.llm_calls;
  if (happens(random_, options_.faults.llm)) {
    ++end_.llm_failures;
    known->second = simulated_llm_failure(call, random_);
  } else {
    known->second =
        std::get<LlmReply>(simulated_answer(Message{call}, blobs_, random_));
  }
  if (happens(random_, options_.faults.lost)) return;
  const int copies = happens(random_, options_.faults.doubled) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    answers_.emplace(now_us_ + 1000 * pick(random_, 60'000),
                     std::pair{request, Message{known->second}});
  }
}

/// A port that hears of it stops the work and says so, soon or later; another
/// goes on, and answers as it would have.
void Simulator::cancel(const Envelope& word, const CancelEffect& effect) {
  ++end_.cancels;
  const auto asked = asked_.find({word.src, word.dst, effect.effect});
  if (asked == asked_.end()) return;
  const Envelope request = asked->second;
  if (happens(random_, options_.faults.cancel_late)) return;
  const auto had_left = std::erase_if(answers_, [&](const auto& item) {
    return item.second.first.seq == request.seq;
  });
  const bool is_late = happens(random_, 200);
  const std::int64_t after_ms =
      pick(random_, is_late || had_left == 0 ? 90'000 : 2'000);
  const auto message = decode(request.type, request.body);
  if (!message) return broken(message.error().message);
  answers_.emplace(now_us_ + 1000 * after_ms,
                   std::pair{request, cancelled_reply(*message)});
}

/// The head dies: all that is not in the journal is gone. A fresh one feeds the
/// journal to fresh roles, says what was not journaled, asks again what has no
/// reply. Ports that were busy die with it.
void Simulator::crash_and_resume() {
  ++end_.crashes;
  roles_.clear();
  mailboxes_.clear();
  posted_.clear();
  answers_.clear();
  asked_.clear();
  resume();
}

void Simulator::resume() {
  Replay replay(blobs_, options_.make_role);
  for (const Envelope& envelope : end_.journal) {
    if (!replay.feed(envelope)) {
      return broken("resume: " + why_not(replay));
    }
  }
  if (end_.journal.empty()) return begin();
  roles_ = replay.take_roles();
  std::set<std::uint64_t> open;
  for (const auto& [seq, request] : replay.open_requests()) open.insert(seq);
  ledger_ = EffectLedger(std::move(open));
  for (Envelope& envelope : replay.take_missing()) {
    posted_[envelope.src].push_back({std::move(envelope)});
  }
  if (!finished_) {
    for (const auto& [seq, request] : replay.open_requests()) ask_port(request);
    for (const Envelope& cancel : replay.cancels()) ask_port(cancel);
  }
  // Nodes join the new head, and say what they have.
  for (const Offer& offer : locations_) {
    if (!offer.has_changed) continue;
    inform(offer.is_there ? offer.capacities
                          : Capacities{{}, 10'000, offer.capacities.location});
  }
}

void Simulator::check_replay() {
  Replay replay(blobs_, options_.make_role);
  for (const Envelope& envelope : end_.journal) {
    if (!replay.feed(envelope)) {
      return broken("replay: " + why_not(replay));
    }
  }
  if (!replay.finish()) {
    broken("replay: " + to_string(*replay.divergence()));
  }
}

}  // namespace

SimulationEnd simulate(std::uint64_t seed, const SimulationOptions& options) {
  return Simulator(seed, options).run();
}

}  // namespace weft
