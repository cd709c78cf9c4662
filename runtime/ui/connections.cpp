#include "runtime/ui/connections.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kHeaderEnd = "\r\n\r\n";

int left_ms(Clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

/// Whether the header announces a body, which no request of ours has.
bool announces_body(std::string_view header) {
  std::string lower(header);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  if (lower.contains("\ntransfer-encoding")) return true;
  const auto at = lower.find("\ncontent-length:");
  if (at == lower.npos) return false;
  const auto value = lower.find_first_not_of(" \t", lower.find(':', at) + 1);
  return value != lower.npos &&
         (lower[value] != '0' || lower.substr(value + 1, 1) != "\r");
}

/// What a request is read from, and its answer written to.
class RequestStream : public httplib::Stream {
 public:
  RequestStream(int socket, std::string& bytes, Clock::time_point deadline)
      : socket_(socket), bytes_(bytes), deadline_(deadline) {}

  /// What is left is the next request's.
  ~RequestStream() override { bytes_.erase(0, taken_); }

  bool is_readable() const override { return taken_ < bytes_.size(); }
  bool is_writable() const override { return left_ms(deadline_) > 0; }

  ssize_t read(char* to, std::size_t size) override {
    const auto count = std::min(size, bytes_.size() - taken_);
    std::memcpy(to, bytes_.data() + taken_, count);
    taken_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, std::size_t size) override {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t sent =
          send(socket_, from + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        done += static_cast<std::size_t>(sent);
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return -1;
      pollfd item{socket_, POLLOUT, 0};
      if (poll(&item, 1, left_ms(deadline_)) == 0) return -1;
    }
    return static_cast<ssize_t>(size);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    get_remote_ip_and_port(ip, port);
  }
  socket_t socket() const override { return socket_; }

 private:
  int socket_;
  std::string& bytes_;
  std::size_t taken_ = 0;
  Clock::time_point deadline_;
};

void refuse(int socket, const char* status) {
  const std::string text = std::string("HTTP/1.1 ") + status +
                           "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  (void)send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

/// Runs what the accepting thread hands over at once: it only admits.
class LimitedServer::Entrance : public httplib::TaskQueue {
 public:
  explicit Entrance(LimitedServer& server) : server_(server) {
    server_.begin();
  }
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override { server_.end(); }

 private:
  LimitedServer& server_;
};

LimitedServer::LimitedServer(const ConnectionLimits& limits) : limits_(limits) {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  new_task_queue = [this] { return new Entrance(*this); };
}

LimitedServer::~LimitedServer() {
  end();
  close(wake_);
}

void LimitedServer::begin() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = false;
  }
  threads_.emplace_back([this] { watch(); });
  for (std::size_t i = 0; i < limits_.threads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

void LimitedServer::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ready_.notify_all();
  const std::uint64_t increment = 1;
  (void)!write(wake_, &increment, sizeof increment);
  threads_.clear();  // which waits for them
  const std::lock_guard lock(mutex_);
  for (const Connection& arrival : arrivals_) close(arrival.socket);
  for (const Connection& request : requests_) close(request.socket);
  arrivals_.clear();
  requests_.clear();
}

bool LimitedServer::process_and_close_socket(socket_t socket) {
  admit({socket, "", Clock::now() + limits_.header_max, 0});
  return true;
}

void LimitedServer::admit(Connection connection) {
  {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(connection));
  }
  const std::uint64_t increment = 1;
  (void)!write(wake_, &increment, sizeof increment);
}

void LimitedServer::take_arrivals(std::vector<Connection>& waiting) {
  const std::lock_guard lock(mutex_);
  for (Connection& arrival : arrivals_) waiting.push_back(std::move(arrival));
  arrivals_.clear();
  while (waiting.size() > limits_.waiting_max) {
    close(waiting.front().socket);
    waiting.erase(waiting.begin());
  }
}

/// The thread of those that have no request yet.
void LimitedServer::watch() {
  std::vector<Connection> waiting;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) break;
    }
    std::vector<pollfd> events = {{wake_, POLLIN, 0}};
    int wait_ms = 60'000;
    for (const Connection& connection : waiting) {
      events.push_back({connection.socket, POLLIN, 0});
      wait_ms = std::min(wait_ms, left_ms(connection.deadline));
    }
    poll(events.data(), events.size(), wait_ms);
    std::vector<Connection> still;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      Connection& connection = waiting[i];
      const bool is_heard =
          events[i + 1].revents != 0 || !connection.bytes.empty();
      if (is_heard && !hear(connection)) continue;
      if (left_ms(connection.deadline) == 0) {
        close(connection.socket);
      } else {
        still.push_back(std::move(connection));
      }
    }
    waiting = std::move(still);
    std::uint64_t ignored = 0;
    (void)!read(wake_, &ignored, sizeof ignored);
    take_arrivals(waiting);
  }
  for (const Connection& connection : waiting) close(connection.socket);
}

bool LimitedServer::hear(Connection& connection) {
  char buffer[4096];
  const ssize_t got =
      recv(connection.socket, buffer, sizeof buffer, MSG_DONTWAIT);
  const bool is_gone = got == 0 || (got < 0 && errno != EAGAIN);
  if (got > 0) {
    // The time for a header begins with its first byte.
    if (connection.bytes.empty() && connection.requests > 0) {
      connection.deadline = Clock::now() + limits_.header_max;
    }
    connection.bytes.append(buffer, static_cast<std::size_t>(got));
  }
  const auto end = connection.bytes.find(kHeaderEnd);
  const char* fault = nullptr;
  if (end == connection.bytes.npos) {
    if (!is_gone && connection.bytes.size() <= limits_.header_bytes_max) {
      return true;
    }
    fault = "431 Request Header Fields Too Large";
  } else if (end > limits_.header_bytes_max) {
    fault = "431 Request Header Fields Too Large";
  } else if (announces_body(connection.bytes.substr(0, end + 2))) {
    fault = "413 Payload Too Large";
  }
  const std::lock_guard lock(mutex_);
  if (fault == nullptr && requests_.size() >= limits_.queue_max) {
    fault = "503 Service Unavailable";
  }
  if (fault != nullptr) {
    refuse(connection.socket, fault);
    close(connection.socket);
    return false;
  }
  requests_.push_back(std::move(connection));
  ready_.notify_one();
  return false;
}

void LimitedServer::work() {
  while (true) {
    Connection next;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return ends_ || !requests_.empty(); });
      if (ends_) return;
      next = std::move(requests_.front());
      requests_.pop_front();
    }
    answer(std::move(next));
  }
}

void LimitedServer::answer(Connection connection) {
  ++connection.requests;
  const bool is_last = connection.requests >= limits_.requests_max;
  bool is_closed = is_last;
  bool is_done = false;
  {
    RequestStream stream(connection.socket, connection.bytes,
                         Clock::now() + limits_.answer_max);
    is_done = process_request(stream, is_last, is_closed, nullptr);
  }
  if (!is_done || is_closed) {
    shutdown(connection.socket, SHUT_RDWR);
    close(connection.socket);
    return;
  }
  connection.deadline = Clock::now() + limits_.idle_max;
  admit(std::move(connection));
}

}  // namespace weft
