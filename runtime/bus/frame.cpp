#include "runtime/bus/frame.hpp"

#include <algorithm>
#include <set>

namespace weft::wire {
namespace {

constexpr std::size_t kNestingMax = 16;
constexpr std::size_t kEntriesMax = 4096;
constexpr std::size_t kTextBytesMax = 4096;

msgpack::unpack_limit header_limit() {
  return {kEntriesMax,   kEntriesMax,   kTextBytesMax,
          kTextBytesMax, kTextBytesMax, kNestingMax};
}

/// A message's own limits are its vocabulary's; these only bound the walk.
msgpack::unpack_limit body_limit() {
  return {1 << 20, 1 << 20, kBodyBytesMax, kBodyBytesMax, kBodyBytesMax, 64};
}

template <class T>
void write_value(msgpack::sbuffer& buffer, const T& value) {
  msgpack::pack(buffer, value);
}
void write_value(msgpack::sbuffer&, const Unknown&) {}

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
  if (!is_name(hello.name)) return "its name is none";
  if (!is_name(hello.incarnation)) return "its incarnation is no name";
  if (hello.slots.size() > kNameBytesMax) return "too many kinds of slots";
  if (hello.devices.size() > kDevicesMax) return "too many devices";
  for (const auto& [resource, units] : hello.slots) {
    if (!is_name(resource)) return "a resource's name is none";
    if (units < 0 || units > 100'000) return "so many slots nobody has";
  }
  for (const Device& device : hello.devices) {
    if (!is_name(device.uuid)) return "a device's UUID is none";
  }
  return "";
}

std::string fault_of(const Reply& reply) {
  if (reply.blobs.size() > kBlobsOfMessageMax) return "too many blobs";
  for (const BlobRef& blob : reply.blobs) {
    if (!is_hash(blob.hash)) return "a blob's hash is none";
    if (blob.size > kBlobBytesMax) return "a blob is too large";
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
  return is_hash(want.hash) ? "" : "a blob's hash is none";
}

std::string fault_of(const Chunk& chunk) {
  if (!is_hash(chunk.hash)) return "a blob's hash is none";
  if (chunk.size > kBlobBytesMax) return "a blob is too large";
  return chunk.offset > chunk.size ? "a chunk lies behind its blob's end" : "";
}

std::string fault_of(const Lack& lack) {
  return is_hash(lack.hash) ? "" : "a blob's hash is none";
}

template <class T>
std::string fault_of(const T&) {
  return "";
}

void gather(const msgpack::object& object, std::set<std::string>& found) {
  switch (object.type) {
    case msgpack::type::STR: {
      const std::string_view text(object.via.str.ptr, object.via.str.size);
      if (is_hash(text)) found.emplace(text);
      return;
    }
    case msgpack::type::ARRAY:
      for (std::uint32_t i = 0; i < object.via.array.size; ++i) {
        gather(object.via.array.ptr[i], found);
      }
      return;
    case msgpack::type::MAP:
      for (std::uint32_t i = 0; i < object.via.map.size; ++i) {
        gather(object.via.map.ptr[i].key, found);
        gather(object.via.map.ptr[i].val, found);
      }
      return;
    default:
      return;
  }
}

}  // namespace

std::string encode_header(const Header& header) {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, static_cast<int>(header.index()) + 1);
  std::visit([&](const auto& value) { write_value(buffer, value); }, header);
  return {buffer.data(), buffer.size()};
}

Result<Header> decode_header(std::string_view bytes) {
  const auto wrong = [](const std::string& why) {
    return fail(ErrorCode::damaged, "not a frame of weft's: " + why);
  };
  if (bytes.size() > kHeaderBytesMax) return wrong("its header is too long");
  try {
    std::size_t offset = 0;
    const auto kind = msgpack::unpack(bytes.data(), bytes.size(), offset,
                                      nullptr, nullptr, header_limit());
    const int number = kind.get().as<int>();
    if (number < 1) return wrong("it has no kind");
    const auto index = static_cast<std::size_t>(number) - 1;
    // A later wire's frame may have another form, too.
    if (index >= std::variant_size_v<Header> - 1) return Unknown{number};
    const auto value = msgpack::unpack(bytes.data(), bytes.size(), offset,
                                       nullptr, nullptr, header_limit());
    Header header = read_as(index, value.get());
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
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::vector<std::string> hashes_in(std::string_view body) {
  std::set<std::string> found;
  try {
    const auto whole = msgpack::unpack(body.data(), body.size(), nullptr,
                                       nullptr, body_limit());
    gather(whole.get(), found);
  } catch (const std::exception&) {
    return {};
  }
  return {found.begin(), found.end()};
}

}  // namespace weft::wire
