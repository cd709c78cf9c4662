// The sockets of a fleet: one that nodes join, and for each node that serves a
// run a connection to that run's own address on this machine.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bus/fleet_protocol.hpp"
#include "runtime/bus/keys.hpp"
#include "runtime/bus/socket_thread.hpp"
#include "runtime/machine/work_queue.hpp"

namespace weft {

class FleetSwitch {
 public:
  struct Options {
    std::string endpoint;
    BusKeys keys;
    FleetProtocol::Options protocol;
    /// Nodes came or went, or serve other runs. On the socket's thread.
    std::function<void(const FleetProtocol&)> on_change;
    /// A node cannot be connected to that run, which must end if no other node
    /// serves it. On the socket's thread, perhaps several times.
    std::function<void(const std::string& run, const std::string& why)>
        on_unreachable;
    std::function<void(const std::string&)> log;  ///< likewise
  };
  explicit FleetSwitch(Options options);
  ~FleetSwitch();

  /// wrong_input: the address cannot be used.
  Result<void> listen();
  /// With the port that it got.
  const std::string& endpoint() const { return nodes_->bound(); }

  // Any thread
  /// The run listens there; it may begin to do so later.
  void begin_run(const std::string& run, const std::string& endpoint);
  void end_run(const std::string& run);
  void reserve(std::size_t judges);
  /// No run comes any more. Returns when all nodes know, but soon.
  void finish();

 private:
  void post(std::function<void(FleetProtocol&)> task);
  void act();
  void perform(fleet_action::ToNode action);
  void perform(fleet_action::ToRun action);
  void perform(fleet_action::Cut action);
  void perform(fleet_action::Open action);
  void perform(fleet_action::Close action);
  void perform(fleet_action::Changed action);
  void perform(fleet_action::Log action);

  Options options_;
  // The socket thread's alone, from here on
  FleetProtocol protocol_;
  std::map<std::string, std::string> endpoints_;  // of runs
  std::map<int, std::shared_ptr<SocketThread>> links_;
  bool has_changed_ = false;
  // to here
  std::unique_ptr<SocketThread> nodes_;
  std::unique_ptr<WorkQueue> closer_;  // a connection lingers when it ends
};

}  // namespace weft
