#include "runtime/host/replay.hpp"

#include "runtime/host/effect_ledger.hpp"
#include "tests/actors/role_fixture.hpp"
#include "tests/runtime/toy_world.hpp"

namespace weft {
namespace {

/// The journal of a whole toy run, as the hosts would write it.
std::vector<Envelope> toy_journal(Blobs& blobs) {
  std::vector<Envelope> journal =
      to_envelopes(address::user, 0, {{counter_address, toy_start()}});
  Counter counter;
  for (std::size_t i = 0; i < journal.size(); ++i) {
    journal[i].seq = i + 1;
    const Envelope event = journal[i];
    const Message message = *decode(event.type, event.body);
    std::vector<Envelope> envelopes;
    if (event.dst == counter_address) {
      Context context(blobs, event.at_us);
      counter.receive(event.src, message, context);
      envelopes =
          to_envelopes(counter_address, event.seq, context.take_outbox());
    } else if (const auto* m = std::get_if<TimerRequest>(&message)) {
      envelopes = to_envelopes(address::clock, event.seq,
                               {{counter_address, TimerFired{m->effect}}});
    }
    journal.insert(journal.end(), envelopes.begin(), envelopes.end());
  }
  return journal;
}

struct World {
  FixtureBlobs blobs;
  std::vector<Envelope> journal = toy_journal(blobs);
  Replay replay{blobs, &make_counter};

  /// Feeds up to and with `to`; how many were taken without a divergence.
  std::size_t feed(std::size_t to) {
    for (std::size_t i = 0; i < to; ++i) {
      if (!replay.feed(journal[i])) return i;
    }
    return to;
  }
  std::size_t feed() { return feed(journal.size()); }
};

TEST_CASE("a journal that fits replays to its end") {
  World world;
  REQUIRE(world.journal.size() == 11);
  CHECK(world.feed() == 11);
  CHECK(world.replay.finish());
  CHECK(world.replay.finished() == RunFinished{0, "3 ticks"});
  CHECK(world.replay.open_requests().empty());
  CHECK(!world.replay.divergence());
}

TEST_CASE("a body that means the same in other bytes is the same word") {
  World world;
  Envelope& request = world.journal[2];
  REQUIRE(request.type == "TimerRequest");
  const auto timer =
      std::get<TimerRequest>(*decode(request.type, request.body));
  // As another version may write it: one field less, in another order.
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  packer.pack_map(3);
  packer.pack("after_ms");
  packer.pack(timer.after_ms);
  packer.pack("gone_since");
  packer.pack(1);
  packer.pack("effect");
  packer.pack(timer.effect);
  request.body.assign(buffer.data(), buffer.size());
  CHECK(world.feed() == 11);
  CHECK(!world.replay.divergence());
}

TEST_CASE("a role that decides otherwise is named with both sides") {
  World world;
  Envelope& request = world.journal[2];
  REQUIRE(request.type == "TimerRequest");
  request.body = encode(TimerRequest{1, 99});
  CHECK(world.feed() == 2);
  const Divergence divergence = world.replay.divergence().value();
  CHECK(divergence.seq == 3);
  CHECK(divergence.role == counter_address);
  CHECK(divergence.code_says.contains("\"after_ms\":10"));
  CHECK(divergence.journal_says.contains("\"after_ms\":99"));
}

namespace {

/// A counter that says what it counts in other words, and is told which count.
class Rephrasing : public Counter {
 public:
  explicit Rephrasing(std::vector<std::string>& recalled)
      : recalled_(recalled) {}
  void receive(const Address& from, const Message& message,
               Context& context) override {
    Context inner(context.blobs(), context.now_us());
    Counter::receive(from, message, inner);
    for (Outgoing& outgoing : inner.take_outbox()) {
      if (auto* m = std::get_if<Progress>(&outgoing.message)) m->text += "!";
      context.send(outgoing.dst, outgoing.message);
    }
  }
  void recall(const Message& recorded) override {
    recalled_.push_back(std::get<Progress>(recorded).text);
  }

 private:
  std::vector<std::string>& recalled_;
};

}  // namespace

TEST_CASE("where only content differs, the recorded word may count") {
  std::vector<std::string> recalled;
  const auto make = [&](const Address& address) -> std::unique_ptr<Role> {
    if (address != counter_address) return nullptr;
    return std::make_unique<Rephrasing>(recalled);
  };
  World world;
  Replay strict(world.blobs, make);
  CHECK(strict.feed(world.journal[0]));
  CHECK(!strict.feed(world.journal[1]));
  CHECK(strict.divergence()->only_content);
  CHECK(recalled.empty());

  Replay lenient(world.blobs, make, Replay::ContentRule::recorded);
  for (const Envelope& event : world.journal) CHECK(lenient.feed(event));
  CHECK(lenient.finish());
  CHECK(lenient.recalled() == kToyTicks);
  CHECK(recalled.size() == kToyTicks);
}

TEST_CASE("an effect under another number is no matter of content") {
  World world;
  Replay lenient(world.blobs, &make_counter, Replay::ContentRule::recorded);
  Envelope& request = world.journal[2];
  request.body = encode(TimerRequest{7, 10});
  CHECK(lenient.feed(world.journal[0]));
  CHECK(lenient.feed(world.journal[1]));
  CHECK(!lenient.feed(request));
}

TEST_CASE("a blob that cannot be read is no divergence") {
  World world;
  class Broken : public FixtureBlobs {
    Result<std::string> get(std::string_view) override {
      return fail(ErrorCode::failed, "the disk is gone");
    }
  } broken;
  class Reader : public Role {
    void receive(const Address&, const Message&, Context& context) override {
      (void)context.blobs().get("x");
    }
  };
  Replay replay(broken, [](const Address&) {
    return std::unique_ptr<Role>(std::make_unique<Reader>());
  });
  CHECK(!replay.feed(world.journal[0]));
  CHECK(!replay.divergence());
  CHECK(replay.error()->message == "the disk is gone");
}

TEST_CASE("a message to another receiver is a divergence") {
  World world;
  world.journal[2].dst = "port/gpu";
  CHECK(world.feed() == 2);
  CHECK(world.replay.divergence()->code_says.contains("to port/clock"));
  CHECK(world.replay.divergence()->journal_says.contains("to port/gpu"));
}

TEST_CASE("a message that the journal has and the role never said is found") {
  World world;
  Envelope extra = world.journal[2];
  extra.seq = 4;
  world.journal.insert(world.journal.begin() + 3, extra);
  CHECK(world.feed() == 3);
  CHECK(world.replay.divergence()->role == counter_address);
  CHECK(world.replay.divergence()->code_says == "nothing more on event 1");
  CHECK(world.replay.divergence()->journal_says.contains("TimerRequest"));
}

TEST_CASE("a message that the role said and the journal skips is found") {
  World world;
  world.journal.erase(world.journal.begin() + 1);  // the first Progress
  CHECK(world.feed() == 1);
  CHECK(world.replay.divergence()->code_says.contains("Progress"));
  CHECK(world.replay.divergence()->journal_says.contains("TimerRequest"));
}

TEST_CASE("a message that is missing at the end is found by finish") {
  World world;
  CHECK(world.feed(10) == 10);  // all but RunFinished
  CHECK(!world.replay.finish());
  CHECK(world.replay.divergence()->seq == 10);
  CHECK(world.replay.divergence()->code_says.contains("RunFinished"));
  CHECK(world.replay.divergence()->journal_says == "nothing more on event 10");
}

TEST_CASE("an envelope that cannot be decoded stops the replay") {
  World world;
  world.journal[3].body = "\xc1";
  CHECK(world.feed() == 3);
  CHECK(world.replay.divergence()->seq == 4);
}

TEST_CASE("a divergence tells a person the event, the role and both sides") {
  const Divergence divergence = {7, "agent/sg_1", "this", "that"};
  CHECK(to_string(divergence) ==
        "event 7, role agent/sg_1\n  the code says:    this\n"
        "  the journal says: that");
}

TEST_CASE("a replay that stops early has what was not journaled yet") {
  World world;
  CHECK(world.feed(2) == 2);  // RunStart and the first of two messages
  const auto missing = world.replay.take_missing();
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].type == "TimerRequest");
  CHECK(missing[0].cause == 1);
  CHECK(missing[0].src == counter_address);
  CHECK(world.replay.open_requests().empty());
}

TEST_CASE("a replay that stops early has the requests without a reply") {
  World world;
  CHECK(world.feed(3) == 3);
  REQUIRE(world.replay.open_requests().size() == 1);
  CHECK(world.replay.open_requests().begin()->first == 3);
  CHECK(world.replay.take_missing().empty());
  CHECK(world.feed(0) == 0);
  CHECK(world.replay.feed(world.journal[3]));
  CHECK(world.replay.open_requests().empty());
}

TEST_CASE("a stale reply closes no request and reaches no role") {
  World world;
  CHECK(world.feed(4) == 4);
  Envelope stale = world.journal[3];
  stale.seq = 5;
  stale.dst = stale_address;
  CHECK(world.replay.feed(stale));
  CHECK(world.replay.take_missing().size() == 2);  // on event 4, once
}

TEST_CASE("the roles come back in the state that the journal led to") {
  World world;
  world.feed(10);
  auto roles = world.replay.take_roles();
  REQUIRE(roles.contains(counter_address));
  Context context(world.blobs, 0);
  roles[counter_address]->receive(address::clock, TimerFired{3}, context);
  const auto finished = single<RunFinished>(context.take_outbox());
  CHECK(finished.summary == "4 ticks");
}

}  // namespace
}  // namespace weft
