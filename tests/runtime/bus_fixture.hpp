// A head's bus and real nodes over loopback, all in this process, with ports
// that do what a test says. Everything is waited for by its event.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/bus/head_bus.hpp"
#include "runtime/bus/node.hpp"
#include "tests/runtime/journal_fixture.hpp"

namespace weft {

/// A port whose work is a function.
class FakePort : public Port {
 public:
  using Act =
      std::function<void(const BuildRequest&, const std::stop_token&, Reply)>;
  explicit FakePort(Act act) : act_(std::move(act)) {}
  void start(const Message& request, Reply reply) override {
    begin(request, {}, std::move(reply));
  }
  void begin(const Message& request, std::stop_token cancelled,
             Reply reply) override {
    act_(std::get<BuildRequest>(request), cancelled, std::move(reply));
  }

 private:
  Act act_;
};

class Cluster {
 public:
  using Act = std::function<void(Blobs&, const BuildRequest&,
                                 const std::stop_token&, Port::Reply)>;

  explicit Cluster(std::int64_t silence_ms = 60'000)
      : journal_(value(Journal::create(folder_ / "journal.db", Sync::normal))),
        blobs_(journal_) {
    HeadBus::Options options;
    options.endpoint = "tcp://127.0.0.1:0";
    options.run = "run";
    options.start.weft_version = "1";
    options.heartbeat_ms = 100;
    options.silence_ms = silence_ms;
    options.state_file = folder_ / "cluster.json";
    start_ = options.start;
    bus_ = std::make_unique<HeadBus>(blobs_, std::move(options));
    REQUIRE(bus_->listen());
    bus_->attach([this](std::vector<Envelope> batch) { hear(batch); });
  }
  ~Cluster() {
    for (auto& [name, node] : nodes_) node.stop.request_stop();
    nodes_.clear();
    if (bus_) bus_->close(false);
  }

  /// Joins; waited for by is_in().
  void add_node(const std::string& name, Act act, bool once = false,
                int slots = 1, std::shared_ptr<void> keeps = nullptr,
                std::function<void()> on_port_gone = {}) {
    NodeOptions options;
    options.endpoint = bus_->endpoint();
    wire::Hello& hello = options.protocol.hello;
    hello.wire_min = wire::kWireVersionMin;
    hello.wire_max = wire::kWireVersion;
    hello.weft = weft_of_nodes_;
    hello.name = name;
    hello.incarnation = name + "-" + std::to_string(++incarnations_);
    hello.machine = start_.machine;
    hello.slots = {{"cpu", slots}};
    options.protocol.once = once;
    options.folder = folder_ / name.c_str();
    options.why_unfit = why_unfit_;
    fs::create_directories(options.folder);
    options.make_ports = [=, free_space = free_space_](Blobs& blobs,
                                                       const RunStart&) {
      NodePorts node_ports;
      node_ports.keeps = keeps;
      node_ports.free_space = free_space;
      const std::shared_ptr<void> notice(
          nullptr, [=](void*) { on_port_gone ? on_port_gone() : void(); });
      node_ports.ports[address::build] = std::make_unique<FakePort>(
          [&blobs, act, notice](const BuildRequest& request,
                                const std::stop_token& cancelled,
                                Port::Reply reply) {
            act(blobs, request, cancelled, std::move(reply));
          });
      return node_ports;
    };
    RunningNode& node = nodes_[name];
    node.thread = std::jthread([this, name, options = std::move(options),
                                token = node.stop.get_token()]() mutable {
      const auto served = serve_as_node(std::move(options), token);
      const std::lock_guard lock(mutex_);
      ended_[name] = served ? "in peace" : served.error().message;
      changed_.notify_all();
    });
  }

  void stop_node(const std::string& name) { nodes_[name].stop.request_stop(); }

  void ask(std::uint64_t id, const std::string& node,
           const std::string& source = "") {
    BuildRequest request;
    request.effect = id;
    request.source = source.empty() ? "" : blobs_.put(source);
    Envelope envelope{id,
                      0,
                      0,
                      "worker",
                      address::at(address::build, node),
                      std::string(BuildRequest::name),
                      encode(request)};
    bus_->begin(
        envelope, request, cancels_[id].get_token(), [this, id](Message reply) {
          Envelope journaled;
          journaled.cause = id;
          bus_->journaled(journaled);
          const std::lock_guard lock(mutex_);
          CHECK(answers_.try_emplace(id, std::get<BuildReply>(reply)).second);
          changed_.notify_all();
        });
  }
  void cancel(std::uint64_t id) { cancels_[id].request_stop(); }

  /// The run ends; nodes are told.
  void finish() { bus_->close(true); }

  /// Until the condition holds, under the lock.
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(2), condition);
  }
  bool wait_in(const std::string& node) {
    return wait([&] { return in_.contains(node); });
  }
  bool wait_gone(const std::string& node) {
    return wait([&] { return gone_.contains(node); });
  }
  bool wait_ended(const std::string& node) {
    return wait([&] { return ended_.contains(node); });
  }
  bool wait_answers(std::size_t count) {
    return wait([&] { return answers_.size() >= count; });
  }
  void notify() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  std::string weft_of_nodes_ = "1";
  std::function<std::string()> why_unfit_;  ///< of the next node
  std::function<void()> free_space_;        ///< likewise
  Directory folder_;
  Journal journal_;
  BlobStore blobs_;
  RunStart start_;
  std::unique_ptr<HeadBus> bus_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> in_, gone_;           // told the broker
  std::map<std::string, std::string> lost_;   // of those gone: NodeLost, why
  std::map<std::string, std::string> ended_;  // how each node's thread did
  std::map<std::uint64_t, BuildReply> answers_;

 private:
  struct RunningNode {
    std::stop_source stop;
    std::jthread thread;
  };

  void hear(const std::vector<Envelope>& batch) {
    const std::lock_guard lock(mutex_);
    for (const Envelope& envelope : batch) {
      const auto message = decode(envelope.type, envelope.body);
      REQUIRE(message);
      if (const auto* loss = std::get_if<NodeLost>(&*message)) {
        gone_.insert(loss->locations.begin(), loss->locations.end());
        lost_[loss->node] = loss->reason;
        continue;
      }
      const auto& capacities = std::get<Capacities>(*message);
      const bool is_gone =
          capacities.units.empty() || capacities.units.begin()->second == 0;
      (is_gone ? gone_ : in_).insert(capacities.location);
    }
    changed_.notify_all();
  }

  std::map<std::uint64_t, std::stop_source> cancels_;
  std::map<std::string, RunningNode> nodes_;
  int incarnations_ = 0;
};

}  // namespace weft
