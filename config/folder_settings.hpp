// What the settings in the current folder may say, which may have come with
// somebody's files; and how budgets of several places count.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace weft {

/// As read_settings. `remarks` gets a line for each setting of the current
/// folder's file that is ignored: those of language models, limits and files.
Result<Settings> read_settings(const SettingsFiles& files,
                               std::vector<std::string>& remarks);

/// Whether the current folder's file may set it: only settings that affect the
/// search, or that make a limit stricter. A setting that is not listed is
/// refused.
bool may_lie_in_folder(std::string_view name, const Setting& setting);

/// A limit that holds wherever it was set: the lowest of all counts.
bool is_budget(std::string_view name);

/// Whether the first of two budgets is lower. False where one is no number.
bool is_lower(const Setting& setting, const Setting& other);

}  // namespace weft
