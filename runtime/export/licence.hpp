// Under which licence a text stands, as far as its own words say: an SPDX
// identifier, or the words by which a common licence or a notice of it begins.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// An SPDX expression ("MIT", "Apache-2.0 OR MIT") of a source file or of a
/// licence's own file; nullopt where neither an `SPDX-License-Identifier:` nor
/// words that are known stand in its first 16 KiB.
std::optional<std::string> licence_in(std::string_view text);

/// The lines of its head that say whose the copyright is, as they stand there
/// but for comment marks; at most 8.
std::vector<std::string> copyrights_in(std::string_view text);

}  // namespace weft
