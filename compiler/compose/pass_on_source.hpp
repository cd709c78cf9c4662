// How a composed forward() hands over to the original one: that it does is told
// once, with the reason.
#pragma once

#include <string>
#include <vector>

namespace weft {

/// Python, and what is so for a caller where it does not hold.
struct Condition {
  std::string code;
  std::string otherwise;
};

/// Once a module: the functions that the other two's text calls.
std::string pass_on_source();

/// "if torch.compiler.is_compiling() or …", which is asked before all else.
std::string watched_condition();

/// "_weft_pass_on(<forward>, (…))", which gives the function to call.
std::string pass_on_text(const std::string& forward,
                         const std::vector<Condition>& conditions,
                         const std::string& indent);

}  // namespace weft
