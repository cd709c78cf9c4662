// Which runs this user began, and which came from somebody else. A journal of a
// run bears a hash of its first event with a key that only this user's cache
// folder has. Without the key nobody can make one.
#pragma once

#include "messages/run.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// Before the first event of a new journal is written. Where no key can be
/// kept, the run's resume takes it for somebody else's: no reason to stop.
void mark_own(Journal& journal, const RunStart& start);

/// Whether this user began the run with exactly that first event.
bool is_own(const Journal& journal);

}  // namespace weft
