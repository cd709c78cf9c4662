#include "messages/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace weft {
namespace {

/// Most messages are no longer: one allocation holds them.
constexpr std::size_t kUsualBytes = 512;

using Decoder = Result<Message> (*)(std::string_view body);

/// Texts and bytes stay where they are: the body outlives what refers to it.
bool in_place(msgpack::type::object_type, std::size_t, void*) { return true; }

/// What msgpack writes to.
struct Sink {
  std::string bytes;
  void write(const char* data, std::size_t size) { bytes.append(data, size); }
};

/// Each entry takes a byte at least: a few bytes that announce billions of them
/// must not have room made for that.
msgpack::unpack_limit limit_of(std::string_view body) {
  constexpr std::size_t entries_max = 1 << 20;
  constexpr std::size_t nesting_max = 64;
  const std::size_t bytes = body.size();
  const std::size_t entries = std::min(bytes, entries_max);
  return {entries, entries, bytes, bytes, bytes, nesting_max};
}

template <class M>
Result<Message> decode_as(std::string_view body) {
  try {
    const auto handle = msgpack::unpack(body.data(), body.size(), in_place,
                                        nullptr, limit_of(body));
    return Message{handle.get().as<M>()};
  } catch (const std::exception& problem) {
    return fail(ErrorCode::damaged,
                "a " + std::string(M::name) +
                    " message cannot be read: " + problem.what());
  }
}

template <std::size_t... I>
auto make_decoders(std::index_sequence<I...>) {
  return std::unordered_map<std::string_view, Decoder>{
      {std::variant_alternative_t<I, AnyMessage>::name,
       &decode_as<std::variant_alternative_t<I, AnyMessage>>}...};
}

}  // namespace

Message::Message() = default;
Message::Message(const Message&) = default;
Message::Message(Message&&) noexcept = default;
Message& Message::operator=(const Message&) = default;
Message& Message::operator=(Message&&) noexcept = default;
Message::~Message() = default;

std::string_view name_of(const Message& message) {
  return std::visit(
      [](const auto& m) { return std::decay_t<decltype(m)>::name; }, message);
}

std::string encode(const Message& message) {
  Sink sink;
  sink.bytes.reserve(kUsualBytes);
  std::visit([&](const auto& m) { msgpack::pack(sink, m); }, message);
  return std::move(sink.bytes);
}

Result<Message> decode(std::string_view type, std::string_view body) {
  static const auto decoders = make_decoders(
      std::make_index_sequence<std::variant_size_v<AnyMessage>>());
  const auto found = decoders.find(earlier::type_now(type));
  if (found == decoders.end()) {
    return fail(ErrorCode::damaged,
                "no message is called '" + std::string(type) +
                    "': the journal is damaged or from a newer weft");
  }
  return found->second(body);
}

std::string body_to_json(std::string_view body) {
  try {
    const auto handle = msgpack::unpack(body.data(), body.size(), nullptr,
                                        nullptr, limit_of(body));
    std::ostringstream out;
    out << handle.get();
    return out.str();
  } catch (const std::exception&) {
    return "null";
  }
}

}  // namespace weft
