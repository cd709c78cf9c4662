#include "runtime/journal/head.hpp"

#include <charconv>
#include <sstream>
#include <system_error>

#include "runtime/journal/journal_files.hpp"

namespace weft {

std::string Head::to_text() const {
  return std::to_string(seq) + ' ' + check + ' ' + std::to_string(blobs) + ' ' +
         meta_digest;
}

Result<void> check_format(Database& database,
                          const std::filesystem::path& file) {
  const auto text = load_meta(database, kFormatKey);
  if (!text) return std::unexpected(text.error());
  int format = 0;
  const std::string digits = text->value_or("");
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, format);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return fail(ErrorCode::damaged,
                file.string() +
                    ": meta value 'format' is damaged: restore "
                    "the file from a copy");
  }
  const std::string what = file.string() + " has journal format " + digits +
                           ", and this weft reads " +
                           std::to_string(kJournalFormatOldest) + " to " +
                           std::to_string(kJournalFormat) + ": ";
  if (format > kJournalFormat) {
    return fail(ErrorCode::wrong_input, what + "update weft");
  }
  if (format < kJournalFormatOldest) {
    return fail(ErrorCode::wrong_input, what + "use the weft that wrote it");
  }
  return {};
}

bool has_log(const std::filesystem::path& file) {
  // Whoever looks into a journal without one makes an empty one.
  std::error_code error;
  const auto bytes =
      std::filesystem::file_size(write_ahead_log_of(file), error);
  return !error && bytes > 0;
}

Result<Head> load_head(Database& database, const std::filesystem::path& file) {
  const auto text = load_meta(database, kHeadKey);
  if (!text) return std::unexpected(text.error());
  Head head;
  std::istringstream in(text->value_or(""));
  in >> head.seq >> head.check >> head.blobs >> head.meta_digest;
  // Written out again it must be the same, or some byte of it has changed.
  if (!in || head.to_text() != text->value_or("")) {
    return fail(ErrorCode::damaged,
                file.string() +
                    ": meta value 'head' is damaged: restore the "
                    "file from a copy");
  }
  return head;
}

Result<std::string> digest_meta(Database& database, Chain& chain) {
  auto rows = database.prepare(
      "SELECT key, value FROM meta WHERE key <> 'head' ORDER BY key");
  if (!rows) return std::unexpected(rows.error());
  std::string all;
  for (;;) {
    const auto row = rows->step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return to_hex(bytes_of(chain.of(all)));
    for (const int column : {0, 1}) {
      // The type counts too: text and a blob may hold the same bytes.
      append_u64(all, static_cast<std::uint64_t>(rows->type(column)));
      append_text(all, rows->bytes(column));
    }
  }
}

Result<std::optional<std::string>> load_meta(Database& database,
                                             std::string_view key) {
  auto row = database.prepare("SELECT value FROM meta WHERE key = ?");
  if (!row) return std::unexpected(row.error());
  row->bind_text(1, key);
  const auto found = row->step();
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::nullopt;
  return std::string(row->bytes(0));
}

Result<void> store_meta(Database& database, std::string_view key,
                        std::string_view value) {
  auto row = database.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)");
  if (!row) return std::unexpected(row.error());
  row->bind_text(1, key);
  row->bind_text(2, value);
  return row->run();
}

}  // namespace weft
