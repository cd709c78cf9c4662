// Which timing class a run has, and what its head can do for it
// (actors/capabilities.hpp). A head that is not of the class waits for nodes.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "actors/capabilities.hpp"
#include "messages/run.hpp"
#include "runtime/bus/frame.hpp"
#include "runtime/machine/installation.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

struct RunClass {
  Machine machine;  ///< that kernels are made for
  DeviceClass device_class;
  std::vector<std::string> head_can;
  int head_cores = 0;

  bool head_judges() const;
};

/// Settles the target "auto" in `options`, too. The head's own class, unless
/// `listen.classes` names another or the head cannot judge; then that of most
/// devices among the nodes that come. `listen.endpoint` gets the port that was
/// bound. The error says what the head lacks if nodes may not join.
Result<RunClass> settle_class(const CommonFlags& common,
                              const Installation& installation,
                              ListenFlags& listen, RunOptions& options,
                              const std::stop_token& stop);

/// The timing classes of nodes of this weft; `target` may be "auto".
std::vector<TimingClass> classes_of(const std::vector<wire::Hello>& nodes,
                                    const std::string& target);

/// Enters it in the run's first message.
void add_class(RunStart& start, const RunClass& run_class,
               const ListenFlags& listen);

}  // namespace weft
