// The verbs that look into a journal without running it again as a whole.
#pragma once

#include "runtime/journal/journal.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

/// `weft replay RUN --step`: obeys the lines of the standard input. 2 when one
/// of them was wrong and nobody sits at a terminal to mend it.
int step_through(const CommonFlags& common, const Journal& journal);

/// `weft replay RUN --at SEQ [--state ROLE]`.
int show_moment(const CommonFlags& common, const Journal& journal,
                const ReplayFlags& flags);

}  // namespace weft
