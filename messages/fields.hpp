// WEFT_FIELDS(a, b, …): a struct's msgpack form, a map with the fields' names.
//
// As MSGPACK_DEFINE_MAP, but for two things. Nothing of it is instantiated
// where a struct is only seen: of theirs, reading is a plain member function,
// and each file that includes the vocabulary instantiated the reading of all
// messages, three quarters of what actors/composer.cpp took to compile (clang's
// -ftime-trace, 2026-11). And reading makes no table of the names first: fields
// mostly come in the order in which they are declared.
#pragma once

#include <cstdint>
#include <msgpack.hpp>
#include <string_view>

#include "messages/earlier_names.hpp"

namespace weft {

/// A map's values, asked for by name; what is in order is found at once.
class FieldReader {
 public:
  /// Throws msgpack::type_error where that is no map from texts.
  explicit FieldReader(const msgpack::object& object) {
    if (object.type != msgpack::type::MAP) throw msgpack::type_error();
    entries_ = object.via.map.ptr;
    size_ = object.via.map.size;
    for (std::uint32_t i = 0; i < size_; ++i) {
      if (entries_[i].key.type != msgpack::type::STR) {
        throw msgpack::type_error();
      }
    }
  }

  /// The field of that name, or of the name that it had in an earlier
  /// vocabulary. Null: there is none.
  const msgpack::object* find(std::string_view name) {
    if (const auto* found = find_exactly(name)) return found;
    const std::string_view before = earlier::field_before(name);
    return before.empty() ? nullptr : find_exactly(before);
  }

 private:
  const msgpack::object* find_exactly(std::string_view name) {
    for (std::uint32_t tried = 0; tried < size_; ++tried) {
      const std::uint32_t at = next_;
      next_ = next_ + 1 == size_ ? 0 : next_ + 1;
      const auto& key = entries_[at].key.via.str;
      if (std::string_view(key.ptr, key.size) == name) return &entries_[at].val;
    }
    return nullptr;
  }

  const msgpack::object_kv* entries_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t next_ = 0;  ///< behind the last that was found
};

/// Both take a name, a field, a name, … As templates they are looked up when
/// used.
template <typename Packer>
struct FieldPacker {
  Packer& packer;

  template <typename... Parts>
  void pack(const Parts&... parts) {
    packer.pack_map(sizeof...(Parts) / 2);
    (packer.pack(parts), ...);
  }
};

template <typename Object>
struct FieldUnpacker {
  FieldReader reader;

  template <typename Field, typename... Rest>
  void unpack(std::string_view name, Field& field, Rest&... rest) {
    if (const auto* found = reader.find(name)) {
      found->convert(field);
      earlier::update(name, field);
    }
    if constexpr (sizeof...(Rest) > 0) unpack(rest...);
  }
};

}  // namespace weft

#define WEFT_FIELDS(...)                                              \
  template <typename Packer>                                          \
  void msgpack_pack(Packer& packer) const {                           \
    ::weft::FieldPacker<Packer>{packer}.pack MSGPACK_DEFINE_MAP_IMPL( \
        __VA_ARGS__);                                                 \
  }                                                                   \
  template <typename Object>                                          \
  void msgpack_unpack(Object object) {                                \
    const msgpack::object& whole = object;                            \
    ::weft::FieldUnpacker<Object>{::weft::FieldReader(whole)}         \
        .unpack MSGPACK_DEFINE_MAP_IMPL(__VA_ARGS__);                 \
  }
