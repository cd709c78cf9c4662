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
  /// The role says the same things to the same others: only what the compiler
  /// made of it, its texts, differs.
  bool only_content = false;
};

std::string to_string(const Divergence& divergence);

/// Messages of one role on one event, as envelopes without seq and time.
std::vector<Envelope> to_envelopes(const Address& src, std::uint64_t cause,
                                   const std::vector<Outgoing>& outbox);

class Replay {
 public:
  using MakeRole = std::function<std::unique_ptr<Role>(const Address&)>;

  enum class ContentRule {
    decided_again,  ///< whatever differs is a divergence
    /// Where only the content of a word differs, what the journal has counts:
    /// its role is told so (Role::recall).
    recorded,
  };

  /// `blobs` holds the journal's blobs and takes new ones.
  Replay(Blobs& blobs, MakeRole make_role,
         ContentRule content_rule = ContentRule::decided_again);

  /// Takes the journal's envelopes in order; false when the roles diverge (see
  /// divergence()) or an envelope cannot be decoded. Then stop feeding.
  bool feed(const Envelope& envelope);

  /// After the last event of a finished run: a message that a role says it
  /// sent but the journal lacks is a divergence too.
  bool finish();

  const std::optional<Divergence>& divergence() const { return divergence_; }
  /// The blobs could not be read: the journal says nothing of the roles then.
  const std::optional<Error>& error() const { return error_; }
  /// Words that count as recorded, not as this weft would say them.
  std::uint64_t recalled() const { return recalled_; }

  /// nullptr: nothing came for it yet.
  const Role* find_role(const Address& address) const;

  std::map<Address, std::unique_ptr<Role>> take_roles();
  /// Said by roles, not in the journal: in the order in which they were said.
  std::vector<Envelope> take_missing();
  /// Requests without a reply, by seq.
  const std::map<std::uint64_t, Envelope>& open_requests() const {
    return open_;
  }
  /// What was told to stop; some of it may have answered since.
  const std::vector<Envelope>& cancels() const { return cancels_; }
  const std::optional<RunFinished>& finished() const { return finished_; }

 private:
  bool recall(const Envelope& output, const Envelope& recorded);
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
  std::optional<Error> error_;
  std::vector<Envelope> cancels_;
  std::uint64_t recalled_ = 0;
  ContentRule content_rule_;
};

}  // namespace weft
