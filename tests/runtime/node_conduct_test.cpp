// Nodes that are alive and give no valid answer: the head ends what they hold,
// and asks them no more.
#include <nlohmann/json.hpp>

#include "runtime/machine/files.hpp"
#include "tests/runtime/bus_fixture.hpp"
#include "tests/runtime/bus_world.hpp"

namespace weft {
namespace {

/// msgpack never begins so.
constexpr std::string_view kNoFrame = "\xc1";

/// Answers request 1 with that blob.
void answer(World& world, World::Node& node, const std::string& hash,
            std::uint64_t bytes) {
  node.protocol->result(1, "R", "done 1", {{hash, bytes}}, world.now);
  world.drain(node);
}

/// It is out for the rest of the run, and the head says why.
void check_distrusted(World& world, World::Node& node, const std::string& why) {
  CHECK(world.lost_ids.contains(1));
  CHECK(world.answered.empty());
  const auto states = world.head->nodes(world.now);
  REQUIRE(states.size() == 1);
  CHECK(states[0].hello.name == "n1");
  CHECK(states[0].distrusted.contains(why));
  world.run_until([&] { return node.has_quit; });
  CHECK(node.refused.contains(why));
  world.joined.clear();
  World::Node& again = world.add("n1", "b");
  world.run_until([&] { return again.has_quit; });
  CHECK(again.refused.contains("does not trust"));
  CHECK(world.joined.empty());
}

TEST_CASE("a node that loses the blobs of each answer is asked a few times") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.submit(2, "n1");
  const std::string own = "made 1";  // it says so, and never has it
  int answered = 0;
  world.run_until([&] {
    if (node.begun > answered + 1) {
      ++answered;
      answer(world, node, content_hash(own), own.size());
    }
    return !world.left.empty();
  });
  CHECK(answered == 4);
  CHECK(world.lost_ids.contains(2));
  check_distrusted(world, node, "files that it lacks");
}

TEST_CASE("a node that sends other bytes than a hash says is cut a few times") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  const std::string own = "made 1";
  node.blobs[content_hash(own)] = "made 2";
  answer(world, node, content_hash(own), own.size());
  world.run_until([&] { return !world.left.empty(); });
  CHECK(world.cuts.size() == 4);
  check_distrusted(world, node, "not what its hash says");
}

TEST_CASE("a node whose frames cannot be read is cut a few times") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] {
    world.head->on_frame(node.peer, kNoFrame, "", world.now);
    world.drain_head();
    return !world.left.empty();
  });
  check_distrusted(world, node, "not a frame");
}

TEST_CASE("a node that leaves and joins does not begin anew") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  for (int i = 0; i < 3; ++i) {
    world.run_until([&] { return world.head->nodes(world.now).size() == 1; });
    world.step();
    world.head->on_frame(node.peer, kNoFrame, "", world.now);
    wire::Bye bye;
    bye.node = "n1";
    bye.incarnation = "a";
    world.head->on_frame(node.peer, wire::encode_header(bye), "", world.now);
    world.drain_head();
    world.add("n1", "a").works = false;
  }
  world.run_until([&] { return world.joined.size() == 4; });
  world.head->on_frame(node.peer, kNoFrame, "", world.now);
  world.drain_head();
  check_distrusted(world, node, "not a frame");
}

TEST_CASE("a node that answers nothing, not even a cancel, is asked no more") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.submit(2, "n1");
  world.run_until([&] { return node.begun == 2; });
  world.head->cancel(1, world.now);  // its lease has expired
  const std::int64_t since_ms = world.now;
  world.run_until([&] { return !world.left.empty(); });
  CHECK(world.now - since_ms < 30'000);
  CHECK(world.stopped == std::set<std::uint64_t>{1});
  CHECK(world.lost_ids.contains(2));
  check_distrusted(world, node, "no answer to event 1");
}

TEST_CASE("a node that hangs up before each deadline gains no time") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  world.head->cancel(1, world.now);
  const std::int64_t since_ms = world.now;
  int steps = 0;
  world.run_until([&] {
    node.is_cut = ++steps % 40 < 15;  // less than the silence
    return !world.left.empty();
  });
  CHECK(world.now - since_ms < 30'000);
  node.is_cut = false;
  check_distrusted(world, node, "no answer to event 1");
}

TEST_CASE("a node that answers what was cancelled stays in") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  world.head->cancel(1, world.now);
  world.run_until([&] { return world.stopped.contains(1); });
  world.finish(node, 1);
  world.run_until([&] { return world.answered.contains(1); });
  for (int i = 0; i < 10'000; ++i) world.step();
  CHECK(world.left.empty());
}

TEST_CASE("an answer that was lost after the cancel has its time anew") {
  World world;
  World::Node& node = world.add_holding("n1");
  node.ignores_wants = true;
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  const std::string own = "made 1";  // it is not there any more
  answer(world, node, content_hash(own), own.size());
  world.step();
  world.head->cancel(1, world.now);  // its files are on their way
  const std::int64_t since_ms = world.now;
  world.run_until([&] { return world.now - since_ms > 40'000; });
  node.ignores_wants = false;
  wire::Lack lack{content_hash(own)};
  world.head->on_frame(node.peer, wire::encode_header(lack), "", world.now);
  world.drain_head();
  world.run_until([&] { return node.begun == 2; });
  // Asked and cancelled again, it answers in time.
  for (int i = 0; i < 100; ++i) world.step();
  CHECK(world.left.empty());
  world.finish(node, 1);
  world.run_until([&] { return world.answered.contains(1); });
  CHECK(world.left.empty());
}

TEST_CASE("a node that keeps its answer's blobs back is not waited for") {
  World world;
  World::Node& node = world.add_holding("n1");
  node.ignores_wants = true;
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  const std::string own = "made 1";
  answer(world, node, content_hash(own), own.size());
  const std::int64_t since_ms = world.now;
  world.run_until([&] { return !world.left.empty(); });
  CHECK(world.now - since_ms < 65'000);
  check_distrusted(world, node, "files came");
}

TEST_CASE("an answer whose blobs are too large together is a failure, once") {
  World world;
  World::Node& node = world.add_holding("n1");
  world.submit(1, "n1");
  world.run_until([&] { return node.begun == 1; });
  std::vector<wire::BlobRef> blobs(3);
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    blobs[i] = {std::string(64, static_cast<char>('a' + i)),
                wire::kAnswerBytesMax / 3 + 1};
  }
  std::string size = "1025 MiB";
  std::string limit = "1024 MiB";
  SUBCASE("by a little") {}
  SUBCASE("one of them alone, for the journal") {
    blobs[1].size = wire::kBlobBytesMax + 1;
    size = "513 MiB";
    limit = "512 MiB";
  }
  SUBCASE("so that there is no sum") {
    blobs[0].size = ~std::uint64_t{0};
    size = "17592186044416 MiB";
    limit = "512 MiB";
  }
  node.protocol->result(1, "R", "done 1", blobs, world.now);
  world.run_until([&] { return world.refused.contains(1); });
  CHECK(world.refused[1].contains("node n1"));
  CHECK(world.refused[1].contains(size));
  CHECK(world.refused[1].contains(limit));
  CHECK(world.refused[1].contains("--no-local"));
  // It stays, and does other work.
  node.works = true;
  world.submit(2, "n1");
  world.run_until([&] { return world.answered.contains(2); });
  CHECK(world.cuts.empty());
}

TEST_CASE("a request that is too large for a node is a failure") {
  World world;
  world.add("n1", "a");
  world.run_until([&] { return !world.joined.empty(); });
  world.head->submit(
      {1, "n1", "port/build", "T",
       std::make_shared<const std::string>(wire::kBodyBytesMax + 1, 'x')},
      world.now);
  world.run_until([&] { return world.refused.contains(1); });
  CHECK(world.refused[1].contains("17 MiB"));
}

TEST_CASE("answers of another kind go elsewhere, and end their node") {
  Cluster cluster;
  cluster.add_node(
      "liar", [](Blobs&, const BuildRequest& request, const std::stop_token&,
                 const Port::Reply& reply) {
        CheckReply other;
        other.effect = request.effect;
        reply(other);
      });
  REQUIRE(cluster.wait_in("liar"));
  for (std::uint64_t id = 1; id <= 4; ++id) {
    cluster.ask(id, "liar");
    REQUIRE(cluster.wait_answers(id));
    CHECK(cluster.answers_.at(id).failure.code == "node_lost");
    CHECK(cluster.answers_.at(id).failure.message.contains("CheckReply"));
  }
  REQUIRE(cluster.wait_gone("liar"));
  CHECK(cluster.lost_["liar"].contains("not trusted"));
  REQUIRE(cluster.wait_ended("liar"));
  CHECK(cluster.ended_["liar"].contains("does not trust it"));
  const fs::path state_file = cluster.folder_ / "cluster.json";
  while (!read_file(state_file).value_or("").contains("distrusted")) {
    std::this_thread::yield();
  }
  const auto state = nlohmann::json::parse(value(read_file(state_file)));
  CHECK(state["nodes"][0]["name"] == "liar");
  CHECK(state["nodes"][0]["state"] == "distrusted");
  CHECK(state["nodes"][0]["why"].get<std::string>().contains("CheckReply"));
}

TEST_CASE("an answer that is too large for the wire is a failure") {
  Cluster cluster;
  cluster.add_node("n1", [](Blobs&, const BuildRequest& request,
                            const std::stop_token&, const Port::Reply& reply) {
    reply(BuildReply{request.effect, {}, std::string(17 << 20, 'x'), 1});
  });
  REQUIRE(cluster.wait_in("n1"));
  cluster.ask(1, "n1");
  REQUIRE(cluster.wait_answers(1));
  CHECK(cluster.answers_.at(1).failure.code == "refused");
  CHECK(cluster.answers_.at(1).failure.message.contains("18 MiB"));
  CHECK(!cluster.ended_.contains("n1"));
}

}  // namespace
}  // namespace weft
