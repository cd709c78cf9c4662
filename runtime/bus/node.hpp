// A node: joins a head's run and does what it is asked, with ports of its own,
// until the head says that the run has ended. Then it waits for the next one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "actors/role.hpp"
#include "runtime/bus/keys.hpp"
#include "runtime/bus/node_protocol.hpp"
#include "runtime/host/port.hpp"

namespace weft {

/// The ports of one run, by the names that the wire has for them, and what has
/// to live as long.
struct NodePorts {
  std::shared_ptr<void> keeps;  ///< first: it goes after the ports that use it
  Ports ports;
  /// Removes what earlier work left on the disk, as far as none under way needs
  /// it; any thread of a port's. Empty: there is nothing of the kind.
  std::function<void()> free_space{};
};

struct NodeOptions {
  std::string endpoint;
  BusKeys keys;
  NodeProtocol::Options protocol;
  /// This node's own. Its file `alive` is written every 5 s, and says "in"
  /// where a head has let the node in, else "out".
  std::filesystem::path folder;
  /// Why work that fails here says nothing of that work, as on a full disk;
  /// empty: it does. Asked when some has failed, and once more after
  /// NodePorts::free_space; any thread.
  std::function<std::string()> why_unfit;
  int lose_every = 0;  ///< blobs, for tests
  std::function<void(const std::string&)> log;
  /// Makes the ports for a run.
  std::function<NodePorts(Blobs&, const RunStart&)> make_ports;
};

/// Serves until it is stopped, or a run ends and that was to be all. Stopped,
/// it hands back what it works on and goes within seconds, as it does where its
/// machine is not fit. The error says why that is, or why the head will not
/// have it (missing), or that the address is none.
Result<void> serve_as_node(NodeOptions options, std::stop_token stop);

}  // namespace weft
