#include "actors/llm/text.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/text/python_lexer.hpp"

namespace weft {
namespace {

std::string_view trimmed(std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// How many of `sign` a line begins with, if that makes a fence.
std::size_t fence_length(std::string_view line, char sign) {
  std::size_t length = 0;
  while (length < line.size() && line[length] == sign) ++length;
  return length >= 3 ? length : 0;
}

bool defines(std::string_view python, std::string_view name) {
  const auto tokens = python_tokens(python);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const PythonToken& python_token = tokens[i];
    if (python_token.kind == PythonTokenKind::name &&
        python_token.indent == 0 &&
        python.substr(python_token.begin,
                      python_token.end - python_token.begin) == name) {
      return true;
    }
  }
  return false;
}

/// Whether the text breaks off within a string of three quotes.
bool ends_within_string(std::string_view python) {
  const auto tokens = python_tokens(python);
  for (auto current = tokens.rbegin(); current != tokens.rend(); ++current) {
    if (current->kind == PythonTokenKind::newline) continue;
    if (current->kind != PythonTokenKind::text) return false;
    const auto text =
        python.substr(current->begin, current->end - current->begin);
    const auto quote = text.find_first_of("\"'");
    if (quote == std::string_view::npos) return false;
    const std::string three(3, text[quote]);
    return text.substr(quote).starts_with(three) &&
           (text.size() < quote + 6 || !trimmed(text).ends_with(three));
  }
  return false;
}

}  // namespace

Result<std::string> python_file_in(std::string_view answer,
                                   std::string_view name) {
  std::vector<std::string> blocks;
  std::optional<std::string> open;
  char sign = '`';
  std::size_t length = 0;
  bool has_fence = false;
  for (std::size_t begin = 0; begin < answer.size();) {
    const auto end = std::min(answer.find('\n', begin), answer.size());
    const std::string_view line = answer.substr(begin, end - begin);
    const std::string_view bare = trimmed(line);
    begin = end + 1;
    if (!open) {
      sign = bare.starts_with("~~~") ? '~' : '`';
      length = fence_length(bare, sign);
      if (length > 0) {
        has_fence = true;
        open.emplace();
      }
      continue;
    }
    const bool closes = fence_length(bare, sign) >= length &&
                        bare.find_first_not_of(sign) == std::string_view::npos;
    if (closes && !ends_within_string(*open)) {
      blocks.push_back(std::move(*open));
      open.reset();
      continue;
    }
    open->append(line).push_back('\n');
  }
  if (open) {
    return fail(ErrorCode::wrong_input,
                "the answer breaks off within its code block: answer with the "
                "whole file, shorter if need be");
  }
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (defines(*block, name)) return *block;
  }
  if (!has_fence && defines(answer, name)) return std::string(answer);
  if (blocks.empty()) {
    return fail(ErrorCode::wrong_input,
                "the answer has no code block: answer with one Python file in "
                "one fenced block");
  }
  return fail(ErrorCode::wrong_input,
              "no code block of the answer defines " + std::string(name));
}

std::string near_duplicate_key(std::string_view python) {
  std::string key;
  bool after_newline = true;
  for (const PythonToken& python_token : python_tokens(python)) {
    if (python_token.kind == PythonTokenKind::comment) continue;
    if (python_token.kind == PythonTokenKind::newline) {
      if (!after_newline) key += '\n';
      after_newline = true;
      continue;
    }
    key += after_newline ? std::string(python_token.indent, ' ') : " ";
    after_newline = false;
    key += python.substr(python_token.begin,
                         python_token.end - python_token.begin);
  }
  return key;
}

std::string fence_for(std::string_view text) {
  std::size_t longest = 2;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return std::string(longest + 1, '`');
}

}  // namespace weft
