// Which runs this user began, and which came from somebody else. The journal of
// a run has a hash of its first event and of a key. Only this user's cache
// folder has the key, so that another user cannot compute the hash.
#pragma once

#include "messages/run.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// Call this before the first event of a new journal is written. If no key can
/// be kept, the journal has no mark, and its resume takes the run for somebody
/// else's.
void mark_own(Journal& journal, const RunStart& start);

/// Whether this user began the run with exactly that first event.
bool is_own(const Journal& journal);

}  // namespace weft
