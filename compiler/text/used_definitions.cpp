#include "compiler/text/used_definitions.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace weft {
namespace {

using Words = std::set<std::string, std::less<>>;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// What begins at `at` and is no code: a comment, a string, a character, a
/// preprocessor line. Returns where it ends; `at` if code is there.
std::size_t after_no_code(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) {
    const auto end = text.find("*/", at + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  // A quote within a number groups its digits.
  const bool groups = text[at] == '\'' && at > 0 && is_word(text[at - 1]);
  if ((text[at] != '"' && text[at] != '\'') || groups) return at;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) {
    end += text[end] == '\\' ? 2 : 1;
  }
  return std::min(end + 1, text.size());
}

/// The end of a preprocessor line, with what a backslash joins to it.
std::size_t after_directive(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const auto end = std::min(text.find('\n', at), text.size());
    if (end == at || text[end - 1] != '\\') {
      return std::min(end + 1, text.size());
    }
    at = end + 1;
  }
  return text.size();
}

Words words_in(std::string_view text) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    if (const auto end = after_no_code(text, at); end != at) {
      at = end;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) words.emplace(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  return words;
}

/// A definition with the comments before it, or text that always stays.
struct Item {
  std::string_view text;
  std::string name;  ///< empty: it stays
};

/// The end of the definition that begins at `at`: behind its semicolon, or the
/// bracket that closes its body.
std::size_t after_definition(std::string_view text, std::size_t at) {
  int depth = 0;
  bool has_body = false;
  while (at < text.size()) {
    if (const auto end = after_no_code(text, at); end != at) {
      at = end;
      continue;
    }
    const char c = text[at++];
    if (c == '{' || c == '(' || c == '[') ++depth;
    if (c == '}' || c == ')' || c == ']') --depth;
    if (depth < 0) return at - 1;  // of a namespace
    has_body |= c == '{' && depth == 1;
    if (depth != 0 || (c != ';' && c != '}')) continue;
    if (c == ';') return at;
    // A type's body is followed by a semicolon; so is an initialiser's.
    std::size_t next = at;
    while (next < text.size() &&
           std::isspace(static_cast<unsigned char>(text[next]))) {
      ++next;
    }
    if (next < text.size() && text[next] == ';') return next + 1;
    if (has_body) return at;
  }
  return text.size();
}

/// The last word before `end`.
std::string word_before(std::string_view text, std::size_t end) {
  while (end > 0 && !is_word(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  return std::string(text.substr(begin, end - begin));
}

/// Text without comments, and without the parameters of a template: its other
/// brackets, of a function or an initialiser, stay.
std::string plain(std::string_view text) {
  std::string stripped;
  for (std::size_t at = 0; at < text.size();) {
    if (const auto end = after_no_code(text, at); end != at) {
      at = end;
      continue;
    }
    stripped += text[at++];
  }
  while (true) {
    const auto begin = stripped.find("template");
    const auto open =
        begin == std::string::npos ? begin : stripped.find('<', begin);
    if (open == std::string::npos) return stripped;
    int depth = 0;
    std::size_t end = open;
    do {
      depth += stripped[end] == '<' ? 1 : stripped[end] == '>' ? -1 : 0;
    } while (++end < stripped.size() && depth > 0);
    stripped.erase(begin, end - begin);
  }
}

/// The name that a definition defines; empty: that is not known.
std::string name_of(std::string_view definition) {
  const std::string text = plain(definition);
  if (text.find("extern") != std::string::npos &&
      text.find("extern") < text.find('(')) {
    return "";
  }
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  for (const std::string_view kind : {"struct ", "class ", "using ", "enum "}) {
    if (!text.substr(first).starts_with(kind)) continue;
    std::size_t begin = first + kind.size();
    while (begin < text.size() && !is_word(text[begin])) ++begin;
    std::size_t end = begin;
    while (end < text.size() && is_word(text[end])) ++end;
    return text.substr(begin, end - begin);
  }
  const auto open = text.find('(');
  const auto equals = text.find('=');
  const auto end = std::min({open, equals, text.find(';')});
  if (end == std::string::npos) return "";
  const std::string name = word_before(text, end);
  const bool is_unclear = name == "operator" || name == "typedef" ||
                          name == "__attribute__" || name == "static_assert" ||
                          text.contains("operator") || text.contains("typedef");
  return is_unclear ? "" : name;
}

/// The word that begins at `at`.
std::string_view word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  return text.substr(at, end - at);
}

/// The macro that a preprocessor line defines; empty: it defines none.
std::string_view defined_macro(std::string_view directive) {
  const auto define = directive.find("define ");
  if (define == std::string_view::npos) return "";
  const std::string_view before = directive.substr(1, define - 1);
  if (before.find_first_not_of(" \t") != std::string_view::npos) return "";
  return word_at(directive, define + std::string_view("define ").size());
}

/// The macros with parameters that the text defines.
Words macros_of(std::string_view text) {
  Words macros;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    if (text[at] == '#') {
      const auto name = defined_macro(text.substr(at, end - at));
      const bool has_parameters =
          !name.empty() &&
          text.substr(static_cast<std::size_t>(name.end() - text.begin()))
              .starts_with("(");
      if (has_parameters) macros.emplace(name);
    }
    at = end + 1;
  }
  return macros;
}

/// The end of the macro's call that begins at `at`, behind its bracket.
std::size_t after_macro_call(std::string_view text, std::size_t at) {
  int depth = 0;
  for (at = text.find('(', at); at < text.size(); ++at) {
    depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  return text.size();
}

std::vector<Item> items_of(std::string_view text) {
  const Words macros = macros_of(text);
  std::vector<Item> items;
  std::size_t begin = 0;  // of comments and what they stand before
  std::size_t at = 0;
  const auto add = [&](std::size_t end, std::string name) {
    items.push_back({text.substr(begin, end - begin), std::move(name)});
    begin = at = end;
  };
  while (at < text.size()) {
    const char c = text[at];
    const auto opens_namespace = [&] {
      const std::string_view rest = text.substr(at);
      const auto end = rest.find_first_of("{;=");
      return rest.starts_with("namespace") && end != std::string_view::npos &&
             rest[end] == '{';
    };
    const std::string_view word = word_at(text, at);
    if (c == '#') {
      const auto end = after_directive(text, at);
      add(end, std::string(defined_macro(text.substr(at, end - at))));
    } else if (macros.contains(word) &&
               text.substr(at + word.size()).starts_with("(")) {
      // It defines what its first argument names.
      const auto end = after_macro_call(text, at);
      add(end, std::string(word_at(text, at + word.size() + 1)));
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
    } else if (text.substr(at).starts_with("//") ||
               text.substr(at).starts_with("/*")) {
      at = after_no_code(text, at);
    } else if (c == '}') {
      add(at + 1, "");
    } else if (opens_namespace()) {
      add(text.find('{', at) + 1, "");
    } else {
      const auto end = std::max(after_definition(text, at), at + 1);
      add(end, name_of(text.substr(at, end - at)));
    }
  }
  if (begin < text.size()) add(text.size(), "");
  return items;
}

}  // namespace

std::string used_definitions(std::string_view cpp) {
  const auto items = items_of(cpp);
  std::vector<bool> stays(items.size());
  std::vector<Words> words;
  for (const Item& item : items) words.push_back(words_in(item.text));
  Words used;
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (stays[i] ||
          (!items[i].name.empty() && !used.contains(items[i].name))) {
        continue;
      }
      // So are a macro's body's.
      stays[i] = is_changed = true;
      used.insert(words[i].begin(), words[i].end());
    }
  }
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (stays[i]) text += items[i].text;
  }
  return text;
}

}  // namespace weft
