// The page that shows a run (docs/reference/report.md): the files of page/, put
// together. Nothing that a journal says becomes markup.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/journal/journal.hpp"

namespace weft {

struct PageLimits {
  /// Of the page's texts as they are stored in it, compressed and in base64.
  std::size_t texts_bytes_max = std::size_t{12} << 20;
  std::size_t text_bytes_max = std::size_t{1} << 20;  ///< of one, before that
};

/// One file that asks no network: `view` (of run_view()) and the texts that it
/// names, read from `journal`, compressed.
Result<std::string> report_page(const Journal& journal,
                                const nlohmann::json& view,
                                const PageLimits& limits = {});

/// The same page for a server. It asks for `view.json` (run_view() as text)
/// beside itself, again each second while `finished` is null, and for
/// `text/HASH` (the blob's bytes) when one is looked at. A query that the page
/// was opened with ("?token=…") goes with both.
std::string live_page();

/// What a content security policy calls a text that may run: "sha256-…".
/// Nothing else runs, whatever stands in the page.
std::string policy_hash(std::string_view text);

}  // namespace weft
