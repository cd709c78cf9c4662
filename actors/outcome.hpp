// How a failure or a measurement is judged: the few thresholds that decide
// exit codes and winners, in one place.
#pragma once

#include "messages/vocabulary.hpp"

namespace weft {

/// 2 wrong input, 3 something missing on the machine, else 1.
int exit_code_of(const Failure& failure);

/// Both sides ran interleaved, so their medians are compared, and their tenth
/// percentiles too: noise lengthens runs, it never shortens them.
/// A kernel must gain at least 3 % to be worth its place.
bool faster_than_eager(const Timing& timing);

/// The composition loses more than 5 %.
bool slower_than_eager(const Timing& timing);

/// eager over candidate; 0 when either was not measured.
double speedup_over_eager(const Timing& timing);

/// torch.compile over candidate; 0 when either was not measured.
double speedup_over_compile(const Timing& timing);

}  // namespace weft
