#include "runtime/simulation/simulator.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "runtime/host/effect_ledger.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/simulation/invariants.hpp"
#include "runtime/simulation/simulated_ports.hpp"

namespace weft {
namespace {

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

 private:
  std::map<std::string, std::string, std::less<>> bytes_;
};

class Simulator {
 public:
  Simulator(std::uint64_t seed, const SimulationOptions& options)
      : options_(options), random_(seed) {}

  SimulationEnd run();

 private:
  struct Process;  // what dies with the head
  void begin();
  bool step();
  bool advance_clock();
  void journal_next(const Address& sender);
  void handle_next(const Address& role);
  void ask_port(const Envelope& request);
  void crash_and_resume();
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

  // The head's memory: gone in a crash. Ordered maps: the run must depend on
  // the seed alone.
  std::map<Address, std::unique_ptr<Role>> roles_;
  std::map<Address, std::deque<Envelope>> mailboxes_;
  std::map<Address, std::deque<std::vector<Envelope>>> posted_;  // by sender
  std::multimap<std::int64_t, std::pair<Envelope, Message>>
      answers_;  // by time
  EffectLedger ledger_;
};

void Simulator::begin() {
  RunStart start;
  start.problem_name = "simulated.py";
  start.problem = blobs_.put(
      "class Model(nn.Module):\n"
      "    def __init__(self):\n"
      "        super().__init__()\n"
      "    def forward(self, x):\n"
      "        return x\n");
  start.options.seeds = {"library", "compiler"};
  static const char* const rules[] = {"weft", "near-eager", "both"};
  start.options.accept = rules[pick(random_, 3)];
  start.options.jobs = static_cast<int>(1 + pick(random_, 3));
  start.options.variants_max = static_cast<int>(1 + pick(random_, 4));
  start.machine.cores = static_cast<int>(1 + pick(random_, 4));
  posted_[address::user].push_back(
      to_envelopes(address::user, 0, {{address::extractor, start}}));
}

SimulationEnd Simulator::run() {
  begin();
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
  auto said = to_envelopes(address, envelope.seq, context.take_outbox());
  if (!said.empty()) posted_[address].push_back(std::move(said));
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

/// The head dies: all that is not in the journal is gone. A fresh one feeds the
/// journal to fresh roles, says what was not journaled, asks again what has no
/// reply. Ports that were busy die with it.
void Simulator::crash_and_resume() {
  ++end_.crashes;
  roles_.clear();
  mailboxes_.clear();
  posted_.clear();
  answers_.clear();
  Replay past(blobs_, options_.make_role);
  for (const Envelope& envelope : end_.journal) {
    if (!past.feed(envelope)) {
      return broken("resume: " + to_string(*past.divergence()));
    }
  }
  if (end_.journal.empty()) return begin();
  roles_ = past.take_roles();
  std::set<std::uint64_t> open;
  for (const auto& [seq, request] : past.open_requests()) open.insert(seq);
  ledger_ = EffectLedger(std::move(open));
  for (Envelope& envelope : past.take_missing()) {
    posted_[envelope.src].push_back({std::move(envelope)});
  }
  for (const auto& [seq, request] : past.open_requests()) ask_port(request);
}

void Simulator::check_replay() {
  Replay replay(blobs_, options_.make_role);
  for (const Envelope& envelope : end_.journal) {
    if (!replay.feed(envelope)) {
      return broken("replay: " + to_string(*replay.divergence()));
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
