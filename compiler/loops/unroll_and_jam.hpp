// Unroll and jam: the reductions of neighbouring windows, which overlap, done
// together, so that what they have in common is read once.
#pragma once

#include "compiler/loops/schedule.hpp"

namespace weft {

/// In nests that reduce a window in columns (a pool, a depthwise convolution):
/// of a variable along which windows overlap, several neighbours become stages
/// of their own, and so does what is made of their results. Each window's part
/// along that dimension is written out in full: equal expressions of the arena
/// are one, which is what shares the loads. Nests where that saves little are
/// left as they are.
void unroll_and_jam(Schedule& plan, const LoopChoices& choices = {});

}  // namespace weft
