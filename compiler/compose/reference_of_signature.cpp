#include "compiler/compose/reference_of_signature.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/compose/reference_source.hpp"

namespace weft {
namespace {

/// Texts of a signature's lines, as Python has them.
struct Read {
  std::vector<std::string> inputs;
  std::map<std::string, std::string> types;  ///< of what holds one tensor
  std::string calls;                         ///< lines of the function
  std::vector<std::string> outputs;
};

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || c == '_');
  });
}

/// "2,3" -> "[2, 3]"; nothing where that is no list of integers.
std::string list_in(std::string_view text) {
  std::string list = "[";
  for (const char c : text) {
    const bool fits = (c >= '0' && c <= '9') || c == '-' || c == ',';
    if (!fits) return "";
    list += c;
    if (c == ',') list += ' ';
  }
  return list + "]";
}

/// "float32[2,3]{3,1}" as a row of INPUTS; nothing where it is no type.
std::string spec_in(std::string_view type) {
  const auto shape = type.find('[');
  const auto stride = type.find("]{");
  if (shape == type.npos || stride == type.npos || stride < shape) return "";
  if (!type.ends_with('}') || !is_word(type.substr(0, shape))) return "";
  const std::string dims = list_in(type.substr(shape + 1, stride - shape - 1));
  const std::string steps =
      list_in(type.substr(stride + 2, type.size() - stride - 3));
  if (dims.empty() || steps.empty()) return "";
  return spec_row(dims, steps, std::string(type.substr(0, shape)));
}

/// "aten.add.Tensor(x0, 1)" -> "torch.ops.aten.add.Tensor(x0, 1)".
std::string call_in(std::string_view call) {
  if (call.ends_with(" tf32")) call.remove_suffix(5);
  constexpr std::string_view item = "getitem(";
  if (!call.ends_with(')')) return "";
  if (!call.starts_with(item)) return "torch.ops." + std::string(call);
  const std::string_view inside =
      call.substr(item.size(), call.size() - item.size() - 1);
  const auto comma = inside.rfind(", ");
  if (comma == inside.npos) return "";
  return std::string(inside.substr(0, comma)) + "[" +
         std::string(inside.substr(comma + 2)) + "]";
}

bool read_line(std::string_view line, Read& read) {
  constexpr std::string_view is = " = ";
  const auto colon = line.rfind(": ");  // no type has one
  if (colon == line.npos) return false;
  const std::string_view left = line.substr(0, colon);
  const auto equals = left.find(is);
  const std::string name(left.substr(0, equals));
  if (!is_word(name)) return false;
  const std::string spec = spec_in(line.substr(colon + 2));
  if (!spec.empty()) read.types[name] = spec;
  if (equals == left.npos) {
    read.inputs.push_back(name);
    return !spec.empty();
  }
  const std::string call = call_in(left.substr(equals + is.size()));
  read.calls += "    " + name + " = " + call + "\n";
  return !call.empty();
}

/// "return t0 t1".
bool read_return(std::string_view line, Read& read) {
  std::string name;
  for (const char c : std::string(line.substr(6)) + " ") {
    if (c != ' ') {
      name += c;
    } else if (!name.empty()) {
      read.outputs.push_back(std::move(name));
      name.clear();
    }
  }
  return !read.outputs.empty() &&
         std::ranges::all_of(read.outputs, [&](const std::string& output) {
           return read.types.contains(output);
         });
}

std::string specs(const Read& read, const std::vector<std::string>& names) {
  std::string rows;
  for (const std::string& name : names) rows += read.types.at(name);
  return rows;
}

}  // namespace

Result<std::string> reference_of_signature(std::string_view signature,
                                           const std::string& title) {
  Read read;
  bool is_whole = false;
  while (!signature.empty() && !is_whole) {
    const auto end = std::min(signature.find('\n'), signature.size());
    const std::string_view line = signature.substr(0, end);
    signature.remove_prefix(std::min(end + 1, signature.size()));
    is_whole = line.starts_with("return ");
    if (!(is_whole ? read_return(line, read) : read_line(line, read))) {
      return fail(ErrorCode::wrong_input,
                  "this is no line of a signature: " + std::string(line));
    }
  }
  if (!is_whole) {
    return fail(ErrorCode::wrong_input, "the signature ends before its return");
  }
  return reference_file(
      title, specs(read, read.inputs), specs(read, read.outputs),
      "def reference(" + joined_names(read.inputs) + "):\n" + read.calls +
          "    return " + joined_names(read.outputs) + "\n");
}

}  // namespace weft
