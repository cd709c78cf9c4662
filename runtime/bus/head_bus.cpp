#include "runtime/bus/head_bus.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/bus/membership.hpp"
#include "runtime/bus/rate_limit.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/blob_codec.hpp"
#include "runtime/machine/files.hpp"

namespace weft {
namespace {

using nlohmann::json;

static_assert(wire::kBlobBytesMax <= kBlobBytesMax);

constexpr std::int64_t kLogAgainMs = 60'000;
constexpr std::int64_t kStateMs = 1'000;

/// Larger than an earlier head's: those counted from an earlier time.
std::uint64_t session_now() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(
      duration_cast<microseconds>(system_clock::now().time_since_epoch())
          .count());
}

/// "port/verify@n1/GPU-8a5c" -> "port/verify/GPU-8a5c": as the node calls it.
std::string port_at_node(const Address& address) {
  const std::string device = device_of(location_of(address));
  return device.empty() ? port_of(address) : port_of(address) + "/" + device;
}

HeadProtocol::Options protocol_options(const HeadBus::Options& options) {
  HeadProtocol::Options result;
  result.run = options.run;
  result.start = encode(options.start);
  result.first_session = session_now();
  result.heartbeat_ms = options.heartbeat_ms;
  result.silence_ms = options.silence_ms;
  result.cancel_ms = options.cancel_ms;
  result.refuses = [start = options.start,
                    strict = options.only_judges](const wire::Hello& hello) {
    return strict ? why_no_judge(hello, start) : why_refused(hello, start);
  };
  return result;
}

json to_json(const HeadProtocol::NodeState& node, const RunStart& start) {
  const auto offers = capacities_of(node.hello, start);
  json devices = json::array();
  for (const wire::Device& device : node.hello.devices) {
    devices.push_back({{"uuid", device.uuid},
                       {"name", device.facts.name},
                       {"memory_bytes", device.facts.memory_bytes}});
  }
  const std::string state = !node.distrusted.empty()         ? "distrusted"
                            : node.hello.incarnation.empty() ? "expected"
                            : !node.is_connected             ? "disconnected"
                            : node.is_leaving                ? "leaving"
                                                             : "in";
  return {{"name", node.hello.name},
          {"state", state},
          {"why", node.distrusted},
          {"slots", node.hello.slots},
          {"processor", node.hello.machine.name},
          {"cores", node.hello.machine.cores},
          {"memory_bytes", node.hello.memory_bytes},
          {"devices", devices},
          {"weft", node.hello.weft},
          {"python", node.hello.python},
          {"can", capabilities_text(offers)},
          {"class", offers.back().device_class},
          {"torch", node.hello.torch},
          {"triton", node.hello.triton},
          {"driver", node.hello.driver},
          {"working", node.asked},
          {"waiting", node.waiting},
          {"answered", node.answered}};
}

}  // namespace

HeadBus::HeadBus(BlobStore& blobs, Options options)
    : blobs_(blobs),
      options_(std::move(options)),
      protocol_(protocol_options(options_)) {
  options_.log = limited_log(std::move(options_.log), SocketThread::now_ms);
  SocketThread::Options socket;
  socket.is_head = true;
  socket.endpoint = options_.endpoint;
  socket.keys = options_.keys;
  SocketThread::Callbacks callbacks;
  callbacks.on_frame = [this](const std::string& peer, std::string_view header,
                              std::string body, std::int64_t now_ms) {
    if (!is_attached_ && !closing_) return;  // it says hello again
    protocol_.on_frame(peer, header, std::move(body), now_ms);
    act();
  };
  callbacks.on_turn = [this](std::int64_t now_ms, bool is_tick) {
    turn(now_ms, is_tick);
  };
  callbacks.on_stranger = [this] { stranger(); };
  socket_ =
      std::make_unique<SocketThread>(std::move(socket), std::move(callbacks));
  loader_ = std::make_unique<WorkQueue>(1);
}

HeadBus::~HeadBus() {
  socket_->stop();
  loader_.reset();  // what it still posts is dropped
}

Result<void> HeadBus::listen() {
  const auto closed =
      check_is_closed(options_.endpoint, !options_.keys.empty());
  if (!closed) return closed;
  const auto started = socket_->start();
  if (!started) return started;
  // Before any request is begun: what an earlier head has asked is asked again
  // before this one is attached.
  socket_->post([this] {
    present_ = options_.expected;
    for (const auto& [node, all] : present_) {
      protocol_.expect(node, SocketThread::now_ms());
    }
  });
  return {};
}

void HeadBus::attach(Post post) {
  if (options_.spares_head != options_.spared_head) {
    Capacities head;
    if (!options_.spares_head) head.units = {{"cpu", 1}};
    post(to_envelopes(address::node(""), 0, {{address::dispatcher, head}}));
  }
  socket_->post([this, post = std::move(post)] {
    post_ = post;
    is_attached_ = true;
    // Their silence counts from here on: nobody was heard before.
    for (const auto& [node, all] : present_) {
      protocol_.expect(node, SocketThread::now_ms());
    }
  });
}

void HeadBus::begin(const Envelope& request, const Message& message,
                    std::stop_token cancelled, Port::Reply reply) {
  NodeRequest wish;
  wish.id = request.seq;
  wish.node = node_of(location_of(request.dst));
  wish.port = port_at_node(request.dst);
  wish.type = request.type;
  wish.body = std::make_shared<const std::string>(request.body);
  socket_->post([this, wish = std::move(wish), cancelled, message,
                 reply = std::move(reply)]() mutable {
    const std::uint64_t id = wish.id;
    Open& open = open_[id];
    open.reply = std::move(reply);
    open.request = std::move(message);
    protocol_.submit(std::move(wish), SocketThread::now_ms());
    // May call at once, on this thread: it only posts.
    open.on_cancel = std::make_unique<OnCancel>(cancelled, [this, id] {
      socket_->post([this, id] {
        protocol_.cancel(id, SocketThread::now_ms());
        act();
      });
    });
    act();
  });
}

void HeadBus::journaled(const Envelope& reply) {
  socket_->post([this, id = reply.cause] {
    protocol_.journaled(id, SocketThread::now_ms());
  });
}

void HeadBus::close(bool has_finished) {
  std::promise<void> done;
  auto closed = done.get_future();
  socket_->post([&] {
    post_ = nullptr;
    is_attached_ = false;
    open_.clear();
    if (!has_finished) return done.set_value();
    closing_ = std::move(done);
    protocol_.finish(SocketThread::now_ms());
    act();
  });
  closed.wait();
  // What the loader has in hand uses what its owner may be about to destroy.
  std::promise<void> idle;
  loader_->push([&] { idle.set_value(); });
  idle.get_future().wait();
}

void HeadBus::turn(std::int64_t now_ms, bool is_tick) {
  if (!is_attached_ && !closing_) return;
  if (is_tick) {
    protocol_.tick(now_ms);
    write_state(now_ms);
  } else {
    protocol_.flush(now_ms);
  }
  act();
  if (!closing_ || !protocol_.is_parted(now_ms)) return;
  closing_->set_value();
  closing_.reset();
}

void HeadBus::act() {
  for (HeadAction& action : protocol_.take_actions()) {
    std::visit([this](auto& item) { perform(std::move(item)); }, action);
  }
}

void HeadBus::perform(head_action::Send action) {
  socket_->send(action.peer, action.frame);
}

void HeadBus::perform(head_action::Cut action) {
  socket_->cut();
  const std::int64_t now_ms = SocketThread::now_ms();
  if (foul_logged_ms_ != 0 && now_ms - foul_logged_ms_ < kLogAgainMs) return;
  foul_logged_ms_ = now_ms;
  log("a connection was cut: " + action.why);
}

void HeadBus::perform(head_action::Joined action) {
  const std::string& name = action.hello.name;
  const auto before = present_.find(name);
  auto all = capacities_of(action.hello, options_.start);
  const bool goes_on = before != present_.end() && action.knows_run;
  if (before != present_.end() && !goes_on) {
    report_lost(name, "it joined again and knew nothing of the run");
  }
  log("node " + name + (goes_on ? " is back" : " joined") + ": " +
      std::to_string(action.hello.machine.cores) + " cores, " +
      std::to_string(all.size() - 1) + " GPUs for this run; it can " +
      capabilities_text(all));
  present_[name] = all;
  if (!goes_on) inform(name, all);
}

void HeadBus::perform(head_action::Leaving) {}

void HeadBus::perform(head_action::NodeGone action) {
  for (const NodeRequest& request : action.requests) {
    if (action.politely) {
      const bool may_be_why = action.disk_full && request.was_sent;
      hand_back(request.id, may_be_why ? "disk_full" : "node_lost",
                "node " + action.node + ": " + action.why);
    } else {
      open_.erase(request.id);
    }
  }
  if (present_.contains(action.node)) {
    action.politely ? report_left(action.node)
                    : report_lost(action.node, action.why);
  }
  present_.erase(action.node);
}

void HeadBus::perform(head_action::Answered action) {
  auto message = decode(action.type, action.body);
  const auto open = open_.find(action.request.id);
  if (open == open_.end()) return;
  if (!action.refused.empty()) {
    return hand_back(action.request.id, "refused", action.refused);
  }
  const Message honest = failed_reply(open->second.request, {});
  const bool fits = message && message->index() == honest.index() &&
                    effect_of(*message) == effect_of(honest);
  if (!fits) {
    const std::string why = "node " + action.request.node + " answered " +
                            action.request.type + " with " +
                            (message ? action.type : "what cannot be read");
    log(why + ": the request goes to another location");
    hand_back(action.request.id, "node_lost", why);
    return protocol_.add_fault(action.request.node, why);
  }
  auto* built = std::get_if<BuildReply>(&*message);
  if (built && !built->failure && on_built_) {
    const auto& request = std::get<BuildRequest>(open->second.request);
    return take_built(action.request.id, request, std::move(*built));
  }
  answer(action.request.id, std::move(*message));
}

void HeadBus::take_built(std::uint64_t id, const BuildRequest& request,
                         BuildReply reply) {
  loader_->push([this, id, request, reply = std::move(reply)]() mutable {
    const auto taken = on_built_(request, reply.artefact);
    if (!taken) reply.failure = {"failed", taken.error().message};
    socket_->post([this, id, reply = std::move(reply)]() mutable {
      answer(id, std::move(reply));
    });
  });
}

void HeadBus::answer(std::uint64_t id, Message reply) {
  auto open = open_.extract(id);
  if (!open.empty()) open.mapped().reply(std::move(reply));
}

void HeadBus::perform(head_action::Late action) {
  log("node " + action.node + " answered event " + std::to_string(action.id) +
      " too late: it changes nothing");
}

void HeadBus::perform(head_action::Dropped action) {
  const auto open = open_.find(action.request.id);
  if (open == open_.end()) return;
  answer(action.request.id, cancelled_reply(open->second.request));
}

void HeadBus::perform(head_action::Check action) {
  loader_->push([this, action = std::move(action)] {
    std::vector<std::string> lacking;
    for (const std::string& hash : action.hashes) {
      if (!blobs_.get(hash)) lacking.push_back(hash);
    }
    socket_->post([this, node = action.node, id = action.id, lacking] {
      protocol_.lacking(node, id, lacking, SocketThread::now_ms());
      act();
    });
  });
}

void HeadBus::perform(head_action::Store action) { blobs_.put(action.bytes); }

void HeadBus::perform(head_action::Load action) {
  loader_->push([this, hash = action.hash] {
    auto bytes = blobs_.get(hash);
    BlobSender::Bytes shared;
    if (bytes) shared = std::make_shared<const std::string>(std::move(*bytes));
    socket_->post([this, hash, shared] {
      protocol_.loaded(hash, shared);
      act();
    });
  });
}

void HeadBus::perform(head_action::Log action) { log(action.text); }

void HeadBus::inform(const std::string& node,
                     const std::vector<Capacities>& all) {
  if (!post_) return;
  std::vector<Outgoing> words;
  for (const Capacities& capacities : all)
    words.push_back({address::broker, capacities});
  if (!words.empty()) post_(to_envelopes(address::node(node), 0, words));
}

/// All that it offered is gone at once, and what ran there with it.
void HeadBus::report_lost(const std::string& node, const std::string& why) {
  if (!post_) return;
  NodeLost loss{node, {}, why};
  for (const Capacities& capacities : present_[node]) {
    loss.locations.push_back(capacities.location);
  }
  if (loss.locations.empty()) loss.locations.push_back(node);
  post_(to_envelopes(address::node(node), 0, {{address::broker, loss}}));
}

/// It goes to another location, and does not count as the cause of this one's
/// end. With code "disk_full" it may be the cause: it goes to one other
/// location.
void HeadBus::hand_back(std::uint64_t id, const std::string& code,
                        const std::string& why) {
  const auto open = open_.find(id);
  if (open == open_.end()) return;
  answer(id, failed_reply(open->second.request, {code, why}));
}

/// All its locations, with none of their units any more.
void HeadBus::report_left(const std::string& node) {
  std::vector<Capacities> all = present_[node];
  if (all.empty()) all.emplace_back().location = node;
  for (Capacities& capacities : all) {
    for (auto& [resource, units] : capacities.units) units = 0;
  }
  inform(node, all);
}

void HeadBus::stranger() {
  ++strangers_;
  const std::int64_t now_ms = SocketThread::now_ms();
  if (stranger_logged_ms_ != 0 && now_ms - stranger_logged_ms_ < kLogAgainMs) {
    return;
  }
  stranger_logged_ms_ = now_ms;
  log("a node whose key is not in `allowed` was refused (" +
      std::to_string(strangers_) + " times so far)");
}

void HeadBus::write_state(std::int64_t now_ms) {
  if (options_.state_file.empty()) return;
  if (now_ms - state_written_ms_ < kStateMs) return;
  state_written_ms_ = now_ms;
  json nodes = json::array();
  for (const auto& node : protocol_.nodes(now_ms)) {
    nodes.push_back(to_json(node, options_.start));
  }
  const HeadProtocol::Counters& counted = protocol_.counters();
  const json state = {{"listens", socket_->bound()},
                      {"nodes", nodes},
                      {"counters",
                       {{"strangers", strangers_},
                        {"fouls", counted.protocol_errors},
                        {"unknown_frames", counted.unknown},
                        {"resent", counted.resent},
                        {"doubles", counted.doubles},
                        {"late", counted.late},
                        {"refused", counted.refused},
                        {"blobs_sent", counted.blobs_sent},
                        {"blobs_taken", counted.blobs_taken}}}};
  // A node's words need not be UTF-8.
  std::string text = state.dump(1, ' ', false, json::error_handler_t::replace);
  if (text == state_) return;
  state_ = std::move(text);
  // For people only: where it cannot be written, they see an older one.
  (void)write_file_whole(options_.state_file, state_);
}

void HeadBus::log(const std::string& text) {
  if (options_.log) options_.log(text);
}

Result<JournaledLocations> journaled_locations(const Journal& journal) {
  JournaledLocations found;
  std::map<Location, Capacities> locations;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const bool is_loss = envelope.type == NodeLost::name;
    if (!is_loss && envelope.type != Capacities::name) return true;
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return true;
    if (const auto* loss = std::get_if<NodeLost>(&*message)) {
      // The dispatcher's copy may come after the node has joined again.
      if (envelope.dst != address::broker) return true;
      for (const Location& gone : loss->locations) locations.erase(gone);
      return true;
    }
    const auto& capacities = std::get<Capacities>(*message);
    if (envelope.dst == address::dispatcher && capacities.location.empty()) {
      found.spares_head = capacities.units.empty();
    }
    if (envelope.dst != address::broker ||
        node_of(capacities.location).empty()) {
      return true;
    }
    if (std::ranges::all_of(capacities.units, [](const auto& item) {
          return item.second == 0;
        })) {
      locations.erase(capacities.location);
    } else {
      locations[capacities.location] = capacities;
    }
    return true;
  });
  if (!read) return std::unexpected(read.error());
  for (const auto& [location, capacities] : locations) {
    found.nodes[node_of(location)].push_back(capacities);
  }
  return found;
}

}  // namespace weft
