// `weft fleet`: lets nodes join, and deals them out to the runs of a bench
// (runtime/bus/fleet_protocol.hpp). The bench starts it and speaks to it by
// lines of JSON. It ends with its standard input.
//
// Lines that it reads:
//   {"begin": RUN, "endpoint": ADDRESS}: the run listens there.
//   {"end": RUN}: the run's process has ended.
//   {"reserve": N}: N nodes that judge are left to runs that begin now.
//
// Lines that it writes:
//   {"listens": ADDRESS}
//   {"class": NAME, "target": T, "gpu": NAME}, once.
//   {"nodes": [{"name": N, "can": "judge", "run": RUN}]}
//   {"log": TEXT}
#pragma once

#include "tools/weft/commands.hpp"

namespace weft {

struct FleetFlags {
  ListenFlags listen;
  std::string target = "auto";
};

/// 0: standard input was closed; 2: the address or the keys are wrong.
int fleet_command(const CommonFlags& common, const FleetFlags& flags);

}  // namespace weft
