// `weft fleet`: lets nodes join, and deals them out to the runs of a bench
// (runtime/bus/fleet_protocol.hpp). The bench starts it and speaks to it by
// lines of JSON. It ends with its standard input.
//
// Lines that it reads:
//   {"begin": RUN, "endpoint": ADDRESS}: the run listens there.
//   {"end": RUN}: the run's process has ended.
//   {"reserve": N}: N nodes that judge are left to runs that begin now.
//   {"finish": true}: no run comes any more; nodes get a goodbye. If standard
//     input ends without this line, the bench has died: nodes wait for the next
//     one.
//
// Lines that it writes:
//   {"listens": ADDRESS}
//   {"error": TEXT, "exit_code": N}: it cannot begin, and ends.
//   {"unreachable": RUN, "why": TEXT}: a node cannot be connected to the run,
//     which must end if no other node serves it.
//   {"class": NAME, "target": T, "gpu": NAME}, once.
//   {"nodes": [{"name": N, "can": "judge", "run": RUN}]}
//   {"log": TEXT}
#pragma once

#include <filesystem>
#include <string>

#include "tools/weft/commands.hpp"

namespace weft {

struct FleetFlags {
  ListenFlags listen;
  std::string target = "auto";
  /// The folder of the runs' sockets, which goes with a bench that dies.
  std::filesystem::path sockets;
};

/// 0: standard input was closed; 2: the address or the keys are wrong.
int fleet_command(const FleetFlags& flags);

}  // namespace weft
