// The head's bus: listens for nodes, hands them requests, and gives their
// answers to the host. Its socket thread is the only one that touches sockets.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "messages/run.hpp"
#include "runtime/bus/head_protocol.hpp"
#include "runtime/bus/socket_thread.hpp"
#include "runtime/host/nodes.hpp"
#include "runtime/journal/blob_store.hpp"
#include "runtime/machine/work_queue.hpp"

namespace weft {

class HeadBus : public Nodes {
 public:
  struct Options {
    std::string endpoint;
    BusKeys keys;
    std::string run;  ///< the run's own name, the same after a resume
    RunStart start;
    bool only_judges = false;  ///< others than judges of the class are refused
    std::int64_t heartbeat_ms = 1'000;
    std::int64_t silence_ms = 15'000;
    std::int64_t cancel_ms = NodeConduct::kCancelMs;
    /// Nodes that the roles believe to be in, of a run that is resumed.
    std::map<std::string, std::vector<Capacities>> expected;
    /// Nodes do all that they can: the head captures, and checks the whole.
    bool spares_head = false;
    bool spared_head = false;  ///< what the roles of a resumed run believe
    std::filesystem::path state_file;  ///< for `weft cluster`; empty: none
    std::function<void(const std::string&)> log;
  };

  HeadBus(BlobStore& blobs, Options options);
  ~HeadBus() override;

  /// Takes what a node has built, before the run hears of it: the module that
  /// is composed of it is checked here.
  using OnBuilt =
      std::function<Result<void>(const BuildRequest&, const std::string&)>;
  void on_built(OnBuilt take) { on_built_ = std::move(take); }

  /// wrong_input: the address cannot be used, or would let strangers in.
  Result<void> listen();
  /// With the port that it got.
  const std::string& endpoint() const { return socket_->bound(); }

  void attach(Post post) override;
  void begin(const Envelope& request, const Message& message,
             std::stop_token cancelled, Port::Reply reply) override;
  void journaled(const Envelope& reply) override;
  void close(bool has_finished) override;

 private:
  using OnCancel = std::stop_callback<std::function<void()>>;
  struct Open {
    Port::Reply reply;
    Message request;
    std::unique_ptr<OnCancel> on_cancel;
  };

  void turn(std::int64_t now_ms, bool is_tick);
  void act();
  void perform(head_action::Send action);
  void perform(head_action::Cut action);
  void perform(head_action::Joined action);
  void perform(head_action::Leaving action);
  void perform(head_action::NodeGone action);
  void perform(head_action::Answered action);
  void perform(head_action::Late action);
  void perform(head_action::Dropped action);
  void perform(head_action::Check action);
  void perform(head_action::Store action);
  void perform(head_action::Load action);
  void perform(head_action::Log action);
  void answer(std::uint64_t id, Message reply);
  void hand_back(std::uint64_t id, const std::string& code,
                 const std::string& why);
  void take_built(std::uint64_t id, const BuildRequest& request,
                  BuildReply reply);
  void inform(const std::string& node, const std::vector<Capacities>& all);
  void report_lost(const std::string& node, const std::string& why);
  void report_left(const std::string& node);
  void stranger();
  void write_state(std::int64_t now_ms);
  void log(const std::string& text);

  BlobStore& blobs_;
  Options options_;
  OnBuilt on_built_;  // called on the loader's thread
  // The socket thread's alone, from here on
  HeadProtocol protocol_;
  std::map<std::uint64_t, Open> open_;
  std::map<std::string, std::vector<Capacities>> present_;  // told the roles
  bool is_attached_ = false;                   // before, nobody is heard
  std::optional<std::promise<void>> closing_;  // kept when all nodes know of it
  Post post_;
  std::uint64_t strangers_ = 0;
  std::int64_t stranger_logged_ms_ = 0;
  std::int64_t foul_logged_ms_ = 0;
  std::int64_t state_written_ms_ = 0;
  std::string state_;  // as written
  // to here
  std::unique_ptr<SocketThread> socket_;
  std::unique_ptr<WorkQueue> loader_;  // reads blobs: the disk may be slow
};

/// What a journal's last words say of the machines that have a part in it.
struct JournaledLocations {
  std::map<std::string, std::vector<Capacities>> nodes;  ///< that are in
  bool spares_head = false;  ///< the roles were told that it offers nothing
};
Result<JournaledLocations> journaled_locations(const Journal& journal);

}  // namespace weft
