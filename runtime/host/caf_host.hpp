// Runs a journaled run in production: one event-based CAF actor a role, the
// spine between them, the ports at its edge. Made once for a run or a resume.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "messages/vocabulary.hpp"
#include "runtime/host/nodes.hpp"
#include "runtime/host/port.hpp"
#include "runtime/host/replay.hpp"
#include "runtime/journal/blob_store.hpp"
#include "runtime/journal/journal.hpp"

namespace weft {

/// How a hosted run ended.
struct HostEnd {
  enum class Kind {
    finished,     ///< RunFinished came
    interrupted,  ///< the stop token said so; the run can be resumed
    suspended,    ///< what it waits for may take hours; it can be resumed
    broken,       ///< the journal cannot be written, or a role has a bug
  };
  Kind kind = Kind::broken;
  RunFinished finished;
  Error error;              ///< when broken
  std::string waits_for{};  ///< when suspended, for people
};

struct HostOptions {
  std::size_t threads = 2;  ///< CAF workers
  Replay::MakeRole make_role;
  Nodes* nodes = nullptr;  ///< other machines; null: none may join
  /// Why this machine can do no work just now, as a disk that is full; "": it
  /// can. Asked where a port's reply speaks against its work: such a reply is
  /// no verdict, and the run breaks before it is journaled. May be empty.
  std::function<std::string()> why_unfit;
  /// How a resume takes a past in which this weft's compiler decides otherwise.
  Replay::ContentRule content_rule = Replay::ContentRule::decided_again;
  std::string version_text;  ///< both wefts, for people; of a resume
  /// Each envelope to the user, on the spine's thread; may be empty.
  std::function<void(const Envelope&, const Message&)> on_user;
  /// Each envelope once it is journaled, on the spine's thread: may be empty,
  /// and must not take long.
  std::function<void(const Envelope&)> on_event;
};

/// Begins with `first` (its src is the user) in an empty journal.
HostEnd host_run(Journal& journal, BlobStore& blobs, Ports& ports,
                 const HostOptions& options, const Address& dst,
                 const Message& first, std::stop_token stop);

/// Goes on where the journal ends: roles are rebuilt from it, what they said
/// and the journal lacks is said again, requests without a reply are issued
/// again. damaged when the journal or the roles' answers do not fit.
Result<HostEnd> host_resume(Journal& journal, BlobStore& blobs, Ports& ports,
                            const HostOptions& options, std::stop_token stop);

}  // namespace weft
