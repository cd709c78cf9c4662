// The best known module is what a run delivers: rules for runs that began with
// them.
#pragma once

#include "messages/effects.hpp"
#include "messages/run.hpp"

namespace weft {

/// RunStart::vocabulary of the first runs that deliver the best known module.
inline constexpr int kBestKnownVocabulary = 3;

/// Inductor's fusion of the whole graph is a cut like others, and a module that
/// two timings find slower than eager is not kept, whatever the noise of the
/// second. Runs that began before this rule are decided as they were.
inline bool delivers_best(const RunStart& run) {
  return run.vocabulary >= kBestKnownVocabulary;
}

/// Whether the timing of a module speaks against it: slower than eager beyond
/// noise, or the second one in a row that is by more than 2 %.
bool is_loss(const RunStart& run, const Timing& timing, bool was_slower);

}  // namespace weft
