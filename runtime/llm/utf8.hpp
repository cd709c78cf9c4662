// Text from a stranger's server as valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// `bytes` with each byte that is no part of a character replaced by U+FFFD. A
/// paid reply is not lost over one wrong byte in a comment.
std::string repaired_utf8(std::string_view bytes);

}  // namespace weft
