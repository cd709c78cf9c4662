#include "runtime/debug/journal_reader.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/host/effect_ledger.hpp"
#include "runtime/journal/read_only_blobs.hpp"

namespace weft {
namespace {

/// Roles that are kept where they are, so that a step forward is one.
constexpr std::size_t kLivesMax = 32;
constexpr std::size_t kNamedMax = 12;

std::string list_of(const std::vector<Address>& roles) {
  std::string text;
  for (std::size_t i = 0; i < std::min(roles.size(), kNamedMax); ++i) {
    text += (i == 0 ? "" : ", ") + roles[i];
  }
  return roles.size() > kNamedMax ? text + ", …" : text;
}

/// Why a role could not be run as far as was asked.
Error why_not(const Replay& replay) {
  if (replay.error()) return *replay.error();
  return {ErrorCode::failed,
          "this version of weft decides differently from the version that made "
          "the run, so that the state is not known: " +
              to_string(*replay.divergence())};
}

}  // namespace

/// One role, run alone as far as somebody has asked.
struct JournalReader::Life {
  Life(const Journal& journal, const Replay::MakeRole& make_role,
       const Address& role)
      : role(role),
        blobs(journal),
        replay(
            blobs,
            [make_role, role](const Address& address) {
              return address == role ? make_role(address) : nullptr;
            },
            Replay::ContentRule::recorded) {}

  Address role;
  ReadOnlyBlobs blobs;
  Replay replay;
  std::uint64_t seq = 0;      ///< it has handled what came up to here
  std::uint64_t handled = 0;  ///< so many events
};

JournalReader::JournalReader(const Journal& journal, Replay::MakeRole make_role)
    : journal_(journal), make_role_(std::move(make_role)) {}

JournalReader::~JournalReader() = default;

Result<void> JournalReader::check_seq(std::uint64_t seq) const {
  const std::uint64_t end = last();
  if (seq >= 1 && seq <= end) return {};
  return fail(ErrorCode::wrong_input,
              end == 0 ? "the journal is empty"
                       : "there is no event " + std::to_string(seq) +
                             ": the journal has 1 to " + std::to_string(end));
}

Result<Envelope> JournalReader::event(std::uint64_t seq) const {
  if (const auto there = check_seq(seq); !there) {
    return std::unexpected(there.error());
  }
  Envelope event;
  const auto read = journal_.read(seq, [&](const Envelope& envelope) {
    event = envelope;
    return false;
  });
  if (!read) return std::unexpected(read.error());
  return event;
}

Result<std::vector<Envelope>> JournalReader::causes(std::uint64_t seq,
                                                    std::size_t most) const {
  std::vector<Envelope> chain;
  while (chain.size() < most && (seq != 0 || chain.empty())) {
    auto next = event(seq);
    if (!next) return std::unexpected(next.error());
    // A cause comes before what it leads to; else the chain had no end.
    seq = next->cause < seq ? next->cause : 0;
    chain.push_back(std::move(*next));
  }
  return chain;
}

Result<std::vector<Envelope>> JournalReader::consequences(
    std::uint64_t seq, std::size_t most) const {
  if (const auto there = check_seq(seq); !there) {
    return std::unexpected(there.error());
  }
  std::vector<Envelope> found;
  const auto read = journal_.read(seq, [&](const Envelope& envelope) {
    if (envelope.cause == seq) found.push_back(envelope);
    return found.size() < most;
  });
  if (!read) return std::unexpected(read.error());
  return found;
}

Result<std::uint64_t> JournalReader::find_after(
    std::uint64_t seq,
    const std::function<bool(const Envelope&)>& is_it) const {
  std::uint64_t found = 0;
  if (seq >= last()) return found;
  const auto read = journal_.read(seq + 1, [&](const Envelope& envelope) {
    if (is_it(envelope)) found = envelope.seq;
    return found == 0;
  });
  if (!read) return std::unexpected(read.error());
  return found;
}

Result<JournalReader::Moment> JournalReader::moment(std::uint64_t seq) const {
  if (const auto there = check_seq(seq); !there) {
    return std::unexpected(there.error());
  }
  Moment moment;
  std::set<Address> given;
  std::map<std::uint64_t, Envelope> open;
  const auto read = journal_.read(1, [&](const Envelope& envelope) {
    given.insert(envelope.dst);
    if (is_request(envelope)) open.emplace(envelope.seq, envelope);
    if (is_port(envelope.src) && envelope.dst != stale_address) {
      open.erase(envelope.cause);
    }
    if (envelope.seq == seq) moment.event = envelope;
    return envelope.seq < seq;
  });
  if (!read) return std::unexpected(read.error());
  for (const Address& address : given) {
    if (make_role_(address)) moment.roles.push_back(address);
  }
  for (auto& [number, request] : open) {
    moment.unanswered.push_back(std::move(request));
  }
  return moment;
}

Result<nlohmann::json> JournalReader::state(const Address& role,
                                            std::uint64_t seq) {
  if (const auto there = check_seq(seq); !there) {
    return std::unexpected(there.error());
  }
  if (!make_role_(role)) {
    const auto now = moment(seq);
    if (!now) return std::unexpected(now.error());
    return fail(ErrorCode::wrong_input,
                "no role is called '" + role + "': at event " +
                    std::to_string(seq) + " there are " + list_of(now->roles));
  }
  const auto life = life_up_to(role, seq);
  if (!life) return std::unexpected(life.error());
  const Role* found = (*life)->replay.find_role(role);
  if (!found) {
    return fail(ErrorCode::wrong_input,
                role + " was given nothing up to event " + std::to_string(seq));
  }
  return nlohmann::json{{"role", role},
                        {"seq", seq},
                        {"events_handled", (*life)->handled},
                        {"words_recalled", (*life)->replay.recalled()},
                        {"state", found->describe()}};
}

Result<nlohmann::json> JournalReader::states(std::uint64_t seq) const {
  const auto now = moment(seq);
  if (!now) return std::unexpected(now.error());
  ReadOnlyBlobs blobs(journal_);
  Replay replay(blobs, make_role_, Replay::ContentRule::recorded);
  bool fits = true;
  const auto read = journal_.read(1, [&](const Envelope& envelope) {
    fits = replay.feed(envelope);
    return fits && envelope.seq < seq;
  });
  if (!read) return std::unexpected(read.error());
  if (!fits) return std::unexpected(why_not(replay));
  auto states = nlohmann::json::array();
  for (const Address& role : now->roles) {
    states.push_back({{"role", role},
                      {"seq", seq},
                      {"state", replay.find_role(role)->describe()}});
  }
  return states;
}

Result<JournalReader::Life*> JournalReader::life_up_to(const Address& role,
                                                       std::uint64_t seq) {
  auto found = std::ranges::find(lives_, role, &Life::role);
  if (found != lives_.end() && (*found)->seq > seq) {
    lives_.erase(found);
    found = lives_.end();
  }
  if (found == lives_.end()) {
    lives_.push_front(std::make_unique<Life>(journal_, make_role_, role));
    if (lives_.size() > kLivesMax) lives_.pop_back();
  } else {
    lives_.splice(lives_.begin(), lives_, found);
  }
  Life& life = *lives_.front();
  if (life.seq == seq) return &life;
  bool fits = true;
  const auto read = journal_.read(life.seq + 1, [&](const Envelope& envelope) {
    if (envelope.seq > seq) return false;
    if (envelope.dst != role && envelope.src != role) return true;
    if (envelope.dst == role) ++life.handled;
    fits = life.replay.feed(envelope);
    return fits;
  });
  if (read && fits) {
    life.seq = seq;
    return &life;
  }
  const Error error = read ? why_not(life.replay) : read.error();
  lives_.pop_front();
  return std::unexpected(error);
}

}  // namespace weft
