// How other machines have a part in a run of this one
// (docs/how-to/machines.md).
#pragma once

#include <memory>

#include "messages/run.hpp"
#include "runtime/bus/head_bus.hpp"
#include "runtime/ports/kernel_cache.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

/// null: the run is this machine's alone. wrong_input: nodes have a part in it,
/// and nobody listens for them.
/// Before anything is written for a run that could not listen: wrong_input
/// where strangers could come in.
Result<void> check_listening(const ListenFlags& flags);

Result<std::unique_ptr<HeadBus>> open_bus(const CommonFlags& common,
                                          const ListenFlags& flags,
                                          const RunDirectory& run,
                                          const Installation& installation,
                                          Journal& journal, BlobStore& blobs,
                                          const RunStart& start);

/// Copies to the head's cache what nodes build, before the run hears of it: the
/// head checks the composed module, unless nodes do.
void take_what_nodes_build(HeadBus* bus, BlobStore& blobs, KernelCache& cache,
                           bool head_judges);

}  // namespace weft
