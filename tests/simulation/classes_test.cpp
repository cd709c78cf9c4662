// Runs with nodes of several device classes: capabilities are respected,
// classes are never compared, and every run ends. And proof that roles that
// break this are noticed.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "actors/capabilities.hpp"
#include "actors/roster.hpp"
#include "runtime/simulation/simulator.hpp"

namespace weft {
namespace {

constexpr std::uint64_t kSeeds = 400;

SimulationOptions with_classes(Replay::MakeRole make) {
  SimulationOptions options;
  options.make_role = std::move(make);
  options.events_max = 20'000;
  options.classes = 4;
  options.faults.location = 5;
  return options;
}

/// Requests of that type to nodes.
std::int64_t at_nodes(const SimulationEnd& end, std::string_view type) {
  return std::ranges::count_if(end.journal, [&](const Envelope& envelope) {
    return envelope.type == type && !node_of(location_of(envelope.dst)).empty();
  });
}

TEST_CASE("runs with nodes of four classes keep all invariants") {
  int verified = 0;
  int failed = 0;
  std::int64_t captures = 0;
  std::int64_t builds = 0;
  std::int64_t checks = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const SimulationEnd end = simulate(seed, with_classes(&make_role));
    CHECK_MESSAGE(end.problem.empty(), "seed " << seed << ", event "
                                               << end.events << ": "
                                               << end.problem);
    if (end.head_judges) continue;
    ++(end.exit_code == 0 ? verified : failed);
    captures += at_nodes(end, CaptureRequest::name);
    builds += at_nodes(end, BuildRequest::name);
    checks += at_nodes(end, CheckRequest::name);
  }
  // Runs whose head cannot judge. Some have no node of their class.
  MESSAGE(verified << " verified, " << failed << " not");
  CHECK(verified > 20);
  CHECK(failed > 0);
  CHECK(captures > 50);
  CHECK(builds > 100);
  CHECK(checks > 100);
}

/// The real roles, but one whose words pass through a change on their way out.
template <class Change>
Replay::MakeRole with_change(const std::string& kind, Change change) {
  class Changed : public Role {
   public:
    Changed(std::unique_ptr<Role> role, Change change)
        : role_(std::move(role)), change_(change) {}
    void receive(const Address& from, const Message& message,
                 Context& context) override {
      Context inner(context.blobs(), context.now_us());
      role_->receive(from, message, inner);
      for (Outgoing& outgoing : inner.take_outbox()) {
        change_(outgoing);
        context.send(outgoing.dst, outgoing.message);
      }
    }

   private:
    std::unique_ptr<Role> role_;
    Change change_;
  };
  return [=](const Address& address) -> std::unique_ptr<Role> {
    auto role = make_role(address);
    if (!role || kind_of(address) != kind) return role;
    return std::make_unique<Changed>(std::move(role), change);
  };
}

std::string first_problem(const Replay::MakeRole& make) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto problem = simulate(seed, with_classes(make)).problem;
    if (!problem.empty()) return problem;
  }
  return "";
}

TEST_CASE("a dispatcher that deals out to other classes gets caught") {
  // As if every location judged.
  class Blind : public Role {
   public:
    void receive(const Address& from, const Message& message,
                 Context& context) override {
      Message changed = message;
      auto* offer = std::get_if<Capacities>(&changed);
      if (offer && !offer->capabilities.empty()) {
        offer->capabilities.push_back(capability::judge);
      }
      role_->receive(from, changed, context);
    }

   private:
    std::unique_ptr<Role> role_ = make_role(address::dispatcher);
  };
  const auto problem =
      first_problem([](const Address& address) -> std::unique_ptr<Role> {
        if (address == address::dispatcher) return std::make_unique<Blind>();
        return make_role(address);
      });
  CHECK_MESSAGE(problem.contains("which it did not announce"), problem);
}

TEST_CASE("a role that asks for the wrong capability gets caught") {
  const auto problem = first_problem(with_change("worker", [](Outgoing& out) {
    auto* lease = std::get_if<LeaseRequest>(&out.message);
    if (lease && !lease->capability.empty()) {
      lease->capability = capability::capture;
    }
  }));
  CHECK_MESSAGE(problem.contains("is asked to build cpu"), problem);
}

TEST_CASE("a verdict without its class gets caught") {
  const auto problem = first_problem(with_change("worker", [](Outgoing& out) {
    auto* result = std::get_if<SeedResult>(&out.message);
    if (result) result->device_class = "another";
  }));
  CHECK_MESSAGE(problem.contains("of another class"), problem);
}

}  // namespace
}  // namespace weft
