// Every message there is, and their form as bytes: a msgpack map with field
// names. Unknown fields are ignored, missing ones keep their defaults, so old
// journals stay readable. To add a message: write its struct, list it here.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "messages/effects.hpp"
#include "messages/known_kernels.hpp"
#include "messages/lease.hpp"
#include "messages/llm.hpp"
#include "messages/result.hpp"
#include "messages/run.hpp"
#include "messages/work.hpp"

namespace weft {

/// Raised when a message changes its meaning, not when it gains a field. A run
/// says by which it was begun (RunStart); roles that know a later one decide as
/// they did then.
///   2  Locations. The units of an expired lease stay with its holder until the
///      work has stopped.
///   3  A run delivers the best known module (actors/best_known.hpp).
///   4  Names of messages, fields and words changed
///   (messages/earlier_names.hpp);
///      roles decide as in 3.
///   5  Capabilities and a timing class (RunStart::device_class). A run without
///      a class decides as in 4.
///   6  A node's death is NodeLost. Before, it was Capacities without units,
///   one
///      for each location of the node; roles take both.
///   7  Agents gain locations that join later, and wait for one
///      (may_gain_locations in actors/device.hpp).
inline constexpr int vocabulary_version = 7;

using AnyMessage = std::variant<
    RunStart, Progress, RunFinished, Capacities, LeaseRequest, LeaseGranted,
    LeaseDenied, LeaseExpired, LeaseReleased, LeaseLost, NodeLost, CancelEffect,
    RefineRequest, TimerRequest, TimerFired, CaptureRequest, CaptureReply,
    WriteFilesRequest, WriteFilesReply, BuildRequest, BuildReply, CheckRequest,
    CheckReply, TimeRequest, TimeReply, ProbeRequest, ProbeReply, Dispatch,
    OptimizeSubgraph, StopSearch, SeedsRequest, SeedsReply, VerifySeed,
    TimeSeed, StopSeed, SeedResult, SubgraphDone, Compose, FindKernelRequest,
    FindKernelReply, KeepKernelRequest, KeepKernelReply, LlmRequest, LlmReply,
    LlmAllowance, LlmCallRequest, LlmCallDenied, LlmCallSettled,
    SearchEagerContractions, EagerContractionsSearched>;

/// One of them. What copies, moves and destroys any of these structs is
/// compiled once, in vocabulary.cpp, and not in each file that has a message:
/// half of the time that such a file took (measured 2026-11 with g++ 12).
struct Message : AnyMessage {
  using AnyMessage::AnyMessage;
  Message();
  Message(const Message&);
  Message(Message&&) noexcept;
  Message& operator=(const Message&);
  Message& operator=(Message&&) noexcept;
  ~Message();
};

/// The message's name, such as "CaptureRequest": the type of its envelope.
std::string_view name_of(const Message& message);

/// The message's bytes. Equal messages give equal bytes.
std::string encode(const Message& message);

/// damaged when `type` is unknown or `body` does not fit it.
Result<Message> decode(std::string_view type, std::string_view body);

/// The body as JSON text, for people: works for unknown types too.
std::string body_to_json(std::string_view body);

}  // namespace weft
