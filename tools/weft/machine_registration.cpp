#include <filesystem>

#include "tools/weft/command_registration.hpp"
#include "tools/weft/fleet_command.hpp"
#include "tools/weft/head_command.hpp"
#include "tools/weft/node_command.hpp"
#include "tools/weft/number_range.hpp"
#include "tools/weft/shared_options.hpp"

namespace weft {

namespace {

void add_head(CLI::App& app, CommonFlags& common, int& code) {
  static HeadFlags flags;
  auto* head = app.add_subcommand(
      "head", "Search kernels for programs of other machines, on nodes");
  add_common(*head, common);
  head->add_option("--listen", flags.users,
                   "Let programs connect at tcp://HOST:PORT")
      ->check(fault_of_address)
      ->required();
  head->add_option("--keys", flags.user_keys,
                   "Folder of 'weft keygen' with the keys of users");
  head->add_option("--nodes", flags.nodes.endpoint,
                   "Let nodes join at tcp://HOST:PORT")
      ->check(fault_of_address)
      ->required();
  head->add_option("--node-keys", flags.nodes.keys,
                   "Folder of 'weft keygen' with the keys of nodes");
  head->add_option("--classes", flags.nodes.classes,
                   "Device class that it searches for, by a part of its name "
                   "(default: the one with most devices)");
  head->add_option("--node-seconds", flags.nodes.silence_s,
                   "A node that is silent for longer is lost")
      ->check(number_range(0.5, 86'400.0))
      ->capture_default_str();
  head->add_option("--target", flags.target, "Target of all searches")
      ->check(CLI::IsMember({"auto", "cpu", "gpu", "cuda", "triton"}))
      ->capture_default_str();
  head->add_option("--folder", flags.folder,
                   "Results that it keeps (default: below ~/.cache/weft/head)");
  head->add_option("--jobs-max", flags.jobs_max,
                   "Searches at once (default: as many as nodes check)")
      ->check(CLI::Range(1, 256));
  head->add_option("--searches-per-user", flags.per_user,
                   "Searches of one key that wait or run")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  head->add_option("--budget-s-max", flags.budget_s_max,
                   "Seconds that one search may take")
      ->check(number_range(1.0, 86'400.0))
      ->capture_default_str();
  head->callback([&] { code = head_command(common, flags); });

  static LinkFlags link_flags;
  auto* link = app.add_subcommand(
      "head-link", "Connect a program and a head that searches for it");
  link->group("");  // for both
  add_common(*link, common);
  link->add_option("--listen", link_flags.listen)->check(fault_of_address);
  link->add_option("--connect", link_flags.connect)->check(fault_of_address);
  link->add_option("--keys", link_flags.keys);
  link->add_option("--target", link_flags.target);
  link->callback([&] { code = head_link_command(common, link_flags); });
}

}  // namespace

void add_nodes(CLI::App& app, CommonFlags& common, int& code) {
  static NodeFlags flags;
  auto* node = app.add_subcommand(
      "node", "Join a run that listens, and do part of its work");
  add_common(*node, common);
  node->add_option("--join", flags.join,
                   "The head: tcp://HOST:PORT (default: this machine's)")
      ->check(fault_of_address)
      ->capture_default_str();
  node->add_option("--name", flags.name,
                   "Name of the node in the run (default: the host's)");
  node->add_option("--slots", flags.slots, "cpu=N: cores that the run may have")
      ->delimiter(',')
      ->allow_extra_args(false);
  node->add_option("--devices", flags.devices, "GPUs that the run may have")
      ->check(CLI::IsMember({"all", "none"}))
      ->capture_default_str();
  node->add_option("--only", flags.only,
                   "Work that it does (default: all that it can)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"capture", "build", "judge"}));
  node->add_option("--keys", flags.keys, "Folder of 'weft keygen'");
  node->add_option("--folder", flags.folder,
                   "Its own (default: below ~/.cache/weft/nodes)");
  node->add_flag("--once", flags.once, "Go when the run has ended");
  node->add_option("--patience-seconds", flags.patience_s,
                   "The work of a head that is away for longer is dropped")
      ->check(number_range(1.0, 864'000.0))
      ->capture_default_str();
  node->add_option("--lose-blobs", flags.lose_every)
      ->check(CLI::Range(0, 1'000'000))
      ->group("");  // for tests
  node->callback([&] { code = node_command(common, flags); });

  static std::filesystem::path keys;
  auto* keygen =
      app.add_subcommand("keygen", "Make the keys of a head and its nodes");
  add_common(*keygen, common);
  keygen->add_option("folder", keys, "Folder for the keys")->required();
  keygen->callback([&] { code = keygen_command(common, keys); });

  static FleetFlags fleet_flags;
  auto* fleet =
      app.add_subcommand("fleet", "Deal nodes out to the runs of a bench");
  fleet->group("");  // for the bench
  add_common(*fleet, common);
  add_listen(*fleet, fleet_flags.listen);
  add_classes(*fleet, fleet_flags.listen);
  fleet->add_option("--target", fleet_flags.target);
  fleet->add_option("--sockets", fleet_flags.sockets);
  fleet->callback([&] { code = fleet_command(fleet_flags); });

  static std::filesystem::path run;
  auto* cluster =
      app.add_subcommand("cluster", "List the nodes of a run and what they do");
  add_common(*cluster, common);
  cluster->add_option("run", run, "Run directory")->required();
  cluster->callback([&] { code = cluster_command(common, run); });
  add_head(app, common, code);
}

}  // namespace weft
