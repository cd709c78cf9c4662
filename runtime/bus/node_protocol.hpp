// A node's side of the wire as a state machine: which run it serves, what it
// was asked, which answers the head has not journaled yet. Pure: frames,
// results and the time come in, actions go out. All of it is the one thread's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/bus/blob_receiver.hpp"
#include "runtime/bus/blob_sender.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/bus/link.hpp"

namespace weft {

/// What a node's driver has to do.
namespace node_action {
struct Send {
  wire::Frame frame;
};
/// The head is not heard: try another connection.
struct Reconnect {};
/// A run begins, or another one: ports are made from its RunStart.
struct Begin {
  std::string run;
  std::string start;
};
struct Work {
  std::uint64_t id = 0;
  std::string port;
  std::string type;
  std::string body;
};
/// Nobody waits for it: stop it. It is answered all the same.
struct Stop {
  std::uint64_t id = 0;
};
/// The head has journaled the answer: what it needed may go.
struct Settled {
  std::uint64_t id = 0;
};
/// The run has ended: ports and scratch go.
struct End {};
/// A blob from the head, hash and bytes checked; or there is none.
struct Blob {
  std::string hash;
  std::shared_ptr<const std::string> bytes;  ///< null: the head has none
};
/// Answered by loaded().
struct Load {
  std::string hash;
};
/// Nothing more is to be done here.
struct Quit {
  std::string refused;  ///< why the head will not have it; empty: all is well
};
struct Log {
  std::string text;
};
}  // namespace node_action

using NodeAction =
    std::variant<node_action::Send, node_action::Reconnect, node_action::Begin,
                 node_action::Work, node_action::Stop, node_action::Settled,
                 node_action::End, node_action::Blob, node_action::Load,
                 node_action::Quit, node_action::Log>;

class NodeProtocol {
 public:
  struct Options {
    wire::Hello hello;  ///< `run` is set here
    bool once = false;  ///< go when the run has ended
    std::int64_t hello_ms = 500;
    /// The head's silence after which another connection is tried, until the
    /// head says what it wants.
    std::int64_t silence_ms = 5'000;
    /// Work for a head that is away for longer is dropped; with `once` the node
    /// goes then, also one that no head has let in.
    std::int64_t patience_ms = 3'600'000;
    /// A node that leaves waits no longer for the head to journal what it has
    /// done.
    std::int64_t leave_ms = 5'000;
  };

  explicit NodeProtocol(Options options) : options_(std::move(options)) {}

  void on_frame(std::string_view header, std::string body, std::int64_t now_ms);
  /// What came of a request; `blobs` are those that the head may lack.
  void result(std::uint64_t id, std::string type, std::string body,
              std::vector<wire::BlobRef> blobs, std::int64_t now_ms);
  /// Asks the head for a blob. False: too many are asked for already.
  bool need(const std::string& hash);
  void loaded(const std::string& hash, BlobSender::Bytes bytes);
  /// Takes no new work and hands back what is not done; quits when the head has
  /// all answers and has heard that it goes, or has been given time enough.
  /// `why`: for the head, where this machine cannot go on.
  void leave(std::int64_t now_ms, std::string why = "");

  void tick(std::int64_t now_ms);
  /// What need not wait for the next tick.
  void flush(std::int64_t now_ms);

  std::vector<NodeAction> take_actions() { return std::move(actions_); }
  bool is_in() const { return is_welcome_; }
  std::size_t open_requests() const { return jobs_.size(); }

 private:
  struct Job {
    bool is_done = false;
    std::string type;
    std::shared_ptr<const std::string> body;
    std::vector<wire::BlobRef> blobs;
    std::uint64_t seq = 0;  // of its answer, in the session of now
  };
  void say_hello(std::int64_t now_ms);
  void welcome(const wire::Welcome& welcome, std::string start,
               std::int64_t now_ms);
  void refused(const wire::Refusal& refusal, std::int64_t now_ms);
  void take_request(const wire::Request& request, std::string body,
                    std::int64_t now_ms);
  void take_ack(const wire::Ack& ack);
  void submit(std::uint64_t id, Job& job, std::int64_t now_ms);
  void take_bye(const wire::Bye& bye, std::int64_t now_ms);
  void take_blob(const wire::Chunk& chunk, const std::string& body,
                 std::int64_t now_ms);
  void forget_answers_with(const std::string& hash);
  void end_run();
  void part_if_done(std::int64_t now_ms);
  void say_bye(std::int64_t now_ms);
  void quit(std::string refused);
  void acknowledge(std::int64_t now_ms);
  void say(wire::Frame frame, std::int64_t now_ms);
  template <class Header>
  void say_header(const Header& header, std::int64_t now_ms) {
    say({wire::encode_header(header), nullptr}, now_ms);
  }
  void act(NodeAction action) { actions_.push_back(std::move(action)); }

  Options options_;
  bool is_welcome_ = false;
  bool is_leaving_ = false;
  bool is_parting_ = false;  // it has nothing left, and says goodbye
  bool has_quit_ = false;
  std::uint64_t session_ = 0;
  std::string run_;
  std::int64_t heartbeat_ms_ = 1'000;
  Link link_;
  BlobReceiver receiver_;
  BlobSender sender_;
  std::map<std::uint64_t, Job> jobs_;
  std::map<std::uint64_t, std::uint64_t> answers_;  // seq -> id
  std::int64_t heard_ms_ = 0;                       // 0: not yet
  std::int64_t connected_ms_ = 0;
  std::int64_t began_ms_ = 0;
  bool has_said_ = false;  // that no head answers
  std::int64_t spoken_ms_ = 0;
  std::int64_t hello_ms_ = 0;
  std::int64_t complained_ms_ = 0;  // 0: never
  std::int64_t leave_until_ms_ = 0;
  std::int64_t bye_ms_ = 0;  // when it was said last
  std::string leaves_why_;
  std::vector<NodeAction> actions_;
};

}  // namespace weft
