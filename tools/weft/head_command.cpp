#include "tools/weft/head_command.hpp"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "messages/parse_json.hpp"
#include "runtime/bus/keys.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/bus/socket_thread.hpp"
#include "runtime/store/sha256.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/open_bus.hpp"
#include "tools/weft/python_driver.hpp"
#include "tools/weft/run_class.hpp"
#include "tools/weft/run_in_process.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A request holds a problem file; an answer a module with its built kernels.
constexpr std::int64_t kRequestBytesMax = std::int64_t{8} << 20;
constexpr std::int64_t kAnswerBytesMax = std::int64_t{64} << 20;
/// Limit of one peer's messages that wait to be read.
constexpr int kQueueMessages = 16;
/// The first part of each message: the form of the second.
constexpr const char* kForm = "weft-search-1";

void say(const json& line) {
  print_line(line);
  std::fflush(stdout);
}

std::string absolute_text(const std::optional<fs::path>& path) {
  return path ? fs::absolute(*path).string() : "";
}

int fail_link(const Error& error) {
  say({{"error", error.message}});
  return exit_code_of(error);
}

Result<BusKeys> link_keys(const LinkFlags& flags) {
  const bool is_head = !flags.listen.empty();
  const std::string& address = is_head ? flags.listen : flags.connect;
  if (flags.keys) {
    return is_head ? read_head_keys(*flags.keys) : read_node_keys(*flags.keys);
  }
  const auto closed = check_is_closed(address, false);
  if (closed) return BusKeys();
  if (is_head) return std::unexpected(closed.error());
  return fail(ErrorCode::wrong_input,
              address +
                  " is another machine: name the folder with your keys "
                  "(option keys, or WEFT_KEYS)");
}

/// The reverse of to_hex(): a peer's name is any bytes.
std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes +=
        static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16));
  }
  return bytes;
}

}  // namespace

int head_command(const CommonFlags& common, const HeadFlags& flags) {
  ListenFlags users;
  users.endpoint = flags.users;
  users.keys = flags.user_keys;
  for (const ListenFlags& listen : {users, flags.nodes}) {
    if (const auto closed = check_listening(listen); !closed) {
      return report_error(common, closed.error());
    }
  }
  const auto installation = ready_installation(common, false);
  if (!installation) return report_error(common, installation.error());
  std::error_code ignored;
  const json settings = {
      {"weft", fs::read_symlink("/proc/self/exe", ignored).string()},
      {"python", installation->python.string()},
      {"users", flags.users},
      {"user_keys", absolute_text(flags.user_keys)},
      {"nodes", flags.nodes.endpoint},
      {"node_keys", absolute_text(flags.nodes.keys)},
      {"classes", flags.nodes.classes},
      {"node_seconds", flags.nodes.silence_s},
      {"target", flags.target},
      {"folder",
       flags.folder.empty() ? "" : fs::absolute(flags.folder).string()},
      {"jobs_max", flags.jobs_max},
      {"per_user", flags.per_user},
      {"budget_s_max", flags.budget_s_max},
      {"quiet", common.quiet}};
  return report_error(
      common, become_python(*installation, "weft.head.service", settings));
}

int head_link_command(const CommonFlags& common, const LinkFlags& flags) {
  const bool is_head = !flags.listen.empty();
  std::signal(SIGPIPE, SIG_IGN);
  // The Python side ends this process by closing its standard input.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(number, is_head ? SIG_IGN : SIG_DFL);
  }
  auto keys = link_keys(flags);
  if (!keys) return fail_link(keys.error());
  json classes = json::array();
  if (!is_head) {
    const auto installation = ready_installation(common, false);
    if (!installation) return fail_link(installation.error());
    const auto hello = make_hello(*installation, weft_version(), true);
    for (const TimingClass& one : classes_of({hello}, flags.target)) {
      classes.push_back(class_name(one.device_class));
    }
  }
  SocketThread::Options options;
  options.is_head = is_head;
  options.endpoint = is_head ? flags.listen : flags.connect;
  options.keys = std::move(*keys);
  options.queue_messages = kQueueMessages;
  options.message_bytes_max = is_head ? kRequestBytesMax : kAnswerBytesMax;
  std::unique_ptr<SocketThread> link;
  SocketThread::Callbacks callbacks;
  callbacks.on_frame = [&](const std::string& peer, std::string_view header,
                           std::string text, std::int64_t) {
    if (header != kForm) return link->cut();
    json line = {{"text", std::move(text)}};
    if (is_head) {
      line["from"] = to_hex(peer);
      line["user"] = link->sender_key();
    }
    say(line);
  };
  callbacks.on_turn = [](std::int64_t, bool) {};
  callbacks.on_stranger = [] { say({{"stranger", true}}); };
  link = std::make_unique<SocketThread>(std::move(options), callbacks);
  if (const auto started = link->start(); !started) {
    return fail_link(started.error());
  }
  if (is_head) {
    say({{"listens", link->bound()}});
  } else {
    say({{"classes", std::move(classes)}});
  }
  for (std::string line; std::getline(std::cin, line);) {
    const json order = parse_json(line);
    if (!order.is_object() || !order.contains("text")) continue;
    const std::string peer = bytes_of(order.value("to", ""));
    wire::Frame frame;
    frame.header = kForm;
    frame.body =
        std::make_shared<const std::string>(order.value("text", std::string()));
    link->post([&link, peer, frame] { link->send(peer, frame); });
  }
  link->stop();
  return 0;
}

}  // namespace weft
