// Which nodes a run's journal says are in it, when its head begins again.
#include "actors/role.hpp"
#include "runtime/bus/head_bus.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

template <class Message>
Envelope sent(const Address& to, const Message& message) {
  return {0, 0, 1, "bus", to, std::string(Message::name), encode(message)};
}

Capacities offer(std::int64_t cores) {
  Capacities capacities;
  capacities.location = "n1/cpu";
  capacities.units = {{"cpu", cores}};
  return capacities;
}

/// Names of the nodes that are in a run with these events.
std::vector<std::string> nodes_of(std::vector<Envelope> events) {
  Directory directory;
  auto journal = value(Journal::create(directory / "j.db", Sync::full));
  value(journal.append(events));
  std::vector<std::string> names;
  for (const auto& [name, offers] : value(journaled_locations(journal)).nodes) {
    names.push_back(name);
  }
  return names;
}

const NodeLost kLoss{"n1", {"n1/cpu"}, "silent for 15 s"};

}  // namespace

TEST_CASE("a lost node is not in the run") {
  CHECK(nodes_of({sent(address::broker, offer(4))}) ==
        std::vector<std::string>{"n1"});
  CHECK(
      nodes_of({sent(address::broker, offer(4)), sent(address::broker, kLoss)})
          .empty());
}

TEST_CASE("one that joined again is, whatever the dispatcher is told later") {
  CHECK(nodes_of({sent(address::broker, offer(4)), sent(address::broker, kLoss),
                  sent(address::broker, offer(4)),
                  sent(address::dispatcher, kLoss)}) ==
        std::vector<std::string>{"n1"});
}

}  // namespace weft
