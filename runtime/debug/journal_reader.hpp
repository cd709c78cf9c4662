// A journal looked into: each event, what led to it, and what every role knew
// once it had handled it. Only the role that is asked for is run: its whole
// life is the list of envelopes that it was given, so that no other role has to
// be. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/host/replay.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

class JournalReader {
 public:
  /// `journal` outlives it; a run may be writing to it.
  JournalReader(const Journal& journal, Replay::MakeRole make_role);
  ~JournalReader();

  /// The number of the last event, as of now.
  std::uint64_t last() const { return journal_.last_seq(); }

  /// wrong_input when there is no such event.
  Result<Envelope> event(std::uint64_t seq) const;

  /// The event, its cause, that one's cause, …: at most `most` of them.
  Result<std::vector<Envelope>> causes(std::uint64_t seq,
                                       std::size_t most) const;

  /// What came of the event: those whose cause it is, in order, at most `most`.
  Result<std::vector<Envelope>> consequences(std::uint64_t seq,
                                             std::size_t most) const;

  /// The first event after `seq` that `is_it`; 0: there is none.
  Result<std::uint64_t> find_after(
      std::uint64_t seq,
      const std::function<bool(const Envelope&)>& is_it) const;

  /// What stands once the event is delivered.
  struct Moment {
    Envelope event;
    std::vector<Address> roles;        ///< that were given something by then
    std::vector<Envelope> unanswered;  ///< requests that have no reply yet
  };
  Result<Moment> moment(std::uint64_t seq) const;

  /// What the role told of its state (Role::describe) once it had handled all
  /// that it was given up to that event. wrong_input: there is no such role or
  /// event, or it was given nothing by then; failed: this weft's role decides
  /// otherwise than the recorded one, so that its state is not known.
  Result<nlohmann::json> state(const Address& role, std::uint64_t seq);

  /// The same of all roles that there are then, in one go: an array.
  Result<nlohmann::json> states(std::uint64_t seq) const;

 private:
  struct Life;
  Result<Life*> life_up_to(const Address& role, std::uint64_t seq);
  Result<void> check_seq(std::uint64_t seq) const;

  const Journal& journal_;
  Replay::MakeRole make_role_;
  std::list<std::unique_ptr<Life>> lives_;  ///< used last first; a few
};

}  // namespace weft
