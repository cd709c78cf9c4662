#include "runtime/bus/node.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "messages/untrusted.hpp"
#include "runtime/bus/node_blobs.hpp"
#include "runtime/bus/socket_thread.hpp"
#include "runtime/host/speaks_against.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/machine/work_queue.hpp"

namespace weft {
namespace {

/// What the socket thread hands to the node's own.
using Event =
    std::variant<node_action::Begin, node_action::Work, node_action::Stop,
                 node_action::End, node_action::Quit>;

/// How often the node's file says that it lives.
constexpr std::int64_t kSayMs = 5'000;

class Node {
 public:
  explicit Node(NodeOptions options)
      : options_(std::move(options)),
        blobs_({options_.folder / "blobs", std::uint64_t{2} << 30,
                options_.lose_every, 600'000}),
        protocol_(options_.protocol) {
    SocketThread::Options socket;
    socket.endpoint = options_.endpoint;
    socket.keys = options_.keys;
    SocketThread::Callbacks callbacks;
    callbacks.on_frame = [this](const std::string&, std::string_view header,
                                std::string body, std::int64_t now_ms) {
      protocol_.on_frame(header, std::move(body), now_ms);
      act();
    };
    callbacks.on_turn = [this](std::int64_t now_ms, bool is_tick) {
      is_tick ? protocol_.tick(now_ms) : protocol_.flush(now_ms);
      if (is_tick) say_alive(now_ms);
      act();
    };
    callbacks.on_stranger = [] {};
    socket_ =
        std::make_unique<SocketThread>(std::move(socket), std::move(callbacks));
    blobs_.set_fetch([this](const std::string& hash) {
      socket_->post([this, hash] { protocol_.need(hash); });
    });
  }

  ~Node() {
    end_run();
    socket_->stop();
    loader_.reset();
  }

  Result<void> serve(std::stop_token stop) {
    if (const auto started = socket_->start(); !started) return started;
    const std::stop_callback leave(stop, [this] {
      socket_->post([this] {
        protocol_.leave(SocketThread::now_ms());
        act();
      });
    });
    while (true) {
      Event event = next();
      if (auto* quit = std::get_if<node_action::Quit>(&event)) {
        end_run();
        const std::lock_guard lock(mutex_);
        if (!unfit_.empty()) return fail(ErrorCode::missing, unfit_);
        if (quit->refused.empty()) return {};
        return fail(ErrorCode::missing,
                    "the head will not have this node: " + quit->refused);
      }
      std::visit([this](auto& item) { handle(item); }, event);
    }
  }

 private:
  Event next() {
    std::unique_lock lock(mutex_);
    woken_.wait(lock, [this] { return !events_.empty(); });
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void hand(Event event) {
    bool asleep = false;
    {
      const std::lock_guard lock(mutex_);
      asleep = events_.empty();
      events_.push_back(std::move(event));
    }
    if (asleep) woken_.notify_one();
  }

  // On the node's own thread

  void handle(const node_action::Begin& begin) {
    const auto start = decode(RunStart::name, begin.start);
    if (!start) {
      return log("the head's run cannot be read: " + start.error().message);
    }
    const auto sound = check_start(std::get<RunStart>(*start));
    if (!sound) {
      return log("the head's run is not served: " + sound.error().message);
    }
    log("serving run " + begin.run.substr(0, 8));
    blobs_.begin_run();
    lives_ = std::make_shared<std::atomic<bool>>(true);
    serving_ = options_.make_ports(blobs_, std::get<RunStart>(*start));
    const std::lock_guard lock(space_mutex_);
    free_space_ = serving_->free_space;
  }

  void handle(const node_action::Work& work) {
    const auto message = decode(work.type, work.body);
    if (!message) return;  // a head of this wire and version does not
    const auto port =
        serving_ ? serving_->ports.find(work.port) : Ports::iterator();
    if (!serving_ || port == serving_->ports.end()) {
      return answer(
          work.id, *message,
          failed_reply(*message, {"missing", "this node has no " + work.port}));
    }
    std::stop_token cancelled;
    {
      const std::lock_guard lock(mutex_);
      cancelled = running_[work.id].get_token();
    }
    port->second->begin(*message, cancelled,
                        [this, id = work.id, request = *message,
                         lives = lives_](Message reply) {
                          // Of a run that has ended: its number may be
                          // another request's by now.
                          if (*lives) answer(id, request, std::move(reply));
                        });
  }

  void handle(const node_action::Stop& stop) {
    std::stop_source source(std::nostopstate);
    {
      const std::lock_guard lock(mutex_);
      const auto found = running_.find(stop.id);
      if (found == running_.end()) return;
      source = found->second;
    }
    source.request_stop();
  }

  void handle(const node_action::End&) {
    end_run();
    log("the run has ended");
  }

  void handle(const node_action::Quit&) {}

  void end_run() {
    *lives_ = false;
    blobs_.end_run();
    std::map<std::uint64_t, std::stop_source> running;
    {
      const std::lock_guard lock(mutex_);
      std::swap(running, running_);
    }
    // Before the ports are waited for: each ends what it does.
    for (auto& [id, work] : running) work.request_stop();
    {
      // Nobody is at it afterwards: its ports go one by one.
      const std::lock_guard lock(space_mutex_);
      free_space_ = nullptr;
    }
    serving_.reset();  // its answers are for nobody
  }

  /// Any thread.
  void answer(std::uint64_t id, const Message& request, Message reply) {
    {
      const std::lock_guard lock(mutex_);
      running_.erase(id);
    }
    if (options_.why_unfit && speaks_against(reply)) {
      const std::string why = options_.why_unfit();
      if (!why.empty()) {
        free_space();
        std::string still = options_.why_unfit();
        if (!still.empty()) return give_up(std::move(still));
        // Its failure is no verdict, and it may be what filled the disk.
        reply =
            failed_reply(request, {"disk_full", "the disk is full: " + why});
      }
    }
    std::string body = encode(reply);
    if (body.size() > wire::kBodyBytesMax) {
      reply = failed_reply(
          request, {"refused", wire::too_large_text("the answer", body.size(),
                                                    wire::kBodyBytesMax)});
      body = encode(reply);
    }
    auto pinned = blobs_.pin(id, body);
    if (!pinned) {
      free_space();
      pinned = blobs_.pin(id, body);
    }
    if (!pinned) return give_up(pinned.error().message);
    socket_->post([this, id, type = std::string(name_of(reply)),
                   body = std::move(body),
                   made = std::move(*pinned)]() mutable {
      protocol_.result(id, std::move(type), std::move(body), std::move(made),
                       SocketThread::now_ms());
      act();
    });
  }

  void free_space() {
    const std::lock_guard lock(space_mutex_);
    if (free_space_) free_space_();
  }

  /// The machine's fault is nobody's answer: the head has the work done
  /// elsewhere, with all else that is under way here. Any thread.
  void give_up(std::string why) {
    {
      const std::lock_guard lock(mutex_);
      if (!unfit_.empty()) return;
      unfit_ = why;
    }
    socket_->post([this, why = std::move(why)]() mutable {
      protocol_.leave(SocketThread::now_ms(), std::move(why));
      act();
    });
  }

  // On the socket thread

  void act() {
    for (NodeAction& action : protocol_.take_actions()) {
      std::visit([this](auto& item) { perform(std::move(item)); }, action);
    }
  }

  /// For those who watch processes, as Kubernetes' probes. Where it cannot be
  /// written, they see an older one.
  void say_alive(std::int64_t now_ms) {
    const bool is_in = protocol_.is_in();
    if (is_in == said_in_ && now_ms - said_ms_ < kSayMs) return;
    said_in_ = is_in;
    said_ms_ = now_ms;
    (void)write_file_whole(options_.folder / "alive", is_in ? "in\n" : "out\n");
  }

  void perform(node_action::Send action) { socket_->send("", action.frame); }
  void perform(node_action::Reconnect) { socket_->reconnect(); }
  void perform(node_action::Begin action) { hand(std::move(action)); }
  void perform(node_action::Stop action) { hand(action); }
  void perform(node_action::End action) { hand(action); }
  void perform(node_action::Quit action) { hand(std::move(action)); }
  void perform(node_action::Log action) { log(action.text); }
  void perform(node_action::Settled action) { blobs_.settled(action.id); }
  void perform(node_action::Blob action) {
    blobs_.deliver(action.hash, action.bytes);
  }
  void perform(node_action::Work action) {
    // Fetched while it waits for its turn.
    std::vector<std::string> hashes = wire::hashes_in(action.body);
    if (hashes.empty()) return hand(std::move(action));
    loader_->push([this, hashes = std::move(hashes)] {
      for (const std::string& hash : hashes) {
        if (blobs_.find(hash)) continue;
        socket_->post([this, hash] { protocol_.need(hash); });
      }
    });
    hand(std::move(action));
  }
  void perform(node_action::Load action) {
    loader_->push([this, hash = action.hash] {
      auto bytes = blobs_.find(hash);
      socket_->post([this, hash, bytes] {
        protocol_.loaded(hash, bytes);
        act();
      });
    });
  }

  void log(const std::string& text) {
    if (options_.log) options_.log(text);
  }

  NodeOptions options_;
  NodeBlobs blobs_;
  NodeProtocol protocol_;  // the socket thread's, as the next two
  bool said_in_ = false;
  std::int64_t said_ms_ = -kSayMs;
  std::unique_ptr<SocketThread> socket_;
  std::unique_ptr<WorkQueue> loader_ = std::make_unique<WorkQueue>(1);
  std::mutex mutex_;
  std::condition_variable woken_;
  std::deque<Event> events_;
  std::map<std::uint64_t, std::stop_source> running_;
  std::string unfit_;  // why the node goes; empty: it does not
  // Whether answers are the run's in hand; one for each run.
  std::shared_ptr<std::atomic<bool>> lives_ =
      std::make_shared<std::atomic<bool>>(false);
  std::optional<NodePorts> serving_;  // the node's own thread's
  std::mutex space_mutex_;            // held while room is made
  std::function<void()> free_space_;  // serving_'s, as long as its ports are
};

}  // namespace

Result<void> serve_as_node(NodeOptions options, std::stop_token stop) {
  Node node(std::move(options));
  return node.serve(std::move(stop));
}

}  // namespace weft
