// WEFT_FIELDS(a, b, …): a struct's msgpack form, a map with the fields' names.
//
// As MSGPACK_DEFINE_MAP, but that nothing of it is instantiated where a struct
// is only seen. Of theirs, reading is a plain member function, and each file
// that includes the vocabulary instantiated the reading of all messages: three
// quarters of what actors/composer.cpp took to compile (clang's -ftime-trace,
// 2026-11).
#pragma once

#include <msgpack.hpp>

namespace weft {

/// make_define_map() by way of a template's parameter: looked up when used.
template <typename>
struct FieldMap {
  template <typename... Parts>
  static auto of(Parts&... parts) {
    return msgpack::type::make_define_map(parts...);
  }
};

}  // namespace weft

#define WEFT_FIELDS(...)                                              \
  template <typename Packer>                                          \
  void msgpack_pack(Packer& packer) const {                           \
    ::weft::FieldMap<Packer>::of MSGPACK_DEFINE_MAP_IMPL(__VA_ARGS__) \
        .msgpack_pack(packer);                                        \
  }                                                                   \
  template <typename Object>                                          \
  void msgpack_unpack(Object object) {                                \
    ::weft::FieldMap<Object>::of MSGPACK_DEFINE_MAP_IMPL(__VA_ARGS__) \
        .msgpack_unpack(object);                                      \
  }                                                                   \
  template <typename Object>                                          \
  void msgpack_object(Object* object, msgpack::zone& zone) const {    \
    ::weft::FieldMap<Object>::of MSGPACK_DEFINE_MAP_IMPL(__VA_ARGS__) \
        .msgpack_object(object, zone);                                \
  }
