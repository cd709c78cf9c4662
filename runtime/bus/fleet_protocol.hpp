// Many runs on one set of nodes, as a state machine. Nodes join the fleet's
// address as they would join a run. Each is dealt to one run at a time
// (fleet_shares.hpp), and its frames are passed on to that run and back,
// unchanged. A run's Bye alone is changed: it gets `more`, so that the node
// stays for the next run.
//
// A node that is taken from a run gets the run's Bye, and the run the node's:
// the run has the node's work done elsewhere, as when a node leaves politely.
// Frames that the node sent before it heard of that are dropped: the next run
// must not see them.
//
// Pure: frames and the time come in, actions go out. All of it is the one
// thread's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/bus/fleet_shares.hpp"
#include "runtime/bus/frame.hpp"

namespace weft {

/// The work of a fleet's driver.
namespace fleet_action {
struct ToNode {
  std::string peer;
  wire::Frame frame;
};
/// To a run, by a connection of the node's own.
struct ToRun {
  int link = 0;
  wire::Frame frame;
};
/// The node sent what no honest one does: its connection is to be closed.
struct Cut {
  std::string why;
};
struct Open {
  int link = 0;
  std::string run;
};
struct Close {
  int link = 0;
};
/// Nodes came or went, or serve other runs.
struct Changed {};
/// For the person who runs the fleet.
struct Log {
  std::string text;
};
}  // namespace fleet_action

using FleetAction =
    std::variant<fleet_action::ToNode, fleet_action::ToRun, fleet_action::Cut,
                 fleet_action::Open, fleet_action::Close, fleet_action::Changed,
                 fleet_action::Log>;

class FleetProtocol {
 public:
  struct Options {
    std::string weft;  ///< version: nodes have the same
    std::int64_t silence_ms = 15'000;
    /// So long after the last new node, nodes are dealt out for the first time:
    /// those that a scheduler starts together come within seconds.
    std::int64_t gather_ms = 3'000;
    std::size_t nodes_max = 4'096;
    /// Whether runs can begin with these nodes; asked until it is so.
    std::function<bool(const std::vector<wire::Hello>&)> is_enough;
    /// Asked once is_enough() was true.
    std::function<FleetShares::Kind(const wire::Hello&)> kind_of;
  };
  /// For people and for the bench.
  struct NodeState {
    std::string name;
    FleetShares::Kind kind = FleetShares::Kind::unused;
    std::string run;
  };

  explicit FleetProtocol(Options options) : options_(std::move(options)) {}

  void begin_run(const std::string& run);
  /// Its process has ended, in whatever way.
  void end_run(const std::string& run);
  void reserve(std::size_t judges);

  void node_frame(const std::string& peer, std::string_view header,
                  std::string body, std::int64_t now_ms);
  void run_frame(int link, std::string_view header, std::string body,
                 std::int64_t now_ms);
  void tick(std::int64_t now_ms);
  /// No run comes any more: nodes that serve only once go. The last Bye is
  /// repeated until they answer. A node that was cut off gets it when it is
  /// back.
  void finish(std::int64_t now_ms);
  /// After finish(): all nodes have heard it.
  bool is_parted() const { return parting_.empty(); }

  std::vector<FleetAction> take_actions() { return std::move(actions_); }
  std::vector<NodeState> nodes() const;
  std::size_t judges() const { return shares_.judges(); }

 private:
  struct Node {
    wire::Hello hello;
    std::string peer;
    std::int64_t heard_ms = 0;
    std::int64_t leaves_ms = 0;  ///< when it said that it leaves; 0: it did not
    int link = 0;                ///< 0: it serves no run
    /// A Bye is on its way to the node: its frames are for the earlier run.
    bool is_parting = false;
    bool has_heard_end = false;  ///< it has answered the last Bye
    FleetShares::Kind kind = FleetShares::Kind::unused;
  };
  struct Link {
    std::string run;
    std::string node;
    std::string run_name{};  ///< as the wire has it; empty: not welcomed yet
    std::uint64_t session = 0;
    bool has_ended = false;  ///< the run said Bye
  };

  void greet(const std::string& peer, const wire::Hello& hello,
             std::int64_t now_ms);
  void admit(Node& node, const wire::Hello& hello);
  void take_bye(Node& node, const wire::Bye& bye, wire::Frame frame,
                std::int64_t now_ms);
  void leave(const std::string& name, const std::string& why);
  void settle();
  void part(Node& node);
  void say_end(const Node& node);
  void close(int link);
  void to_node(const Node& node, const wire::Header& header);
  void log(std::string text) { act(fleet_action::Log{std::move(text)}); }
  void act(FleetAction action) { actions_.push_back(std::move(action)); }

  Options options_;
  FleetShares shares_;
  std::map<std::string, Node> nodes_;         // by name
  std::map<std::string, std::string> peers_;  // peer -> name
  std::map<int, Link> links_;
  std::set<std::string> parting_;  // nodes that have not answered finish()
  int last_link_ = 0;
  bool is_open_ = false;  // nodes are dealt out
  bool is_finished_ = false;
  std::int64_t end_said_ms_ = 0;
  std::int64_t new_ms_ = 0;  // when the last new node came
  std::vector<FleetAction> actions_;
};

}  // namespace weft
