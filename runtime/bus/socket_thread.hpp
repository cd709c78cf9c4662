// The one thread that owns a bus's ZeroMQ socket: a ROUTER at the head, a
// DEALER at a node. Others hand it closures; it hands frames to its owner's
// callbacks. It always reads: backpressure is the protocol's credits, never a
// full pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/bus/frame.hpp"
#include "runtime/bus/keys.hpp"

namespace weft {

class SocketThread {
 public:
  struct Options {
    bool is_head = false;
    std::string endpoint;  ///< bound at the head, connected to at a node
    BusKeys keys;
    /// Of one peer, that wait to be read or sent.
    int queue_messages = 10'000;
    /// A peer that sends a larger part is cut off.
    std::int64_t message_bytes_max =
        static_cast<std::int64_t>(wire::kBodyBytesMax);
  };
  /// All on the thread.
  struct Callbacks {
    std::function<void(const std::string& peer, std::string_view header,
                       std::string body, std::int64_t now_ms)>
        on_frame;
    /// After each turn's frames and closures; `is_tick` ten times a second.
    std::function<void(std::int64_t now_ms, bool is_tick)> on_turn;
    /// Somebody whose key is not allowed.
    std::function<void()> on_stranger;
  };

  SocketThread(Options options, Callbacks callbacks);
  ~SocketThread();

  /// wrong_input: the address cannot be bound, or is none.
  Result<void> start();

  /// Ends the thread; what was sent last has half a second to leave.
  void stop();

  /// Any thread. Closures run in order; after stop() they are dropped.
  void post(std::function<void()> task);

  /// On the thread only. What cannot be sent now is dropped: the protocol sends
  /// again what matters.
  void send(const std::string& peer, const wire::Frame& frame);
  /// Closes the connection that the frame in hand came by.
  void cut();
  /// The public key of who sent the frame in hand; empty: there are no keys.
  const std::string& sender_key() const { return sender_key_; }
  /// A node's: another socket, another connection. Where there is none to be
  /// had, it is tried again with each tick.
  void reconnect();

  /// Where it is bound, with its port: "tcp://127.0.0.1:34567".
  const std::string& bound() const { return bound_; }
  static std::int64_t now_ms();

 private:
  struct Sockets;
  void loop(std::promise<Result<void>>& started);
  Result<void> open();
  void wait(std::int64_t wait_ms);
  bool read_some(std::int64_t now_ms);
  void authenticate();
  void run_tasks();

  Options options_;
  Callbacks callbacks_;
  std::string bound_;
  std::unique_ptr<Sockets> sockets_;
  int frame_fd_ = -1;       // of the connection that the frame in hand came by
  std::string sender_key_;  // of the frame in hand
  int wake_ = -1;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
  std::thread::id self_;  // before start() returns
};

}  // namespace weft
