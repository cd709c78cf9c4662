#include "tools/weft/fleet_command.hpp"

#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/capabilities.hpp"
#include "messages/parse_json.hpp"
#include "runtime/bus/fleet_switch.hpp"
#include "runtime/bus/membership.hpp"
#include "runtime/store/untrusted_files.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/run_class.hpp"
#include "tools/weft/run_in_process.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

using nlohmann::json;
using Kind = FleetShares::Kind;

void say(const json& line) {
  print_line(line);
  std::fflush(stdout);
}

std::string_view word_of(Kind kind) {
  switch (kind) {
    case Kind::unused:
      return "nothing";
    case Kind::builder:
      return "build";
    case Kind::judge:
      return "judge";
  }
  return "";
}

/// The timing class of all runs, chosen when enough nodes are there. The socket
/// thread's.
class ChosenClass {
 public:
  ChosenClass(std::string target, std::string wanted)
      : target_(std::move(target)), wanted_(std::move(wanted)) {}

  bool choose(const std::vector<wire::Hello>& nodes) {
    const auto classes = classes_of(nodes, target_);
    const TimingClass* chosen = choose_class(classes, wanted_);
    if (chosen == nullptr) return false;
    start_.device_class = chosen->device_class;
    start_.options.target = chosen->target;
    if (!chosen->gpu.arch.empty()) start_.machine.gpus = {chosen->gpu};
    say({{"class", class_name(chosen->device_class)},
         {"target", chosen->target},
         {"gpu", chosen->gpu.name}});
    return true;
  }

  Kind kind_of(const wire::Hello& hello) const {
    Kind kind = Kind::unused;
    for (const Capacities& offer : capacities_of(hello, start_)) {
      if (has_capability(offer.capabilities, capability::judge)) {
        return Kind::judge;
      }
      if (!offer.capabilities.empty()) kind = Kind::builder;
    }
    return kind;
  }

 private:
  std::string target_;
  std::string wanted_;
  RunStart start_;  // as far as nodes are compared with it
};

void say_nodes(const FleetProtocol& protocol) {
  json nodes = json::array();
  for (const FleetProtocol::NodeState& node : protocol.nodes()) {
    nodes.push_back(
        {{"name", node.name}, {"can", word_of(node.kind)}, {"run", node.run}});
  }
  say({{"nodes", std::move(nodes)}});
}

/// For the bench, which shows it.
int report(const Error& error) {
  say({{"error", error.message}, {"exit_code", exit_code_of(error)}});
  return exit_code_of(error);
}

/// False: not a line of this protocol.
bool obey(FleetSwitch& fleet, const json& line) {
  if (!line.is_object()) return false;
  if (line.contains("begin")) {
    fleet.begin_run(line.value("begin", ""), line.value("endpoint", ""));
  } else if (line.contains("end")) {
    fleet.end_run(line.value("end", ""));
  } else if (line.contains("reserve")) {
    fleet.reserve(line.value("reserve", std::size_t{0}));
  } else {
    return false;
  }
  return true;
}

}  // namespace

int fleet_command(const FleetFlags& flags) {
  // These are for the bench, whose runs need their nodes until they have ended.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    std::signal(number, SIG_IGN);
  }
  ChosenClass chosen(flags.target, flags.listen.classes);
  FleetSwitch::Options options;
  options.endpoint = flags.listen.endpoint;
  if (flags.listen.keys) {
    auto keys = read_head_keys(*flags.listen.keys);
    if (!keys) return report(keys.error());
    options.keys = std::move(*keys);
  }
  options.protocol.weft = weft_version();
  options.protocol.silence_ms =
      static_cast<std::int64_t>(flags.listen.silence_s * 1000);
  options.protocol.is_enough = [&](const auto& nodes) {
    return chosen.choose(nodes);
  };
  options.protocol.kind_of = [&](const wire::Hello& hello) {
    return chosen.kind_of(hello);
  };
  options.on_change = say_nodes;
  options.on_unreachable = [](const std::string& run, const std::string& why) {
    say({{"unreachable", run}, {"why", why}});
  };
  options.log = [](const std::string& text) { say({{"log", text}}); };
  FleetSwitch fleet(std::move(options));
  if (const auto listening = fleet.listen(); !listening) {
    return report(listening.error());
  }
  say({{"listens", fleet.endpoint()}});
  for (std::string line; std::getline(std::cin, line);) {
    const json order = parse_json(line);
    if (order.is_object() && order.contains("finish")) {
      fleet.finish();
      return 0;
    }
    if (obey(fleet, order)) continue;
    return report({ErrorCode::wrong_input, "not a line for a fleet: " + line});
  }
  if (!flags.sockets.empty()) (void)remove_tree(flags.sockets);
  return 0;
}

}  // namespace weft
