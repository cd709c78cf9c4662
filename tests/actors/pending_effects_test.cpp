#include "actors/pending_effects.hpp"

#include "tests/actors/role_fixture.hpp"

using namespace weft;

namespace {

/// One effect under way, and what was sent for it.
struct PendingEffectsFixture {
  FixtureBlobs blobs;
  PendingEffects effects;
  std::uint64_t id = 0;

  PendingEffectsFixture() {
    Context context(blobs, 0);
    id = effects.start(address::build, BuildRequest{}, {"cpu", 1, "g", 500},
                       context);
    const auto lease = single<LeaseRequest>(context.take_outbox());
    CHECK(lease.ticket == id);
    CHECK(lease.ttl_ms == 500);
  }

  std::optional<EffectResult> give(Message message) {
    Context context(blobs, 0);
    auto end = effects.receive(message, context);
    sent = context.take_outbox();
    return end;
  }
  std::vector<Outgoing> sent;
};

}  // namespace

TEST_CASE("the port is asked only once the lease is granted") {
  PendingEffectsFixture fixture;
  CHECK(!fixture.give(LeaseGranted{fixture.id}));
  CHECK(single<BuildRequest>(fixture.sent).effect == fixture.id);
  CHECK(fixture.sent.front().dst == address::build);
}

TEST_CASE("a reply ends the effect and gives the lease back") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  const auto end = fixture.give(BuildReply{fixture.id, {}, "log", 7});
  REQUIRE(end.has_value());
  CHECK(!end->failure);
  CHECK(std::get<BuildReply>(*end->reply).log == "log");
  CHECK(single<LeaseReleased>(fixture.sent).ticket == fixture.id);
  CHECK(fixture.effects.idle());
}

TEST_CASE("a reply with a failure keeps the reply") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  const auto end =
      fixture.give(BuildReply{fixture.id, {"wrong_input", "no"}, "log", 7});
  REQUIRE(end.has_value());
  CHECK(end->failure.code == "wrong_input");
  CHECK(end->reply.has_value());
}

TEST_CASE("an expired lease ends the effect as a failure") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  const auto end = fixture.give(LeaseExpired{fixture.id});
  REQUIRE(end.has_value());
  CHECK(end->failure.code == "expired");
  CHECK(!fixture.give(BuildReply{fixture.id, {}, "", 7}));  // too late
  CHECK(fixture.sent.empty());
}

TEST_CASE("a denied lease ends the effect as refused") {
  PendingEffectsFixture fixture;
  const auto end = fixture.give(LeaseDenied{fixture.id, "full"});
  REQUIRE(end.has_value());
  CHECK(end->failure.code == "refused");
}

TEST_CASE("a doubled grant and a doubled reply change nothing") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  fixture.give(LeaseGranted{fixture.id});
  CHECK(fixture.sent.empty());
  CHECK(fixture.give(BuildReply{fixture.id, {}, "", 7}).has_value());
  CHECK(!fixture.give(BuildReply{fixture.id, {}, "", 7}).has_value());
  CHECK(fixture.sent.empty());
}

TEST_CASE("a reply before the grant is ignored") {
  PendingEffectsFixture fixture;
  CHECK(!fixture.give(BuildReply{fixture.id, {}, "", 7}).has_value());
}

TEST_CASE(
    "an effect without its lease is withdrawn, and grants come to nothing") {
  PendingEffectsFixture fixture;
  Context context(fixture.blobs, 0);
  fixture.effects.withdraw(context);
  CHECK(single<LeaseReleased>(context.take_outbox()).ticket == fixture.id);
  CHECK(fixture.effects.idle());
  CHECK(!fixture.give(LeaseGranted{fixture.id}));
  CHECK(fixture.sent.empty());
}

TEST_CASE("an effect that a port works on is not withdrawn") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  Context context(fixture.blobs, 0);
  fixture.effects.withdraw(context);
  CHECK(context.take_outbox().empty());
  CHECK(!fixture.effects.idle());
}

TEST_CASE("a failure that may pass is tried again, under a lease of its own") {
  FixtureBlobs blobs;
  PendingEffects effects;
  Context context(blobs, 0);
  const auto id = effects.start(address::build, BuildRequest{},
                                {"cpu", 2, "g", 500}, context, 2);
  effects.receive(LeaseGranted{id}, context);
  context.take_outbox();

  BuildReply failed{id, {"missing", "no process"}, "", 7};
  CHECK(!effects.receive(failed, context));
  const auto sent = context.take_outbox();
  REQUIRE(sent.size() == 2);
  CHECK(std::get<LeaseReleased>(sent[0].message).ticket == id);
  const auto lease = std::get<LeaseRequest>(sent[1].message);
  CHECK(lease.ticket != id);
  CHECK(lease.units == 2);
  CHECK(lease.ttl_ms == 500);

  // Late replies to the first try are ignored.
  CHECK(!effects.receive(failed, context));
  CHECK(!effects.receive(LeaseGranted{lease.ticket}, context));
  CHECK(single<BuildRequest>(context.take_outbox()).effect == lease.ticket);
  failed.effect = lease.ticket;
  const auto end = effects.receive(failed, context);
  REQUIRE(end.has_value());
  CHECK(end->id == id);
  CHECK(end->failure.code == "missing");
  CHECK(effects.idle());
}

TEST_CASE("a request that is wrong, or refused, is not tried again") {
  FixtureBlobs blobs;
  PendingEffects effects;
  Context context(blobs, 0);
  const auto wrong =
      effects.start(address::build, BuildRequest{}, {}, context, 2);
  effects.receive(LeaseGranted{wrong}, context);
  CHECK(effects.receive(BuildReply{wrong, {"wrong_input", "no"}, "", 7},
                        context));
  const auto refused =
      effects.start(address::build, BuildRequest{}, {}, context, 2);
  CHECK(effects.receive(LeaseDenied{refused, "too much"}, context));
  CHECK(effects.idle());
}

TEST_CASE("what was withdrawn while a port worked on it is not tried again") {
  FixtureBlobs blobs;
  PendingEffects effects;
  Context context(blobs, 0);
  const auto id = effects.start(address::build, BuildRequest{}, {}, context, 2);
  effects.receive(LeaseGranted{id}, context);
  effects.withdraw(context);
  CHECK(effects.receive(BuildReply{id, {"failed", "died"}, "", 7}, context));
}

TEST_CASE("the port at the granted place is asked") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id, "n1"});
  CHECK(fixture.sent.front().dst == "port/build@n1");
  const auto end = fixture.give(BuildReply{fixture.id, {}, "", 7});
  REQUIRE(end.has_value());
  CHECK(end->location == "n1");
}

TEST_CASE("when its time is up the port stops, and then the lease goes back") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id, "n1"});
  CHECK(!fixture.give(LeaseExpired{fixture.id, true}));
  CHECK(single<CancelEffect>(fixture.sent).effect == fixture.id);
  CHECK(fixture.sent.front().dst == "port/build@n1");
  CHECK(only<LeaseReleased>(fixture.sent).empty());

  SUBCASE("the port says that it has stopped") {
    const auto end =
        fixture.give(BuildReply{fixture.id, {"cancelled", "stopped"}, "", 7});
    REQUIRE(end.has_value());
    CHECK(end->failure.code == "expired");
    CHECK(single<LeaseReleased>(fixture.sent).ticket == fixture.id);
  }
  SUBCASE("the port had ended before") {
    const auto end = fixture.give(BuildReply{fixture.id, {}, "", 7});
    REQUIRE(end.has_value());
    CHECK(!end->failure);
  }
  SUBCASE("the port says nothing at all") {
    const auto end = fixture.give(LeaseExpired{fixture.id});
    REQUIRE(end.has_value());
    CHECK(end->failure.code == "expired");
    CHECK(fixture.sent.empty());
  }
}

TEST_CASE("what is cancelled is stopped, and tried no more") {
  FixtureBlobs blobs;
  PendingEffects effects;
  Context context(blobs, 0);
  const auto id = effects.start(address::build, BuildRequest{}, {}, context, 2);
  effects.receive(LeaseGranted{id}, context);
  context.take_outbox();
  effects.cancel("another won", context);
  CHECK(single<CancelEffect>(context.take_outbox()).reason == "another won");
  CHECK(!effects.idle());
  const auto end =
      effects.receive(BuildReply{id, {"cancelled", ""}, "", 7}, context);
  REQUIRE(end.has_value());
  CHECK(end->failure.code == "cancelled");
  CHECK(effects.idle());
}

TEST_CASE("work that was lost with its place goes to another, once") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id, "n1"});
  CHECK(!fixture.give(LeaseLost{fixture.id, "n1", "gone"}));
  const auto again = single<LeaseRequest>(fixture.sent);
  CHECK(again.ticket != fixture.id);
  CHECK(again.avoid == std::vector<Location>{"n1"});
  fixture.give(LeaseGranted{again.ticket, "n2"});
  // The first location's answer comes too late to count.
  CHECK(!fixture.give(BuildReply{fixture.id, {}, "", 7}));
  const auto end = fixture.give(LeaseLost{again.ticket, "n2", "gone"});
  REQUIRE(end.has_value());
  CHECK(end->failure.code == "node_lost");
  CHECK(end->locations_lost == 2);
  CHECK(fixture.sent.empty());
}

TEST_CASE("a place that left with the work is none of the two it may go with") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id, "n1"});
  CHECK(!fixture.give(
      BuildReply{fixture.id, {"node_lost", "node n1 left"}, "", 7}));
  CHECK(single<LeaseReleased>(fixture.sent).ticket == fixture.id);
  const auto second = single<LeaseRequest>(fixture.sent);
  CHECK(second.avoid == std::vector<Location>{"n1"});
  // The broker's own word of it comes later.
  CHECK(!fixture.give(LeaseLost{fixture.id, "n1", "gone"}));
  fixture.give(LeaseGranted{second.ticket, "n2"});
  CHECK(!fixture.give(LeaseLost{second.ticket, "n2", "gone"}));
  const auto third = single<LeaseRequest>(fixture.sent);
  fixture.give(LeaseGranted{third.ticket, "n3"});
  const auto end = fixture.give(LeaseLost{third.ticket, "n3", "gone"});
  REQUIRE(end.has_value());
  CHECK(end->failure.code == "node_lost");
  CHECK(end->locations_lost == 2);
}

TEST_CASE("work that found no room twice is not tried a third time") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id, "n1"});
  CHECK(!fixture.give(BuildReply{fixture.id, {"disk_full", "full"}, "", 7}));
  CHECK(single<LeaseReleased>(fixture.sent).ticket == fixture.id);
  const auto second = single<LeaseRequest>(fixture.sent);
  std::optional<EffectResult> end;
  SUBCASE("at the place that has made room since") {
    CHECK(second.avoid.empty());
    fixture.give(LeaseGranted{second.ticket, "n1"});
    end = fixture.give(BuildReply{second.ticket, {"disk_full", "full"}, "", 7});
    REQUIRE(end.has_value());
    CHECK(end->failure.code == "disk_full");
  }
  SUBCASE("nor when another place went down with it") {
    fixture.give(LeaseGranted{second.ticket, "n2"});
    end = fixture.give(LeaseLost{second.ticket, "n2", "gone"});
    REQUIRE(end.has_value());
    CHECK(end->failure.code == "node_lost");
  }
  CHECK(end->locations_lost == 2);
  CHECK(only<LeaseRequest>(fixture.sent).empty());
}

TEST_CASE("places that leave without end do not keep work going without end") {
  PendingEffectsFixture fixture;
  std::uint64_t ticket = fixture.id;
  std::optional<EffectResult> end;
  int locations = 0;
  for (; !end && locations < 1'000; ++locations) {
    fixture.give(LeaseGranted{ticket, "n" + std::to_string(locations)});
    end = fixture.give(BuildReply{ticket, {"node_lost", "it left"}, "", 7});
    if (!end) ticket = single<LeaseRequest>(fixture.sent).ticket;
  }
  REQUIRE(end.has_value());
  CHECK(locations == 65);
  CHECK(end->failure.code == "node_lost");
  CHECK(end->locations_lost == 0);
}

TEST_CASE("an overloaded port is asked again when it said, and it is no try") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  CHECK(!fixture.give(
      BuildReply{fixture.id, {"overloaded", "full", 2'500}, "", 7}));
  CHECK(single<LeaseReleased>(fixture.sent).ticket == fixture.id);
  const auto timer = single<TimerRequest>(fixture.sent);
  CHECK(timer.after_ms == 2'500);
  CHECK(!fixture.effects.idle());
  fixture.give(TimerFired{timer.effect});
  const auto again = single<LeaseRequest>(fixture.sent);
  fixture.give(LeaseGranted{again.ticket});
  const auto end = fixture.give(BuildReply{again.ticket, {}, "", 7});
  REQUIRE(end.has_value());
  CHECK(end->id == fixture.id);
  CHECK(!end->failure);
}

TEST_CASE("what rests until it may be asked again can be given up") {
  PendingEffectsFixture fixture;
  fixture.give(LeaseGranted{fixture.id});
  fixture.give(BuildReply{fixture.id, {"overloaded", "full", 2'500}, "", 7});
  const auto timer = single<TimerRequest>(fixture.sent);
  Context context(fixture.blobs, 0);
  fixture.effects.withdraw(context);
  CHECK(context.take_outbox().empty());
  CHECK(fixture.effects.idle());
  fixture.give(TimerFired{timer.effect});
  CHECK(fixture.sent.empty());
}
