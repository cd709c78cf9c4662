#include "compiler/graph/printed_text.hpp"

#include <algorithm>
#include <charconv>

#include "compiler/graph/characters.hpp"

namespace weft {

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_name_character(char c) { return is_letter(c) || is_digit(c); }

/// Python's names may have any script's letters. Other characters beyond ASCII
/// are syntax errors outside of literals.
bool begins_name(char c) {
  return is_letter(c) || static_cast<unsigned char>(c) >= 0x80;
}

/// Reads a text from its beginning to its end.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  bool take(std::string_view wanted) {
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }

  std::string_view take_name() {
    const std::size_t from = at_;
    if (begins_name(peek())) {
      while (!at_end() && (begins_name(peek()) || is_digit(peek()))) ++at_;
    }
    return text_.substr(from, at_ - from);
  }

  std::string_view take_digits() {
    const std::size_t from = at_;
    while (is_digit(peek())) ++at_;
    return text_.substr(from, at_ - from);
  }

  /// A literal in quotes on one line. Its braces are doubled if `is_formatted`.
  bool take_string(bool is_formatted) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    for (++at_; !at_end() && peek() != quote; ++at_) {
      if (static_cast<unsigned char>(peek()) < 0x20) return false;
      if (peek() == '\\') {
        ++at_;
        if (at_end() || peek() == '{' || peek() == '}') return false;
      } else if (is_formatted && (peek() == '{' || peek() == '}')) {
        const char brace = peek();
        ++at_;
        if (peek() != brace) return false;
      }
    }
    return !at_end() && take(std::string_view(&quote, 1));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// A template nests at most this deep.
constexpr int kDepthMax = 100;

/// A key of a dict or a position: a literal without floats, or a tuple of them.
bool take_key(Reader& reader, int depth) {
  if (reader.take_string(false)) return true;
  for (const char* name : {"None", "True", "False"}) {
    if (reader.take(name)) return true;
  }
  if (depth < kDepthMax && reader.take("(")) {
    while (!reader.take(")")) {
      if (!take_key(reader, depth + 1)) return false;
      if (reader.take(",")) reader.take(" ");
    }
    return true;
  }
  reader.take("-");
  return !reader.take_digits().empty();
}

class OutputTemplate {
 public:
  OutputTemplate(std::string_view text, std::size_t outputs)
      : reader_(text), outputs_(outputs) {}

  bool is_sound() { return take_expression(0, false) && reader_.at_end(); }

 private:
  bool take_expression(int depth, bool in_function) {
    if (depth > kDepthMax) return false;
    const auto take_items = [&](std::string_view end) {
      return take_list(end,
                       [&] { return take_expression(depth + 1, in_function); });
    };
    if (reader_.take("(")) return take_items(")");
    if (reader_.take("[")) return take_items("]");
    if (reader_.take("{{")) {
      return take_list("}}", [&] {
        return take_expression(depth + 1, in_function) && reader_.take(": ") &&
               take_expression(depth + 1, in_function);
      });
    }
    if (reader_.take("{")) return take_slot();
    if (reader_.peek() == '\'' || reader_.peek() == '"') {
      return !in_function && reader_.take_string(true);
    }
    for (const char* special :
         {"float('nan')", "float('inf')", "float('-inf')"}) {
      if (reader_.take(special)) return true;
    }
    if (is_digit(reader_.peek()) || reader_.peek() == '-') return take_number();
    if (reader_.take("__import__('collections').OrderedDict(")) {
      return take_items(")");
    }
    if (reader_.take("torch.return_types.")) {
      return !reader_.take_name().empty() && reader_.take("(") &&
             take_items(")");
    }
    const std::string_view name = reader_.take_name();
    if (name == "None" || name == "True" || name == "False") return true;
    // A function could run a text. So it gets no strings, and no result of
    // another function: bytes() makes a text of numbers. The name of a class
    // begins with a capital.
    const bool is_class = !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
    if (name.empty() || (in_function && !is_class)) return false;
    return reader_.take("(") && take_list(")", [&] {
             return take_expression(depth + 1, in_function || !is_class);
           });
  }

  /// Expressions with commas between them, up to `end`; Python allows one more
  /// comma.
  template <typename Take>
  bool take_list(std::string_view end, Take take_one) {
    while (!reader_.take(end)) {
      if (!take_one()) return false;
      if (reader_.take(end)) return true;
      if (!reader_.take(",")) return false;
      reader_.take(" ");
    }
    return true;
  }

  bool take_slot() {
    const std::string_view digits = reader_.take_digits();
    std::size_t index = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), index);
    return error == std::errc() && index < outputs_ && reader_.take("}");
  }

  /// As Python prints an integer or a finite float.
  bool take_number() {
    reader_.take("-");
    if (reader_.take_digits().empty()) return false;
    if (reader_.take(".") && reader_.take_digits().empty()) return false;
    if (!reader_.take("e")) return true;
    if (!reader_.take("-")) reader_.take("+");
    return !reader_.take_digits().empty();
  }

  Reader reader_;
  std::size_t outputs_;
};

}  // namespace

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text.front()) &&
         std::ranges::all_of(text, is_name_character);
}

bool is_operator_name(std::string_view text) {
  return std::ranges::count(text, '.') >= 2 &&
         std::ranges::all_of(
             text, [](char c) { return is_name_character(c) || c == '.'; });
}

bool is_input_path(std::string_view text) {
  Reader reader(text);
  if (reader.take_name().empty()) return false;
  while (!reader.at_end()) {
    if (reader.take(".")) {
      if (reader.take_name().empty()) return false;
      continue;
    }
    if (!reader.take("[")) return false;
    if (!take_key(reader, 0)) return false;
    if (!reader.take("]")) return false;
  }
  return true;
}

bool is_symbol_text(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_name_character(c) || c == ':';
  });
}

bool is_output_template(std::string_view text, std::size_t outputs) {
  return OutputTemplate(text, outputs).is_sound();
}

}  // namespace weft
