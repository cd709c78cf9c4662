#include "runtime/bus/fleet_protocol.hpp"

#include <memory>
#include <utility>

namespace weft {
namespace {

using namespace fleet_action;

/// Another process may take a node's name after such a silence: the earlier one
/// is dead, or cut off.
constexpr std::int64_t kReplacedMs = 3'000;
/// A run answers a node that leaves within that time.
constexpr std::int64_t kLeavingMs = 7'000;
/// Time between two last Byes to a node.
constexpr std::int64_t kByeMs = 200;

wire::Frame frame_of(const wire::Header& header) {
  return {wire::encode_header(header), nullptr};
}

wire::Frame frame_of(std::string_view header, std::string body) {
  wire::Frame frame{std::string(header), nullptr};
  if (!body.empty()) {
    frame.body = std::make_shared<const std::string>(std::move(body));
  }
  return frame;
}

}  // namespace

void FleetProtocol::begin_run(const std::string& run) {
  shares_.begin_run(run);
  settle();
}

void FleetProtocol::end_run(const std::string& run) {
  shares_.end_run(run);
  for (auto& [name, node] : nodes_) {
    if (node.link != 0 && links_.at(node.link).run == run) part(node);
  }
  settle();
  act(Changed{});
}

void FleetProtocol::reserve(std::size_t judges) {
  shares_.reserve(judges);
  settle();
}

void FleetProtocol::node_frame(const std::string& peer, std::string_view header,
                               std::string body, std::int64_t now_ms) {
  if (body.size() > wire::kBodyBytesMax) return act(Cut{"a body too long"});
  const auto read = wire::decode_header(header);
  if (!read) return act(Cut{read.error().message});
  if (const auto* hello = std::get_if<wire::Hello>(&*read)) {
    return greet(peer, *hello, now_ms);
  }
  const auto name = peers_.find(peer);
  const auto* bye = std::get_if<wire::Bye>(&*read);
  if (name == peers_.end()) {
    // A stranger that goes waits for an answer; any other is to say hello.
    return act(ToNode{
        peer, bye ? frame_of(wire::Bye{bye->session}) : frame_of(wire::Who{})});
  }
  Node& node = nodes_.at(name->second);
  node.heard_ms = now_ms;
  wire::Frame frame = frame_of(header, std::move(body));
  if (bye) return take_bye(node, *bye, std::move(frame), now_ms);
  if (node.is_parting) return;
  if (std::holds_alternative<wire::Leave>(*read)) {
    node.leaves_ms = now_ms;
    shares_.leave(name->second);
  }
  if (node.link == 0) return to_node(node, wire::Who{});
  act(ToRun{node.link, std::move(frame)});
  if (node.leaves_ms == now_ms) settle();
}

void FleetProtocol::greet(const std::string& peer, const wire::Hello& hello,
                          std::int64_t now_ms) {
  const auto refuse = [&](const std::string& why, bool for_good) {
    act(ToNode{peer, frame_of(wire::Refusal{why, for_good})});
  };
  if (hello.weft != options_.weft) {
    log("refused node " + hello.name + ": its weft is " + hello.weft);
    return refuse("its weft is " + hello.weft + ", the bench's " +
                      options_.weft + ": install the same on both",
                  true);
  }
  auto found = nodes_.find(hello.name);
  if (found != nodes_.end() &&
      found->second.hello.incarnation != hello.incarnation) {
    const Node& earlier = found->second;
    if (earlier.leaves_ms == 0 && now_ms - earlier.heard_ms < kReplacedMs) {
      return refuse("another node is called " + hello.name +
                        ": give one of them another name with --name",
                    false);
    }
    leave(hello.name, "its process is another one now");
    found = nodes_.end();
  }
  const bool is_new = found == nodes_.end();
  if (is_new && nodes_.size() >= options_.nodes_max) {
    return refuse(
        "there are " + std::to_string(nodes_.size()) + " nodes already", false);
  }
  Node& node = nodes_[hello.name];
  if (!node.peer.empty()) peers_.erase(node.peer);
  node.peer = peer;
  peers_[peer] = hello.name;
  node.heard_ms = now_ms;
  node.is_parting = false;
  if (is_new) {
    new_ms_ = now_ms;
    admit(node, hello);
  }
  if (is_finished_) {
    say_end(node);
  } else if (node.link != 0) {
    act(ToRun{node.link, frame_of(hello)});
  } else {
    // So that it knows that it is heard.
    to_node(node, wire::Beat{});
  }
}

void FleetProtocol::admit(Node& node, const wire::Hello& hello) {
  node.hello = hello;
  if (!is_open_ || is_finished_) return;
  node.kind = options_.kind_of(hello);
  shares_.join(hello.name, node.kind);
  log("node " + hello.name + " joined" +
      (node.kind == FleetShares::Kind::unused
           ? ": it can do nothing for this bench"
           : ""));
  settle();
  act(Changed{});
}

void FleetProtocol::take_bye(Node& node, const wire::Bye& bye,
                             wire::Frame frame, std::int64_t now_ms) {
  const std::string name = node.hello.name;
  if (bye.session == wire::kLastByeSession) {
    node.has_heard_end = true;
    parting_.erase(name);
    return;
  }
  if (bye.node.empty()) {
    // An answer: for the run that has ended, if it still listens.
    node.is_parting = false;
    const auto link = links_.find(node.link);
    if (link != links_.end() && link->second.has_ended) {
      act(ToRun{node.link, std::move(frame)});
    }
    return;
  }
  if (bye.incarnation != node.hello.incarnation) return;
  if (node.link == 0 || node.is_parting) {
    to_node(node, wire::Bye{bye.session});
    return leave(name, "it left");
  }
  act(ToRun{node.link, std::move(frame)});  // it answers
  if (node.leaves_ms == 0) node.leaves_ms = now_ms;
  shares_.leave(name);
  settle();
}

void FleetProtocol::run_frame(int number, std::string_view header,
                              std::string body, std::int64_t) {
  const auto found = links_.find(number);
  if (found == links_.end()) return;
  Link& link = found->second;
  const auto read = wire::decode_header(header);
  const auto owner = nodes_.find(link.node);
  if (!read || owner == nodes_.end() || owner->second.link != number) return;
  Node& node = owner->second;
  if (const auto* welcome = std::get_if<wire::Welcome>(&*read)) {
    if (link.run_name.empty()) act(Changed{});
    link.run_name = welcome->run;
    link.session = welcome->session;
  }
  if (const auto* bye = std::get_if<wire::Bye>(&*read)) {
    if (node.leaves_ms != 0) {
      to_node(node, *bye);
      return leave(link.node, "it left");
    }
    wire::Bye stay = *bye;
    stay.more = true;
    link.has_ended = true;
    node.is_parting = true;
    return to_node(node, stay);
  }
  if (node.is_parting) return;
  act(ToNode{node.peer, frame_of(header, std::move(body))});
}

void FleetProtocol::tick(std::int64_t now_ms) {
  std::vector<std::pair<std::string, std::string>> gone;
  for (const auto& [name, node] : nodes_) {
    if (now_ms - node.heard_ms > options_.silence_ms) {
      gone.emplace_back(name, "it is silent");
    } else if (node.leaves_ms != 0 && now_ms - node.leaves_ms > kLeavingMs) {
      gone.emplace_back(name, "it left");
    }
  }
  for (const auto& [name, why] : gone) leave(name, why);
  if (is_finished_) {
    if (now_ms - end_said_ms_ < kByeMs) return;
    end_said_ms_ = now_ms;
    for (const std::string& name : parting_) say_end(nodes_.at(name));
    return;
  }
  if (is_open_ || nodes_.empty() || now_ms - new_ms_ < options_.gather_ms) {
    return;
  }
  std::vector<wire::Hello> all;
  for (const auto& [name, node] : nodes_) all.push_back(node.hello);
  if (!options_.is_enough(all)) return;
  is_open_ = true;
  for (const wire::Hello& hello : all) admit(nodes_.at(hello.name), hello);
}

void FleetProtocol::finish(std::int64_t now_ms) {
  is_finished_ = true;
  end_said_ms_ = now_ms;
  for (auto& [name, node] : nodes_) {
    if (node.link != 0) part(node);
    say_end(node);
  }
}

void FleetProtocol::say_end(const Node& node) {
  if (node.has_heard_end) return;
  parting_.insert(node.hello.name);
  to_node(node, wire::Bye{wire::kLastByeSession});
}

std::vector<FleetProtocol::NodeState> FleetProtocol::nodes() const {
  std::vector<NodeState> states;
  for (const auto& [name, node] : nodes_) {
    if (node.leaves_ms != 0) continue;
    states.push_back({name, node.kind, shares_.run_of(name)});
  }
  return states;
}

/// The node is gone. Its run hears of a polite one by its Bye, and of any other
/// by its silence.
void FleetProtocol::leave(const std::string& name, const std::string& why) {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) return;
  log("node " + name + " is gone: " + why);
  if (found->second.link != 0) close(found->second.link);
  peers_.erase(found->second.peer);
  parting_.erase(name);
  nodes_.erase(found);
  shares_.leave(name);
  settle();
  act(Changed{});
}

void FleetProtocol::settle() {
  if (!is_open_ || is_finished_) return;
  const auto changes = shares_.settle();
  for (const FleetShares::Change& change : changes) {
    Node& node = nodes_.at(change.node);
    if (node.link != 0) part(node);
    node.link = ++last_link_;
    links_[node.link] = {change.to, change.node};
    act(Open{node.link, change.to});
  }
  if (!changes.empty()) act(Changed{});
}

/// Ends what the node does for its run, and tells both.
void FleetProtocol::part(Node& node) {
  Link& link = links_.at(node.link);
  if (!link.has_ended) {
    act(ToRun{node.link, frame_of(wire::Bye{link.session, "", node.hello.name,
                                            node.hello.incarnation})});
  }
  if (!link.has_ended && !link.run_name.empty()) {
    wire::Bye stay{link.session, link.run_name};
    stay.more = true;
    to_node(node, stay);
    node.is_parting = true;
  }
  close(node.link);
  node.link = 0;
}

void FleetProtocol::close(int link) {
  links_.erase(link);
  act(Close{link});
}

void FleetProtocol::to_node(const Node& node, const wire::Header& header) {
  act(ToNode{node.peer, frame_of(header)});
}

}  // namespace weft
