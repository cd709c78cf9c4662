// Writing to a journal, and looking up what is not an event.
#include "runtime/journal/journal.hpp"

#include "runtime/journal/state.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

/// Far more than a message needs: what is large travels as a blob's hash.
constexpr std::size_t kEventBytesMax = std::size_t{64} << 20;

Result<void> check_size(const Envelope& envelope) {
  const std::size_t size_bytes = envelope.src.size() + envelope.dst.size() +
                                 envelope.type.size() + envelope.body.size();
  if (size_bytes <= kEventBytesMax) return {};
  return fail(
      ErrorCode::wrong_input,
      "a message of type " + envelope.type.substr(0, 80) + " has " +
          std::to_string(size_bytes) + " bytes, and the journal takes " +
          std::to_string(kEventBytesMax) + ": put its large parts into blobs");
}

Result<void> insert_event(Journal::State& state, const Envelope& envelope,
                          const Check& check) {
  auto& row = state.insert_event;
  row.bind(1, static_cast<std::int64_t>(envelope.seq));
  row.bind(2, envelope.at_us);
  row.bind(3, static_cast<std::int64_t>(envelope.cause));
  row.bind_text(4, envelope.src);
  row.bind_text(5, envelope.dst);
  row.bind_text(6, envelope.type);
  row.bind_blob(7, envelope.body);
  row.bind_blob(8, bytes_of(check));
  return row.run();
}

Result<void> insert_waiting_blobs(Journal::State& state) {
  auto& row = state.insert_blob;
  for (const auto& [hash, blob] : state.waiting) {
    row.bind_text(1, hash);
    row.bind(2, blob.size_bytes);
    row.bind_text(3, blob.codec);
    row.bind_blob(4, blob.bytes);
    if (auto inserted = row.run(); !inserted) return inserted;
  }
  return {};
}

Result<void> store_head(Journal::State& state, const Head& head) {
  const std::string text = head.to_text();
  state.update_head.bind_text(1, text);
  return state.update_head.run();
}

/// Writes the group in one transaction; `last` becomes its last check.
Result<void> write_group(Journal::State& state, std::vector<Envelope>& group,
                         Head& head, Check& last) {
  auto savepoint = Savepoint::begin(state.database);
  if (!savepoint) return std::unexpected(savepoint.error());
  if (auto done = insert_waiting_blobs(state); !done) return done;
  for (auto& envelope : group) {
    if (auto fits = check_size(envelope); !fits) return fits;
    envelope.seq = ++head.seq;
    last = state.chain.next(last, envelope);
    if (auto done = insert_event(state, envelope, last); !done) return done;
  }
  head.check = to_hex(bytes_of(last));
  head.blobs += static_cast<std::int64_t>(state.waiting.size());
  if (auto done = store_head(state, head); !done) return done;
  return savepoint->commit();
}

}  // namespace

Result<void> Journal::State::may_write() const {
  if (!lock) {
    return fail(ErrorCode::failed, file.string() + ": opened to read only");
  }
  if (database.in_transaction()) {
    // It would join the reader's transaction, and be lost with it.
    return fail(ErrorCode::failed,
                file.string() + ": written to from inside a read()");
  }
  return {};
}

Result<void> Journal::append(std::vector<Envelope>& group) {
  auto& state = *state_;
  if (auto may = state.may_write(); !may) return may;
  if (group.empty() && state.waiting.empty()) return {};
  Head head = state.head;
  Check last = state.last_check;
  if (auto done = write_group(state, group, head, last); !done) {
    for (auto& envelope : group) envelope.seq = 0;
    return done;
  }
  state.head = std::move(head);
  state.last_check = last;
  state.waiting.clear();
  state.lock->note(state.head.seq);
  return {};
}

Result<std::string> Journal::put_blob(std::string_view bytes) {
  auto& state = *state_;
  if (auto may = state.may_write(); !may) return std::unexpected(may.error());
  if (bytes.size() > kBlobBytesMax) {
    return fail(ErrorCode::wrong_input,
                "a text of " + std::to_string(bytes.size()) +
                    " bytes is too large for the journal, which takes " +
                    std::to_string(kBlobBytesMax));
  }
  std::string hash = content_hash(bytes);
  if (state.waiting.contains(hash)) return hash;
  state.find_blob.bind_text(1, hash);
  const auto found = state.find_blob.step();
  state.find_blob.reset();
  if (!found) return std::unexpected(found.error());
  if (!*found) state.waiting.emplace(hash, encode_blob(bytes));
  return hash;
}

Result<std::string> Journal::get_blob(std::string_view hash) const {
  auto& state = *state_;
  const std::string name = "blob " + std::string(hash);
  Result<std::string> bytes;
  if (const auto it = state.waiting.find(hash); it != state.waiting.end()) {
    const auto& blob = it->second;
    bytes = decode_blob(blob.size_bytes, blob.codec, blob.bytes);
  } else {
    auto row = state.database.prepare(
        "SELECT size, codec, bytes FROM blob WHERE hash = ?");
    if (!row) return std::unexpected(row.error());
    row->bind_text(1, hash);
    const auto found = row->step();
    if (!found) return std::unexpected(found.error());
    if (!*found) return state.damaged(name + " is not in the journal");
    bytes = decode_blob(row->integer(0), row->bytes(1), row->bytes(2));
  }
  if (!bytes) {
    return state.damaged(name + " is damaged: " + bytes.error().message);
  }
  if (content_hash(*bytes) != hash) {
    return state.damaged(name + " is damaged: its bytes have another hash");
  }
  return bytes;
}

Result<std::vector<std::string>> Journal::blob_hashes() const {
  auto row = state_->database.prepare("SELECT hash FROM blob ORDER BY hash");
  if (!row) return std::unexpected(row.error());
  std::vector<std::string> hashes;
  while (true) {
    const auto found = row->step();
    if (!found) return std::unexpected(found.error());
    if (!*found) return hashes;
    hashes.emplace_back(row->bytes(0));
  }
}

std::uint64_t Journal::last_seq() const {
  auto& state = *state_;
  if (state.lock) return state.head.seq;
  const auto head = load_head(state.database, state.file);
  return head ? head->seq : 0;
}

Result<void> Journal::set_meta(std::string_view key, std::string_view value) {
  auto& state = *state_;
  if (auto may = state.may_write(); !may) return may;
  if (key == kFormatKey || key == kHeadKey) {
    return fail(ErrorCode::wrong_input,
                "the meta value '" + std::string(key) +
                    "' is the journal's own: choose another name");
  }
  auto savepoint = Savepoint::begin(state.database);
  if (!savepoint) return std::unexpected(savepoint.error());
  if (auto done = store_meta(state.database, key, value); !done) return done;
  auto digest = digest_meta(state.database, state.chain);
  if (!digest) return std::unexpected(digest.error());
  Head head = state.head;
  head.meta_digest = std::move(*digest);
  if (auto done = store_head(state, head); !done) return done;
  if (auto done = savepoint->commit(); !done) return done;
  state.head = std::move(head);
  return {};
}

std::optional<std::string> Journal::meta(std::string_view key) const {
  return load_meta(state_->database, key).value_or(std::nullopt);
}

}  // namespace weft
