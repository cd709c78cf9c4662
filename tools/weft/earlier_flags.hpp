// Command-line flags, and words that follow them, under the names that they had
// in earlier versions of weft. They still work, and a line on the standard
// error says what they are called now.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// The command line in today's names; `say` gets a line for each earlier name.
std::vector<std::string> with_current_flags(
    std::vector<std::string> words, void (*say)(const std::string& line));

/// The setting's earlier name: "run.random_seed" was "run.seed". Empty if it
/// had none.
std::string earlier_setting(const std::string& name);

/// Settings that had another name earlier, by today's names.
std::vector<std::string> renamed_settings();

}  // namespace weft
