#include "runtime/bus/socket_thread.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>
#include <zmq.hpp>

namespace weft {
namespace {

constexpr int kLingerMs = 500;
constexpr int kHandshakeMs = 10'000;
constexpr std::int64_t kTickMs = 100;
constexpr int kFramesPerTurn = 256;
/// ZMQ_ZAP_ENFORCE_DOMAIN: a draft constant that Debian's header lacks and its
/// library knows. Without it a missing ZAP handler would let everybody in.
constexpr int kZapEnforceDomain = 93;
constexpr const char* kZapDomain = "weft";
constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";

/// A connection is an open file, and a shell's usual limit is 1,024 of them.
void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 65'536);
  setrlimit(RLIMIT_NOFILE, &files);
}

/// Advice for an address that cannot be used.
std::string advice_for(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another program listens there: end it, or choose another port";
    case EACCES:
    case EPERM:
      return "choose a port or a folder that this user may use";
    case ENODEV:
    case EADDRNOTAVAIL:
      return "this machine has no such address: tcp://0.0.0.0:PORT is all of "
             "its own";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise the limit (ulimit -n)";
    default:
      return "an address is tcp://HOST:PORT";
  }
}

std::string text_of(const zmq::message_t& message) {
  return {static_cast<const char*>(message.data()), message.size()};
}

}  // namespace

struct SocketThread::Sockets {
  zmq::context_t context{1};
  zmq::socket_t zap;
  zmq::socket_t socket;
};

SocketThread::SocketThread(Options options, Callbacks callbacks)
    : options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

SocketThread::~SocketThread() {
  stop();
  close(wake_);
}

void SocketThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const std::uint64_t increment = 1;
  (void)!write(wake_, &increment, sizeof increment);
  thread_.join();
}

Result<void> SocketThread::start() {
  std::promise<Result<void>> started;
  auto outcome = started.get_future();
  thread_ = std::thread(
      [this, promise = std::move(started)]() mutable { loop(promise); });
  return outcome.get();
}

void SocketThread::post(std::function<void()> task) {
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    asleep = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  // The thread itself looks for more before it sleeps.
  if (!asleep || std::this_thread::get_id() == self_) return;
  const std::uint64_t increment = 1;
  (void)!write(wake_, &increment, sizeof increment);
}

std::int64_t SocketThread::now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch())
      .count();
}

Result<void> SocketThread::open() {
  try {
    if (!sockets_) sockets_ = std::make_unique<Sockets>();
    sockets_->socket = zmq::socket_t(
        sockets_->context, options_.is_head ? ZMQ_ROUTER : ZMQ_DEALER);
    zmq::socket_t& socket = sockets_->socket;
    namespace option = zmq::sockopt;
    socket.set(option::sndhwm, options_.queue_messages);
    socket.set(option::rcvhwm, options_.queue_messages);
    socket.set(option::linger, kLingerMs);
    socket.set(option::handshake_ivl, kHandshakeMs);
    socket.set(option::reconnect_ivl, 100);
    socket.set(option::reconnect_ivl_max, 2'000);
    socket.set(option::maxmsgsize, options_.message_bytes_max);
    const BusKeys& keys = options_.keys;
    if (!keys.empty()) {
      socket.set(option::curve_publickey, keys.own_public);
      socket.set(option::curve_secretkey, keys.own_secret);
    }
    if (options_.is_head) {
      allow_many_files();
      socket.set(option::router_mandatory, true);
      if (!keys.empty()) {
        sockets_->zap = zmq::socket_t(sockets_->context, ZMQ_REP);
        sockets_->zap.bind(kZapEndpoint);  // must be there before the other
        socket.set(option::curve_server, true);
        socket.set(option::zap_domain, kZapDomain);
        const int yes = 1;
        zmq_setsockopt(socket.handle(), kZapEnforceDomain, &yes, sizeof yes);
      }
      socket.bind(options_.endpoint);
      bound_ = socket.get(option::last_endpoint);
    } else {
      // Without a connection nothing is queued: it would be stale by then.
      socket.set(option::immediate, true);
      if (!keys.empty()) socket.set(option::curve_serverkey, keys.head_public);
      socket.connect(options_.endpoint);
    }
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::wrong_input,
                std::string(options_.is_head ? "cannot listen on "
                                             : "cannot connect to ") +
                    options_.endpoint + ": " + error.what() + "; " +
                    advice_for(error.num()));
  }
  return {};
}

void SocketThread::loop(std::promise<Result<void>>& started) {
  self_ = std::this_thread::get_id();
  const auto opened = open();
  started.set_value(opened);
  if (!opened) {
    sockets_.reset();
    return;
  }
  std::int64_t next_tick_ms = now_ms();
  bool more = false;
  while (true) {
    wait(more ? 0 : std::max<std::int64_t>(0, next_tick_ms - now_ms()));
    run_tasks();
    const std::int64_t now = now_ms();
    more = read_some(now);
    const bool is_tick = now >= next_tick_ms;
    if (is_tick) next_tick_ms = now + kTickMs;
    if (is_tick && !sockets_->socket) reconnect();
    callbacks_.on_turn(now, is_tick);
    const std::lock_guard lock(mutex_);
    if (stopping_ && tasks_.empty()) break;
    more = more || !tasks_.empty();
  }
  sockets_->socket.close();
  if (sockets_->zap.handle()) sockets_->zap.close();
  sockets_.reset();  // waits for what lingers
}

/// Until something comes or is to be done.
void SocketThread::wait(std::int64_t wait_ms) {
  std::vector<pollfd> items = {{wake_, POLLIN, 0}};
  for (zmq::socket_t* socket : {&sockets_->socket, &sockets_->zap}) {
    if (!*socket) continue;
    // Its file tells of a change, once: what came before is asked for first.
    if (socket->get(zmq::sockopt::events) & ZMQ_POLLIN) wait_ms = 0;
    items.push_back({socket->get(zmq::sockopt::fd), POLLIN, 0});
  }
  if (wait_ms > 0) {
    poll(items.data(), items.size(), static_cast<int>(wait_ms));
    std::uint64_t count = 0;
    if (items[0].revents) (void)!read(wake_, &count, sizeof count);
  }
  if (sockets_->zap) authenticate();
}

void SocketThread::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    std::swap(tasks, tasks_);
  }
  for (auto& task : tasks) task();
}

/// True when there may be more: others have their turn first.
bool SocketThread::read_some(std::int64_t now_ms) {
  if (!sockets_->socket) return false;
  for (int count = 0; count < kFramesPerTurn; ++count) {
    zmq::message_t peer, header, body;
    zmq::socket_t& socket = sockets_->socket;
    try {
      if (options_.is_head) {
        if (!socket.recv(peer, zmq::recv_flags::dontwait)) return false;
        if (!socket.recv(header, zmq::recv_flags::dontwait)) return false;
      } else if (!socket.recv(header, zmq::recv_flags::dontwait)) {
        return false;
      }
      bool is_honest = true;
      if (header.more()) {
        (void)socket.recv(body, zmq::recv_flags::dontwait);
        for (zmq::message_t rest; body.more() || rest.more();) {
          is_honest = false;
          if (!socket.recv(rest, zmq::recv_flags::dontwait)) break;
          if (!rest.more()) break;
        }
      }
      frame_fd_ = zmq_msg_get(header.handle(), ZMQ_SRCFD);
      const char* key = zmq_msg_gets(header.handle(), "User-Id");
      sender_key_ = key == nullptr ? "" : key;
      const std::string from = options_.is_head ? text_of(peer) : "";
      // An empty header is no frame: the protocol sees it, and cuts.
      const std::string_view head(static_cast<const char*>(header.data()),
                                  is_honest ? header.size() : 0);
      callbacks_.on_frame(from, head, text_of(body), now_ms);
      frame_fd_ = -1;
    } catch (const zmq::error_t&) {
      return false;
    }
  }
  return true;
}

void SocketThread::send(const std::string& peer, const wire::Frame& frame) {
  void* socket = sockets_->socket.handle();
  const int more = frame.body ? ZMQ_SNDMORE : 0;
  if (options_.is_head && zmq_send(socket, peer.data(), peer.size(),
                                   ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
    return;  // it is gone, or its pipe is full
  }
  const auto& header = frame.header;
  if (zmq_send(socket, header.data(), header.size(), ZMQ_DONTWAIT | more) < 0) {
    return;
  }
  if (frame.body) {
    zmq_send(socket, frame.body->data(), frame.body->size(), ZMQ_DONTWAIT);
  }
}

void SocketThread::cut() {
  if (frame_fd_ >= 0) shutdown(frame_fd_, SHUT_RDWR);
}

void SocketThread::reconnect() {
  if (sockets_->socket) sockets_->socket.set(zmq::sockopt::linger, 0);
  sockets_->socket.close();
  if (!open()) sockets_->socket.close();
}

/// ZAP (RFC 27): says yes or no to a key, before any frame of its bearer's.
void SocketThread::authenticate() {
  for (int count = 0; count < kFramesPerTurn; ++count) {
    std::vector<zmq::message_t> parts;
    do {
      zmq::message_t part;
      if (!sockets_->zap.recv(part, zmq::recv_flags::dontwait)) return;
      parts.push_back(std::move(part));
    } while (parts.back().more());
    char key[41] = "";
    if (parts.size() > 6 && text_of(parts[5]) == "CURVE" &&
        parts[6].size() == 32) {
      zmq_z85_encode(key, parts[6].data<std::uint8_t>(), 32);
    }
    const bool allowed = options_.keys.allowed.contains(key);
    const std::string replies[] = {"1.0",
                                   parts.size() > 1 ? text_of(parts[1]) : "",
                                   allowed ? "200" : "400",
                                   allowed ? "" : "key not allowed",
                                   allowed ? key : "",
                                   ""};
    for (std::size_t i = 0; i < std::size(replies); ++i) {
      const bool last = i + 1 == std::size(replies);
      sockets_->zap.send(
          zmq::buffer(replies[i]),
          last ? zmq::send_flags::none : zmq::send_flags::sndmore);
    }
    if (!allowed) callbacks_.on_stranger();
  }
}

}  // namespace weft
