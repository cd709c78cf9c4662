// What a run finds on this machine: its target, its GPUs and what they reach,
// the compilers. Settled once, before anything is written.
#pragma once

#include "messages/result.hpp"
#include "messages/run.hpp"
#include "runtime/machine/installation.hpp"

namespace weft {

/// Settles the target "auto" and how long timing takes in `options`, and says
/// which machine the run has. wrong_input, missing: a GPU that is not there.
Result<Machine> resolve_machine(RunOptions& options,
                                const Installation& installation);

/// How long timing takes on a GPU, where nothing else was asked for.
void shorten_timing(RunOptions& options);

/// Limits timing to a share of the run's budget, where nothing else was asked
/// for: 1 % for a kernel and 3 % for the best one and for the module. These are
/// the shares of torch.compile(backend="weft").
void limit_timing(RunOptions& options);

/// Adds what the first GPU reaches, measured now if nobody has before: some
/// seconds, once a device. Without it the compiler goes by other devices.
Result<void> add_gpu_numbers(Machine& machine,
                             const Installation& installation);

/// Adds the location's facts for prompts: the versions of the builders and, for
/// kernels on the processor, its rates.
Result<void> add_model_facts(Machine& machine, const RunOptions& options,
                             const Installation& installation);

/// missing: a compiler that the target's kernels are built with.
Result<void> check_tools(const RunOptions& options,
                         const Installation& installation);

}  // namespace weft
