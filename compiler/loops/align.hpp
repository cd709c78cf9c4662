// Renaming a stage's loop variables to those of a nest, so that both walk the
// same points. Variables are split where one side sees two dimensions and the
// other one (a group's channels, a batch and its channels).
#pragma once

#include "compiler/loops/schedule.hpp"

namespace weft {

/// Whether `stage` can join `nest`. On success the stage's variables that walk
/// the nest's points carry the nest's names, and `inner` the rest. On failure
/// both are as before, or split in ways that change nothing they compute.
bool align_to_results(Program& program, Nest& nest, Stage& stage);

/// The same for a nest that is a scan: for a stage that stores, at every point
/// of the scan, what it has come to there.
bool align_to_scan(Program& program, Nest& nest, Stage& stage);

/// Lets a stage that stores walk whole blocks of the nest's results, where the
/// last one that it reads is not whole; beyond, nothing is read nor stored.
void walk_whole_blocks(Program& program, const Nest& nest, Stage& stage);

/// Like align_to_results, for a stage that needs nothing of the nest, but reads
/// the same elements of an input in the same places.
bool align_to_loads(Program& program, Nest& nest, Stage& stage);

/// For a reduction that reads a row of its own at each point, as one of the
/// nest does, and the same other row (two products of one vector): the points
/// are paired in order.
bool align_beside(Program& program, const Nest& nest, Stage& stage,
                  const LoopFacts& facts);

/// Makes two variables of one that counts two dimensions which that index tells
/// apart (a batch and its channels): then what it is in memory can be seen.
void split_as_read(Program& program, Stage& stage, const Index& read);

/// Names the inner variables as those of a stage of the nest with equal reads.
void share_inner(Program& program, Nest& nest, Stage& stage);

/// Replaces variables everywhere in a stage, and in its lists.
void substitute(Program& program, Stage& stage, const IndexMap& map);

}  // namespace weft
