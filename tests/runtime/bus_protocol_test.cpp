#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "messages/vocabulary.hpp"
#include "runtime/bus/head_protocol.hpp"
#include "runtime/bus/node_protocol.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

wire::Hello hello_of(const std::string& name, const std::string& incarnation) {
  wire::Hello hello;
  hello.wire_min = wire::kWireVersionMin;
  hello.wire_max = wire::kWireVersion;
  hello.name = name;
  hello.incarnation = incarnation;
  hello.slots = {{"cpu", 2}};
  return hello;
}

/// A head and its nodes without sockets: frames are lost as often as chance
/// says, the rest comes in order; blobs are maps; a node answers what it is
/// asked at once, with the id and a blob of its own.
struct World {
  explicit World(int loss_percent = 0, std::uint32_t seed = 1)
      : loss(loss_percent), chance(seed) {
    HeadProtocol::Options options;
    options.run = "run";
    options.start = "start";
    options.heartbeat_ms = 100;
    options.silence_ms = 1'000;
    head = std::make_unique<HeadProtocol>(options);
  }

  struct Node {
    std::unique_ptr<NodeProtocol> protocol;
    std::string peer;
    std::map<std::string, std::string> blobs;
    std::map<std::uint64_t, std::string> waiting;  // work -> blob that it needs
    bool works = true;
    bool is_cut = false;
    int begun = 0;
    int done = 0;
    int said = 0;  // frames
    bool has_ended = false;
    bool has_quit = false;
    std::string refused;
  };

  Node& add(const std::string& name, const std::string& incarnation,
            bool once = false) {
    Node& node = nodes[name];
    node = Node();
    node.peer = name + "." + incarnation;
    NodeProtocol::Options options;
    options.hello = hello_of(name, incarnation);
    options.silence_ms = 1'000;
    options.once = once;
    node.protocol = std::make_unique<NodeProtocol>(options);
    return node;
  }

  bool lost() {
    return std::uniform_int_distribution<int>(0, 99)(chance) < loss;
  }

  void submit(std::uint64_t id, const std::string& node,
              const std::string& blob = "") {
    std::string hash;
    if (!blob.empty()) {
      hash = content_hash(blob);
      blobs[hash] = blob;
    }
    asked.insert(id);
    head->submit({id, node, "port/build", "T",
                  std::make_shared<const std::string>(hash)},
                 now);
  }

  void step(std::int64_t ms = 50) {
    now += ms;
    head->tick(now);
    drain_head();
    for (auto& [name, node] : nodes) {
      if (!node.protocol) continue;
      node.protocol->tick(now);
      drain(node);
    }
    head->flush(now);
    drain_head();
  }

  void run_until(const std::function<bool()>& done, int steps = 20'000) {
    for (int i = 0; i < steps && !done(); ++i) step();
    CHECK(done());
  }

  void drain_head() {
    for (auto& action : head->take_actions()) {
      std::visit([this](auto& one) { at_head(one); }, action);
    }
  }

  void at_head(head_action::Send& send) {
    for (auto& [name, node] : nodes) {
      if (node.peer != send.peer || node.is_cut || !node.protocol) continue;
      if (lost()) return;
      node.protocol->on_frame(send.frame.header,
                              send.frame.body ? *send.frame.body : "", now);
      drain(node);
      return;
    }
  }
  void at_head(head_action::Answered& answer) {
    CHECK(answer.body == "done " + std::to_string(answer.request.id));
    CHECK(asked.contains(answer.request.id));
    CHECK(answered.insert(answer.request.id).second);  // once
    const std::string own = "made " + std::to_string(answer.request.id);
    CHECK(blobs.contains(content_hash(own)));
    head->journaled(answer.request.id, now);
  }
  void at_head(head_action::Lost& gone) {
    for (const auto& request : gone.requests) lost_ids.insert(request.id);
    left.push_back(gone.node);
  }
  void at_head(head_action::Joined& in) {
    joined.push_back(in.hello.name + (in.knows_run ? " again" : ""));
  }
  void at_head(head_action::Check& check) {
    std::vector<std::string> lacking;
    for (const auto& hash : check.hashes) {
      if (!blobs.contains(hash)) lacking.push_back(hash);
    }
    head->lacking(check.node, check.id, lacking, now);
    drain_head();
  }
  void at_head(head_action::Store& store) { blobs[store.hash] = store.bytes; }
  void at_head(head_action::Load& load) {
    const auto found = blobs.find(load.hash);
    head->loaded(load.hash,
                 found == blobs.end()
                     ? nullptr
                     : std::make_shared<const std::string>(found->second));
    drain_head();
  }
  void at_head(head_action::Cut& cut) { cuts.push_back(cut.why); }
  void at_head(head_action::Late&) { ++late; }
  void at_head(head_action::Dropped& dropped) {
    dropped_ids.insert(dropped.request.id);
  }
  void at_head(head_action::Leaving&) {}
  void at_head(head_action::Log&) {}

  void drain(Node& node) {
    for (auto& action : node.protocol->take_actions()) {
      std::visit([&](auto& one) { at_node(node, one); }, action);
    }
  }
  void at_node(Node& node, node_action::Send& send) {
    ++node.said;
    if (node.is_cut || lost()) return;
    head->on_frame(node.peer, send.frame.header,
                   send.frame.body ? *send.frame.body : "", now);
    drain_head();
  }
  void at_node(Node& node, node_action::Work& work) {
    ++node.begun;
    if (!node.works) return;
    if (work.body.empty()) return finish(node, work.id);
    node.waiting[work.id] = work.body;
    node.protocol->need(work.body);
  }
  void at_node(Node& node, node_action::Blob& blob) {
    if (!blob.bytes) return;
    CHECK(content_hash(*blob.bytes) == blob.hash);
    for (auto next = node.waiting.begin(); next != node.waiting.end();) {
      const auto work = next++;
      if (work->second != blob.hash) continue;
      const std::uint64_t id = work->first;
      node.waiting.erase(work);
      finish(node, id);
    }
  }
  void finish(Node& node, std::uint64_t id) {
    ++node.done;
    const std::string own = "made " + std::to_string(id);
    node.blobs[content_hash(own)] = own;
    node.protocol->result(id, "R", "done " + std::to_string(id),
                          {{content_hash(own), own.size()}}, now);
    drain(node);
  }
  void at_node(Node& node, node_action::Load& load) {
    const auto found = node.blobs.find(load.hash);
    node.protocol->loaded(
        load.hash, found == node.blobs.end()
                       ? nullptr
                       : std::make_shared<const std::string>(found->second));
    drain(node);
  }
  void at_node(Node& node, node_action::Quit& quit) {
    CHECK(!node.has_quit);
    node.has_quit = true;
    node.refused = quit.refused;
  }
  void at_node(Node& node, node_action::End&) { node.has_ended = true; }
  void at_node(Node& node, node_action::Stop& stop) {
    stopped.insert(stop.id);
    (void)node;
  }
  template <class Other>
  void at_node(Node&, Other&) {}

  int loss;
  std::mt19937 chance;
  std::int64_t now = 1'000;
  std::unique_ptr<HeadProtocol> head;
  std::map<std::string, Node> nodes;
  std::map<std::string, std::string> blobs;  // the head's
  std::set<std::uint64_t> asked, answered, lost_ids, dropped_ids, stopped;
  std::vector<std::string> joined, left, cuts;
  int late = 0;
};

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
  World::Node& node = world.add("n1", "a");
  node.works = false;
  world.run_until([&] { return !world.joined.empty(); });
  for (std::uint64_t id = 1; id <= 100; ++id) world.submit(id, "n1");
  for (int i = 0; i < 20; ++i) world.step();
  CHECK(node.begun == 4);
}

TEST_CASE("a silent node is lost; back, it is told to stop, and is in again") {
  World world;
  World::Node& node = world.add("n1", "a");
  node.works = false;
  world.run_until([&] { return !world.joined.empty(); });
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
  World::Node& node = world.add("n1", "a");
  node.works = false;
  world.run_until([&] { return !world.joined.empty(); });
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

TEST_CASE("a node whose head never comes back gives up in the end") {
  World world;
  NodeProtocol::Options options;
  options.hello = hello_of("n1", "a");
  options.once = true;
  options.patience_ms = 60'000;
  World::Node& node = world.add("n1", "a");
  node.protocol = std::make_unique<NodeProtocol>(options);
  world.run_until([&] { return !world.joined.empty(); });
  node.is_cut = true;
  const int before = node.said;
  const std::int64_t began_ms = world.now;
  world.run_until([&] { return node.has_quit; });
  CHECK(node.has_ended);
  CHECK(world.now - began_ms <= 61'000);
  // Two words a second: it does not keep anything busy meanwhile.
  CHECK(node.said - before <= 130);
}

TEST_CASE("a node that leaves hands back what it has not done, and goes") {
  World world;
  World::Node& node = world.add("n1", "a");
  node.works = false;
  world.run_until([&] { return !world.joined.empty(); });
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
  World::Node& node = world.add("n1", "a");
  node.works = false;
  world.run_until([&] { return !world.joined.empty(); });
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

TEST_CASE("a node that is in no run leaves at once") {
  World world;
  World::Node& node = world.add("n1", "a");
  node.protocol->leave(world.now);
  world.drain(node);
  CHECK(node.has_quit);
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
  World::Node& node = world.add("n1", "a");
  node.works = false;
  world.run_until([&] { return !world.joined.empty(); });
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

TEST_CASE("a header of each kind is read as it was written, short or not") {
  const std::string hash(64, 'a');
  const std::vector<wire::Header> headers = {
      hello_of("n1", "a"),
      wire::Welcome{5, "run", 1, 2},
      wire::Refusal{"why", true},
      wire::Who{},
      wire::Beat{3},
      wire::Request{1, 2, 3, "port/build", "BuildRequest"},
      wire::Reply{1, 2, 3, "BuildReply", {{hash, 9}}},
      wire::Cancel{1, 2, 3},
      wire::Ack{1, {{1, 4}, {6, 6}}},
      wire::Want{hash, 7},
      wire::Chunk{hash, 0, 9},
      wire::Lack{hash},
      wire::Leave{1},
      wire::Bye{1}};
  CHECK(headers.size() == std::variant_size_v<wire::Header> - 1);
  for (const wire::Header& header : headers) {
    const std::string bytes = wire::encode_header(header);
    const auto read = wire::decode_header(bytes);
    REQUIRE(read);
    CHECK(read->index() == header.index());
    CHECK(wire::encode_header(*read) == bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK(!wire::decode_header(bytes.substr(0, size)));
    }
  }
}

TEST_CASE("a frame of a later wire is ignored and counted") {
  World world;
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, 99);
  world.head->on_frame("p", {buffer.data(), buffer.size()}, "", world.now);
  CHECK(world.head->counters().unknown == 1);
  CHECK(world.head->counters().fouls == 0);
}

TEST_CASE("hashes are found wherever they are in a message") {
  CheckRequest request;
  request.subject.against = content_hash("a");
  request.subject.source = content_hash("b");
  auto found = wire::hashes_in(encode(request));
  std::set<std::string> expected = {content_hash("a"), content_hash("b")};
  CHECK(std::set<std::string>(found.begin(), found.end()) == expected);
  CHECK(wire::hashes_in("\xc1 no msgpack").empty());
}

}  // namespace
}  // namespace weft
