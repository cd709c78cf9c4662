// HTTP calls whose replies stream in: libcurl's multi interface on one thread,
// however many calls there are. Connections are used again, HTTP/2 where the
// server offers it, certificates verified, proxy variables honoured (but see
// docs/how-to/language-models.md of this machine's servers), redirects not
// followed. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// By lower-case name. Of a repeated one, the last.
using HttpHeaders = std::map<std::string, std::string>;

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  ///< "name: value"
  std::string body;                  ///< empty: a GET, else a POST
  std::string ca_file;               ///< empty: the environment's or system's
  std::int64_t connect_ms = 10'000;
  std::int64_t idle_ms = 120'000;  ///< with no byte of the reply
  std::int64_t total_ms = 600'000;
  std::int64_t reply_bytes_max = std::int64_t{50} << 20;  ///< decompressed
};

/// What came before the body.
struct HttpHead {
  int status = 0;  ///< 0: no answer came
  HttpHeaders headers;
};

/// How a call ended. A status of 400 is no failure here.
struct HttpEnd {
  enum class Kind {
    done,
    unreachable,  ///< no connection: wrong name, nobody there, proxy
    untrusted,    ///< TLS: certificate, protocol
    wrong_url,
    cut,        ///< the connection broke before the reply was whole
    idle,       ///< nothing came for idle_ms
    too_long,   ///< not whole after total_ms
    too_large,  ///< more than reply_bytes_max
    cancelled,
  };
  Kind kind = Kind::done;
  std::string message;  ///< libcurl's, or ours
  /// The request left, so that the server may have acted on it.
  bool sent = false;
  HttpHead head;
  std::int64_t total_ms = 0;
};

/// Whether the URL's server is "localhost", of 127.0.0.0/8 or ::1. The whole
/// host is compared: localhost.example.com is somebody else's. The URL holds no
/// name or password: settings with one are refused.
bool is_this_machine(std::string_view url);

class HttpClient {
 public:
  using Id = std::uint64_t;
  /// What the receiver of a body's bytes says to them.
  enum class Next {
    more,
    /// The reply is whole. What else comes is waited for a moment, so that the
    /// connection can be used again, and thrown away.
    enough,
  };
  /// Both are called on the client's thread and must return soon.
  struct Handlers {
    std::function<Next(const HttpHead&, std::string_view bytes)> on_body;
    std::function<void(const HttpEnd&)> on_end;  ///< once
  };

  HttpClient();
  /// Cancels what is under way.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Id start(HttpRequest request, Handlers handlers);

  /// Ends the call soon, as cancelled; no word to a call that has ended.
  void cancel(Id id);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace weft
