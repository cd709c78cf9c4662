// Whole runs of the real roles under seeded faults, and proof that the
// invariants notice roles that break them.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <utility>

#include "actors/roster.hpp"
#include "runtime/simulation/simulator.hpp"

namespace weft {
namespace {

constexpr std::uint64_t seeds = 1000;

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
    for (const Outgoing& said : inner.take_outbox()) change_(said, out);
    for (Outgoing& said : out) context.send(said.dst, said.message);
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
      context.send(from, LeaseGranted{m->ticket});
    }
  }
};

std::unique_ptr<Role> make_with_generous_broker(const Address& address) {
  if (address == address::broker) return std::make_unique<GenerousBroker>();
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
  int crashes = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const SimulationEnd end = simulate(seed, with_roles(&make_role));
    CHECK_MESSAGE(end.problem.empty(), "seed " << seed << ", event "
                                               << end.events << ": "
                                               << end.problem);
    ++ends[end.exit_code];
    crashes += end.crashes;
  }
  // A simulation that only ever fails, or never crashes, proves little.
  CHECK(ends[0] > static_cast<int>(seeds) / 10);
  CHECK(ends[1] > 0);
  CHECK(ends[2] > 0);
  CHECK(ends[3] > 0);
  CHECK(crashes > static_cast<int>(seeds) / 10);
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
  options.faults = {.lost = 20, .doubled = 200, .failed = 30, .crash = 500};
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
  const auto twice = [](const Outgoing& said, std::vector<Outgoing>& out) {
    out.push_back(said);
    if (std::holds_alternative<LeaseGranted>(said.message)) out.push_back(said);
  };
  const auto problem = first_problem(with_roles(altered("broker", twice)));
  CHECK_MESSAGE(problem.contains("granted twice"), problem);
}

TEST_CASE("an agent that reports twice gets caught") {
  const auto twice = [](const Outgoing& said, std::vector<Outgoing>& out) {
    out.push_back(said);
    if (std::holds_alternative<SubgraphDone>(said.message)) out.push_back(said);
  };
  const auto problem = first_problem(with_roles(altered("agent", twice)));
  CHECK_MESSAGE(problem.contains("two verdicts"), problem);
}

TEST_CASE("a role that loses what it should say leaves a run without an end") {
  const auto lose = [](const Outgoing& said, std::vector<Outgoing>& out) {
    if (!std::holds_alternative<Compose>(said.message)) out.push_back(said);
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
  const auto moody = [&](const Outgoing& said, std::vector<Outgoing>& out) {
    out.push_back(said);
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
