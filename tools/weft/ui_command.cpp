#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/ui/server.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/interrupt.hpp"
#include "tools/weft/json_line.hpp"

namespace weft {
namespace {

/// "127.0.0.1:8765" or "[::1]:8765".
Result<PageServer::Options> options_of(const UiFlags& flags) {
  const auto colon = flags.listen.rfind(':');
  PageServer::Options options;
  options.root = flags.root;
  std::string host = flags.listen.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  const std::string port =
      colon == std::string::npos ? "" : flags.listen.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(port.data(), port.data() + port.size(), options.port);
  if (host.empty() || error != std::errc() ||
      end != port.data() + port.size() || options.port < 0 ||
      options.port > 65'535) {
    return fail(ErrorCode::wrong_input,
                "--listen takes HOST:PORT, not '" + flags.listen + "'");
  }
  options.access.listen_host = std::move(host);
  if (flags.token || !is_loopback(options.access.listen_host)) {
    options.access.token = new_token();
  }
  return options;
}

std::string address_of(const PageServer::Options& options, int port) {
  const std::string& host = options.access.listen_host;
  std::string address = host.contains(':') ? "[" + host + "]" : host;
  address = "http://" + address + ":" + std::to_string(port) + "/";
  if (!options.access.token.empty()) {
    address += "?token=" + options.access.token;
  }
  return address;
}

}  // namespace

int ui_command(const CommonFlags& common, const UiFlags& flags) {
  const Interrupt interrupt;
  std::error_code error;
  if (!std::filesystem::exists(flags.root, error)) {
    return report_error(
        common, {ErrorCode::wrong_input, "there is no " + flags.root.string() +
                                             ": name a run directory, or a "
                                             "folder that has some"});
  }
  const auto options = options_of(flags);
  if (!options) return report_error(common, options.error());
  auto server = PageServer::listen(*options);
  if (!server) return report_error(common, server.error());
  const std::string address = address_of(*options, server->port());
  if (common.json) {
    const nlohmann::json line = {{"address", address}};
    print_line(line);
  } else {
    std::printf("%s\nCtrl-C ends it\n", address.c_str());
  }
  std::fflush(stdout);
  server->serve(interrupt.token());
  return 0;
}

}  // namespace weft
