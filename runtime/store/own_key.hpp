// Tells what this user's weft wrote from what somebody else did. The key is in
// the user's cache folder, so that nobody else can make its marks.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Made by the first call. Empty: there is no folder that can keep it.
std::string own_key();

/// The mark of these bytes; empty if there is no key.
std::string own_mark(std::string_view bytes);

}  // namespace weft
