#include "runtime/debug/journal_reader.hpp"

#include <nlohmann/json.hpp>

#include "tests/runtime/journal_fixture.hpp"

namespace weft {
namespace {

const Address teller = "teller";

/// Says each tick on, and knows how many there were.
class Teller : public Role {
 public:
  void receive(const Address&, const Message& message,
               Context& context) override {
    const auto* fired = std::get_if<TimerFired>(&message);
    if (!fired) return;
    ++ticks_;
    context.send("listener", TimerFired{fired->effect});
    context.send(address::clock, TimerRequest{fired->effect + 1, 10});
  }
  nlohmann::json describe() const override { return {{"ticks", ticks_}}; }

 private:
  int ticks_ = 0;
};

std::unique_ptr<Role> make_teller(const Address& address) {
  return address == teller ? std::make_unique<Teller>() : nullptr;
}

/// Three ticks: 1 to the teller, 2 and 3 said by it, 4 to it, and so on.
struct World {
  Directory directory;
  Journal journal = value(Journal::create(directory / "j.db", Sync::normal));
  JournalReader journal_reader{journal, &make_teller};

  World() {
    std::vector<Envelope> events;
    const auto add = [&](Address src, Address dst, const Message& message,
                         std::uint64_t cause) {
      events.push_back({0, cause, 0, std::move(src), std::move(dst),
                        std::string(name_of(message)), encode(message)});
    };
    for (std::uint64_t tick = 1; tick <= 3; ++tick) {
      const std::uint64_t seq = 3 * tick - 2;
      add("port/clock", teller, TimerFired{tick}, seq - 1);
      add(teller, "listener", TimerFired{tick}, seq);
      add(teller, "port/clock", TimerRequest{tick + 1, 10}, seq);
    }
    value(journal.append(events));
  }
  int ticks_at(std::uint64_t seq) {
    return value(journal_reader.state(teller, seq))["state"]["ticks"];
  }
};

TEST_CASE("a role's state is known at any event, forward and back") {
  World world;
  CHECK(world.ticks_at(1) == 1);
  CHECK(world.ticks_at(3) == 1);
  CHECK(world.ticks_at(9) == 3);
  CHECK(world.ticks_at(4) == 2);
  CHECK(world.ticks_at(4) == 2);
}

TEST_CASE("all states at once are the same as each alone") {
  World world;
  const auto all = value(world.journal_reader.states(4));
  REQUIRE(all.size() == 1);
  CHECK(all[0]["role"] == teller);
  CHECK(all[0]["state"] ==
        value(world.journal_reader.state(teller, 4))["state"]);
}

TEST_CASE("causes lead back to the first, and consequences on") {
  World world;
  std::vector<std::uint64_t> seqs;
  for (const Envelope& envelope : value(world.journal_reader.causes(9, 100))) {
    seqs.push_back(envelope.seq);
  }
  CHECK(seqs == std::vector<std::uint64_t>{9, 7, 6, 4, 3, 1});
  CHECK(value(world.journal_reader.causes(9, 2)).size() == 2);
  const auto output = value(world.journal_reader.consequences(4, 100));
  REQUIRE(output.size() == 2);
  CHECK(output[1].seq == 6);
}

TEST_CASE("requests are open until their answer") {
  World world;
  CHECK(value(world.journal_reader.moment(3)).unanswered.size() == 1);
  const auto moment = value(world.journal_reader.moment(4));
  CHECK(moment.unanswered.empty());
  CHECK(moment.roles == std::vector<Address>{teller});
}

TEST_CASE("what is not there is named") {
  World world;
  const auto why = [](const auto& result) {
    REQUIRE(!result.has_value());
    CHECK(result.error().code == ErrorCode::wrong_input);
    return result.error().message;
  };
  CHECK(why(world.journal_reader.event(10)).contains("the journal has 1 to 9"));
  CHECK(why(world.journal_reader.state(teller, 0))
            .contains("there is no event 0"));
  CHECK(
      why(world.journal_reader.state("teler", 5)).contains("there are teller"));
}

TEST_CASE("of a role that decides otherwise no state is told") {
  World world;
  std::vector<Envelope> more = {
      {0, 9, 0, "port/clock", teller, std::string(TimerFired::name),
       encode(TimerFired{4})},
      {0, 10, 0, teller, "nobody", std::string(TimerFired::name),
       encode(TimerFired{4})}};
  value(world.journal.append(more));
  CHECK(world.ticks_at(10) == 4);
  const auto state = world.journal_reader.state(teller, 11);
  REQUIRE(!state.has_value());
  CHECK(state.error().code == ErrorCode::failed);
  CHECK(state.error().message.contains("decides differently"));
  CHECK(world.ticks_at(9) == 3);
}

TEST_CASE("an event is found by what it is") {
  World world;
  const auto to_listener = [](const Envelope& envelope) {
    return envelope.dst == "listener";
  };
  CHECK(value(world.journal_reader.find_after(0, to_listener)) == 2);
  CHECK(value(world.journal_reader.find_after(2, to_listener)) == 5);
  CHECK(value(world.journal_reader.find_after(8, to_listener)) == 0);
}

}  // namespace
}  // namespace weft
