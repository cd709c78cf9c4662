// The page server's connections: how many there may be, and how long each may
// take. A connection costs a thread only once its request is there: whoever
// sends half a request, or nothing, waits beside the others and holds none of
// them up.
#pragma once

#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weft {

struct ConnectionLimits {
  std::size_t waiting_max = 256;  ///< without a request; more: the oldest goes
  std::size_t queue_max = 256;    ///< requests that no thread has taken yet
  std::size_t threads = 16;       ///< that answer
  std::size_t header_bytes_max = 16 << 10;
  std::chrono::milliseconds header_max{5'000};   ///< from its first byte
  std::chrono::milliseconds idle_max{2'000};     ///< between two requests
  std::chrono::milliseconds answer_max{10'000};  ///< for a reader of an answer
  int requests_max = 100;                        ///< on one connection
};

/// An httplib::Server whose connections are limited so. Requests have no body.
class LimitedServer : public httplib::Server {
 public:
  explicit LimitedServer(const ConnectionLimits& limits = {});
  ~LimitedServer() override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int socket = -1;
    std::string bytes;  ///< received, not yet taken
    Clock::time_point deadline;
    int requests = 0;
  };
  class Entrance;

  bool process_and_close_socket(socket_t socket) override;
  void admit(Connection connection);
  void begin();
  void end();
  void watch();
  void take_arrivals(std::vector<Connection>& waiting);
  /// False: it is not waited for any more.
  bool hear(Connection& connection);
  void work();
  void answer(Connection connection);

  const ConnectionLimits limits_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ready_;
  std::vector<Connection> arrivals_;
  std::deque<Connection> requests_;
  bool ends_ = false;
  int wake_ = -1;  // an event: arrivals_ or ends_ changed
  std::vector<std::jthread> threads_;
};

}  // namespace weft
