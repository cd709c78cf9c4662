// The protocol between head and nodes.
//
// The header is two msgpack objects: the frame's number, then its fields.
// Hello, Welcome and Refusal are maps. The others are arrays, which may grow at
// the end. A frame with an unknown number is ignored and counted; any other
// violation closes the sender's connection only. The body of Request and Reply
// is the message as the journal has it.
//
// Each Welcome begins a session with a higher number. A frame of another
// session is answered with Who. Across sessions, a request is known by its
// number in the journal: after a Welcome, the head sends unanswered requests
// again, and the node unacknowledged replies. A head whose run has ended says
// Bye until the node answers, for 2 s. A node that goes says Leave, and Bye
// when its work is acknowledged.
//
// A message refers to a blob by its SHA-256. The receiver asks for missing
// blobs in pieces (Want). Blobs of a reply are compared with their hashes
// before the reply is journaled. If the sender has lost one (Lack), the work is
// done again. An answer whose blobs are too large, alone or together, is a
// failure of its request, without any transfer.
//
// A node that breaks these rules again and again, or does not answer a Cancel,
// is distrusted (node_conduct.hpp): the head refuses it for the rest of the
// run.
#include "runtime/bus/frame.hpp"

#include <algorithm>
#include <set>

#include "messages/untrusted.hpp"

namespace weft::wire {
namespace {

constexpr std::size_t kNestingMax = 16;
constexpr std::size_t kEntriesMax = 4096;
constexpr std::size_t kTextBytesMax = 4096;
constexpr std::size_t kHashBytes = 64;
/// How msgpack begins a text of that length.
constexpr std::string_view kHashMark = "\xd9\x40";

msgpack::unpack_limit header_limit() {
  return {kEntriesMax,   kEntriesMax,   kTextBytesMax,
          kTextBytesMax, kTextBytesMax, kNestingMax};
}

/// Nearly every header: one allocation holds it.
constexpr std::size_t kUsualHeaderBytes = 256;

/// What msgpack writes to.
struct Sink {
  std::string bytes;
  void write(const char* data, std::size_t size) { bytes.append(data, size); }
};

/// Texts stay where they are: the header outlives what refers to it.
bool in_place(msgpack::type::object_type, std::size_t, void*) { return true; }

template <class T>
void write_value(Sink& sink, const T& value) {
  msgpack::pack(sink, value);
}
void write_value(Sink&, const Unknown&) {}

/// Reads the alternative of that index; what it does not know is ignored.
template <std::size_t index = 0>
Header read_as(std::size_t wanted, const msgpack::object& object) {
  using T = std::variant_alternative_t<index, Header>;
  if constexpr (std::is_same_v<T, Unknown>) {
    return Unknown{static_cast<int>(wanted) + 1};
  } else {
    if (index != wanted) return read_as<index + 1>(wanted, object);
    return object.as<T>();
  }
}

std::string fault_of(const Hello& hello) {
  if (!is_name(hello.name)) return "its name is not valid";
  if (!is_name(hello.incarnation)) return "its incarnation is not valid";
  if (hello.slots.size() > kNameBytesMax) return "too many kinds of slots";
  if (hello.devices.size() > kDevicesMax) return "too many devices";
  if (hello.only.size() > kNameBytesMax) return "too many kinds of work";
  for (const auto& [resource, units] : hello.slots) {
    if (!is_name(resource)) return "a resource's name is not valid";
    if (units < 0 || units > 100'000)
      return "its number of slots is not possible";
  }
  for (const Device& device : hello.devices) {
    if (!is_name(device.uuid)) return "a device's UUID is not valid";
    if (const auto gpu = check_gpu(device.facts); !gpu) {
      return gpu.error().message;
    }
  }
  const auto machine = check_machine(hello.machine);
  return machine ? "" : machine.error().message;
}

std::string fault_of(const Reply& reply) {
  if (reply.blobs.size() > kBlobsOfMessageMax) return "too many blobs";
  for (const BlobRef& blob : reply.blobs) {
    if (!is_hash(blob.hash)) return "a blob's hash is not valid";
  }
  return "";
}

std::string fault_of(const Ack& ack) {
  for (const Range& range : ack.ranges) {
    if (range.first > range.last) return "a range ends before it begins";
  }
  return "";
}

std::string fault_of(const Want& want) {
  return is_hash(want.hash) ? "" : "a blob's hash is not valid";
}

std::string fault_of(const Chunk& chunk) {
  if (!is_hash(chunk.hash)) return "a blob's hash is not valid";
  if (chunk.size > kBlobBytesMax) return "a blob is too large";
  return chunk.offset > chunk.size ? "a chunk lies behind its blob's end" : "";
}

std::string fault_of(const Lack& lack) {
  return is_hash(lack.hash) ? "" : "a blob's hash is not valid";
}

std::string fault_of(const Bye& bye) {
  if (bye.node.empty() && bye.incarnation.empty()) return "";
  if (!is_name(bye.node)) return "its name is not valid";
  return is_name(bye.incarnation) ? "" : "its incarnation is not valid";
}

template <class T>
std::string fault_of(const T&) {
  return "";
}

}  // namespace

std::string fault_of_versions(const Hello& hello) {
  const bool fits =
      hello.wire_min <= kWireVersion && hello.wire_max >= kWireVersionMin;
  if (fits) return "";
  return "it speaks wire " + std::to_string(hello.wire_min) + " to " +
         std::to_string(hello.wire_max) + ", the head " +
         std::to_string(kWireVersionMin) + " to " +
         std::to_string(kWireVersion) + ": install the same weft on both";
}

std::string too_large_text(const std::string& what, std::uint64_t bytes,
                           std::uint64_t bytes_max) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  return what + " has " + std::to_string(bytes / mib + (bytes % mib > 0)) +
         " MiB, and the limit between head and node is " +
         std::to_string(bytes_max / mib) +
         " MiB: have this work done on the head (without --no-local), or make "
         "the model smaller";
}

std::string why_too_large(const std::string& node, const Reply& reply) {
  std::uint64_t sum = 0;  // no overflow: the blobs are few and small
  for (const BlobRef& blob : reply.blobs) {
    if (blob.size > kBlobBytesMax) {
      return too_large_text("a file of the answer of node " + node, blob.size,
                            kBlobBytesMax);
    }
    sum += blob.size;
  }
  if (sum <= kAnswerBytesMax) return "";
  return too_large_text("the answer of node " + node + " with its files", sum,
                        kAnswerBytesMax);
}

std::string encode_header(const Header& header) {
  Sink sink;
  sink.bytes.reserve(kUsualHeaderBytes);
  msgpack::pack(sink, static_cast<int>(header.index()) + 1);
  std::visit([&](const auto& value) { write_value(sink, value); }, header);
  return std::move(sink.bytes);
}

Result<Header> decode_header(std::string_view bytes) {
  const auto wrong = [](const std::string& why) {
    return fail(ErrorCode::damaged, "not a frame of weft's: " + why);
  };
  if (bytes.size() > kHeaderBytesMax) return wrong("its header is too long");
  try {
    std::size_t offset = 0;
    msgpack::zone zone(kUsualHeaderBytes);
    const auto next = [&] {
      return msgpack::unpack(zone, bytes.data(), bytes.size(), offset, in_place,
                             nullptr, header_limit());
    };
    const int number = next().as<int>();
    if (number < 1) return wrong("it has no kind");
    const auto index = static_cast<std::size_t>(number) - 1;
    // A later wire's frame may have another form, too.
    if (index >= std::variant_size_v<Header> - 1) return Unknown{number};
    Header header = read_as(index, next());
    const std::string fault =
        std::visit([](const auto& read) { return fault_of(read); }, header);
    if (!fault.empty()) return wrong(fault);
    return header;
  } catch (const std::exception& error) {
    return wrong(error.what());
  }
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kNameBytesMax) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
  });
}

bool is_hash(std::string_view text) {
  return text.size() == kHashBytes && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::vector<std::string> hashes_in(std::string_view body) {
  std::set<std::string> found;
  for (auto at = body.find(kHashMark); at != std::string_view::npos;
       at = body.find(kHashMark, at + 1)) {
    const auto text = body.substr(at + kHashMark.size(), kHashBytes);
    if (is_hash(text)) found.emplace(text);
  }
  return {found.begin(), found.end()};
}

}  // namespace weft::wire
