// The ordered record of a run: every envelope, numbered and chained, in one
// SQLite file that any SQLite tool can open while the run goes on. The format
// is docs/reference/journal.md. One writer per file (a second one is refused);
// a Journal is used by one thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/result.hpp"

namespace weft {

class JournalLock;

/// How hard a commit is made: `full` survives a power cut, `normal` survives
/// the death of the process.
enum class Sync { full, normal };

class Journal {
 public:
  struct State;  ///< what the journal's own files share

  /// Makes a new journal. wrong_input when the file is there already.
  static Result<Journal> create(const std::filesystem::path& file, Sync sync);

  /// Opens to go on writing. wrong_input: no such file, another process holds
  /// it, or a newer version wrote it; damaged: the chain's tail does not fit.
  static Result<Journal> open(const std::filesystem::path& file, Sync sync);

  /// Opens to read only; a running writer does not mind.
  static Result<Journal> open_read_only(const std::filesystem::path& file);

  Journal(Journal&&) noexcept;
  Journal& operator=(Journal&&) noexcept;
  ~Journal();

  /// Numbers the envelopes (seq, in order), chains them and makes them durable
  /// as one group, together with blobs put since the last append. Nothing of
  /// the group is kept when it fails (disk full, I/O error).
  Result<void> append(std::vector<Envelope>& group);

  /// Stores bytes under their SHA-256 (64 hex digits, returned). Durable with
  /// the next append(), or the one after when that fails. Storing the same
  /// bytes again costs a look-up.
  Result<std::string> put_blob(std::string_view bytes);

  /// The bytes of a blob; damaged when they do not hash to `hash`.
  Result<std::string> get_blob(std::string_view hash) const;

  /// The names of all blobs, in order.
  Result<std::vector<std::string>> blob_hashes() const;

  /// Reads everything: the chain from the first event on, each blob, the meta
  /// values, SQLite's own pages. damaged names the first thing that is wrong.
  Result<void> verify() const;

  /// The seq of the last envelope, 0 when there is none.
  std::uint64_t last_seq() const;

  /// Calls `visit` for each envelope from seq `from` on, in order, verifying
  /// the chain; stops early when it returns false. damaged names the first
  /// event whose bytes or position do not fit. Reading from > 1 trusts the rows
  /// before. Sees the journal as it is at the call; `visit` must not write to
  /// it.
  Result<void> read(std::uint64_t from,
                    const std::function<bool(const Envelope&)>& visit) const;

  /// A named value beside the events, such as the weft version; durable at
  /// once. "format" and "head" are the journal's own.
  Result<void> set_meta(std::string_view key, std::string_view value);
  std::optional<std::string> meta(std::string_view key) const;

 private:
  static Result<Journal> open_to_write(const std::filesystem::path& file,
                                       Sync sync, JournalLock lock, int flags);
  explicit Journal(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
