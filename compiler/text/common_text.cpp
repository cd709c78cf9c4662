#include "compiler/text/common_text.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

#include "compiler/graph/characters.hpp"
#include "compiler/graph/symbolic_shapes.hpp"

namespace weft {
namespace {

/// Within a name, or a number with a point, digits are no number of their own.
bool joins(char c) {
  return is_digit(c) || c == '_' || c == '.' || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

struct Cursor {
  Sizes sizes;
  std::string_view text;
  std::size_t at = 0;

  bool is_over() const { return at == text.size(); }
  char now() const { return text[at]; }
  /// The digits that begin here.
  std::string_view digits() const {
    std::size_t end = at;
    while (end < text.size() && is_digit(text[end])) ++end;
    return text.substr(at, end - at);
  }
  std::string around() const {
    const std::size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1);
    const std::size_t from = begin == std::string_view::npos ? 0 : begin + 1;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    return std::string(
        text.substr(from, std::min<std::size_t>(end - from, 120)));
  }
};

std::unexpected<Error> misfit(const std::vector<Cursor>& cursors) {
  return fail(
      ErrorCode::wrong_input,
      "for " + sizes_text(cursors[0].sizes) + ", and for " +
          sizes_text(cursors[1].sizes) +
          ", it differs in more than whole numbers: " + cursors[0].around());
}

using Names = std::span<const std::string_view>;

std::string expression(const Polynomial& of, const Names& names) {
  std::string text;
  const auto add = [&text](std::int64_t number, const std::string& name) {
    if (number == 0) return;
    const std::int64_t much = text.empty() ? number : std::abs(number);
    if (!text.empty()) text += number < 0 ? " - " : " + ";
    text += name.empty() ? std::to_string(much)
            : much == 1  ? name
                         : std::to_string(much) + " * " + name;
  };
  const std::string first(names.front()), last(names.back());
  add(of.coefficients.first, first);
  if (names.size() > 1) {
    add(of.coefficients.second, last);
    add(of.coefficients.product, first + " * " + last);
  }
  add(of.coefficients.square, last + " * " + last);
  if (names.size() > 1) {
    add(of.coefficients.square_product, first + " * " + last + " * " + last);
  }
  add(of.constant, "");
  const bool is_name = std::ranges::find(names, text) != names.end();
  return is_name ? text : "(" + text + ")";
}

/// The numbers at the cursors, as one; moves over them.
Result<std::string> number(std::vector<Cursor>& cursors, const Names& names) {
  std::vector<std::pair<Sizes, std::int64_t>> values;
  for (const Cursor& cursor : cursors) {
    const std::string_view digits = cursor.digits();
    const std::size_t end = cursor.at + digits.size();
    const bool is_whole_token =
        (cursor.at == 0 || !joins(cursor.text[cursor.at - 1])) &&
        (end == cursor.text.size() || !joins(cursor.text[end]));
    std::int64_t value = 0;
    const auto read =
        std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc() || !is_whole_token) return misfit(cursors);
    values.emplace_back(cursor.sizes, value);
  }
  const auto found = fit_polynomial(values);
  if (!found) return misfit(cursors);
  for (Cursor& cursor : cursors) cursor.at += cursor.digits().size();
  return expression(*found, names);
}

bool are_alike(const std::vector<Cursor>& cursors) {
  return std::ranges::all_of(cursors, [&](const Cursor& cursor) {
    return !cursor.is_over() && cursor.now() == cursors[0].now();
  });
}

bool begin_alike(const std::vector<Cursor>& cursors) {
  return std::ranges::all_of(cursors, [&](const Cursor& cursor) {
    return cursor.digits() == cursors[0].digits();
  });
}

}  // namespace

Result<std::string> common_text(const std::map<Sizes, std::string>& texts,
                                Names names) {
  std::vector<Cursor> cursors;
  for (const auto& [sizes, text] : texts) cursors.push_back({sizes, text});
  if (cursors.size() < samples_min(names.size())) {
    return fail(ErrorCode::failed,
                "more samples are needed to tell what grows");
  }
  std::string common;
  while (!std::ranges::any_of(cursors, &Cursor::is_over)) {
    const std::string_view digits = cursors[0].digits();
    const bool some_digits = std::ranges::any_of(
        cursors, [](const Cursor& cursor) { return is_digit(cursor.now()); });
    if (some_digits && !begin_alike(cursors)) {
      auto joined = number(cursors, names);
      if (!joined) return std::unexpected(joined.error());
      common += *joined;
      continue;
    }
    const std::size_t length = std::max<std::size_t>(1, digits.size());
    if (!are_alike(cursors)) return misfit(cursors);
    common += cursors[0].text.substr(cursors[0].at, length);
    for (Cursor& cursor : cursors) cursor.at += length;
  }
  if (!std::ranges::all_of(cursors, &Cursor::is_over)) return misfit(cursors);
  return common;
}

}  // namespace weft
