// A server that gives the same HTTP reply to every request, and counts them.
// For tests of what happens around a call; how servers misbehave is tested
// against tests/python/llm_server.py.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft {

class CannedServer {
 public:
  /// An empty reply: the connection stays open, and nothing is ever sent.
  explicit CannedServer(std::string reply) : reply_(std::move(reply)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 64);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }

  ~CannedServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    for (const int silent : silent_) close(silent);
  }

  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/v1";
  }
  int requests() const { return requests_; }

 private:
  void serve() {
    for (;;) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      if (!read_request(connection)) {
        close(connection);
        continue;
      }
      ++requests_;
      if (reply_.empty()) {
        silent_.push_back(connection);
        continue;
      }
      (void)!write(connection, reply_.data(), reply_.size());
      close(connection);
    }
  }

  /// All of it: a connection closed with bytes unread is reset.
  static bool read_request(int connection) {
    std::string text;
    char bytes[4096];
    for (;;) {
      const auto end = text.find("\r\n\r\n");
      if (end != std::string::npos) {
        const auto length = text.find("Content-Length: ");
        const std::size_t body =
            length < end ? std::stoul(text.substr(length + 16)) : 0;
        if (text.size() >= end + 4 + body) return true;
      }
      const ssize_t got = read(connection, bytes, sizeof bytes);
      if (got <= 0) return false;
      text.append(bytes, static_cast<std::size_t>(got));
    }
  }

  std::string reply_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> requests_ = 0;
  std::vector<int> silent_;  ///< the thread's, until it has ended
  std::jthread thread_;
};

}  // namespace weft
