// Rewrites of whole stages and nests: loop variables or buffers replaced
// everywhere that they are used.
#pragma once

#include <map>

#include "compiler/loops/schedule.hpp"

namespace weft {

/// Replaces variables everywhere in a stage, and in its lists.
void substitute(Program& program, Stage& stage, const IndexMap& map);

/// The same in the nest's points and all its stages.
void substitute_nest(Program& program, Nest& nest, const IndexMap& map);

/// The stage, reading from `buffers[b]` what it read from buffer b.
Stage with_buffers(Program& program, Stage stage,
                   const std::map<int, int>& buffers);

}  // namespace weft
