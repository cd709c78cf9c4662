// Frames between head and nodes (frame.cpp describes the protocol): a header in
// msgpack, and the bytes that it announces. Nothing here opens a socket.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "messages/fields.hpp"
#include "messages/result.hpp"
#include "messages/run.hpp"

namespace weft::wire {

/// Raised when a frame changes its meaning, not when it gains a field.
inline constexpr int kWireVersion = 1;
inline constexpr int kWireVersionMin = 1;

inline constexpr std::size_t kHeaderBytesMax = std::size_t{64} << 10;
inline constexpr std::size_t kBodyBytesMax = std::size_t{16} << 20;
inline constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
/// The limit of one blob. The journal takes no larger ones: the run would end.
inline constexpr std::uint64_t kBlobBytesMax = std::uint64_t{512} << 20;
/// The limit of all blobs of one answer.
inline constexpr std::uint64_t kAnswerBytesMax = std::uint64_t{1} << 30;
inline constexpr std::size_t kNameBytesMax = 64;
inline constexpr std::size_t kBlobsOfMessageMax = 256;
inline constexpr std::size_t kDevicesMax = 64;
/// Session of a fleet's last Bye: no run comes any more.
inline constexpr std::uint64_t kLastByeSession = ~std::uint64_t{0};

/// A GPU that a node offers.
struct Device {
  std::string uuid;  ///< "GPU-8a5c…": the same in every order of devices
  Gpu facts;
  std::map<std::string, double> numbers{};  ///< that a probe measured on it
  WEFT_FIELDS(uuid, facts, numbers)
  bool operator==(const Device&) const = default;
};

/// node -> head, until it is welcomed or refused.
struct Hello {
  int wire_min = 0;
  int wire_max = 0;
  std::string weft;         ///< version
  std::string name;         ///< of the node, one of its own in the run
  std::string incarnation;  ///< of its process: another one knows nothing
  std::string run;          ///< whose requests it still has; empty: none's
  Machine machine;          ///< without GPUs: those are `devices`
  std::int64_t memory_bytes = 0;
  std::map<std::string, int> slots;  ///< "cpu" -> units
  std::vector<Device> devices;
  std::string python;
  std::string torch;
  std::string triton;
  std::string nvrtc;
  std::string driver;
  std::string compiler;           ///< "g++ 12.2.0"; empty: none
  std::vector<std::string> only;  ///< MachineFacts::only
  WEFT_FIELDS(wire_min, wire_max, weft, name, incarnation, run, machine,
              memory_bytes, slots, devices, python, torch, triton, nvrtc,
              driver, compiler, only)
  bool operator==(const Hello&) const = default;
};

/// head -> node: you are in. The body is the run's first message, RunStart.
struct Welcome {
  std::uint64_t session = 0;  ///< larger than any before it
  std::string run;
  std::int64_t heartbeat_ms = 0;
  std::int64_t silence_ms = 0;  ///< who is silent for longer is lost
  WEFT_FIELDS(session, run, heartbeat_ms, silence_ms)
};

/// head -> node: you are not.
struct Refusal {
  std::string reason;
  bool for_good = false;  ///< asking again is no use
  WEFT_FIELDS(reason, for_good)
};

/// head -> node: I do not know you; say hello.
struct Who {
  std::uint64_t unused = 0;
  MSGPACK_DEFINE(unused)
};

/// Both: I live. Said when nothing else was for a heartbeat.
struct Beat {
  std::uint64_t session = 0;
  MSGPACK_DEFINE(session)
};

struct BlobRef {
  std::string hash;
  std::uint64_t size = 0;
  MSGPACK_DEFINE(hash, size)
  bool operator==(const BlobRef&) const = default;
};

/// head -> node: do this. `seq` numbers what is acknowledged, in its session.
struct Request {
  std::uint64_t session = 0;
  std::uint64_t seq = 0;
  std::uint64_t id = 0;  ///< its number in the journal: each attempt another
  std::string port;      ///< "port/build", "port/verify/GPU-8a5c…"
  std::string type;      ///< of the message in the body
  MSGPACK_DEFINE(session, seq, id, port, type)
};

/// node -> head: what came of it. The head asks for those blobs that it lacks.
struct Reply {
  std::uint64_t session = 0;
  std::uint64_t seq = 0;
  std::uint64_t id = 0;
  std::string type;
  std::vector<BlobRef> blobs;
  MSGPACK_DEFINE(session, seq, id, type, blobs)
};

/// head -> node: nobody waits for this any more.
struct Cancel {
  std::uint64_t session = 0;
  std::uint64_t seq = 0;
  std::uint64_t id = 0;
  MSGPACK_DEFINE(session, seq, id)
};

/// From `first` to `last`, both included.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  MSGPACK_DEFINE(first, last)
  bool operator==(const Range&) const = default;
};

/// Both: what is taken (node) or journaled (head) and need not come again.
struct Ack {
  std::uint64_t session = 0;
  std::vector<Range> ranges;
  MSGPACK_DEFINE(session, ranges)
};

/// Both: send me that piece of a blob.
struct Want {
  std::string hash;
  std::uint64_t offset = 0;
  MSGPACK_DEFINE(hash, offset)
};

/// Both: the piece, in the body.
struct Chunk {
  std::string hash;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  ///< of the whole blob
  MSGPACK_DEFINE(hash, offset, size)
};

/// Both: I have no such blob.
struct Lack {
  std::string hash;
  MSGPACK_DEFINE(hash)
};

/// node -> head: give me nothing new. It goes as soon as what it has done is
/// journaled, and says so by Bye.
struct Leave {
  std::uint64_t session = 0;
  MSGPACK_DEFINE(session)
};

/// Both: I go, and you answer with your own: until then it is said again. A
/// head says it when its run has ended.
struct Bye {
  std::uint64_t session = 0;  ///< 0: a node's that was not welcomed yet
  std::string run{};          ///< a head's
  /// A node's that goes of itself: a head that was begun anew may not know
  /// whose the connection is. Empty in an answer.
  std::string node{};
  std::string incarnation{};
  std::string why{};  ///< where its machine cannot go on
  /// A head's: other runs come, so that nodes stay that serve one only.
  bool more = false;
  MSGPACK_DEFINE(session, run, node, incarnation, why, more)
};

/// A frame of a later wire: ignored, and counted.
struct Unknown {
  int kind = 0;
};

/// In the order of their numbers on the wire, from 1.
using Header =
    std::variant<Hello, Welcome, Refusal, Who, Beat, Request, Reply, Cancel,
                 Ack, Want, Chunk, Lack, Leave, Bye, Unknown>;

/// A frame on its way out. The body may be shared by frames to many.
struct Frame {
  std::string header;
  std::shared_ptr<const std::string> body;  ///< null: none
};

/// Why no session with that node is possible; empty: it is.
std::string fault_of_versions(const Hello& hello);

/// Why nothing of that size travels between head and node, for people.
std::string too_large_text(const std::string& what, std::uint64_t bytes,
                           std::uint64_t bytes_max);

/// Why the blobs of an answer are too large; empty: they are not.
std::string why_too_large(const std::string& node, const Reply& reply);

std::string encode_header(const Header& header);

/// damaged: not a header of this wire, or one that breaks its limits. Never
/// throws, whatever the bytes; takes memory in proportion to them.
Result<Header> decode_header(std::string_view bytes);

/// Letters, digits, ".", "_" and "-", not too many.
bool is_name(std::string_view text);

/// 64 lower-case hexadecimal digits.
bool is_hash(std::string_view text);

/// The blobs that a message's bytes refer to: every text in them that has a
/// hash's form, once each.
std::vector<std::string> hashes_in(std::string_view body);

}  // namespace weft::wire
