// What an open Journal holds. For the journal's own files only.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/journal/blob_codec.hpp"
#include "runtime/journal/chain.hpp"
#include "runtime/journal/head.hpp"
#include "runtime/journal/journal.hpp"
#include "runtime/journal/lock.hpp"
#include "runtime/store/sqlite.hpp"

namespace weft {

// The order matters: statements go before their database, the database
// before the lock.
struct Journal::State {
  std::filesystem::path file;
  std::optional<JournalLock> lock;  ///< none: opened to read only
  Database database;
  Chain chain;
  Head head;         ///< the writer's; a reader loads it when it needs it
  Check last_check;  ///< the writer's: of the event head.seq
  std::map<std::string, StoredBlob, std::less<>> waiting;  ///< for append()
  Statement insert_event, insert_blob, update_head, find_blob;

  State(std::filesystem::path file, std::optional<JournalLock> lock,
        Database database)
      : file(std::move(file)),
        lock(std::move(lock)),
        database(std::move(database)) {}

  /// The writer's pragmas and statements.
  Result<void> prepare_to_write(Sync sync);
  /// Fills in the writer's head; damaged when the last event does not fit.
  Result<void> load_tail();
  /// Journal::read(), and the check of the last event visited.
  Result<Check> read(std::uint64_t from,
                     const std::function<bool(const Envelope&)>& visit);
  /// Every blob decodes to what its name says, and none is missing.
  Result<void> verify_blobs();
  std::string missing_blob();
  /// failed when this journal can't be written to now.
  Result<void> may_write() const;

  std::unexpected<Error> damaged(const std::string& what) const {
    return fail(ErrorCode::damaged,
                file.string() + ": " + what + ": restore it from a copy");
  }
};

}  // namespace weft
