// Requests, answers and blobs between a head and its nodes.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/runtime/bus_world.hpp"

namespace weft {
namespace {

TEST_CASE("a node joins, works, and each answer comes once with its blobs") {
  World world;
  world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  for (std::uint64_t id = 1; id <= 50; ++id) {
    world.submit(id, "n1", "source " + std::to_string(id));
  }
  world.run_until([&] { return world.answered.size() == 50; });
  CHECK(world.left.empty());
  world.run_until(
      [&] { return world.nodes["n1"].protocol->open_requests() == 0; });
}

TEST_CASE("whatever frames are lost, each request is answered once") {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(20, seed);
    world.add("n1", "a");
    world.add("n2", "b");
    world.run_until([&] { return world.joined.size() >= 2; });
    for (std::uint64_t id = 1; id <= 30; ++id) {
      world.submit(id, id % 2 ? "n1" : "n2",
                   std::string(150'000, 'x') + std::to_string(id));
    }
    // With so much lost a node may be silent for too long: that is an end,
    // too.
    world.run_until([&] {
      std::set<std::uint64_t> all = world.answered;
      all.insert(world.lost_ids.begin(), world.lost_ids.end());
      return all.size() == 30;
    });
    for (const std::uint64_t id : world.lost_ids) {
      CHECK(!world.answered.contains(id));
    }
  }
}

TEST_CASE("a node is sent no more than its slots and a small prefetch") {
  World world;
  World::Node& node = world.add_holding("n1");
  for (std::uint64_t id = 1; id <= 100; ++id) world.submit(id, "n1");
  for (int i = 0; i < 20; ++i) world.step();
  CHECK(node.begun == 4);
}

TEST_CASE("a silent node is lost; back, it is told to stop, and is in again") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  node.is_cut = true;
  world.run_until([&] { return !world.left.empty(); });
  CHECK(world.lost_ids == std::set<std::uint64_t>{1});
  node.is_cut = false;
  world.run_until([&] { return world.joined.size() == 2; });
  CHECK(world.joined[1] == "n1 again");
  world.run_until([&] { return world.stopped.contains(1); });
  // What it did all the same comes too late.
  world.finish(node, 1);
  world.run_until([&] { return world.late == 1; });
  CHECK(world.answered.empty());
}

TEST_CASE("a cut shorter than the silence loses nothing and repeats nothing") {
  World world;
  World::Node& node = world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  for (std::uint64_t id = 1; id <= 10; ++id) world.submit(id, "n1");
  node.is_cut = true;
  for (int i = 0; i < 10; ++i) world.step();
  node.is_cut = false;
  world.run_until([&] { return world.answered.size() == 10; });
  CHECK(world.left.empty());
  CHECK(node.done == 10);
}

TEST_CASE("a blob of any size goes on where it was when it is cut off") {
  constexpr int kPieces = 400;
  const std::size_t bytes = kPieces * wire::kChunkBytes - 9;
  World world;
  std::string blob;
  SUBCASE("a request's") { blob = std::string(bytes, 'b'); }
  SUBCASE("an answer's") { world.result_bytes = bytes; }
  World::Node& node = world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  world.submit(1, "n1", blob);
  int cuts = 0;
  while (world.answered.empty() && cuts < 200) {
    for (int i = 0; i < 4; ++i) world.step();
    if (!world.answered.empty()) break;
    // Another connection, after a break that is shorter than the silence.
    ++cuts;
    node.is_cut = true;
    for (int i = 0; i < 10; ++i) world.step();
    node.is_cut = false;
    node.peer = "n1.a" + std::to_string(cuts);
  }
  CHECK(world.answered.size() == 1);
  CHECK(world.left.empty());
  CHECK(cuts > 1);
  // A cut loses the pieces that were under way: one window at most.
  CHECK(world.pieces <= kPieces + 2 + cuts * BlobReceiver::kWindowMax);
}

TEST_CASE(
    "another process of a node's name takes its place when that is dead") {
  World world;
  world.add("n1", "a").works = false;
  world.run_until([&] { return !world.joined.empty(); });
  world.submit(7, "n1");
  world.step();
  world.add("n1", "b");
  world.run_until([&] { return world.joined.size() == 2; });
  CHECK(world.lost_ids == std::set<std::uint64_t>{7});
}

TEST_CASE("two that live under one name: the second is told so and waits") {
  World world;
  world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  NodeProtocol::Options options;
  options.hello = hello_of("n1", "b");
  world.head->on_frame("other", wire::encode_header(options.hello), "",
                       world.now);
  bool is_refused = false;
  for (auto& action : world.head->take_actions()) {
    const auto* send = std::get_if<head_action::Send>(&action);
    if (!send || send->peer != "other") continue;
    const auto header = wire::decode_header(send->frame.header);
    REQUIRE(header);
    const auto* refusal = std::get_if<wire::Refusal>(&*header);
    REQUIRE(refusal);
    CHECK(refusal->reason.contains("--name"));
    CHECK(!refusal->for_good);
    is_refused = true;
  }
  CHECK(is_refused);
  CHECK(world.left.empty());
}

TEST_CASE("a node finds its head again when that is another process") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.submit(2, "n1");
  world.run_until([&] { return node.begun == 2; });
  node.works = true;
  node.is_cut = true;
  world.finish(node, 1);  // while there is no head
  HeadProtocol::Options options;
  options.run = "run";
  options.first_session = 1'000;
  options.heartbeat_ms = 100;
  options.silence_ms = 1'000;
  world.head = std::make_unique<HeadProtocol>(options);
  world.head->expect("n1", world.now);
  world.submit(1, "n1");
  world.submit(2, "n1");
  node.is_cut = false;
  world.run_until([&] { return world.answered.contains(1); });
  CHECK(world.left.empty());
  CHECK(node.begun == 2);  // neither was begun again
  world.finish(node, 2);
  world.run_until([&] { return world.answered.size() == 2; });
}

TEST_CASE(
    "a node whose head said goodbye while it was cut off hears it later") {
  for (const std::int64_t cut_ms : {500, 1'500}) {
    CAPTURE(cut_ms);  // the second time it has to join anew
    World world;
    World::Node& node = world.add("n1", "a", true);
    world.run_until([&] { return !world.joined.empty(); });
    node.is_cut = true;
    world.head->finish(world.now);
    world.drain_head();
    const std::int64_t began_ms = world.now;
    while (world.now < began_ms + cut_ms) world.step();
    CHECK(!node.has_quit);
    CHECK(!world.head->is_parted(world.now));
    node.is_cut = false;
    world.run_until([&] { return node.has_quit; });
    CHECK(node.has_ended);
    CHECK(world.head->is_parted(world.now));
    CHECK(world.now < began_ms + 2'000);
  }
}

TEST_CASE("a node of another wire is refused for good, with the reason") {
  World world;
  World::Node& node = world.add("n1", "a");
  NodeProtocol::Options options;
  options.hello = hello_of("n1", "a");
  options.hello.wire_min = options.hello.wire_max = wire::kWireVersion + 1;
  node.protocol = std::make_unique<NodeProtocol>(options);
  world.run_until([&] { return !node.refused.empty(); });
  CHECK(node.refused.contains("install the same weft"));
  CHECK(world.joined.empty());
}

TEST_CASE("what is cancelled before it was sent is answered at the head") {
  World world;
  World::Node& node = world.add_holding("n1");
  for (std::uint64_t id = 1; id <= 6; ++id) world.submit(id, "n1");
  world.run_until([&] { return node.begun == 4; });
  world.head->cancel(6, world.now);
  world.head->cancel(1, world.now);
  world.run_until([&] { return world.stopped.contains(1); });
  CHECK(world.dropped_ids == std::set<std::uint64_t>{6});
}

TEST_CASE("hostile bytes cost their sender the connection, and nobody else") {
  World world;
  world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  std::mt19937 chance(5);
  const std::string honest =
      wire::encode_header(hello_of("n9", std::string("x")));
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = honest;
    const int changes = 1 + static_cast<int>(chance() % 8);
    for (int k = 0; k < changes; ++k) {
      bytes[chance() % bytes.size()] = static_cast<char>(chance());
    }
    if (chance() % 4 == 0) bytes.resize(chance() % bytes.size());
    world.head->on_frame("evil", bytes, "", world.now);
    world.drain_head();
  }
  CHECK(!world.cuts.empty());
  world.submit(1, "n1");
  world.run_until([&] { return world.answered.contains(1); });
}

TEST_CASE("a blob that is not what its hash says costs the connection") {
  World world;
  World::Node& node = world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  node.works = false;
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  const std::string own = "made 1";
  node.blobs[content_hash(own)] = "made 2";
  node.protocol->result(1, "R", "done 1", {{content_hash(own), own.size()}},
                        world.now);
  world.run_until([&] { return !world.cuts.empty(); });
  CHECK(world.cuts[0].contains("hash"));
  CHECK(world.answered.empty());
}

TEST_CASE("an answer whose blob the node has lost is worked out again") {
  World world;
  World::Node& node = world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  node.works = false;
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  node.works = true;
  const std::string own = "made 1";
  node.protocol->result(1, "R", "done 1", {{content_hash(own), own.size()}},
                        world.now);
  world.run_until([&] { return world.answered.contains(1); });
  CHECK(node.begun == 2);
}

TEST_CASE("a blob of another size than its answer said costs the connection") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  const std::string own(200'000, 'x');
  node.blobs[content_hash(own)] = own;
  node.protocol->result(1, "R", "done 1", {{content_hash(own), 9}}, world.now);
  world.run_until([&] { return !world.cuts.empty(); });
  CHECK(world.cuts[0].contains("size"));
  CHECK(world.answered.empty());
}

/// Joins under another name each time, and goes.
void flap(World& world, int times) {
  for (int i = 0; i < times; ++i) {
    const std::string name = "liar" + std::to_string(i);
    wire::Bye bye;
    bye.node = name;
    bye.incarnation = "a";
    world.head->on_frame("evil", wire::encode_header(hello_of(name, "a")), "",
                         world.now);
    world.head->on_frame("evil", wire::encode_header(bye), "", world.now);
    world.drain_head();
  }
}

TEST_CASE("who joins and leaves without end is not let in any more") {
  World world;
  world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  flap(world, 20'000);
  CHECK(world.joined.size() <= 4'096);
  CHECK(world.left.size() < world.joined.size());
  world.submit(1, "n1");  // whoever is in stays in
  world.run_until([&] { return world.answered.contains(1); });
}

TEST_CASE("who restarts without end is not let in any more") {
  World world;
  world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  for (int i = 0; i < 20'000; ++i) {
    wire::Bye bye;
    bye.node = "liar";
    bye.incarnation = "i" + std::to_string(i);
    world.head->on_frame("evil",
                         wire::encode_header(hello_of("liar", bye.incarnation)),
                         "", world.now);
    world.head->on_frame("evil", wire::encode_header(bye), "", world.now);
    world.drain_head();
  }
  CHECK(world.joined.size() <= 4'096);
}

TEST_CASE("a node that was refused for others' joining gets in later") {
  World world;
  flap(world, 10'000);
  world.add("n1", "a");
  world.run_until([&] { return world.joined.back() == "n1"; });
}

}  // namespace
}  // namespace weft
