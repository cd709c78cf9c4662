// Reading a journal's events in order, and finding what is wrong with it.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "messages/earlier_names.hpp"
#include "runtime/journal/state.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

constexpr std::string_view kSelect =
    "SELECT seq, at_us, cause, src, dst, type, body, \"check\" FROM event "
    "WHERE seq >= ? ORDER BY seq";

std::string event(std::uint64_t seq) { return "event " + std::to_string(seq); }

/// Damaged bytes may turn text into a blob or a number into text, which
/// SQLite would quietly turn back.
bool has_types_of_an_event(const Statement& row) {
  constexpr int kTypes[] = {SQLITE_INTEGER, SQLITE_INTEGER, SQLITE_INTEGER,
                            SQLITE_TEXT,    SQLITE_TEXT,    SQLITE_TEXT,
                            SQLITE_BLOB,    SQLITE_BLOB};
  int column = 0;
  return std::ranges::all_of(
      kTypes, [&](int type) { return row.type(column++) == type; });
}

void load_envelope(const Statement& row, Envelope& envelope) {
  envelope.seq = static_cast<std::uint64_t>(row.integer(0));
  envelope.at_us = row.integer(1);
  envelope.cause = static_cast<std::uint64_t>(row.integer(2));
  envelope.src = row.bytes(3);
  envelope.dst = row.bytes(4);
  envelope.type = row.bytes(5);
  envelope.body = row.bytes(6);
}

/// Whatever looks like a blob's name.
std::vector<std::string> hashes_in(std::string_view body) {
  constexpr std::size_t kDigits = 64;
  std::vector<std::string> found;
  std::size_t length = 0;
  for (std::size_t i = 0; i <= body.size(); ++i) {
    const char c = i < body.size() ? body[i] : ' ';
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
      ++length;
      continue;
    }
    if (length == kDigits)
      found.emplace_back(body.substr(i - kDigits, kDigits));
    length = 0;
  }
  return found;
}

/// The check that the event after `seq` is chained to.
Result<Check> load_check(Journal::State& state, std::uint64_t seq) {
  Check check{};
  if (seq == 0) return check;
  auto row = state.database.prepare(kSelect);
  if (!row) return std::unexpected(row.error());
  row->bind(1, static_cast<std::int64_t>(seq));
  const auto found = row->step();
  if (!found) return std::unexpected(found.error());
  if (!*found || row->integer(0) != static_cast<std::int64_t>(seq)) {
    return state.damaged(event(seq) + " is missing");
  }
  if (!has_types_of_an_event(*row) || row->bytes(7).size() != check.size()) {
    return state.damaged(event(seq) + " is damaged");
  }
  std::ranges::copy(row->bytes(7), check.begin());
  return check;
}

/// Whether the events end where the head says, and where the writer was.
Result<void> check_end(const Journal::State& state, const Head& head,
                       std::uint64_t seq, const Check& last,
                       std::uint64_t committed) {
  if (seq < head.seq) {
    return state.damaged(event(seq + 1) + " is missing: the last one is " +
                         std::to_string(head.seq));
  }
  if (seq > head.seq) {
    return state.damaged(event(head.seq + 1) +
                         " was not written by weft: the last one is " +
                         std::to_string(head.seq));
  }
  if (head.check != to_hex(bytes_of(last))) {
    return state.damaged("the meta value 'head' does not fit " + event(seq));
  }
  if (seq >= committed) return {};
  return fail(
      ErrorCode::damaged,
      state.file.string() + ": " + event(seq + 1) +
          " is missing: " + std::to_string(committed) + " were written, so " +
          (has_log(state.file) ? "the file or its -wal was cut or replaced"
                               : "its -wal was deleted, or both replaced,") +
          " since: restore both from a copy, or delete " +
          JournalLock::path_of(state.file).string() + " to go on from " +
          event(seq));
}

}  // namespace

Result<Check> Journal::State::read(
    std::uint64_t from, const std::function<bool(const Envelope&)>& visit) {
  from = std::max<std::uint64_t>(from, 1);
  // Before the snapshot is taken, or a running writer could be ahead of it. A
  // read within a read has the outer one's snapshot, and can't know.
  const auto committed =
      database.in_transaction() ? 0 : JournalLock::committed(file).value_or(0);
  auto snapshot = Savepoint::begin(database);
  if (!snapshot) return std::unexpected(snapshot.error());
  const auto head = load_head(database, file);
  if (!head) return std::unexpected(head.error());
  // Without a start there is nothing to be chained to, and nothing to read.
  if (from > head->seq + 1) return Check{};
  auto last = load_check(*this, from - 1);
  if (!last) return last;
  auto rows = database.prepare(kSelect);
  if (!rows) return std::unexpected(rows.error());
  // From below the first number, or a row slipped in there would not show.
  rows->bind(1, from == 1 ? std::numeric_limits<std::int64_t>::min()
                          : static_cast<std::int64_t>(from));
  Envelope envelope;
  for (std::uint64_t seq = from;; ++seq) {
    const auto row = rows->step();
    if (!row) {
      return fail(row.error().code, event(seq) + ": " + row.error().message);
    }
    if (!*row) {
      auto end = check_end(*this, *head, seq - 1, *last, committed);
      if (!end) return std::unexpected(end.error());
      return last;
    }
    load_envelope(*rows, envelope);
    if (envelope.seq != seq) return damaged(event(seq) + " is missing");
    *last = chain.next(*last, envelope);
    if (!has_types_of_an_event(*rows) || rows->bytes(7) != bytes_of(*last)) {
      return damaged(event(seq) + " is damaged: its check does not fit");
    }
    // The chain covers the type as it was written; readers know today's name.
    envelope.type = earlier::type_now(envelope.type);
    if (!visit(envelope)) return last;
  }
}

Result<void> Journal::read(
    std::uint64_t from,
    const std::function<bool(const Envelope&)>& visit) const {
  if (auto done = state_->read(from, visit); !done) {
    return std::unexpected(done.error());
  }
  return {};
}

Result<void> Journal::State::verify_blobs() {
  auto rows = database.prepare(
      "SELECT hash, size, codec, bytes, typeof(hash) || typeof(size) || "
      "typeof(codec) || typeof(bytes) FROM blob");
  if (!rows) return std::unexpected(rows.error());
  std::int64_t blobs = 0;
  for (;;) {
    const auto row = rows->step();
    if (!row) return std::unexpected(row.error());
    if (!*row) break;
    ++blobs;
    const auto bytes =
        decode_blob(rows->integer(1), rows->bytes(2), rows->bytes(3));
    if (!bytes || content_hash(*bytes) != rows->bytes(0) ||
        rows->bytes(4) != "textintegertextblob") {
      return damaged("blob " + std::string(rows->bytes(0)) + " is damaged");
    }
  }
  const auto head = load_head(database, file);
  if (!head) return std::unexpected(head.error());
  if (blobs == head->blobs) return {};
  return damaged("there are " + std::to_string(blobs) + " blobs, and " +
                 std::to_string(head->blobs) + " were written" +
                 missing_blob());
}

/// " (blob 1f2e… is gone)": the first that an event names; empty: none is.
std::string Journal::State::missing_blob() {
  std::string missing;
  const auto seen = read(1, [&](const Envelope& envelope) {
    for (const std::string& hash : hashes_in(envelope.body)) {
      auto row = database.prepare("SELECT 1 FROM blob WHERE hash = ?");
      if (!row) return false;
      row->bind_text(1, hash);
      const auto found = row->step();
      if (!found || *found) continue;
      missing = " (blob " + hash + ", which " + event(envelope.seq) +
                " names, is gone)";
      return false;
    }
    return true;
  });
  return seen ? missing : "";
}

Result<void> Journal::verify() const {
  auto& state = *state_;
  // The events first: their errors say most.
  auto done = read(1, [](const Envelope&) { return true; });
  if (!done) return done;
  auto snapshot = Savepoint::begin(state.database);
  if (!snapshot) return std::unexpected(snapshot.error());
  const auto head = load_head(state.database, state.file);
  if (!head) return std::unexpected(head.error());
  const auto digest = digest_meta(state.database, state.chain);
  if (!digest) return std::unexpected(digest.error());
  if (*digest != head->meta_digest) {
    return state.damaged("a meta value was changed");
  }
  if (done = state.verify_blobs(); !done) return done;
  auto pages = state.database.prepare("PRAGMA integrity_check(1)");
  if (!pages) return std::unexpected(pages.error());
  const auto row = pages->step();
  if (!row) return std::unexpected(row.error());
  if (*row && pages->bytes(0) == "ok") return {};
  return state.damaged("SQLite finds: " + std::string(pages->bytes(0)));
}

}  // namespace weft
