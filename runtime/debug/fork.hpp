// Makes a new journal of the first events of another one, in which something is
// otherwise: the run's settings, or the last of these events, a port's answer.
// Whoever resumes it goes on from there.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "messages/run.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/blob_store.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

struct ForkOrder {
  std::uint64_t at = 0;  ///< the last event that is kept
  /// In place of the run's own. Roles decide anew by them, and must say the
  /// same kinds of things to the same others as they did.
  std::optional<RunOptions> options{};
  /// Fields of the answer that is the event `at`, to be merged into it (RFC
  /// 7396).
  std::optional<nlohmann::json> reply{};
};

struct ForkEnd {
  std::uint64_t words_changed = 0;  ///< of roles, by the other settings
  /// Answers to requests that read otherwise by the other settings.
  std::vector<std::uint64_t> answers_reused;
};

/// `fork` is empty; `blobs` are its own. It gets the origin's blobs, too, and
/// needs nothing of it any more. wrong_input: there is no such event, it is no
/// answer, a field does not fit, or the settings lead elsewhere before it.
Result<ForkEnd> fork_journal(const Journal& origin, Journal& fork,
                             BlobStore& blobs, const ForkOrder& order,
                             const Replay::MakeRole& make_role);

}  // namespace weft
