// The head's side of the wire as a state machine: who is in, what each node was
// asked, what it answered. Pure: frames, wishes and the time come in, actions
// go out; whoever drives it owns the sockets. All of it is the one thread's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/bus/blob_sender.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/bus/head_node.hpp"
#include "runtime/bus/node_conduct.hpp"
#include "runtime/bus/rate_limit.hpp"

namespace weft {

/// What a head's driver has to do.
namespace head_action {
struct Send {
  std::string peer;
  wire::Frame frame;
};
/// The peer sent what no honest one does: its connection is to be closed.
struct Cut {
  std::string peer;
  std::string why;
};
struct Joined {
  wire::Hello hello;
  bool knows_run = false;  ///< the same process was in before: it goes on
};
/// It wants nothing new.
struct Leaving {
  std::string node;
};
/// It is gone: what it was asked will not be answered.
struct NodeGone {
  std::string node;
  std::string why;
  bool politely = false;  ///< it said that it would go
  /// It went for want of room on its disk, which what it was sent may have
  /// taken.
  bool disk_full = false;
  std::vector<NodeRequest> requests;
};
/// The answer to a request, once. Its blobs were stored before.
struct Answered {
  NodeRequest request;
  std::string type;
  std::string body;
  std::string refused{};  ///< why no answer is taken; empty: there is one
};
/// An answer that nobody waits for any more.
struct Late {
  std::string node;
  std::uint64_t id = 0;
};
/// A request that was cancelled before it was sent.
struct Dropped {
  NodeRequest request;
};
/// Which of these are lacking here? Answered by lacking().
struct Check {
  std::string node;
  std::uint64_t id = 0;
  std::vector<std::string> hashes;
};
struct Store {
  std::string hash;
  std::string bytes;
};
/// Answered by loaded().
struct Load {
  std::string hash;
};
/// For the person who runs the head.
struct Log {
  std::string text;
};
}  // namespace head_action

using HeadAction =
    std::variant<head_action::Send, head_action::Cut, head_action::Joined,
                 head_action::Leaving, head_action::NodeGone,
                 head_action::Answered, head_action::Late, head_action::Dropped,
                 head_action::Check, head_action::Store, head_action::Load,
                 head_action::Log>;

class HeadProtocol {
 public:
  struct Options {
    std::string run;    ///< the run's own name, the same after a resume
    std::string start;  ///< its first message: what nodes make ports from
    std::uint64_t first_session = 1;  ///< larger than any earlier head's
    std::int64_t heartbeat_ms = 1'000;
    std::int64_t silence_ms = 15'000;
    int prefetch = 2;  ///< requests that a node has beyond its slots
    std::int64_t cancel_ms = NodeConduct::kCancelMs;
    std::size_t nodes_max = 4'096;
    /// Joins beyond the first `nodes_max`: each is kept in the journal.
    int joins_per_second = 1;
    /// Why a node that says this may not join; empty: it may.
    std::function<std::string(const wire::Hello&)> refuses;
  };
  /// Counted since the beginning.
  struct Counters {
    std::uint64_t protocol_errors = 0;  ///< connections cut
    std::uint64_t unknown = 0;          ///< frames of a later wire
    std::uint64_t resent = 0;
    std::uint64_t doubles = 0;
    std::uint64_t late = 0;
    std::uint64_t refused = 0;  ///< hellos
    std::uint64_t blobs_sent = 0;
    std::uint64_t blobs_taken = 0;
  };
  /// For people: `weft cluster`.
  struct NodeState {
    wire::Hello hello;
    bool is_connected = false;
    bool is_leaving = false;
    std::int64_t silent_ms = 0;
    std::size_t asked = 0;    ///< sent, not yet answered
    std::size_t waiting = 0;  ///< behind its slots
    std::uint64_t answered = 0;
    std::string distrusted{};  ///< why; empty: it is trusted
  };

  explicit HeadProtocol(Options options);

  /// A node that was in when an earlier head died: it is waited for as if it
  /// had been heard now.
  void expect(const std::string& node, std::int64_t now_ms);

  void on_frame(const std::string& peer, std::string_view header,
                std::string body, std::int64_t now_ms);
  void submit(NodeRequest request, std::int64_t now_ms);
  void cancel(std::uint64_t id, std::int64_t now_ms);
  /// The answer to that request is in the journal: the node may forget it.
  void journaled(std::uint64_t id, std::int64_t now_ms);
  void lacking(const std::string& node, std::uint64_t id,
               const std::vector<std::string>& hashes, std::int64_t now_ms);
  void loaded(const std::string& hash, BlobSender::Bytes bytes);
  /// The node answered with something that is no answer.
  void add_fault(const std::string& node, const std::string& why);
  /// The run has ended: all nodes are told until they say that they heard it.
  void finish(std::int64_t now_ms);
  /// After finish(): all have heard it, or had time enough.
  bool is_parted(std::int64_t now_ms) const;

  /// What has become due: beats, acknowledgements, resends, silence.
  void tick(std::int64_t now_ms);
  /// The same for the nodes that something happened to since; cheap.
  void flush(std::int64_t now_ms);

  std::vector<HeadAction> take_actions() { return std::move(actions_); }
  const Counters& counters() const { return counters_; }
  std::vector<NodeState> nodes(std::int64_t now_ms) const;

 private:
  using Work = HeadWork;
  using Node = HeadNode;

  void part(const std::string& peer, const wire::Header& header);
  void take_bye(const std::string& peer, const wire::Bye& bye);
  void say_bye(const std::string& peer, std::uint64_t session);
  void greet(const std::string& peer, const wire::Hello& hello,
             std::int64_t now_ms);
  void admit(const std::string& peer, const wire::Hello& hello,
             std::int64_t now_ms);
  void refuse(const std::string& peer, const std::string& why, bool for_good);
  void ask_who(const std::string& peer, std::int64_t now_ms);
  void foul(const std::string& peer, const std::string& why);
  void read(Node& node, const wire::Header& header, std::string body,
            std::int64_t now_ms);
  void take_reply(Node& node, const wire::Reply& reply, std::string body,
                  std::int64_t now_ms);
  void take_chunk(Node& node, const wire::Chunk& chunk, const std::string& body,
                  std::int64_t now_ms);
  void take_lack(Node& node, const std::string& hash);
  void complete(Node& node, Work& work, std::string refused = "");
  void distrust(std::string name, const std::string& why);
  void feed(Node& node, std::int64_t now_ms);
  void say_cancel(Node& node, std::uint64_t id, std::int64_t now_ms);
  void lose(const std::string& name, const std::string& why, bool politely,
            bool disk_full = false);
  void say(Node& node, wire::Frame frame, std::int64_t now_ms);
  void flush_node(Node& node, std::int64_t now_ms, bool is_tick);
  void touch(Node& node);
  Node* node_of(const std::string& peer);
  void log(std::string text) { act(head_action::Log{std::move(text)}); }
  void act(HeadAction action) { actions_.push_back(std::move(action)); }

  Options options_;
  std::uint64_t next_session_;
  RateLimit joins_;
  NodeConduct conduct_;
  std::map<std::string, Node> nodes_;           // by name
  std::map<std::string, std::string> peers_;    // peer -> name
  std::map<std::uint64_t, std::string> where_;  // request -> node
  std::map<std::string, std::vector<std::uint64_t>> given_up_;  // by node
  std::map<std::string, std::int64_t> asked_who_ms_;            // by peer
  std::set<std::string> dirty_;
  std::set<std::string> parting_;  // nodes that have not heard of the end
  std::int64_t finished_ms_ = 0;   // 0: the run goes on
  std::int64_t bye_ms_ = 0;        // when it was said last
  BlobSender sender_;
  Counters counters_;
  std::vector<HeadAction> actions_;
};

}  // namespace weft
