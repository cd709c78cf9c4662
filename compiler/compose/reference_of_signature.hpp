// A subgraph's reference from its signature alone
// (docs/reference/subgraphs.md): what the kernel library has of a subgraph that
// no run's journal is at hand for.
#pragma once

#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace weft {

/// As reference_source() of that subgraph, but for the title and the places in
/// the model's source, which no signature has. `title` is one line. wrong_input
/// where the text is no signature.
Result<std::string> reference_of_signature(std::string_view signature,
                                           const std::string& title);

}  // namespace weft
