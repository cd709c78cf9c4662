#include "compiler/compose/problem_source.hpp"

#include <algorithm>
#include <optional>

#include "compiler/text/python_lexer.hpp"

namespace weft {

namespace {

using Kind = PythonTokenKind;

std::unexpected<Error> unfit(const std::string& what) {
  return fail(ErrorCode::wrong_input, "problem file: " + what);
}

class Splitter {
 public:
  explicit Splitter(std::string_view source)
      : source_(source), tokens_(python_tokens(source)) {}

  Result<std::string> renamed() {
    if (auto found = find_class(); !found)
      return std::unexpected(found.error());
    return text(0, source_.size());
  }

  Result<ProblemSource> split() {
    if (auto found = find_class(); !found)
      return std::unexpected(found.error());
    find_class_end();
    if (!find_forward()) {
      return unfit("class Model has no forward() of its own");
    }
    ProblemSource problem;
    read_header(problem);
    const std::size_t begin = class_begin();
    problem.before = text(0, begin);
    problem.model = text(begin, class_end_);
    problem.after = text(class_end_, source_.size());
    if (!problem.model.ends_with('\n')) problem.model += '\n';
    problem.indent = indent_of(tokens_[forward_ - 1]);
    return problem;
  }

 private:
  std::string_view word(std::size_t i) const {
    if (i >= tokens_.size()) return "";
    return source_.substr(tokens_[i].begin, tokens_[i].end - tokens_[i].begin);
  }

  bool starts_line(std::size_t i) const {
    while (i > 0 && tokens_[i - 1].kind == Kind::comment) --i;
    return i == 0 || tokens_[i - 1].kind == Kind::newline;
  }

  Result<void> find_class() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == Kind::name && word(i) == "ModelNew") {
        return unfit("the name ModelNew is taken; name it otherwise");
      }
      if (!class_ && tokens_[i].indent == 0 && starts_line(i) &&
          word(i) == "class" && word(i + 1) == "Model") {
        class_ = i;
      }
    }
    if (!class_) return unfit("it defines no class Model at top level");
    return {};
  }

  /// Decorators belong to the class.
  std::size_t class_begin() const {
    std::size_t first = *class_;
    for (std::size_t i = *class_; i-- > 0;) {
      if (tokens_[i].kind == Kind::comment || !starts_line(i)) continue;
      if (word(i) != "@") break;
      first = i;
    }
    return tokens_[first].begin;
  }

  /// After the last line that is indented below the class.
  void find_class_end() {
    class_end_ = source_.size();
    std::size_t last = *class_;
    for (std::size_t i = *class_ + 1; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == Kind::comment) continue;
      if (starts_line(i) && tokens_[i].indent == 0) break;
      last = i;
    }
    last_token_ = last;
    const auto line_end = source_.find('\n', tokens_[last].begin);
    if (line_end != std::string_view::npos) class_end_ = line_end + 1;
  }

  /// `def forward` at the indentation of the class's first statement.
  bool find_forward() {
    std::optional<std::size_t> body;
    for (std::size_t i = *class_ + 1; i <= last_token_; ++i) {
      if (tokens_[i].kind == Kind::comment || !starts_line(i)) continue;
      if (!body) body = tokens_[i].indent;
      if (tokens_[i].indent == *body && word(i) == "def" &&
          word(i + 1) == "forward" && word(i + 2) == "(") {
        forward_ = i + 1;  // the last definition is the one that counts
      }
    }
    return forward_ != 0;
  }

  std::string indent_of(const PythonToken& token) const {
    const auto line = source_.rfind('\n', token.begin);
    const auto begin = line == std::string_view::npos ? 0 : line + 1;
    return std::string(source_.substr(begin, token.begin - begin));
  }

  void read_header(ProblemSource& problem) const {
    const std::size_t open = forward_ + 1;
    std::size_t close = open + 1;
    while (close < tokens_.size() &&
           !(word(close) == ")" && tokens_[close].depth == 1)) {
      ++close;
    }
    problem.header = text(tokens_[open].begin, tokens_[close].end);
    bool first = true;
    bool keyword_only = false;
    for (std::size_t i = open + 1; i < close;) {
      std::size_t end = i;
      while (end < close && !(word(end) == "," && tokens_[end].depth == 1)) {
        ++end;
      }
      if (auto parameter = read_parameter(i, end, keyword_only)) {
        if (first) {
          problem.self = parameter->name;
        } else {
          problem.parameters.push_back(*parameter);
        }
        first = false;
      }
      i = end + 1;
    }
  }

  std::optional<PythonParameter> read_parameter(std::size_t begin,
                                                std::size_t end,
                                                bool& keyword_only) const {
    int stars = 0;
    PythonParameter parameter;
    for (std::size_t i = begin; i < end; ++i) {
      if (tokens_[i].kind == Kind::comment) continue;
      if (word(i) == "*" && parameter.name.empty()) ++stars;
      if (tokens_[i].kind == Kind::name && parameter.name.empty()) {
        parameter.name = word(i);
      }
      if (word(i) == "=" && tokens_[i].depth == 1) parameter.has_default = true;
    }
    using ParameterKind = PythonParameter::Kind;
    if (stars == 1) {
      parameter.kind = ParameterKind::positional_rest;
    } else if (stars == 2) {
      parameter.kind = ParameterKind::keyword_rest;
    } else if (keyword_only) {
      parameter.kind = ParameterKind::keyword_only;
    }
    keyword_only = keyword_only || stars == 1;
    if (parameter.name.empty()) return std::nullopt;  // a lone * or /
    return parameter;
  }

  bool is_model_name(std::size_t i) const {
    if (tokens_[i].kind != Kind::name || word(i) != "Model") return false;
    if (i > 0 && word(i - 1) == ".") return false;
    const bool keyword =
        tokens_[i].depth > 0 && word(i + 1) == "=" && word(i + 2) != "=";
    return !keyword;
  }

  /// The source between two places, with the names changed.
  std::string text(std::size_t begin, std::size_t end) const {
    std::string changed;
    std::size_t copied = begin;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const bool model = is_model_name(i);
      if (tokens_[i].begin < begin || tokens_[i].end > end) continue;
      if (!model && (forward_ == 0 || i != forward_)) continue;
      changed += source_.substr(copied, tokens_[i].begin - copied);
      changed += model ? "ModelNew" : "forward_reference";
      copied = tokens_[i].end;
    }
    changed += source_.substr(copied, end - copied);
    return changed;
  }

  std::string_view source_;
  std::vector<PythonToken> tokens_;
  std::optional<std::size_t> class_;  // the token `class`
  std::size_t last_token_ = 0;
  std::size_t class_end_ = 0;
  std::size_t forward_ = 0;  // the token `forward` of its def; 0: none
};

}  // namespace

Result<ProblemSource> split_problem(std::string_view source) {
  return Splitter(source).split();
}

Result<std::string> rename_model(std::string_view source) {
  return Splitter(source).renamed();
}

}  // namespace weft
