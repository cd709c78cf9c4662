// What a page of ours may do in a browser: run the scripts that it came with,
// ask this server, and nothing else.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// The Content-Security-Policy for a page: its inline scripts by their SHA-256.
std::string content_policy(std::string_view html);

}  // namespace weft
