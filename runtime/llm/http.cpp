#include "runtime/llm/http.hpp"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/llm/blanks.hpp"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the end of a connection's reply is waited for once the reply's own
/// end has come.
constexpr std::int64_t kGraceMs = 250;

/// How often deadlines are looked at: no limit is kept more exactly.
constexpr int kTickMs = 20;

/// Idle connections kept, over all servers.
constexpr long kConnectionsKept = 256;

std::int64_t ms_since(Clock::time_point then) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() -
                                                               then)
      .count();
}

/// The certificates to trust where the settings name none. libcurl itself looks
/// at none of these variables, people expect all of them to work; and it knows
/// one location of files, that of the system it was built on. Empty: libcurl's.
std::string usual_ca_file() {
  for (const char* name :
       {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  // Debian, Fedora and RHEL, SUSE, Alpine.
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt",
                           "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (access(file, R_OK) == 0) return file;
  }
  return "";
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  return out;
}

HttpEnd::Kind kind_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return HttpEnd::Kind::done;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return HttpEnd::Kind::wrong_url;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
    case CURLE_OPERATION_TIMEDOUT:  // of connecting: others are ours
      return HttpEnd::Kind::unreachable;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return HttpEnd::Kind::untrusted;
    default:
      return HttpEnd::Kind::cut;
  }
}

bool is_set(const char* variable) {
  return variable != nullptr && *variable != '\0';
}

/// "": none. Nothing: libcurl looks at the variables itself. NO_PROXY holds for
/// whatever is said here.
std::optional<std::string> proxy_for(const std::string& url) {
  // A proxy is another machine as a rule: its own "localhost" is another
  // server, and a key would go there unencrypted.
  if (is_this_machine(url)) return "";
  const bool tls = url.starts_with("https:");
  const char* curls = std::getenv("http_proxy");
  // libcurl reads http_proxy in small letters only, since a web server sets
  // the other from a request's header; others read both. An empty one in small
  // letters takes back the other.
  const char* others = std::getenv("HTTP_PROXY");
  if (tls || curls != nullptr || !is_set(others)) return std::nullopt;
  return others;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

/// libcurl wants to be told once a process, before threads.
void initialise_curl() {
  static const CURLcode done = curl_global_init(CURL_GLOBAL_DEFAULT);
  (void)done;
}

/// One call under way. Its address is libcurl's handle on it: it stays.
struct Transfer {
  HttpClient::Id id = 0;
  HttpRequest request;
  HttpClient::Handlers handlers;
  std::unique_ptr<curl_slist, FreeList> headers;
  CURL* curl = nullptr;
  HttpHead head;
  std::int64_t body_bytes = 0;
  Clock::time_point began = Clock::now();
  Clock::time_point last_byte = Clock::now();
  bool enough = false;
  bool ends = false;  ///< at its next look: `kind` and `message` say why
  HttpEnd::Kind kind = HttpEnd::Kind::done;
  std::string message;
  char error[CURL_ERROR_SIZE] = {};

  ~Transfer() { curl_easy_cleanup(curl); }

  void end(HttpEnd::Kind why, std::string text) {
    if (ends) return;
    ends = true;
    kind = why;
    message = std::move(text);
  }
  void check_deadlines();
};

void Transfer::check_deadlines() {
  if (enough && ms_since(last_byte) >= kGraceMs) {
    return end(HttpEnd::Kind::done, "");
  }
  if (ms_since(began) >= request.total_ms) {
    return end(
        HttpEnd::Kind::too_long,
        "not answered within " + std::to_string(request.total_ms) + " ms");
  }
  if (ms_since(last_byte) >= request.idle_ms) {
    end(HttpEnd::Kind::idle,
        "no byte came for " + std::to_string(request.idle_ms) + " ms");
  }
}

std::size_t on_header(char* bytes, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.last_byte = Clock::now();
  const std::string_view line = trimmed({bytes, size});
  if (line.starts_with("HTTP/")) {
    // An answer before the last one (100 Continue, a proxy's): forgotten.
    transfer.head = {};
    const auto space = line.find(' ');
    if (space != std::string_view::npos) {
      transfer.head.status = std::atoi(line.data() + space + 1);
    }
    return size;
  }
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    transfer.head.headers[lower(line.substr(0, colon))] =
        std::string(trimmed(line.substr(colon + 1)));
  }
  return size;
}

std::size_t on_body(char* bytes, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.last_byte = Clock::now();
  if (transfer.enough) return size;
  transfer.body_bytes += static_cast<std::int64_t>(size);
  if (transfer.body_bytes > transfer.request.reply_bytes_max) {
    transfer.end(HttpEnd::Kind::too_large,
                 "the reply has more than " +
                     std::to_string(transfer.request.reply_bytes_max) +
                     " bytes");
    return 0;
  }
  const HttpClient::Next next =
      transfer.handlers.on_body(transfer.head, {bytes, size});
  transfer.enough = next == HttpClient::Next::enough;
  return size;
}

void set_up(Transfer& transfer) {
  const HttpRequest& request = transfer.request;
  transfer.curl = curl_easy_init();
  CURL* curl = transfer.curl;
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) {
    list = curl_slist_append(list, header.c_str());
  }
  // Else libcurl waits a second for permission to send a long prompt.
  list = curl_slist_append(list, "Expect:");
  transfer.headers.reset(list);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
  if (!request.body.empty()) {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
  }
  curl_easy_setopt(curl, CURLOPT_PRIVATE, &transfer);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer.error);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  // Else who gives up on a name that no server of names answers for waits all
  // the same, and every other call with it: they are on one thread.
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // The key must not go where the settings did not send it.
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  // Compression is not asked for, since it delays a stream; a server that
  // compresses all the same is understood.
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "identity");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
  const bool tls = request.url.starts_with("https:");
  // A new call waits for the connection that is being made, to share it.
  if (tls) curl_easy_setopt(curl, CURLOPT_PIPEWAIT, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(request.connect_ms));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "weft");
  const std::string ca =
      request.ca_file.empty() ? usual_ca_file() : request.ca_file;
  if (!ca.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, ca.c_str());
  if (const auto proxy = proxy_for(request.url)) {
    curl_easy_setopt(curl, CURLOPT_PROXY, proxy->c_str());
  }
}

/// Whether the request's bytes went out on a connection that was made.
bool was_sent(CURL* curl) {
  long bytes = 0;
  curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &bytes);
  curl_off_t ready_us = 0;
  curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
  return bytes > 0 && ready_us > 0;
}

}  // namespace

bool is_this_machine(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == std::string_view::npos) return false;
  std::string host(url.substr(scheme + 3));
  host = lower(host.substr(0, host.find_first_of("/?#")));
  if (host == "[::1]" || host.starts_with("[::1]:")) return true;
  host = host.substr(0, host.find(':'));
  return host == "localhost" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string::npos);
}

class HttpClient::Loop {
 public:
  Loop() {
    initialise_curl();
    multi_ = curl_multi_init();
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kConnectionsKept);
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }

  ~Loop() {
    thread_.request_stop();
    curl_multi_wakeup(multi_);
    thread_.join();
    curl_multi_cleanup(multi_);
  }

  Id start(HttpRequest request, Handlers handlers) {
    auto transfer = std::make_unique<Transfer>();
    transfer->request = std::move(request);
    transfer->handlers = std::move(handlers);
    std::unique_lock lock(mutex_);
    const Id id = ++last_id_;
    transfer->id = id;
    new_.push_back(std::move(transfer));
    lock.unlock();
    curl_multi_wakeup(multi_);
    return id;
  }

  void cancel(Id id) {
    {
      const std::lock_guard lock(mutex_);
      unwanted_.push_back(id);
    }
    curl_multi_wakeup(multi_);
  }

 private:
  void run(std::stop_token stop) {
    while (!stop.stop_requested()) {
      take_orders();
      int running = 0;
      curl_multi_perform(multi_, &running);
      collect();
      check_deadlines();
      constexpr int kIdleMs = 60'000;
      curl_multi_poll(multi_, nullptr, 0, open_.empty() ? kIdleMs : kTickMs,
                      nullptr);
    }
    take_orders();
    for (auto& [id, transfer] : open_) {
      transfer->end(HttpEnd::Kind::cancelled, "weft ends");
    }
    end_those_that_must();
  }

  void take_orders() {
    std::vector<std::unique_ptr<Transfer>> begun;
    std::vector<Id> unwanted;
    {
      const std::lock_guard lock(mutex_);
      begun.swap(new_);
      unwanted.swap(unwanted_);
    }
    for (auto& transfer : begun) {
      set_up(*transfer);
      transfer->began = transfer->last_byte = Clock::now();
      curl_multi_add_handle(multi_, transfer->curl);
      open_[transfer->id] = std::move(transfer);
    }
    for (const Id id : unwanted) {
      const auto found = open_.find(id);
      if (found != open_.end()) {
        found->second->end(HttpEnd::Kind::cancelled, "cancelled");
      }
    }
  }

  /// What libcurl is done with.
  void collect() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      Transfer* transfer = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      const CURLcode code = message->data.result;
      const bool whole = code == CURLE_OK || transfer->enough;
      transfer->end(whole ? HttpEnd::Kind::done : kind_of(code),
                    whole                        ? ""
                    : transfer->error[0] != '\0' ? transfer->error
                                                 : curl_easy_strerror(code));
    }
  }

  void check_deadlines() {
    const auto now = Clock::now();
    if (now - checked_ >= std::chrono::milliseconds(kTickMs)) {
      checked_ = now;
      for (auto& [id, transfer] : open_) transfer->check_deadlines();
    }
    end_those_that_must();
  }

  void end_those_that_must() {
    for (auto at = open_.begin(); at != open_.end();) {
      if (!at->second->ends) {
        ++at;
        continue;
      }
      const std::unique_ptr<Transfer> transfer = std::move(at->second);
      at = open_.erase(at);
      HttpEnd end;
      end.kind = transfer->kind;
      end.message = transfer->message;
      end.sent = was_sent(transfer->curl);
      end.head = transfer->head;
      end.total_ms = ms_since(transfer->began);
      curl_multi_remove_handle(multi_, transfer->curl);
      transfer->handlers.on_end(end);
    }
  }

  CURLM* multi_ = nullptr;
  std::map<Id, std::unique_ptr<Transfer>> open_;  ///< the thread's alone
  Clock::time_point checked_ = Clock::now();
  std::mutex mutex_;  ///< guards what follows
  std::vector<std::unique_ptr<Transfer>> new_;
  std::vector<Id> unwanted_;
  Id last_id_ = 0;
  std::jthread thread_;
};

HttpClient::HttpClient() : loop_(std::make_unique<Loop>()) {}
HttpClient::~HttpClient() = default;

HttpClient::Id HttpClient::start(HttpRequest request, Handlers handlers) {
  return loop_->start(std::move(request), std::move(handlers));
}

void HttpClient::cancel(Id id) { loop_->cancel(id); }

}  // namespace weft
