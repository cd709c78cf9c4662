#include "runtime/debug/fork.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "messages/parse_json.hpp"
#include "runtime/host/effect_ledger.hpp"
#include "runtime/host/port.hpp"
#include "runtime/host/watched_blobs.hpp"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::size_t kGroupMax = 1'000;
constexpr std::size_t kWaitingBytesMax = std::size_t{64} << 20;

std::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::wrong_input, std::move(message));
}

std::string named(const Envelope& envelope) {
  return "event " + std::to_string(envelope.seq) + ", " + envelope.type +
         " of " + envelope.src + " to " + envelope.dst;
}

Result<void> copy_blobs(const Journal& origin, Journal& fork) {
  const auto hashes = origin.blob_hashes();
  if (!hashes) return std::unexpected(hashes.error());
  std::vector<Envelope> none;
  std::size_t waiting_bytes = 0;
  for (const std::string& hash : *hashes) {
    const auto bytes = origin.get_blob(hash);
    if (!bytes) return std::unexpected(bytes.error());
    const auto put = fork.put_blob(*bytes);
    if (!put) return std::unexpected(put.error());
    waiting_bytes += bytes->size();
    if (waiting_bytes < kWaitingBytesMax) continue;
    if (const auto done = fork.append(none); !done) return done;
    waiting_bytes = 0;
  }
  return fork.append(none);
}

json as_json(const Message& message) {
  return json_of_msgpack(encode(message));
}

/// The field of `patch` that a message did not take: "timing.candidat"; empty:
/// it took all.
std::string unknown_field(const json& patch, const json& message) {
  if (!patch.is_object()) return "";
  for (const auto& [name, value] : patch.items()) {
    if (value.is_null()) continue;
    if (!message.is_object() || !message.contains(name)) return name;
    const std::string inner = unknown_field(value, message[name]);
    if (!inner.empty()) return name + "." + inner;
  }
  return "";
}

Result<std::string> patched(const Envelope& envelope, const json& patch) {
  if (!is_port(envelope.src) || envelope.dst == stale_address) {
    return wrong(named(envelope) +
                 ", is no answer of a port: only such a one can be replaced");
  }
  if (!patch.is_object()) {
    return wrong("the fields of an answer are a JSON object");
  }
  const auto before = decode(envelope.type, envelope.body);
  if (!before) return std::unexpected(before.error());
  json body = as_json(*before);
  body.merge_patch(patch);
  const std::vector<std::uint8_t> bytes = json::to_msgpack(body);
  const auto after =
      decode(envelope.type,
             {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!after) return wrong(after.error().message);
  const std::string unknown = unknown_field(patch, as_json(*after));
  if (!unknown.empty()) {
    return wrong(envelope.type + " has no field '" + unknown + "'");
  }
  if (effect_of(*before) != effect_of(*after)) {
    return wrong("an answer's field 'effect' says what it answers: it stays");
  }
  return encode(*after);
}

/// Roles that decide again, from what others told them then and by other
/// settings. Each envelope becomes what it is now.
class Retold {
 public:
  Retold(Blobs& blobs, const Replay::MakeRole& make_role, ForkEnd& end)
      : blobs_(blobs), make_role_(make_role), end_(end) {}

  Result<void> take(Envelope& envelope) {
    if (roles_.contains(envelope.src)) {
      if (const auto output = say_again(envelope); !output) return output;
    }
    if (is_port(envelope.src) && changed_.contains(envelope.cause)) {
      end_.answers_reused.push_back(envelope.seq);
    }
    return hand_over(envelope);
  }

 private:
  Result<void> say_again(Envelope& envelope) {
    auto& output = said_[envelope.cause];
    const bool is_same = !output.empty() &&
                         output.front().src == envelope.src &&
                         output.front().dst == envelope.dst &&
                         output.front().type == envelope.type;
    if (!is_same) {
      return wrong("by these settings " + envelope.src +
                   " decides differently before that: at " + named(envelope) +
                   "; fork at event " + std::to_string(envelope.seq - 1) +
                   " or before");
    }
    if (output.front().body != envelope.body) {
      ++end_.words_changed;
      if (is_request(envelope)) changed_.insert(envelope.seq);
      envelope.body = std::move(output.front().body);
    }
    output.pop_front();
    if (output.empty()) said_.erase(envelope.cause);
    return {};
  }

  Result<void> hand_over(const Envelope& envelope) {
    auto role = roles_.find(envelope.dst);
    if (role == roles_.end()) {
      auto result = make_role_(envelope.dst);
      if (!result) return {};
      role = roles_.emplace(envelope.dst, std::move(result)).first;
    }
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return std::unexpected(message.error());
    WatchedBlobs blobs(blobs_);
    Context context(blobs, envelope.at_us);
    role->second->receive(envelope.src, *message, context);
    if (blobs.error()) return std::unexpected(*blobs.error());
    auto envelopes =
        to_envelopes(envelope.dst, envelope.seq, context.take_outbox());
    if (envelopes.empty()) return {};
    said_[envelope.seq] = {std::make_move_iterator(envelopes.begin()),
                           std::make_move_iterator(envelopes.end())};
    return {};
  }

  Blobs& blobs_;
  const Replay::MakeRole& make_role_;
  ForkEnd& end_;
  std::map<Address, std::unique_ptr<Role>> roles_;
  std::map<std::uint64_t, std::deque<Envelope>> said_;  ///< by cause
  std::set<std::uint64_t> changed_;                     ///< requests
};

Result<void> with_options(Envelope& envelope, const RunOptions& options) {
  auto message = decode(envelope.type, envelope.body);
  if (!message) return std::unexpected(message.error());
  auto* start = std::get_if<RunStart>(&*message);
  if (!start) return wrong("the journal does not begin with a RunStart");
  start->options = options;
  envelope.body = encode(*message);
  return {};
}

/// Writes what it is given in groups.
class Writer {
 public:
  Writer(Journal& journal, BlobStore& blobs)
      : journal_(journal), blobs_(blobs) {}

  Result<void> write(Envelope envelope) {
    group_.push_back(std::move(envelope));
    return group_.size() < kGroupMax ? Result<void>() : flush();
  }

  Result<void> flush() {
    const std::lock_guard lock(blobs_.journal_mutex());
    if (const auto done = blobs_.flush(); !done) return done;
    const auto done = journal_.append(group_);
    group_.clear();
    return done;
  }

 private:
  Journal& journal_;
  BlobStore& blobs_;
  std::vector<Envelope> group_;
};

}  // namespace

Result<ForkEnd> fork_journal(const Journal& origin, Journal& fork,
                             BlobStore& blobs, const ForkOrder& order,
                             const Replay::MakeRole& make_role) {
  const std::uint64_t last = origin.last_seq();
  if (order.at < 1 || order.at > last) {
    return wrong("there is no event " + std::to_string(order.at) +
                 " to fork at: the journal has 1 to " + std::to_string(last));
  }
  if (const auto done = copy_blobs(origin, fork); !done) {
    return std::unexpected(done.error());
  }
  ForkEnd end;
  Retold retold(blobs, make_role, end);
  Writer writer(fork, blobs);
  Result<void> done;
  const auto take = [&](Envelope envelope) -> Result<void> {
    if (order.reply && envelope.seq == order.at) {
      auto body = patched(envelope, *order.reply);
      if (!body) return std::unexpected(body.error());
      envelope.body = std::move(*body);
    }
    if (order.options) {
      if (envelope.seq == 1) done = with_options(envelope, *order.options);
      if (done) done = retold.take(envelope);
      if (!done) return done;
    }
    return writer.write(std::move(envelope));
  };
  const auto read = origin.read(1, [&](const Envelope& envelope) {
    done = take(envelope);
    return done.has_value() && envelope.seq < order.at;
  });
  if (!read) return std::unexpected(read.error());
  if (done) done = writer.flush();
  if (!done) return std::unexpected(done.error());
  return end;
}

}  // namespace weft
