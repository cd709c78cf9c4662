#include "runtime/bus/head_protocol.hpp"

#include <algorithm>

#include "messages/shown_text.hpp"

namespace weft {
namespace {

using namespace head_action;

/// A peer that does not say hello is asked for it this often.
constexpr std::int64_t kAskWhoMs = 500;
/// Peers that were asked; beyond, the list begins anew.
constexpr std::size_t kAskedMax = 4'096;
/// Another process may take a node's name after this many missed beats: the
/// earlier one is dead, or cut off.
constexpr int kMissedBeats = 3;
/// The run's end is said this often, and no longer than that: a node that does
/// not hear it finds out by its own patience.
constexpr std::int64_t kByeMs = 200;
constexpr std::int64_t kPartingMs = 2'000;
/// Requests of a lost node that it is told to stop when it is back.
constexpr std::size_t kGivenUpMax = 4'096;
/// Replies to one request whose blobs the node then does not have.
constexpr int kLossesMax = 3;

constexpr const char* kTooManyJoins =
    "too many nodes have joined and left this run: try again later";

}  // namespace

HeadProtocol::HeadProtocol(Options options)
    : options_(std::move(options)),
      next_session_(options_.first_session),
      joins_(static_cast<int>(options_.nodes_max), options_.joins_per_second) {}

void HeadProtocol::expect(const std::string& name, std::int64_t now_ms) {
  Node& node = nodes_[name];
  node.hello.name = name;
  node.heard_ms = now_ms;
}

HeadProtocol::Node* HeadProtocol::node_of(const std::string& peer) {
  const auto name = peers_.find(peer);
  if (name == peers_.end()) return nullptr;
  const auto node = nodes_.find(name->second);
  return node == nodes_.end() ? nullptr : &node->second;
}

void HeadProtocol::on_frame(const std::string& peer, std::string_view header,
                            std::string body, std::int64_t now_ms) {
  if (body.size() > wire::kBodyBytesMax) return foul(peer, "a body too long");
  const auto read_header = wire::decode_header(header);
  if (!read_header) return foul(peer, read_header.error().message);
  if (std::holds_alternative<wire::Unknown>(*read_header)) {
    ++counters_.unknown;
    return;
  }
  if (finished_ms_ != 0) return part(peer, *read_header);
  if (const auto* hello = std::get_if<wire::Hello>(&*read_header)) {
    return greet(peer, *hello, now_ms);
  }
  if (const auto* bye = std::get_if<wire::Bye>(&*read_header)) {
    return take_bye(peer, *bye);
  }
  Node* node = node_of(peer);
  if (!node) return ask_who(peer, now_ms);
  node->heard_ms = now_ms;
  touch(*node);
  read(*node, *read_header, std::move(body), now_ms);
}

void HeadProtocol::ask_who(const std::string& peer, std::int64_t now_ms) {
  if (asked_who_ms_.size() >= kAskedMax) asked_who_ms_.clear();
  const auto [found, is_new] = asked_who_ms_.try_emplace(peer, now_ms);
  if (!is_new && now_ms - found->second < kAskWhoMs) return;
  found->second = now_ms;
  act(Send{peer, {wire::encode_header(wire::Who{}), nullptr}});
}

void HeadProtocol::foul(const std::string& peer, const std::string& why) {
  ++counters_.protocol_errors;
  Node* node = node_of(peer);
  if (node) node->peer.clear();
  peers_.erase(peer);
  act(Cut{peer, why});
  if (node) add_fault(node->hello.name, why);
}

void HeadProtocol::add_fault(const std::string& name, const std::string& why) {
  if (!nodes_.contains(name) || !conduct_.add_fault(name)) return;
  distrust(name, why + ", and so on: " +
                     std::to_string(NodeConduct::kFaultsMax + 1) + " times");
}

/// Its work counts as lost with it: the work may be what makes the node lie.
/// `name` is a copy, because it may be the node's own.
void HeadProtocol::distrust(std::string name, const std::string& why) {
  const Node& node = nodes_.at(name);
  conduct_.distrust(node.hello, why);
  if (!node.peer.empty()) refuse(node.peer, conduct_.why_refused(name), true);
  lose(name, "it is not trusted any more: " + why, false);
  given_up_.erase(name);
}

void HeadProtocol::refuse(const std::string& peer, const std::string& why,
                          bool for_good) {
  ++counters_.refused;
  act(Send{peer, {wire::encode_header(wire::Refusal{why, for_good}), nullptr}});
}

void HeadProtocol::greet(const std::string& peer, const wire::Hello& hello,
                         std::int64_t now_ms) {
  std::string why = conduct_.why_refused(hello.name);
  if (!why.empty()) return refuse(peer, why, true);
  why = wire::fault_of_versions(hello);
  if (why.empty() && options_.refuses) why = options_.refuses(hello);
  if (!why.empty()) {
    log("refused node " + hello.name + ": " + why);
    return refuse(peer, why, true);
  }
  const auto found = nodes_.find(hello.name);
  if (found == nodes_.end()) {
    if (nodes_.size() >= options_.nodes_max) {
      return refuse(
          peer, "there are " + std::to_string(nodes_.size()) + " nodes already",
          false);
    }
    if (!joins_.take(now_ms)) return refuse(peer, kTooManyJoins, false);
    nodes_[hello.name].hello.name = hello.name;
    return admit(peer, hello, now_ms);
  }
  Node& node = found->second;
  const bool is_other = !node.hello.incarnation.empty() &&
                        node.hello.incarnation != hello.incarnation;
  if (!is_other) return admit(peer, hello, now_ms);
  const bool lives =
      !node.is_leaving &&
      now_ms - node.heard_ms < kMissedBeats * options_.heartbeat_ms;
  if (lives) {
    return refuse(peer,
                  "another node is called " + hello.name +
                      ": give one of them another name with --name",
                  false);
  }
  if (!joins_.take(now_ms)) return refuse(peer, kTooManyJoins, false);
  lose(hello.name, "its process is another one now", node.is_leaving);
  nodes_[hello.name].hello.name = hello.name;
  admit(peer, hello, now_ms);
}

/// The node's record is there; this connection is its now.
void HeadProtocol::admit(const std::string& peer, const wire::Hello& hello,
                         std::int64_t now_ms) {
  Node* node = &nodes_[hello.name];
  const bool knows_run = hello.run == options_.run;
  const bool was_in = !node->hello.incarnation.empty();
  // Expected from before the head died, but it is not the process that was in.
  if (!was_in && !knows_run && !node->work.empty()) {
    lose(hello.name, "its process is another one now", false);
    node = &nodes_[hello.name];
  }
  peers_.erase(node->peer);
  node->hello = hello;
  node->peer = peer;
  node->session = next_session_++;
  node->link = Link();
  node->receiver.reconnected();
  node->heard_ms = node->piece_ms = now_ms;
  peers_[peer] = hello.name;
  if (!was_in) act(Joined{hello, knows_run});
  say(*node,
      {wire::encode_header(wire::Welcome{node->session, options_.run,
                                         options_.heartbeat_ms,
                                         options_.silence_ms}),
       std::make_shared<const std::string>(options_.start)},
      now_ms);
  ask_all_again(*node, now_ms);
  for (const std::uint64_t id : given_up_[hello.name]) {
    say_cancel(*node, id, now_ms);
  }
  given_up_.erase(hello.name);
  feed(*node, now_ms);
  touch(*node);
}

void HeadProtocol::read(Node& node, const wire::Header& header,
                        std::string body, std::int64_t now_ms) {
  const std::string peer = node.peer;
  // Of an earlier session, or of one whose welcome was lost.
  const auto is_current = [&](std::uint64_t session) {
    if (session == node.session) return true;
    ask_who(peer, now_ms);
    return false;
  };
  if (const auto* beat = std::get_if<wire::Beat>(&header)) {
    (void)is_current(beat->session);
  } else if (const auto* reply = std::get_if<wire::Reply>(&header)) {
    if (is_current(reply->session)) {
      take_reply(node, *reply, std::move(body), now_ms);
    }
  } else if (const auto* ack = std::get_if<wire::Ack>(&header)) {
    if (is_current(ack->session)) node.link.acknowledged(ack->ranges);
  } else if (const auto* want = std::get_if<wire::Want>(&header)) {
    node.wanted_ms = now_ms;
    bool load = false;
    for (auto& answer : sender_.asked(peer, *want, load)) {
      act(Send{std::move(answer.peer), std::move(answer.frame)});
    }
    if (load) act(Load{want->hash});
  } else if (const auto* chunk = std::get_if<wire::Chunk>(&header)) {
    take_chunk(node, *chunk, body, now_ms);
  } else if (const auto* lack = std::get_if<wire::Lack>(&header)) {
    take_lack(node, lack->hash);
  } else if (const auto* leave = std::get_if<wire::Leave>(&header)) {
    if (!is_current(leave->session) || node.is_leaving) return;
    node.is_leaving = true;
    act(Leaving{node.hello.name});
  } else {
    foul(peer, "a frame that only a head sends");
  }
}

void HeadProtocol::take_reply(Node& node, const wire::Reply& reply,
                              std::string body, std::int64_t now_ms) {
  switch (node.link.take(reply.seq)) {
    case Link::Taken::foolish:
      return foul(node.peer, "a sequence number out of reach");
    case Link::Taken::again:
      ++counters_.doubles;
      return;
    case Link::Taken::fresh:
      break;
  }
  const auto found = node.work.find(reply.id);
  if (found == node.work.end()) {
    ++counters_.late;
    node.link.settle(reply.seq);
    act(Late{node.hello.name, reply.id});
    return;
  }
  Work& work = found->second;
  work.reply_seq = reply.seq;
  if (work.has_reply) {
    ++counters_.doubles;
    return;  // acknowledged when it is journaled
  }
  if (work.is_sent) --node.in_flight;
  std::erase(node.queue, reply.id);  // its answer was faster than the asking
  work.has_reply = true;
  work.is_sent = true;
  work.type = reply.type;
  work.body = std::move(body);
  std::string too_large = wire::why_too_large(node.hello.name, reply);
  if (!too_large.empty()) {
    complete(node, work, std::move(too_large));
  } else if (reply.blobs.empty()) {
    complete(node, work);
  } else {
    Check check{node.hello.name, reply.id, {}};
    work.blobs = reply.blobs;
    for (const wire::BlobRef& blob : reply.blobs) {
      work.missing.insert(blob.hash);
      check.hashes.push_back(blob.hash);
    }
    act(std::move(check));
  }
  feed(node, now_ms);
}

void HeadProtocol::lacking(const std::string& name, std::uint64_t id,
                           const std::vector<std::string>& hashes,
                           std::int64_t now_ms) {
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) return;
  const auto found = node->second.work.find(id);
  if (found == node->second.work.end()) return;
  Work& work = found->second;
  if (!work.has_reply || work.is_answered) return;
  work.missing = {hashes.begin(), hashes.end()};
  want_missing(node->second, work, now_ms);
  if (work.missing.empty()) complete(node->second, work);
  touch(node->second);
}

void HeadProtocol::take_chunk(Node& node, const wire::Chunk& chunk,
                              const std::string& body, std::int64_t now_ms) {
  if (node.receiver.wants(chunk.hash)) node.piece_ms = now_ms;
  auto taken = node.receiver.take(chunk, body, now_ms);
  if (!taken) return foul(node.peer, taken.error().message);
  if (!*taken) return;
  ++counters_.blobs_taken;
  act(Store{chunk.hash, std::move(**taken)});
  for (auto& [id, work] : node.work) {
    if (work.missing.erase(chunk.hash) == 0) continue;
    if (work.missing.empty()) complete(node, work);
  }
}

/// It answered with a blob that it does not have any more: it has to do the
/// work again.
void HeadProtocol::take_lack(Node& node, const std::string& hash) {
  node.receiver.forget(hash);
  for (auto& [id, work] : node.work) {
    if (!work.missing.contains(hash) || work.is_answered) continue;
    if (++work.losses > kLossesMax) {
      return distrust(node.hello.name, "it answered " +
                                           std::to_string(work.losses) +
                                           " times with files that it lacks");
    }
    log("node " + node.hello.name + " lost a blob of its answer to event " +
        std::to_string(id) + "; it is asked again");
    ask_again(node, work);
  }
  touch(node);
}

void HeadProtocol::complete(Node& node, Work& work, std::string refused) {
  if (work.is_answered) return;
  work.is_answered = true;
  node.cancelled_ms.erase(work.request.id);
  ++node.answered;
  act(Answered{work.request, std::move(work.type), std::move(work.body),
               std::move(refused)});
}

void HeadProtocol::submit(NodeRequest request, std::int64_t now_ms) {
  const auto found = nodes_.find(request.node);
  if (found == nodes_.end()) {
    // It never had it: whatever became of it, this was not why.
    const std::string name = request.node;
    act(NodeGone{name, "it is not in any more", true, false, {}});
    std::get<NodeGone>(actions_.back()).requests.push_back(std::move(request));
    return;
  }
  Node& node = found->second;
  const std::uint64_t id = request.id;
  if (node.work.contains(id)) return;
  if (request.body && request.body->size() > wire::kBodyBytesMax) {
    const std::string why = wire::too_large_text(
        "the request", request.body->size(), wire::kBodyBytesMax);
    return act(Answered{std::move(request), "", "", why});
  }
  where_[id] = request.node;
  node.work[id].request = std::move(request);
  node.queue.push_back(id);
  feed(node, now_ms);
}

/// Sends what fits into the node's credit.
void HeadProtocol::feed(Node& node, std::int64_t now_ms) {
  if (node.peer.empty() || node.session == 0 || node.is_leaving) return;
  while (!node.queue.empty() &&
         node.in_flight < credit(node, options_.prefetch)) {
    Work& work = node.work.at(node.queue.front());
    node.queue.pop_front();
    work.is_sent = true;
    ++node.in_flight;
    const std::uint64_t seq = node.link.next_seq();
    wire::Frame frame{wire::encode_header(
                          wire::Request{node.session, seq, work.request.id,
                                        work.request.port, work.request.type}),
                      work.request.body};
    node.link.sent(seq, frame, now_ms);
    say(node, std::move(frame), now_ms);
    if (work.is_cancelled) say_cancel(node, work.request.id, now_ms);
  }
}

void HeadProtocol::say_cancel(Node& node, std::uint64_t id,
                              std::int64_t now_ms) {
  const std::uint64_t seq = node.link.next_seq();
  wire::Frame frame{wire::encode_header(wire::Cancel{node.session, seq, id}),
                    nullptr};
  if (node.work.contains(id)) node.cancelled_ms.try_emplace(id, now_ms);
  node.link.sent(seq, frame, now_ms);
  say(node, std::move(frame), now_ms);
}

void HeadProtocol::cancel(std::uint64_t id, std::int64_t now_ms) {
  const auto where = where_.find(id);
  if (where == where_.end()) return;
  Node& node = nodes_.at(where->second);
  Work& work = node.work.at(id);
  if (work.is_answered) return;
  if (work.has_reply) {        // its blobs are on their way
    work.is_cancelled = true;  // should they be lost, and it be asked again
    node.cancelled_ms.try_emplace(id, now_ms);
    return;
  }
  if (!work.is_sent) {
    std::erase(node.queue, id);
    act(Dropped{std::move(work.request)});
    node.cancelled_ms.erase(id);
    node.work.erase(id);
    where_.erase(where);
    return;
  }
  work.is_cancelled = true;  // where the node is away: with the request
  if (!node.peer.empty()) say_cancel(node, id, now_ms);
}

void HeadProtocol::journaled(std::uint64_t id, std::int64_t) {
  const auto where = where_.find(id);
  if (where == where_.end()) return;
  Node& node = nodes_.at(where->second);
  const auto work = node.work.find(id);
  if (!work->second.is_answered) return;
  if (work->second.reply_seq != 0) node.link.settle(work->second.reply_seq);
  node.work.erase(work);
  where_.erase(where);
  touch(node);
}

void HeadProtocol::loaded(const std::string& hash, BlobSender::Bytes bytes) {
  if (bytes) ++counters_.blobs_sent;
  for (auto& answer : sender_.loaded(hash, std::move(bytes))) {
    act(Send{std::move(answer.peer), std::move(answer.frame)});
  }
}

void HeadProtocol::lose(const std::string& name, const std::string& why,
                        bool politely, bool disk_full) {
  auto gone = nodes_.extract(name);
  Node& node = gone.mapped();
  NodeGone loss{name, why, politely, disk_full, {}};
  auto& given_up = given_up_[name];
  for (auto& [id, work] : node.work) {
    where_.erase(id);
    if (work.is_answered) continue;  // the journal gets it all the same
    if (given_up.size() < kGivenUpMax) given_up.push_back(id);
    work.request.was_sent = work.is_sent;
    loss.requests.push_back(std::move(work.request));
  }
  if (given_up.empty() || politely) given_up_.erase(name);
  peers_.erase(node.peer);
  dirty_.erase(name);
  log("node " + name + " is lost: " + why +
      (loss.requests.empty() ? ""
                             : "; " + std::to_string(loss.requests.size()) +
                                   " requests go elsewhere"));
  act(std::move(loss));
}

void HeadProtocol::finish(std::int64_t now_ms) {
  finished_ms_ = bye_ms_ = now_ms;
  for (const auto& [name, node] : nodes_) {
    if (node.peer.empty()) continue;
    parting_.insert(name);
    say_bye(node.peer, node.session);
  }
}

bool HeadProtocol::is_parted(std::int64_t now_ms) const {
  return parting_.empty() || now_ms - finished_ms_ >= kPartingMs;
}

/// Whatever is said after the end: it has heard of it, or has to.
void HeadProtocol::part(const std::string& peer, const wire::Header& header) {
  const auto* hello = std::get_if<wire::Hello>(&header);
  if (hello) {
    peers_[peer] = hello->name;
    if (hello->run == options_.run) return say_bye(peer, 0);
    parting_.erase(hello->name);
  } else if (const auto* bye = std::get_if<wire::Bye>(&header)) {
    const auto name = peers_.find(peer);
    if (name != peers_.end()) parting_.erase(name->second);
    if (!bye->node.empty()) say_bye(peer, bye->session);
  }
}

/// A node goes of itself. Of whatever session: the welcome to this one may be
/// under way.
void HeadProtocol::take_bye(const std::string& peer, const wire::Bye& bye) {
  const auto found = nodes_.find(bye.node);
  if (found != nodes_.end()) {
    const std::string& known = found->second.hello.incarnation;
    // One that an earlier head let in has not shown itself to this one.
    if (known.empty() || known == bye.incarnation) {
      lose(bye.node,
           "it left" + (bye.why.empty() ? "" : ": " + terminal_line(bye.why)),
           true, !bye.why.empty());
    }
  }
  say_bye(peer, bye.session);
}

void HeadProtocol::say_bye(const std::string& peer, std::uint64_t session) {
  act(Send{peer,
           {wire::encode_header(wire::Bye{session, options_.run}), nullptr}});
}

void HeadProtocol::say(Node& node, wire::Frame frame, std::int64_t now_ms) {
  node.spoken_ms = now_ms;
  act(Send{node.peer, std::move(frame)});
}

void HeadProtocol::touch(Node& node) {
  if (node.is_dirty) return;
  node.is_dirty = true;
  dirty_.insert(node.hello.name);
}

void HeadProtocol::flush(std::int64_t now_ms) {
  if (finished_ms_ != 0) return;
  for (const std::string& name : dirty_) {
    const auto node = nodes_.find(name);
    if (node != nodes_.end()) flush_node(node->second, now_ms, false);
  }
  dirty_.clear();
}

/// Acknowledgements wait for others, until the next tick at most.
void HeadProtocol::flush_node(Node& node, std::int64_t now_ms, bool is_tick) {
  node.is_dirty = false;
  if (node.peer.empty()) return;
  std::vector<wire::Range> ranges;
  if (is_tick || node.acks_now || node.link.owes_many_acks()) {
    ranges = node.link.take_acks();
    node.acks_now = false;
  }
  if (!ranges.empty()) {
    say(node,
        {wire::encode_header(wire::Ack{node.session, std::move(ranges)}),
         nullptr},
        now_ms);
  }
  for (const wire::Want& want : node.receiver.ask(now_ms)) {
    say(node, {wire::encode_header(want), nullptr}, now_ms);
  }
  // After the acknowledgements: what is asked again must find its answer gone.
  feed(node, now_ms);
}

void HeadProtocol::tick(std::int64_t now_ms) {
  if (finished_ms_ != 0) {
    if (now_ms - bye_ms_ < kByeMs) return;
    bye_ms_ = now_ms;
    for (const std::string& name : parting_) {
      const Node& node = nodes_.at(name);
      say_bye(node.peer, node.session);
    }
    return;
  }
  std::vector<std::string> silent;
  std::map<std::string, std::string> broken;
  for (auto& [name, node] : nodes_) {
    if (now_ms - node.heard_ms > options_.silence_ms) {
      silent.push_back(name);
      continue;
    }
    if (std::string why =
            broken_word(node, options_.cancel_ms, options_.silence_ms, now_ms);
        !why.empty()) {
      broken[name] = std::move(why);
      continue;
    }
    if (node.peer.empty()) continue;
    for (wire::Frame& frame : node.link.due(now_ms)) {
      ++counters_.resent;
      say(node, std::move(frame), now_ms);
    }
    flush_node(node, now_ms, true);
    if (now_ms - node.spoken_ms >= options_.heartbeat_ms) {
      say(node, {wire::encode_header(wire::Beat{node.session}), nullptr},
          now_ms);
    }
  }
  dirty_.clear();
  for (const std::string& name : silent) {
    lose(name,
         "silent for " + std::to_string(options_.silence_ms / 1000) + " s",
         nodes_.at(name).is_leaving);
  }
  for (const auto& [name, why] : broken) distrust(name, why);
}

std::vector<HeadProtocol::NodeState> HeadProtocol::nodes(
    std::int64_t now_ms) const {
  std::vector<NodeState> states;
  for (const auto& [name, node] : nodes_) {
    states.push_back({node.hello, !node.peer.empty(), node.is_leaving,
                      now_ms - node.heard_ms, node.in_flight, node.queue.size(),
                      node.answered});
  }
  for (const auto& [name, found] : conduct_.distrusted()) {
    NodeState& state = states.emplace_back();
    state.hello = found.hello;
    state.distrusted = found.why;
  }
  return states;
}

}  // namespace weft
