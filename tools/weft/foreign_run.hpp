// What holds of a run that somebody else began, when it is resumed here: its
// journal may limit more than this user's settings do, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "config/settings.hpp"
#include "messages/run.hpp"
#include "runtime/ports/llm_port.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

struct ForeignRun {
  RunStart start;             ///< for ports; the roles read the journal's
  LlmSpendingLimit spending;  ///< of this resume
  bool may_ask_models = false;
  std::int64_t budget_ms = 0;         ///< of this resume; 0: no limit
  std::vector<std::string> remarks{};  ///< what is ignored, for the user
};

/// `settings` are the user's own: flags, variables and files. wrong_input: a
/// number is none, or the sandbox is off, in which its problem must run.
Result<ForeignRun> limit_foreign(const RunStart& start, Settings settings,
                                 const ResumeFlags& flags);

}  // namespace weft
