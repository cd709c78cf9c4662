#include "runtime/bus/fleet_switch.hpp"

#include <chrono>
#include <future>
#include <thread>
#include <utility>
#include <variant>

#include "runtime/bus/rate_limit.hpp"

namespace weft {

namespace {

/// Nodes have so long to hear that no run comes; those that were cut off just
/// now need two seconds to connect again.
constexpr int kPartingTries = 150;
constexpr std::chrono::milliseconds kPartingTry(20);
constexpr std::chrono::milliseconds kAnswerTime(500);

}  // namespace

FleetSwitch::FleetSwitch(Options options)
    : options_(std::move(options)),
      protocol_(options_.protocol),
      closer_(std::make_unique<WorkQueue>(1)) {
  SocketThread::Options socket;
  options_.log = limited_log(std::move(options_.log), SocketThread::now_ms);
  socket.is_head = true;
  socket.endpoint = options_.endpoint;
  socket.keys = options_.keys;
  SocketThread::Callbacks callbacks;
  callbacks.on_frame = [this](const std::string& peer, std::string_view header,
                              std::string body, std::int64_t now_ms) {
    protocol_.node_frame(peer, header, std::move(body), now_ms);
    act();
  };
  callbacks.on_turn = [this](std::int64_t now_ms, bool is_tick) {
    if (is_tick) protocol_.tick(now_ms);
    act();
    if (std::exchange(has_changed_, false)) options_.on_change(protocol_);
  };
  callbacks.on_stranger = [this] {
    options_.log("a node's key is not allowed");
  };
  nodes_ =
      std::make_unique<SocketThread>(std::move(socket), std::move(callbacks));
}

FleetSwitch::~FleetSwitch() {
  nodes_->stop();
  // Their threads post to the other's, which drops it now.
  for (auto& [number, link] : links_) link->stop();
}

void FleetSwitch::finish() {
  post(
      [](FleetProtocol& protocol) { protocol.finish(SocketThread::now_ms()); });
  // What is sent last may be lost with the connection.
  for (int i = 0; i < kPartingTries; ++i) {
    auto asked = std::make_shared<std::promise<bool>>();
    auto is_parted = asked->get_future();
    post([asked](const FleetProtocol& protocol) {
      asked->set_value(protocol.is_parted());
    });
    // Not ready: it does not listen.
    if (is_parted.wait_for(kAnswerTime) != std::future_status::ready) break;
    if (is_parted.get()) break;
    std::this_thread::sleep_for(kPartingTry);
  }
}

Result<void> FleetSwitch::listen() {
  const auto closed =
      check_is_closed(options_.endpoint, !options_.keys.empty());
  return closed ? nodes_->start() : closed;
}

void FleetSwitch::begin_run(const std::string& run,
                            const std::string& endpoint) {
  nodes_->post([this, run, endpoint] { endpoints_[run] = endpoint; });
  post([run](FleetProtocol& protocol) { protocol.begin_run(run); });
}

void FleetSwitch::end_run(const std::string& run) {
  post([run](FleetProtocol& protocol) { protocol.end_run(run); });
  nodes_->post([this, run] { endpoints_.erase(run); });
}

void FleetSwitch::reserve(std::size_t judges) {
  post([judges](FleetProtocol& protocol) { protocol.reserve(judges); });
}

void FleetSwitch::post(std::function<void(FleetProtocol&)> task) {
  nodes_->post([this, task = std::move(task)] {
    task(protocol_);
    act();
  });
}

void FleetSwitch::act() {
  for (FleetAction& action : protocol_.take_actions()) {
    std::visit([this](auto& item) { perform(std::move(item)); }, action);
  }
}

void FleetSwitch::perform(fleet_action::ToNode action) {
  nodes_->send(action.peer, action.frame);
}

void FleetSwitch::perform(fleet_action::ToRun action) {
  const auto link = links_.find(action.link);
  if (link == links_.end()) return;
  SocketThread* thread = link->second.get();
  thread->post(
      [thread, frame = std::move(action.frame)] { thread->send("", frame); });
}

void FleetSwitch::perform(fleet_action::Cut action) {
  options_.log("a connection was closed: " + action.why);
  nodes_->cut();
}

void FleetSwitch::perform(fleet_action::Open action) {
  SocketThread::Options socket;
  socket.endpoint = endpoints_[action.run];
  SocketThread::Callbacks callbacks;
  callbacks.on_frame = [this, number = action.link](
                           const std::string&, std::string_view header,
                           std::string body, std::int64_t now_ms) {
    nodes_->post([this, number, header = std::string(header),
                  body = std::move(body), now_ms]() mutable {
      protocol_.run_frame(number, header, std::move(body), now_ms);
      act();
    });
  };
  callbacks.on_turn = [](std::int64_t, bool) {};
  callbacks.on_stranger = [] {};
  auto link =
      std::make_shared<SocketThread>(std::move(socket), std::move(callbacks));
  if (const auto started = link->start(); !started) {
    return options_.on_unreachable(action.run, started.error().message);
  }
  links_[action.link] = std::move(link);
}

void FleetSwitch::perform(fleet_action::Close action) {
  const auto link = links_.find(action.link);
  if (link == links_.end()) return;
  closer_->push([thread = link->second] { thread->stop(); });
  links_.erase(link);
}

void FleetSwitch::perform(fleet_action::Changed) { has_changed_ = true; }

void FleetSwitch::perform(fleet_action::Log action) {
  options_.log(action.text);
}

}  // namespace weft
