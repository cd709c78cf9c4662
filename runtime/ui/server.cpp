#include "runtime/ui/server.hpp"

#include <httplib.h>

#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "embedded/runtime/ui/page/events.html"
#include "embedded/runtime/ui/page/events_script.js"
#include "embedded/runtime/ui/page/runs.html"
#include "embedded/runtime/ui/page/runs_script.js"
#include "embedded/runtime/ui/page/style.css"
#include "runtime/report/report_page.hpp"
#include "runtime/report/run_view.hpp"
#include "runtime/ui/answers.hpp"
#include "runtime/ui/connections.hpp"
#include "runtime/ui/content_policy.hpp"
#include "runtime/ui/metrics.hpp"
#include "runtime/ui/run_index.hpp"

namespace weft {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr std::size_t kMetricsRunsMax = RunIndex::kOpenMax;

void answer(Response& response, const json& value) {
  response.set_content(
      value.dump(-1, ' ', false, json::error_handler_t::replace),
      "application/json; charset=utf-8");
}

void refuse(Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content(why + "\n", "text/plain; charset=utf-8");
}

void refuse(Response& response, const Error& error) {
  refuse(response, error.code == ErrorCode::wrong_input ? 404 : 500,
         error.message);
}

/// A page of ours, with the scripts that are in it and no others.
void show(Response& response, const std::string& html) {
  response.set_header("Content-Security-Policy", content_policy(html));
  response.set_content(html, "text/html; charset=utf-8");
}

/// A number in the query; wrong_input when it is none.
Result<std::uint64_t> number_in(const Request& request, const char* name,
                                std::uint64_t otherwise) {
  if (!request.has_param(name)) return otherwise;
  const std::string text = request.get_param_value(name);
  std::uint64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  return fail(ErrorCode::wrong_input,
              "'" + text.substr(0, 40) + "' is no number for " + name);
}

}  // namespace

struct PageServer::State {
  explicit State(const Options& options)
      : access(options.access), run_index(options.root) {}

  void limit();
  void guard();
  void route();

  /// Answers with what `make` makes of a run, whose id is in the address.
  using Make = std::function<Result<json>(RunIndex::Run&, const Request&)>;
  void get_json(const std::string& what, Make make);
  void get_page(const std::string& address, std::string html);
  void metrics(Response& response);

  Access access;
  RunIndex run_index;
  RunList runs;
  LimitedServer server;
  int port = 0;
};

void PageServer::State::limit() {
  server.set_tcp_nodelay(true);
  // The library's default lets two servers have one port, each asked at random.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"X-Frame-Options", "DENY"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}});
  server.set_exception_handler(
      [](const Request&, Response& response, std::exception_ptr) {
        refuse(response, 500, "weft has a bug: this cannot be shown");
      });
}

/// Before anything is looked at. A token in the address becomes a cookie, so
/// that it stands in no history.
void PageServer::State::guard() {
  using Handled = httplib::Server::HandlerResponse;
  server.set_pre_routing_handler(
      [this](const Request& request, Response& response) {
        if (request.method != "GET" && request.method != "HEAD") {
          refuse(response, 405, "only GET");
          return Handled::Handled;
        }
        if (!is_own_host(access, request.get_header_value("Host"))) {
          refuse(response, 421,
                 "this server does not go by that name: ask for " +
                     access.listen_host);
          return Handled::Handled;
        }
        if (is_admitted(access, request.get_header_value("Cookie"),
                        request.get_header_value("Authorization"))) {
          return Handled::Unhandled;
        }
        if (!is_token(access, request.get_param_value("token"))) {
          refuse(response, 401, "open the address that weft ui printed");
          return Handled::Handled;
        }
        response.set_header("Set-Cookie", std::string(kTokenCookie) + "=" +
                                              access.token +
                                              "; HttpOnly; SameSite=Strict; "
                                              "Path=/");
        response.set_redirect("/");
        return Handled::Handled;
      });
}

void PageServer::State::get_page(const std::string& address, std::string html) {
  server.Get(address,
             [html = std::move(html)](const Request&, Response& response) {
               show(response, html);
             });
}

void PageServer::State::get_json(const std::string& what, Make make) {
  server.Get("/run/([0-9a-f]+)/" + what,
             [this, make = std::move(make)](const Request& request,
                                            Response& response) {
               Result<json> result;
               const auto used = run_index.with(
                   request.matches[1],
                   [&](RunIndex::Run& run) { result = make(run, request); });
               if (!used) return refuse(response, used.error());
               if (!result) return refuse(response, result.error());
               answer(response, *result);
             });
}

/// Of the newest runs alone: each is opened for it.
void PageServer::State::metrics(Response& response) {
  Metrics metrics;
  std::size_t count = 0;
  for (const RunIndex::Entry& entry : run_index.list()) {
    if (++count > kMetricsRunsMax) break;
    (void)run_index.with(entry.id,
                         [&](RunIndex::Run& run) { metrics.add(run); });
  }
  response.set_content(metrics.text(), "text/plain; version=0.0.4");
}

void PageServer::State::route() {
  get_page("/", embedded::runtime_ui_page_runs);
  get_page("/run/[0-9a-f]+/", live_page());
  get_page("/run/[0-9a-f]+/events", embedded::runtime_ui_page_events);
  const auto text = [this](const char* address, const char* bytes,
                           const char* type) {
    server.Get(address, [=](const Request&, Response& response) {
      response.set_content(bytes, type);
    });
  };
  text("/runs.js", embedded::runtime_ui_page_runs_script, "text/javascript");
  text("/events.js", embedded::runtime_ui_page_events_script,
       "text/javascript");
  text("/style.css", embedded::runtime_ui_page_style, "text/css");
  // Browsers ask for it unasked, and tell of an error where there is none.
  server.Get("/favicon.ico",
             [](const Request&, Response& response) { response.status = 204; });
  server.Get("/runs.json", [this](const Request&, Response& response) {
    answer(response, runs.answer(run_index));
  });
  server.Get("/metrics",
             [this](const Request&, Response& response) { metrics(response); });
  get_json("view.json", [](RunIndex::Run& run, const Request&) {
    return run_view(run.journal);
  });
  get_json("about.json",
           [](RunIndex::Run& run, const Request&) -> Result<json> {
             return run_answer(run);
           });
  get_json("moment.json", [](RunIndex::Run& run, const Request& request) {
    const auto at = number_in(request, "at", run.run_counters.events);
    return at ? moment_answer(run, *at) : std::unexpected(at.error());
  });
  get_json("state.json", [](RunIndex::Run& run, const Request& request) {
    const auto at = number_in(request, "at", run.run_counters.events);
    if (!at) return Result<json>(std::unexpected(at.error()));
    return run.journal_reader.state(request.get_param_value("role"), *at);
  });
  server.Get("/run/([0-9a-f]+)/text/([0-9a-f]{64})",
             [this](const Request& request, Response& response) {
               Result<std::string> bytes;
               const auto used =
                   run_index.with(request.matches[1], [&](RunIndex::Run& run) {
                     bytes = run.journal.get_blob(request.matches[2].str());
                   });
               if (!used) return refuse(response, used.error());
               if (!bytes) return refuse(response, bytes.error());
               response.set_content(*bytes, "text/plain; charset=utf-8");
             });
}

Result<PageServer> PageServer::listen(const Options& options) {
  auto state = std::make_unique<State>(options);
  state->limit();
  state->guard();
  state->route();
  const std::string& host = options.access.listen_host;
  state->port = options.port;
  bool bound = false;
  if (options.port == 0) {
    state->port = state->server.bind_to_any_port(host);
    bound = state->port > 0;
  } else {
    bound = state->server.bind_to_port(host, options.port);
  }
  if (!bound) {
    return fail(ErrorCode::missing,
                "cannot listen at " + host + ", port " +
                    std::to_string(options.port) +
                    ": it is in use, or this machine has no such address; "
                    "choose another with --listen HOST:PORT");
  }
  return PageServer(std::move(state));
}

PageServer::PageServer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
PageServer::PageServer(PageServer&&) noexcept = default;
PageServer::~PageServer() = default;

int PageServer::port() const { return state_->port; }

void PageServer::serve(std::stop_token stop) {
  const std::stop_callback end(stop, [this] { state_->server.stop(); });
  if (!stop.stop_requested()) state_->server.listen_after_bind();
}

}  // namespace weft
