// Cuts Python source into the tokens that finding and renaming a class needs:
// names, strings, comments, everything else. No parser: it knows strings,
// brackets, line joining and indentation, and nothing of grammar.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace weft {

enum class PythonTokenKind {
  name,     ///< identifier or keyword
  text,     ///< string literal with its prefix and quotes; f-strings whole
  number,   ///< digits and what sticks to them
  comment,  ///< from # to the line's end
  newline,  ///< the end of a logical line
  other,    ///< one character of punctuation
};

struct PythonToken {
  PythonTokenKind kind = PythonTokenKind::other;
  std::size_t begin = 0;  ///< bytes into the source
  std::size_t end = 0;
  int depth = 0;           ///< open brackets before it
  std::size_t indent = 0;  ///< column at which its logical line begins
};

/// The tokens in order, whitespace dropped. Never fails: what is no Python
/// comes out as other tokens.
std::vector<PythonToken> python_tokens(std::string_view source);

}  // namespace weft
