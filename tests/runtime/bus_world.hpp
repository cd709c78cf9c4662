// The protocol's two sides without sockets, in a world where frames are lost.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "runtime/bus/head_protocol.hpp"
#include "runtime/bus/node_protocol.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {

inline wire::Hello hello_of(const std::string& name,
                            const std::string& incarnation) {
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
    bool ignores_wants = false;  // it sends no blob, and does not say why
    bool is_cut = false;
    int begun = 0;
    int done = 0;
    int frames_sent = 0;  // frames
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

  /// One that is in, and holds what it is sent until finish().
  Node& add_holding(const std::string& name) {
    Node& node = add(name, "a");
    node.works = false;
    run_until([&] { return !joined.empty(); });
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
      std::visit([this](auto& item) { at_head(item); }, action);
    }
  }

  static bool is_piece(const wire::Frame& frame) {
    const auto header = wire::decode_header(frame.header);
    return header && std::holds_alternative<wire::Chunk>(*header);
  }
  static bool is_want(const wire::Frame& frame) {
    const auto header = wire::decode_header(frame.header);
    return header && std::holds_alternative<wire::Want>(*header);
  }
  /// The blob that a request makes.
  std::string made(std::uint64_t id) const {
    return "made " + std::to_string(id) + std::string(result_bytes, 'r');
  }

  void at_head(head_action::Send& send) {
    pieces += is_piece(send.frame) ? 1 : 0;
    for (auto& [name, node] : nodes) {
      if (node.peer != send.peer || node.is_cut || !node.protocol) continue;
      if (lost() || (node.ignores_wants && is_want(send.frame))) return;
      node.protocol->on_frame(send.frame.header,
                              send.frame.body ? *send.frame.body : "", now);
      drain(node);
      return;
    }
  }
  void at_head(head_action::Answered& answer) {
    if (!answer.refused.empty()) {
      refused[answer.request.id] = answer.refused;
      head->journaled(answer.request.id, now);
      return;
    }
    CHECK(answer.body == "done " + std::to_string(answer.request.id));
    CHECK(asked.contains(answer.request.id));
    CHECK(answered.insert(answer.request.id).second);  // once
    CHECK(blobs.contains(content_hash(made(answer.request.id))));
    head->journaled(answer.request.id, now);
  }
  void at_head(head_action::NodeGone& gone) {
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
      std::visit([&](auto& item) { at_node(node, item); }, action);
    }
  }
  void at_node(Node& node, node_action::Send& send) {
    ++node.frames_sent;
    pieces += is_piece(send.frame) ? 1 : 0;
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
    const std::string own = made(id);
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
  std::map<std::uint64_t, std::string> refused;  // answers, why
  std::vector<std::string> joined, left, cuts;
  int late = 0;
  int pieces = 0;  // of blobs, sent by either side
  std::size_t result_bytes = 0;
};

}  // namespace weft
