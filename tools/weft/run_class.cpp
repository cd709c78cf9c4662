#include "tools/weft/run_class.hpp"

#include <algorithm>
#include <cstdio>

#include "actors/capabilities.hpp"
#include "actors/device.hpp"
#include "messages/shown_text.hpp"
#include "runtime/bus/lobby.hpp"
#include "runtime/bus/membership.hpp"
#include "tools/weft/run_machine.hpp"
#include "tools/weft/version.hpp"

namespace weft {
namespace {

/// A node that its scheduler starts again is back within a minute. In a fleet,
/// a run whose node died gets the next one that another run leaves.
constexpr std::int64_t kNodeWaitMsMin = 60'000;
constexpr std::int64_t kFleetWaitMsMin = 1'800'000;

std::int64_t silence_ms(const ListenFlags& listen) {
  return static_cast<std::int64_t>(listen.silence_s * 1000);
}

MachineFacts own_facts(const Installation& installation,
                       const Machine& machine) {
  MachineFacts facts =
      facts_of(make_hello(installation, weft_version(), !machine.gpus.empty()));
  facts.machine = machine;
  return facts;
}

/// As if the head had no nodes.
Result<RunClass> own_class(const Installation& installation,
                           RunOptions& options) {
  if (const auto torch = check_torch(installation); !torch) {
    return std::unexpected(torch.error());
  }
  auto machine = resolve_machine(options, installation);
  if (!machine) return std::unexpected(machine.error());
  const auto tools = check_tools(options, installation);
  if (!tools) return std::unexpected(tools.error());
  RunClass found;
  found.machine = std::move(*machine);
  const MachineFacts facts = own_facts(installation, found.machine);
  found.device_class = class_of(facts, found.machine.gpus, options.target);
  found.head_can = {capability::capture, capability::judge};
  found.head_cores = found.machine.cores;
  return found;
}

bool is_wanted(const RunClass& found, const std::string& wanted) {
  TimingClass item;
  item.device_class = found.device_class;
  return choose_class({item}, wanted) != nullptr;
}

/// Measurements of that GPU of a node.
std::map<std::string, double> numbers_of(const std::vector<wire::Hello>& nodes,
                                         const Gpu& gpu) {
  for (const wire::Hello& hello : nodes) {
    for (const wire::Device& device : hello.devices) {
      if (device.facts == gpu) return believed_numbers(device);
    }
  }
  return {};
}

/// The machine that kernels are made for: a node's, with one of its GPUs. That
/// one's UUID is left out: the GPU is no location of the head's.
Machine machine_of(const TimingClass& chosen,
                   const std::vector<wire::Hello>& nodes) {
  Machine machine = chosen.facts.machine;
  machine.gpus.clear();
  machine.gpu_numbers.clear();
  machine.versions["PyTorch"] = chosen.facts.torch;
  if (!chosen.gpu.arch.empty()) {
    machine.gpus = {chosen.gpu};
    machine.gpus.front().uuid.clear();
    machine.gpu_numbers = numbers_of(nodes, chosen.gpu);
  }
  return machine;
}

}  // namespace

std::vector<TimingClass> classes_of(const std::vector<wire::Hello>& nodes,
                                    const std::string& target) {
  std::vector<MachineFacts> facts;
  for (const wire::Hello& hello : nodes) {
    if (hello.weft == weft_version()) facts.push_back(facts_of(hello));
  }
  return timing_classes(facts, target);
}

bool RunClass::head_judges() const {
  return has_capability(head_can, capability::judge);
}

Result<RunClass> settle_class(const CommonFlags& common,
                              const Installation& installation,
                              ListenFlags& listen, RunOptions& options,
                              const std::stop_token& stop) {
  RunOptions of_head = options;
  auto own = listen.is_fleet
                 ? fail(ErrorCode::missing, "its bench leaves all to nodes")
                 : own_class(installation, of_head);
  if (own && is_wanted(*own, listen.classes)) {
    options = std::move(of_head);
    return own;
  }
  // Nodes cannot make up for a wrong flag.
  const bool is_wrong = !own && own.error().code == ErrorCode::wrong_input;
  if (is_wrong || listen.endpoint.empty()) {
    if (!own) return own;
    return fail(ErrorCode::wrong_input, "--classes " + listen.classes +
                                            ": this machine is " +
                                            class_name(own->device_class) +
                                            "; let nodes join with --listen");
  }
  const std::string lacks =
      own ? "its class is " + class_name(own->device_class)
          : own.error().message;
  const auto say = [&](const std::string& text) {
    if (common.quiet || common.json) return;
    std::fprintf(stderr, "weft: %s\n", terminal_paragraph(text).c_str());
  };
  LobbyOptions lobby;
  lobby.endpoint = listen.endpoint;
  lobby.silence_ms = silence_ms(listen);
  if (listen.is_fleet) lobby.gather_ms = 0;  // it has chosen the class
  if (listen.keys) {
    auto keys = read_head_keys(*listen.keys);
    if (!keys) return std::unexpected(keys.error());
    lobby.keys = std::move(*keys);
  }
  lobby.on_listening = [&](const std::string& endpoint) {
    say("kernels are checked and timed on nodes, and not here: " + lacks);
    say("listening for nodes on " + endpoint + ": waiting for one that can" +
        (listen.classes.empty() ? "" : ", of class '" + listen.classes + "'"));
  };
  const auto is_enough = [&](const std::vector<wire::Hello>& nodes) {
    return choose_class(classes_of(nodes, options.target), listen.classes,
                        listen.is_fleet) != nullptr;
  };
  const auto gathered = gather_nodes(lobby, is_enough, stop);
  if (!gathered && listen.is_fleet) {
    // The bench chose the address: the problem is not to blame.
    const Error& error = gathered.error();
    return fail(
        error.code == ErrorCode::wrong_input ? ErrorCode::missing : error.code,
        error.message);
  }
  if (!gathered) return std::unexpected(gathered.error());
  listen.endpoint = gathered->endpoint;
  const auto classes = classes_of(gathered->nodes, options.target);
  const TimingClass* chosen =
      choose_class(classes, listen.classes, listen.is_fleet);
  if (chosen == nullptr) {
    return fail(ErrorCode::failed, "the nodes that came have left");
  }
  for (const TimingClass& item : classes) {
    say((&item == chosen ? "timing class: " : "not timed: ") +
        class_name(item.device_class) + " (" + std::to_string(item.devices) +
        (item.devices == 1 ? " device)" : " devices)"));
  }
  RunClass found;
  found.device_class = chosen->device_class;
  options.target = chosen->target;
  found.machine = machine_of(*chosen, gathered->nodes);
  if (!found.machine.gpus.empty()) shorten_timing(options);
  if (listen.is_fleet) return found;
  const Machine here = describe_machine();
  MachineFacts facts = own_facts(installation, here);
  facts.only = {capability::capture};
  if (!listen.no_local) facts.only.push_back("build");
  found.head_can =
      machine_capabilities(facts, found.device_class, options.target);
  found.head_cores = here.cores;
  return found;
}

void add_class(RunStart& start, const RunClass& run_class,
               const ListenFlags& listen) {
  start.device_class = run_class.device_class;
  start.head_can = run_class.head_can;
  start.head_cores = run_class.head_cores;
  start.node_wait_ms = std::max(
      listen.is_fleet ? kFleetWaitMsMin : kNodeWaitMsMin, silence_ms(listen));
}

}  // namespace weft
