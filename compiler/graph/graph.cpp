#include "compiler/graph/graph.hpp"

#include <algorithm>
#include <array>

namespace weft {

namespace {

struct DTypeFacts {
  DType dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<DTypeFacts, 12> kDTypes{{
    {DType::f64, "float64", 8},
    {DType::f32, "float32", 4},
    {DType::f16, "float16", 2},
    {DType::bf16, "bfloat16", 2},
    {DType::i64, "int64", 8},
    {DType::i32, "int32", 4},
    {DType::i16, "int16", 2},
    {DType::i8, "int8", 1},
    {DType::u8, "uint8", 1},
    {DType::boolean, "bool", 1},
    {DType::c64, "complex64", 8},
    {DType::c128, "complex128", 16},
}};

const DTypeFacts& facts_of(DType dtype) {
  return *std::ranges::find(kDTypes, dtype, &DTypeFacts::dtype);
}

}  // namespace

TensorType row_major(DType dtype, std::vector<std::int64_t> shape) {
  TensorType type{dtype, std::move(shape), {}};
  type.stride.resize(type.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = type.shape.size(); i-- > 0;) {
    type.stride[i] = stride;
    stride *= type.shape[i];
  }
  return type;
}

bool is_row_major(const TensorType& type) {
  std::int64_t stride = 1;
  for (std::size_t i = type.shape.size(); i-- > 0;) {
    if (type.shape[i] != 1 && type.stride[i] != stride) return false;
    stride *= type.shape[i];
  }
  return true;
}

const Node* Graph::find(std::string_view name) const {
  auto found = std::ranges::find(nodes, name, &Node::name);
  return found == nodes.end() ? nullptr : &*found;
}

std::string Graph::unused_name(std::string like) const {
  while (find(like) != nullptr) like += "_";
  return like;
}

Arg list_of(const std::vector<std::int64_t>& values) {
  Arg::List list;
  for (const std::int64_t value : values) list.push_back({value});
  return {std::move(list)};
}

std::int64_t element_count(const TensorType& type) {
  std::int64_t count = 1;
  for (std::int64_t size : type.shape) count *= size;
  return count;
}

std::int64_t element_bytes(DType dtype) { return facts_of(dtype).bytes; }

std::string_view dtype_name(DType dtype) { return facts_of(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  auto found = std::ranges::find(kDTypes, name, &DTypeFacts::name);
  if (found == kDTypes.end()) return std::nullopt;
  return found->dtype;
}

}  // namespace weft
