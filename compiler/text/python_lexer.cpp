#include "compiler/text/python_lexer.hpp"

#include <algorithm>
#include <string>

#include "compiler/graph/characters.hpp"

namespace weft {

namespace {

bool starts_name(char c) {
  // Bytes of a non-ASCII identifier count as letters.
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<PythonToken> run() {
    while (at_ < source_.size()) step();
    if (!line_is_empty_) add(PythonTokenKind::newline, at_);
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void step() {
    const char c = peek();
    if (c == '\n') {
      end_line();
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '\\' && peek(1) == '\n') {
      at_ += 2;
    } else if (c == '\\' && peek(1) == '\r' && peek(2) == '\n') {
      at_ += 3;
    } else if (c == '#') {
      const auto end = std::min(source_.find('\n', at_), source_.size());
      add_comment(end);
    } else if (const auto quote = quote_ahead(); quote != 0) {
      add(PythonTokenKind::text, end_of_string(at_ + quote - 1));
    } else if (starts_name(c)) {
      add(PythonTokenKind::name, end_of_word());
    } else if (is_digit(c)) {
      add(PythonTokenKind::number, end_of_word());
    } else {
      add(PythonTokenKind::other, at_ + 1);
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
    }
  }

  void end_line() {
    if (depth_ == 0) {
      if (!line_is_empty_) add(PythonTokenKind::newline, at_);
      line_is_empty_ = true;
      line_begin_ = at_ + 1;
    }
    ++at_;
  }

  void add_comment(std::size_t end) {
    tokens_.push_back({PythonTokenKind::comment, at_, end, depth_, indent_});
    at_ = end;
  }

  void add(PythonTokenKind kind, std::size_t end) {
    if (line_is_empty_) {
      indent_ = at_ - line_begin_;
      line_is_empty_ = false;
    }
    tokens_.push_back({kind, at_, end, depth_, indent_});
    at_ = end;
  }

  std::size_t end_of_word() const {
    std::size_t end = at_;
    while (end < source_.size() &&
           (starts_name(source_[end]) || is_digit(source_[end]))) {
      ++end;
    }
    return end;
  }

  /// One past the position of the opening quote, counted from here, if a
  /// string begins here (perhaps with a prefix such as rb); else 0.
  std::size_t quote_ahead() const {
    constexpr std::string_view kPrefixLetters = "rRbBuUfF";
    for (std::size_t i = 0; i <= 2; ++i) {
      if (peek(i) == '"' || peek(i) == '\'') return i + 1;
      if (kPrefixLetters.find(peek(i)) == std::string_view::npos ||
          peek(i) == '\0') {
        return 0;
      }
    }
    return 0;
  }

  std::size_t end_of_string(std::size_t open) const {
    const char quote = source_[open];
    const bool triple = source_.substr(open, 3) == std::string(3, quote);
    std::size_t i = open + (triple ? 3 : 1);
    while (i < source_.size()) {
      // In raw strings too, a backslash keeps the next quote from closing.
      if (source_[i] == '\\') {
        i += 2;
      } else if (!triple && source_[i] == '\n') {
        return i;  // unterminated: not our error to report
      } else if (triple && source_.substr(i, 3) == std::string(3, quote)) {
        return i + 3;
      } else if (!triple && source_[i] == quote) {
        return i + 1;
      } else {
        ++i;
      }
    }
    return source_.size();
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::size_t indent_ = 0;
  std::size_t line_begin_ = 0;
  bool line_is_empty_ = true;
  std::vector<PythonToken> tokens_;
};

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace weft
