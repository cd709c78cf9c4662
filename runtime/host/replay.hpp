// Runs roles over a journal with no effects at all, holding what they say
// against what the journal says they said. It gives back everything needed to
// go on: the roles in their state, what they said that was not journaled yet,
// and the requests that have no reply.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/role.hpp"
#include "messages/envelope.hpp"

namespace weft {

/// A role that decides otherwise than it did. Both sides are for people.
struct Divergence {
  std::uint64_t seq = 0;  ///< the event that differs, or whose answer does
  Address role;
  std::string code_says;
  std::string journal_says;
};

std::string to_string(const Divergence& divergence);

/// Messages of one role on one event, as envelopes without seq and time.
std::vector<Envelope> to_envelopes(const Address& src, std::uint64_t cause,
                                   const std::vector<Outgoing>& outbox);

class Replay {
 public:
  using MakeRole = std::function<std::unique_ptr<Role>(const Address&)>;

  /// `blobs` holds the journal's blobs and takes new ones.
  Replay(Blobs& blobs, MakeRole make_role);

  /// Takes the journal's envelopes in order; false when the roles diverge (see
  /// divergence()) or an envelope cannot be decoded. Then stop feeding.
  bool feed(const Envelope& envelope);

  /// After the last event of a finished run: a message that a role says it
  /// sent but the journal lacks is a divergence too.
  bool finish();

  const std::optional<Divergence>& divergence() const { return divergence_; }

  std::map<Address, std::unique_ptr<Role>> take_roles();
  /// Said by roles, not in the journal: in the order in which they were said.
  std::vector<Envelope> take_missing();
  /// Requests without a reply, by seq.
  const std::map<std::uint64_t, Envelope>& open_requests() const {
    return open_;
  }
  const std::optional<RunFinished>& finished() const { return finished_; }

 private:
  bool said_before(const Envelope& envelope);
  bool handle(const Envelope& envelope, const Message& message);
  bool diverge(const Envelope& envelope, const Address& role, std::string code,
               std::string journal);

  Blobs& blobs_;
  MakeRole make_role_;
  std::map<Address, std::unique_ptr<Role>> roles_;
  std::map<std::uint64_t, std::deque<Envelope>> expected_;  // by cause
  std::map<std::uint64_t, Envelope> open_;
  std::optional<RunFinished> finished_;
  std::optional<Divergence> divergence_;
};

}  // namespace weft
