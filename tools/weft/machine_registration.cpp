#include <filesystem>

#include "tools/weft/command_registration.hpp"
#include "tools/weft/fleet_command.hpp"
#include "tools/weft/node_command.hpp"
#include "tools/weft/number_range.hpp"
#include "tools/weft/shared_options.hpp"

namespace weft {

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
}

}  // namespace weft
