// Whole runs of the real roles under seeded faults, and proof that the
// invariants notice roles that break them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "actors/roster.hpp"
#include "runtime/simulation/simulator.hpp"

namespace weft {
namespace {

constexpr std::uint64_t kSeeds = 1000;

/// tools/test --long: as many seeds for each further source of kernels.
bool is_long() {
  const char* set = std::getenv("WEFT_LONG_TESTS");
  return set != nullptr && std::string_view(set) == "1";
}

SimulationOptions with_roles(Replay::MakeRole make) {
  SimulationOptions options;
  options.make_role = std::move(make);
  options.events_max = 20'000;
  return options;
}

/// A role whose words pass through `change` on their way out.
class Altered : public Role {
 public:
  using Change = std::function<void(const Outgoing&, std::vector<Outgoing>&)>;

  Altered(std::unique_ptr<Role> role, Change change)
      : role_(std::move(role)), change_(std::move(change)) {}

  void receive(const Address& from, const Message& message,
               Context& context) override {
    Context inner(context.blobs(), context.now_us());
    role_->receive(from, message, inner);
    std::vector<Outgoing> out;
    for (const Outgoing& outgoing : inner.take_outbox()) change_(outgoing, out);
    for (Outgoing& outgoing : out) context.send(outgoing.dst, outgoing.message);
  }

 private:
  std::unique_ptr<Role> role_;
  Change change_;
};

/// The real roles, but each of `kind` altered.
Replay::MakeRole altered(const std::string& kind, Altered::Change change) {
  return [=](const Address& address) -> std::unique_ptr<Role> {
    auto role = make_role(address);
    if (!role || kind_of(address) != kind) return role;
    return std::make_unique<Altered>(std::move(role), change);
  };
}

/// Grants whatever is asked for at once.
class GenerousBroker : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override {
    if (const auto* m = std::get_if<LeaseRequest>(&message)) {
      const Location location =
          m->locations.empty() ? "" : m->locations.front();
      context.send(from, LeaseGranted{m->ticket, location});
    }
  }
};

std::unique_ptr<Role> make_with_generous_broker(const Address& address) {
  if (address == address::broker) return std::make_unique<GenerousBroker>();
  return make_role(address);
}

/// A source that has its kernels one after another, between other work.
class SlowSource : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override {
    if (const auto* m = std::get_if<SeedsRequest>(&message)) {
      target_ = m->work.options.target;
      reply(from, m->work.subgraph, 0, context);
    } else if (const auto* m = std::get_if<TimerFired>(&message)) {
      // Who was told to stop may be so with a timer under way.
      const auto waiting = waiting_.extract(m->effect);
      if (waiting.empty()) return;
      const auto& [asker, subgraph, number] = waiting.mapped();
      reply(asker, subgraph, number, context);
    } else if (std::holds_alternative<StopSeed>(message)) {
      std::erase_if(waiting_, [&](const auto& item) {
        return std::get<0>(item.second) == from;
      });
    }
  }

 private:
  static constexpr int replies = 3;
  void reply(const Address& asker, const std::string& subgraph, int number,
             Context& context) {
    SeedsReply reply{subgraph, "slow", {}, {}};
    const std::string id = "slow-" + std::to_string(number);
    reply.seeds = {{id, target_, "slow", "", context.blobs().put(id)}};
    reply.more = number + 1 < replies;
    context.send(asker, reply);
    if (!reply.more) return;
    waiting_[++timer_] = {asker, subgraph, number + 1};
    context.send(address::clock, TimerRequest{timer_, 5'000});
  }

  std::string target_;
  std::map<std::uint64_t, std::tuple<Address, std::string, int>> waiting_;
  std::uint64_t timer_ = 0;
};

std::unique_ptr<Role> make_with_slow_source(const Address& address) {
  if (address == address::seeds("slow")) return std::make_unique<SlowSource>();
  return make_role(address);
}

/// The first problem that a few seeds find; "" when none does.
std::string first_problem(const SimulationOptions& options) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const SimulationEnd end = simulate(seed, options);
    if (!end.problem.empty()) return end.problem;
  }
  return "";
}

TEST_CASE("a thousand seeds, and every invariant holds") {
  std::map<int, int> ends;
  std::map<int, int> devices;
  int crashes = 0;
  int locations_lost = 0;
  int cancels = 0;
  auto options = with_roles(&make_with_slow_source);
  options.more_sources = {"slow"};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const SimulationEnd end = simulate(seed, options);
    CHECK_MESSAGE(end.problem.empty(), "seed " << seed << ", event "
                                               << end.events << ": "
                                               << end.problem);
    ++ends[end.exit_code];
    ++devices[end.devices];
    crashes += end.crashes;
    locations_lost += end.locations_lost;
    cancels += end.cancels;
  }
  // A simulation that only ever fails, or never crashes, proves little.
  CHECK(ends[0] > static_cast<int>(kSeeds) / 10);
  CHECK(ends[1] > 0);
  CHECK(ends[2] > 0);
  CHECK(ends[3] > 0);
  CHECK(crashes > static_cast<int>(kSeeds) / 10);
  CHECK(locations_lost > static_cast<int>(kSeeds) / 10);
  CHECK(cancels > static_cast<int>(kSeeds) / 10);
  for (int number = 0; number <= 8; ++number) CHECK(devices[number] > 0);
}

TEST_CASE("hundreds of seeds with language models that fail") {
  const std::uint64_t seeds = is_long() ? kSeeds : kSeeds / 3;
  auto options = with_roles(&make_role);
  options.more_sources = {"llm"};
  std::map<int, int> ends;
  int calls = 0;
  int failures = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const SimulationEnd end = simulate(seed, options);
    CHECK_MESSAGE(end.problem.empty(), "seed " << seed << ", event "
                                               << end.events << ": "
                                               << end.problem);
    ++ends[end.exit_code];
    calls += end.llm_calls;
    failures += end.llm_failures;
  }
  CHECK(calls > 2 * static_cast<int>(seeds));
  CHECK(failures > calls / 10);
  CHECK(ends[0] > static_cast<int>(seeds) / 10);
  CHECK(ends[4] > static_cast<int>(seeds) / 50);  // out of budget
}

TEST_CASE(
    "invariants hold where the eager-contractions partition is searched, too") {
  int asked = 0;
  int asked_by_own_rule = 0;
  int searched = 0;
  const std::uint64_t seeds = is_long() ? 300 : 100;
  for (const char* source : {"slow", "llm"}) {
    auto options = with_roles(&make_with_slow_source);
    options.more_sources = {source};
    options.target = "triton";  // whose products are ours
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      const SimulationEnd end = simulate(seed, options);
      CHECK_MESSAGE(end.problem.empty(), source << ", seed " << seed
                                                << ", event " << end.events
                                                << ": " << end.problem);
      bool is_own_rule = false;
      for (const Envelope& envelope : end.journal) {
        if (envelope.type == RunStart::name) {
          const auto start = decode(envelope.type, envelope.body);
          REQUIRE(start.has_value());
          is_own_rule = std::get<RunStart>(*start).options.accept == rule::weft;
        }
        const bool asks = envelope.type == SearchEagerContractions::name;
        asked += asks;
        asked_by_own_rule += asks && is_own_rule;
        searched += envelope.type == EagerContractionsSearched::name;
      }
    }
  }
  CHECK(asked > 5);
  CHECK(asked_by_own_rule > 5);
  CHECK(searched > 5);
}

/// The first problem of a few seeds with language models.
std::string first_llm_problem(Replay::MakeRole make) {
  auto options = with_roles(std::move(make));
  options.more_sources = {"llm"};
  return first_problem(options);
}

TEST_CASE("a call that costs more than it said gets caught") {
  const auto problem = first_llm_problem(altered(
      "seeds", [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
        out.push_back(outgoing);
        auto* m = std::get_if<LlmCallRequest>(&out.back().message);
        if (m) m->tokens = m->micro_usd = 0;
      }));
  CHECK_MESSAGE(problem.contains("costs more than was reserved"), problem);
}

TEST_CASE("a role that makes a call twice gets caught") {
  const auto problem = first_llm_problem(altered(
      "seeds", [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
        out.push_back(outgoing);
        if (std::holds_alternative<LlmRequest>(outgoing.message)) {
          out.push_back(outgoing);
        }
      }));
  CHECK_MESSAGE(problem.contains("is made twice"), problem);
}

/// How often an agent with calls under way heard that its last location is
/// gone.
int stops_for_lack_of_locations(const SimulationEnd& end) {
  std::map<std::uint64_t, int> output;  // by the event that is answered
  for (const Envelope& envelope : end.journal) {
    if (kind_of(envelope.src) != "agent") continue;
    const auto message = decode(envelope.type, envelope.body);
    const auto* progress = std::get_if<Progress>(&*message);
    if (progress && progress->stage == "node_lost" &&
        progress->text.contains("offers"))
      output[envelope.cause] |= 1;
    if (envelope.dst == address::seeds("llm")) {
      const bool stops = std::holds_alternative<StopSeed>(*message);
      if (stops) output[envelope.cause] |= 2;
    }
  }
  return static_cast<int>(std::ranges::count_if(
      output, [](const auto& it) { return it.second == 3; }));
}

TEST_CASE("with no place left no call is paid for") {
  auto options = with_roles(&make_role);
  options.more_sources = {"llm"};
  options.faults.location = 60;
  options.faults.llm = 50;
  int lost = 0;
  int calls = 0;
  int stops = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const SimulationEnd end = simulate(seed, options);
    CHECK_MESSAGE(end.problem.empty(), "seed " << seed << ", event "
                                               << end.events << ": "
                                               << end.problem);
    lost += end.locations_lost;
    calls += end.llm_calls;
    stops += stops_for_lack_of_locations(end);
  }
  CHECK(lost > 200);
  CHECK(calls > 200);
  CHECK(stops > 0);
}

TEST_CASE("an agent that asks a model with no place left gets caught") {
  auto options = with_roles(altered(
      "agent", [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
        out.push_back(outgoing);
        const auto* m = std::get_if<Progress>(&outgoing.message);
        if (!m || m->stage != "node_lost") return;
        RefineRequest more;
        more.subgraph = m->subgraph;
        out.push_back({address::seeds("llm"), more});
      }));
  options.more_sources = {"llm"};
  options.faults.location = 60;
  const auto problem = first_problem(options);
  CHECK_MESSAGE(problem.contains("has no place left"), problem);
}

TEST_CASE("a model's role that is deaf to being stopped gets caught") {
  /// Drops the word on its way in.
  class Deaf : public Role {
   public:
    void receive(const Address& from, const Message& message,
                 Context& context) override {
      if (std::holds_alternative<StopSeed>(message)) return;
      role_->receive(from, message, context);
    }

   private:
    std::unique_ptr<Role> role_ = make_role(address::seeds("llm"));
  };
  const auto problem =
      first_llm_problem([](const Address& address) -> std::unique_ptr<Role> {
        if (address == address::seeds("llm")) return std::make_unique<Deaf>();
        return make_role(address);
      });
  CHECK_MESSAGE(problem.contains("which has stopped its calls"), problem);
}

/// Allows every call at once, whatever the limits.
class LavishBroker : public Role {
 public:
  void receive(const Address& from, const Message& message,
               Context& context) override {
    if (const auto* m = std::get_if<LlmCallRequest>(&message)) {
      context.send(from, LeaseGranted{m->ticket});
    } else {
      broker_->receive(from, message, context);
    }
  }

 private:
  std::unique_ptr<Role> broker_ = make_role(address::broker);
};

TEST_CASE("a broker that allows every call gets caught") {
  const auto problem =
      first_llm_problem([](const Address& address) -> std::unique_ptr<Role> {
        if (address == address::broker) return std::make_unique<LavishBroker>();
        return make_role(address);
      });
  const bool is_caught = problem.contains("a call is allowed beyond") ||
                         problem.contains("is tried again too early") ||
                         problem.contains("has asked for a pause");
  CHECK_MESSAGE(is_caught, problem);
}

TEST_CASE("the same seed gives the same journal") {
  const auto options = with_roles(&make_role);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    CHECK(simulate(seed, options).journal == simulate(seed, options).journal);
  }
  CHECK(simulate(1, options).journal != simulate(2, options).journal);
}

TEST_CASE("a run ends when no port ever answers") {
  auto options = with_roles(&make_role);
  options.faults = {.lost = 1000, .doubled = 0, .failed = 0, .crash = 0};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const SimulationEnd end = simulate(seed, options);
    CHECK(end.problem == "");
    CHECK(end.exit_code != 0);
  }
}

TEST_CASE("a run ends when the head dies at every other event") {
  auto options = with_roles(&make_role);
  // Places stay: each that has changed is told again after a crash, and with a
  // crash at every other event the words would breed.
  options.faults = {
      .lost = 20, .doubled = 200, .failed = 30, .crash = 500, .location = 0};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const SimulationEnd end = simulate(seed, options);
    CHECK(end.problem == "");
    CHECK(end.crashes > 0);
  }
}

TEST_CASE("a broker that grants more than there is gets caught") {
  const auto problem = first_problem(with_roles(&make_with_generous_broker));
  CHECK_MESSAGE(problem.contains("are leased, there are"), problem);
}

TEST_CASE("a broker that grants a lease twice gets caught") {
  const auto twice = [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    if (std::holds_alternative<LeaseGranted>(outgoing.message))
      out.push_back(outgoing);
  };
  const auto problem = first_problem(with_roles(altered("broker", twice)));
  CHECK_MESSAGE(problem.contains("granted twice"), problem);
}

TEST_CASE("a broker that grants a lease at another place gets caught") {
  const auto elsewhere = [](const Outgoing& outgoing,
                            std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    auto* m = std::get_if<LeaseGranted>(&out.back().message);
    if (m && !device_of(m->location).empty()) m->location = "/GPU-7";
  };
  const auto problem = first_problem(with_roles(altered("broker", elsewhere)));
  const bool is_caught = problem.contains("which offers none") ||
                         problem.contains("where it was not asked for");
  CHECK_MESSAGE(is_caught, problem);
}

TEST_CASE("a role that asks where it has no lease gets caught") {
  const auto elsewhere = [](const Outgoing& outgoing,
                            std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    if (std::holds_alternative<CheckRequest>(outgoing.message)) {
      out.back().dst = address::at(address::verify, "n7");
    }
  };
  const auto problem = first_problem(with_roles(altered("worker", elsewhere)));
  CHECK_MESSAGE(problem.contains("has a lease at"), problem);
}

TEST_CASE("a role that asks without a lease gets caught") {
  const auto greedy = [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    const auto* m = std::get_if<LeaseRequest>(&outgoing.message);
    if (!m) return;
    BuildRequest request;
    request.effect = m->ticket;
    out.push_back({address::build, request});
  };
  const auto problem = first_problem(with_roles(altered("worker", greedy)));
  CHECK_MESSAGE(problem.contains("without a lease"), problem);
}

TEST_CASE("a kernel that is timed beside others gets caught") {
  const auto modest = [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    if (auto* m = std::get_if<LeaseRequest>(&out.back().message)) m->units = 1;
  };
  const auto problem = first_problem(with_roles(altered("worker", modest)));
  CHECK_MESSAGE(problem.contains("timed beside others"), problem);
}

TEST_CASE("a role that stops what it has not begun gets caught") {
  const auto hasty = [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    const auto* m = std::get_if<LeaseRequest>(&outgoing.message);
    if (m) out.push_back({address::build, CancelEffect{m->ticket, "no"}});
  };
  const auto problem = first_problem(with_roles(altered("worker", hasty)));
  CHECK_MESSAGE(problem.contains("has not begun"), problem);
}

TEST_CASE("a best kernel that was timed elsewhere gets caught") {
  const auto elsewhere = [](const Outgoing& outgoing,
                            std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    if (auto* m = std::get_if<SubgraphDone>(&out.back().message)) {
      m->best.location = "n7";
    }
  };
  const auto problem = first_problem(with_roles(altered("agent", elsewhere)));
  CHECK_MESSAGE(problem.contains("was timed at n7"), problem);
}

TEST_CASE("work that goes to a third place gets caught") {
  const auto stubborn = [](const Outgoing& outgoing,
                           std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    auto* m = std::get_if<LeaseRequest>(&out.back().message);
    if (m && !m->avoid.empty()) m->avoid.push_back("n7");
  };
  auto options = with_roles(altered("worker", stubborn));
  options.faults.location = 100;
  CHECK(first_problem(options).contains("a third place"));
}

TEST_CASE("a run ends when its places come and go all the time") {
  auto options = with_roles(&make_role);
  options.faults.location = 100;
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const SimulationEnd end = simulate(seed, options);
    CHECK(end.problem == "");
    lost += end.locations_lost;
  }
  CHECK(lost > 40);
}

TEST_CASE("an agent that reports twice gets caught") {
  const auto twice = [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    if (std::holds_alternative<SubgraphDone>(outgoing.message))
      out.push_back(outgoing);
  };
  const auto problem = first_problem(with_roles(altered("agent", twice)));
  CHECK_MESSAGE(problem.contains("two verdicts"), problem);
}

TEST_CASE("a role that loses what it should say leaves a run without an end") {
  const auto lose = [](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    if (!std::holds_alternative<Compose>(outgoing.message))
      out.push_back(outgoing);
  };
  const auto problem = first_problem(with_roles(altered("dispatcher", lose)));
  CHECK_MESSAGE(problem.contains("the run has not ended"), problem);
}

/// Says something to itself, for ever.
class Chatterer : public Role {
 public:
  void receive(const Address&, const Message&, Context& context) override {
    context.send(address::composer, Progress{});
  }
};

TEST_CASE("a role that talks for ever gets caught") {
  auto options = with_roles([](const Address& address) {
    if (address != address::composer) return make_role(address);
    return std::unique_ptr<Role>(std::make_unique<Chatterer>());
  });
  options.events_max = 2'000;
  const auto problem = first_problem(options);
  CHECK_MESSAGE(problem.contains("the run does not end"), problem);
}

TEST_CASE("a role that decides by something else than its messages diverges") {
  int turn = 0;
  const auto moody = [&](const Outgoing& outgoing, std::vector<Outgoing>& out) {
    out.push_back(outgoing);
    if (auto* m = std::get_if<Progress>(&out.back().message)) {
      m->text += std::to_string(++turn);
    }
  };
  const auto problem = first_problem(with_roles(altered("extractor", moody)));
  CHECK_MESSAGE(problem.contains("role extractor"), problem);
  CHECK_MESSAGE(problem.contains("the code says"), problem);
}

}  // namespace
}  // namespace weft
