// Python files in language models' answers, and texts in prompts.
#pragma once

#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// The text of the fenced block that defines that name at its top: of several,
/// the last one. A fence within the code's own strings does not end it. The
/// whole answer, if it has no fence and defines the name. wrong_input says what
/// is missing, in words for the model.
Result<std::string> python_file_in(std::string_view answer,
                                   std::string_view name = "kernel_function");

/// The same for texts that differ in spaces, comments and empty lines only.
std::string near_duplicate_key(std::string_view python);

/// A Markdown fence that the text does not contain: three backticks or more.
std::string fence_for(std::string_view text);

}  // namespace weft
