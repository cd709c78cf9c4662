#include "runtime/host/caf_host.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime/host/caf_compat.hpp"
#include "runtime/host/crash_handler.hpp"
#include "runtime/host/speaks_against.hpp"
#include "runtime/host/spine.hpp"
#include "runtime/host/watched_blobs.hpp"

namespace weft {

/// The only message between CAF actors: what one commit brought for a role.
/// One for all of it, since waking an actor costs more than an envelope does.
struct Delivery {
  SharedGroup group;
  std::vector<std::uint32_t> mine;  ///< indices in the group
};

}  // namespace weft

CAF_BEGIN_TYPE_ID_BLOCK(weft_host, caf::first_custom_type_id)
WEFT_LOCAL_MESSAGE(weft_host, weft::Delivery)
CAF_END_TYPE_ID_BLOCK(weft_host)

namespace weft {
namespace {

constexpr std::chrono::milliseconds kSettleTick{1};

/// How often is looked whether a run waits for hours.
constexpr std::chrono::milliseconds kLongWaitTick{500};

class CafHost;

struct RoleState {
  static inline const char* name = "weft.role";
  std::unique_ptr<Role> role;
  Address address;
  CafHost* host = nullptr;
};

using RoleActor = caf::stateful_actor<RoleState>;

caf::behavior role_actor(RoleActor* self, std::shared_ptr<RoleState> initial);

/// Where a role sits, and what the commit in hand brought for it.
struct Seat {
  caf::actor actor;
  std::vector<std::uint32_t> mine;
};

caf::actor_system_config& prepare(caf::actor_system_config& config,
                                  std::size_t threads) {
  caf_compat::init<caf::id_block::weft_host>();
  caf_compat::configure(config, threads);
  return config;
}

class CafHost {
 public:
  CafHost(Journal& journal, BlobStore& blobs, Ports& ports,
          const HostOptions& options, Replay* past)
      : blobs_(blobs),
        ports_(ports),
        options_(options),
        system_(prepare(config_, options.threads)) {
    std::set<std::uint64_t> open;
    if (past) {
      for (auto& [address, role] : past->take_roles()) {
        spawn(address, std::move(role));
      }
      for (const auto& [seq, request] : past->open_requests()) open.insert(seq);
    }
    spine_ = std::make_unique<Spine>(
        journal, blobs, std::move(open),
        Spine::Callbacks{[this](const SharedGroup& group) { deliver(group); },
                         [this](const Error& error) { broken(error); }});
  }

  ~CafHost() {
    close_ports();
    if (has_finished()) settle();
    spine_->stop();
    for (auto& [address, seat] : seats_) caf_compat::stop(seat.actor);
    system_.await_all_actors_done();
  }

  void post(std::vector<Envelope> batch) {
    in_flight_ += batch.size();
    spine_->post(std::move(batch));
  }

  /// Once the first envelope is posted: a journal begins with it.
  void attach_nodes() {
    if (!options_.nodes) return;
    options_.nodes->attach(
        [this](std::vector<Envelope> batch) { post(std::move(batch)); });
  }

  void request(const Envelope& envelope) {
    const std::lock_guard lock(ports_mutex_);
    if (closing_) return;  // stays without a reply
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return broken(message.error());
    if (const auto* cancel = std::get_if<CancelEffect>(&*message)) {
      return this->cancel({envelope.src, envelope.dst, cancel->effect});
    }
    const bool at_node = !node_of(location_of(envelope.dst)).empty();
    Port* port = find_port(ports_, envelope.dst);
    if (!port && !(at_node && options_.nodes)) {
      // A node that has just left: its leases are lost, and that is the answer.
      if (at_node) return;
      return broken({ErrorCode::failed,
                     "no port takes " + envelope.type + " at " + envelope.dst});
    }
    const Effect effect{envelope.src, envelope.dst, effect_of(*message)};
    // Copied: the group must not live for as long as its slowest request.
    const auto answer = [this, effect, at_node,
                         seq = envelope.seq](Message reply) {
      if (closing_) return;  // it says that it was stopped
      if (!at_node && is_unfit_for(reply)) return;
      const auto& [asker, address, number] = effect;
      post(to_envelopes(address, seq, {{asker, std::move(reply)}}));
      settle_effect(effect);
    };
    if (port) return port->begin(*message, cancellable(effect), answer);
    options_.nodes->begin(envelope, *message, cancellable(effect), answer);
  }

  /// A role's turn: on one of CAF's threads.
  void handle(RoleState& state, const Envelope& envelope) {
    const CrashScope scope(envelope);
    try {
      const auto message = decode(envelope.type, envelope.body);
      if (!message) return broken(message.error());
      WatchedBlobs blobs(blobs_);
      Context context(blobs, envelope.at_us);
      state.role->receive(envelope.src, *message, context);
      // What the role makes of it would be no decision of its own.
      if (blobs.error()) return broken(*blobs.error());
      auto envelopes =
          to_envelopes(state.address, envelope.seq, context.take_outbox());
      if (!envelopes.empty()) post(std::move(envelopes));
    } catch (const std::exception& bug) {
      broken({ErrorCode::failed, "role " + state.address + " failed on event " +
                                     std::to_string(envelope.seq) + ": " +
                                     bug.what()});
    }
    --in_flight_;  // what it said is counted already
  }

  /// For a run that had ended before: its roles may have more to say.
  void finish(const RunFinished& finished) {
    end({HostEnd::Kind::finished, finished, {}});
  }

  HostEnd wait(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    const auto has_end = [this] { return end_.has_value(); };
    while (!ended_.wait_for(lock, stop, kLongWaitTick, has_end)) {
      if (stop.stop_requested()) {
        return {HostEnd::Kind::interrupted, {}, {}};
      }
      lock.unlock();
      const std::string waits_for = long_wait();
      lock.lock();
      if (!waits_for.empty() && !end_) {
        return {HostEnd::Kind::suspended, {}, {}, waits_for};
      }
    }
    return *end_;
  }

 private:
  using Effect = std::tuple<Address, Address, std::uint64_t>;  // asker, port

  std::stop_token cancellable(const Effect& effect) {
    const std::lock_guard lock(effects_mutex_);
    return running_[effect].get_token();
  }

  /// Breaks the run where a reply may be this machine's fault: who resumes it
  /// asks again.
  bool is_unfit_for(const Message& reply) {
    if (!options_.why_unfit || !speaks_against(reply)) return false;
    const std::string why = options_.why_unfit();
    if (why.empty()) return false;
    broken({ErrorCode::missing,
            why + ": make room, then go on with 'weft resume'"});
    return true;
  }

  /// Names the events that the run waits for, if they may take hours. Nothing
  /// else is under way then, except for long timers. Empty: an answer may come
  /// soon. Nodes may come at any time, and must find the head.
  std::string long_wait() {
    if (options_.nodes) return "";
    std::set<Address> asked;
    {
      const std::lock_guard lock(effects_mutex_);
      for (const auto& [effect, source] : running_) {
        asked.insert(std::get<1>(effect));
      }
    }
    if (in_flight_ > 0) return "";  // after what is asked: answers count, too
    std::string text;
    const std::lock_guard lock(ports_mutex_);
    for (const Address& port : asked) {
      const Port* found = find_port(ports_, port);
      const std::string waits_for = found ? found->waits_for() : "";
      if (waits_for.empty()) return "";
      if (port == address::clock) continue;
      text += (text.empty() ? "" : ", ") + waits_for;
    }
    return text;
  }

  void settle_effect(const Effect& effect) {
    const std::lock_guard lock(effects_mutex_);
    running_.erase(effect);
  }

  /// What has been answered already is not there any more.
  void cancel(const Effect& effect) {
    std::stop_source source(std::nostopstate);
    {
      const std::lock_guard lock(effects_mutex_);
      const auto found = running_.find(effect);
      if (found == running_.end()) return;
      source = found->second;
    }
    source.request_stop();  // the port may answer within
  }

  /// No port is asked after this. What runs in them is stopped, and none is
  /// heard: what they did was killed, and whoever resumes the run asks again.
  void close_ports() {
    {
      const std::lock_guard lock(ports_mutex_);
      closing_ = true;
    }
    if (options_.nodes) options_.nodes->close(has_finished());
    ports_.clear();
  }

  bool has_finished() {
    const std::lock_guard lock(mutex_);
    return end_ && end_->kind == HostEnd::Kind::finished;
  }

  /// Waits until every role has said all that it has to say, so that a replay
  /// of a finished run may demand each word. Roles only react, and nothing
  /// comes from outside any more: this ends soon.
  void settle() {
    while (in_flight_ > 0 && !is_broken_) {
      std::this_thread::sleep_for(kSettleTick);
    }
  }

  void deliver(const SharedGroup& group) {
    for (std::uint32_t i = 0; i < group->size(); ++i) {
      const Envelope& envelope = (*group)[i];
      const CrashScope scope(envelope);
      if (options_.on_event) options_.on_event(envelope);
      const bool to_role = envelope.dst != address::user &&
                           !is_port(envelope.dst) &&
                           envelope.dst != stale_address;
      if (to_role) {
        inform_nodes(envelope);
        gather(envelope.dst, i);
        continue;
      }
      if (envelope.dst == address::user) inform_user(envelope);
      if (is_port(envelope.dst)) request(envelope);
      if (envelope.dst == stale_address) inform_nodes(envelope);
      --in_flight_;
    }
    for (Seat* seat : gathered_) {
      caf_compat::post(seat->actor, Delivery{group, std::move(seat->mine)});
      seat->mine = {};
    }
    gathered_.clear();
  }

  /// A node's answer is in the journal: the node may forget it.
  void inform_nodes(const Envelope& envelope) {
    if (!options_.nodes || !is_port(envelope.src)) return;
    if (node_of(location_of(envelope.src)).empty()) return;
    options_.nodes->journaled(envelope);
  }

  void gather(const Address& address, std::uint32_t index) {
    auto found = seats_.find(address);
    if (found == seats_.end()) {
      auto role = options_.make_role(address);
      if (!role) {
        return broken({ErrorCode::failed, "nobody stands at " + address});
      }
      found = spawn(address, std::move(role));
    }
    Seat& seat = found->second;
    if (seat.mine.empty()) gathered_.push_back(&seat);
    seat.mine.push_back(index);
  }

  std::unordered_map<Address, Seat>::iterator spawn(
      const Address& address, std::unique_ptr<Role> role) {
    auto initial = std::make_shared<RoleState>();
    initial->role = std::move(role);
    initial->address = address;
    initial->host = this;
    return seats_.emplace(address, Seat{system_.spawn(role_actor, initial), {}})
        .first;
  }

  void inform_user(const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return broken(message.error());
    if (options_.on_user) options_.on_user(envelope, *message);
    if (const auto* finished = std::get_if<RunFinished>(&*message)) {
      end({HostEnd::Kind::finished, *finished, {}});
    }
  }

  void broken(const Error& error) {
    is_broken_ = true;
    HostEnd how;
    how.error = error;
    end(std::move(how));
  }

  void end(HostEnd how) {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = std::move(how);  // what came first counts
    ended_.notify_all();
  }

  BlobStore& blobs_;
  Ports& ports_;
  const HostOptions& options_;
  caf::actor_system_config config_;
  caf::actor_system system_;
  std::unordered_map<Address, Seat> seats_;  // the spine's thread only
  std::vector<Seat*> gathered_;  // likewise: who gets some of one commit
  std::unique_ptr<Spine> spine_;
  std::atomic<std::size_t> in_flight_ = 0;  // posted, not yet handled
  std::atomic<bool> is_broken_ = false;
  std::mutex ports_mutex_;
  std::mutex effects_mutex_;
  std::map<Effect, std::stop_source> running_;
  std::atomic<bool> closing_ = false;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::optional<HostEnd> end_;
};

caf::behavior role_actor(RoleActor* self, std::shared_ptr<RoleState> initial) {
  caf_compat::state(self) = std::move(*initial);
  return {[self](const Delivery& delivery) {
    RoleState& state = caf_compat::state(self);
    for (const std::uint32_t i : delivery.mine) {
      state.host->handle(state, (*delivery.group)[i]);
    }
  }};
}

/// Why a journal's past is not this weft's.
Error why_not(const Replay& past, const HostOptions& options) {
  if (past.error()) return *past.error();
  std::string text =
      "this version of weft decides differently from the version that began "
      "the run (" +
      options.version_text + "): " + to_string(*past.divergence());
  if (past.divergence()->only_content) {
    text +=
        "\nuse that weft, or go on from what is recorded: weft resume "
        "--recorded";
  }
  return {ErrorCode::damaged, text};
}

}  // namespace

HostEnd host_run(Journal& journal, BlobStore& blobs, Ports& ports,
                 const HostOptions& options, const Address& dst,
                 const Message& first, std::stop_token stop) {
  CafHost host(journal, blobs, ports, options, nullptr);
  host.post(to_envelopes(address::user, 0, {{dst, first}}));
  host.attach_nodes();
  return host.wait(stop);
}

Result<HostEnd> host_resume(Journal& journal, BlobStore& blobs, Ports& ports,
                            const HostOptions& options, std::stop_token stop) {
  Replay past(blobs, options.make_role, options.content_rule);
  bool fits = true;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    fits = past.feed(envelope);
    return fits;
  });
  if (!read) return std::unexpected(read.error());
  if (!fits) return std::unexpected(why_not(past, options));
  std::vector<Envelope> missing = past.take_missing();
  const auto open = past.open_requests();
  const auto finished = past.finished();
  CafHost host(journal, blobs, ports, options, &past);
  if (!finished) {
    // Before what is said next: it may cancel one of them.
    for (const auto& [seq, request] : open) host.request(request);
    for (const Envelope& cancel : past.cancels()) host.request(cancel);
  }
  if (!missing.empty()) host.post(std::move(missing));
  if (finished) host.finish(*finished);
  if (!finished) host.attach_nodes();
  return host.wait(stop);
}

}  // namespace weft
