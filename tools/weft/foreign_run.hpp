// The limits of a run that somebody else began, when it is resumed here. Its
// journal may only make the limits of this user's settings stricter.
#pragma once

#include <string>
#include <vector>

#include "config/settings.hpp"
#include "messages/run.hpp"
#include "runtime/ports/llm_port.hpp"
#include "tools/weft/commands.hpp"

namespace weft {

/// Limits of this resume, not of the whole run.
struct ForeignRun {
  RunStart start;  ///< for ports; the roles read the journal's
  LlmSpendingLimit spending;
  bool may_ask_models = false;
  std::int64_t budget_ms = 0;          ///< 0: no limit
  std::vector<std::string> remarks{};  ///< ignored settings, for the user
};

/// `settings` are the user's own: flags, variables and files. wrong_input: a
/// setting is not a number, or the sandbox is off. The problem needs the
/// sandbox.
Result<ForeignRun> limit_foreign(const RunStart& start, Settings settings,
                                 const ResumeFlags& flags);

}  // namespace weft
