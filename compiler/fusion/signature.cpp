#include "compiler/fusion/signature.hpp"

#include "compiler/text/python_text.hpp"

namespace weft {

namespace {

std::string values_text(const Node& node) {
  std::string text;
  for (const auto& value : node.values) {
    text += (text.empty() ? "" : ", ") + (value ? type_text(*value) : "none");
  }
  return node.is_tuple ? std::string("(").append(text).append(")") : text;
}

std::string id_from(std::uint64_t hash) {
  // 48 bits are asked for: XOR the top ones in, as FNV's authors advise.
  const std::uint64_t mixed = (hash >> 48) ^ (hash & 0xffffffffffffULL);
  std::string digits(12, '0');
  for (int i = 0; i < 12; ++i) {
    digits[11 - i] = "0123456789abcdef"[(mixed >> (4 * i)) & 0xf];
  }
  return "sg_" + digits;
}

}  // namespace

std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

std::string shape_text(const TensorType& type) {
  return std::string(dtype_name(type.dtype)) + "[" + numbers_text(type.shape) +
         "]";
}

std::string type_text(const TensorType& type) {
  return shape_text(type) + "{" + numbers_text(type.stride) + "}";
}

std::string signature_of(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    text += node.name;
    if (node.kind == NodeKind::call) {
      text += " = " + node.target + "(" + python_arguments(node) + ")";
      if (node.tf32) text += " tf32";
    }
    text += ": " + values_text(node) + "\n";
  }
  text += "return";
  for (const std::string& output : graph.outputs) text += " " + output;
  return text + "\n";
}

std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char byte : text) {
    hash = (hash ^ byte) * 0x100000001b3ULL;
  }
  return hash;
}

std::string fresh_id(const std::string& signature,
                     const std::map<std::string, std::string>& taken,
                     const Hash& hash) {
  std::string id = id_from(hash(signature));
  for (int attempt = 1;; ++attempt) {
    const auto found = taken.find(id);
    if (found == taken.end() || found->second == signature) return id;
    id = id_from(hash(signature + "#" + std::to_string(attempt)));
  }
}

}  // namespace weft
