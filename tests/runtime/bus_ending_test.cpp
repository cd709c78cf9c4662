// How runs end and nodes leave, whatever is lost on the way.
#include <doctest/doctest.h>

#include "tests/runtime/bus_world.hpp"

namespace weft {
namespace {

TEST_CASE("whatever frames are lost, a node hears of the end and is heard") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    World world(30, seed);
    const bool once = seed % 2 == 0;
    World::Node& node = world.add("n1", "a", once);
    world.run_until([&] { return node.protocol->is_in(); });
    world.head->finish(world.now);
    world.drain_head();
    world.run_until([&] { return node.has_ended; });
    CHECK(node.has_quit == once);
    world.run_until([&] { return world.head->is_parted(world.now); });
  }
}

TEST_CASE("a head waits for nodes that do not hear its goodbye, but not long") {
  World world;
  World::Node& node = world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  node.is_cut = true;
  world.head->finish(world.now);
  const std::int64_t began_ms = world.now;
  world.run_until([&] { return world.head->is_parted(world.now); });
  CHECK(world.now == began_ms + 2'000);
  // One that joins only now has nothing to be told.
  world.add("n2", "b");
  world.step();
  CHECK(!world.nodes["n2"].has_ended);
}

/// A node that does without its head for a minute.
World::Node& add_patient(World& world, bool once) {
  NodeProtocol::Options options;
  options.hello = hello_of("n1", "a");
  options.once = once;
  options.patience_ms = 60'000;
  World::Node& node = world.add("n1", "a");
  node.protocol = std::make_unique<NodeProtocol>(options);
  return node;
}

TEST_CASE("a node whose head never comes back gives up in the end") {
  World world;
  World::Node& node = add_patient(world, true);
  world.run_until([&] { return !world.joined.empty(); });
  node.is_cut = true;
  const int before = node.frames_sent;
  const std::int64_t began_ms = world.now;
  world.run_until([&] { return node.has_quit; });
  CHECK(node.has_ended);
  CHECK(world.now - began_ms <= 61'000);
  // Two words a second: it does not keep anything busy meanwhile.
  CHECK(node.frames_sent - before <= 130);
}

TEST_CASE("a node that comes when all is over gives up, too") {
  for (const bool once : {true, false}) {
    World world;
    World::Node& node = add_patient(world, once);
    node.is_cut = true;
    const std::int64_t began_ms = world.now;
    world.run_until(
        [&] { return node.has_quit || world.now - began_ms > 61'000; });
    CHECK(node.has_quit == once);
    CHECK(world.now - began_ms >= 60'000);
  }
}

TEST_CASE("a node that leaves hands back what it has not done, and goes") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.submit(2, "n1");
  world.run_until([&] { return node.begun == 2; });
  world.finish(node, 1);
  node.protocol->leave(world.now);
  world.submit(3, "n1");
  world.run_until([&] { return node.has_quit; });
  CHECK(world.stopped == std::set<std::uint64_t>{2});
  CHECK(world.answered == std::set<std::uint64_t>{1});
  CHECK(world.lost_ids == std::set<std::uint64_t>{2, 3});
  CHECK(node.begun == 2);
}

TEST_CASE("a node leaves in time though its head hears nothing") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  node.is_cut = true;
  world.finish(node, 1);
  node.protocol->leave(world.now);
  const std::int64_t began_ms = world.now;
  while (world.now < began_ms + 4'900) world.step();
  CHECK(!node.has_quit);
  world.run_until([&] { return node.has_quit; });
  CHECK(world.now <= began_ms + 5'000);
}

TEST_CASE("a node that leaves before it is welcomed is not waited for") {
  NodeProtocol::Options options;
  options.hello = hello_of("n1", "a");
  NodeProtocol node(options);
  World world;
  node.tick(1'000);
  node.leave(1'001);
  int frames = 0;
  for (const NodeAction& action : node.take_actions()) {
    const auto* send = std::get_if<node_action::Send>(&action);
    if (!send) continue;
    ++frames;
    world.head->on_frame("p1", send->frame.header, "", 1'002);
  }
  CHECK(frames == 2);  // hello, and bye
  CHECK(world.head->nodes(1'002).empty());
  world.head->submit({1, "n1", "port/build", "BuildRequest", nullptr}, 1'003);
  world.drain_head();
  CHECK(world.lost_ids == std::set<std::uint64_t>{1});
}

TEST_CASE("a node that is in no run leaves at once") {
  World world;
  World::Node& node = world.add("n1", "a");
  node.protocol->leave(world.now);
  world.drain(node);
  CHECK(node.has_quit);
}

}  // namespace
}  // namespace weft
