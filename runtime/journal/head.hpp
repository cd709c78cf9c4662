// What a journal says about itself, in its meta table: the format's version,
// and the head, from which a cut tail or an edited value shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "messages/result.hpp"
#include "runtime/journal/chain.hpp"
#include "runtime/store/sqlite.hpp"

namespace weft {

/// The format that this program writes, and the oldest one that it reads.
constexpr int kJournalFormat = 1;
constexpr int kJournalFormatOldest = 1;

constexpr std::string_view kFormatKey = "format";
constexpr std::string_view kHeadKey = "head";

/// All of it can be computed from the rest of the file, so each of its bytes
/// can be verified too.
struct Head {
  std::uint64_t seq = 0;    ///< of the last event
  std::string check;        ///< of the last event, in hex
  std::int64_t blobs = 0;   ///< how many there are
  std::string meta_digest;  ///< see digest_meta()

  std::string to_text() const;
};

/// wrong_input when a newer version wrote the file, or a forgotten one.
Result<void> check_format(Database& database,
                          const std::filesystem::path& file);

/// Whether a write-ahead log with something in it is there.
bool has_log(const std::filesystem::path& file);

Result<Head> load_head(Database& database, const std::filesystem::path& file);

/// One check in hex over all names and values but the head, ordered by name.
Result<std::string> digest_meta(Database& database, Chain& chain);

Result<std::optional<std::string>> load_meta(Database& database,
                                             std::string_view key);

Result<void> store_meta(Database& database, std::string_view key,
                        std::string_view value);

}  // namespace weft
