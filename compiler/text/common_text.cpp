#include "compiler/text/common_text.hpp"

#include <algorithm>
#include <vector>

#include "compiler/graph/growth.hpp"

namespace weft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Within a name, or a number with a point, digits are no number of their own.
bool joins(char c) {
  return is_digit(c) || c == '_' || c == '.' || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

struct Cursor {
  std::int64_t size;
  std::string_view text;
  std::size_t at = 0;

  bool is_over() const { return at == text.size(); }
  char now() const { return text[at]; }
  /// The digits that begin here; 18 at most are a number that fits.
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
      "for the sizes " + std::to_string(cursors[0].size) + " and " +
          std::to_string(cursors[1].size) +
          " it differs in more than whole numbers: " + cursors[0].around());
}

std::string expression(const Multiple& of, std::string_view name) {
  const auto [per, rest] = of;
  std::string text = per == 1 ? std::string(name)
                              : std::to_string(per) + " * " + std::string(name);
  if (rest != 0) {
    text += (rest < 0 ? " - " : " + ") + std::to_string(std::abs(rest));
  }
  return per == 1 && rest == 0 ? text : "(" + text + ")";
}

/// The numbers at the cursors, as one; moves over them.
Result<std::string> number(std::vector<Cursor>& cursors,
                           std::string_view name) {
  std::vector<std::pair<std::int64_t, std::int64_t>> values;
  for (const Cursor& cursor : cursors) {
    const std::string_view digits = cursor.digits();
    const std::size_t end = cursor.at + digits.size();
    const bool is_alone =
        (cursor.at == 0 || !joins(cursor.text[cursor.at - 1])) &&
        (end == cursor.text.size() || !joins(cursor.text[end]));
    if (digits.empty() || digits.size() > 18 || !is_alone) {
      return misfit(cursors);
    }
    values.emplace_back(cursor.size, std::stoll(std::string(digits)));
  }
  const auto found = multiple_of_size(values);
  if (!found) return misfit(cursors);
  for (Cursor& cursor : cursors) cursor.at += cursor.digits().size();
  return expression(*found, name);
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

Result<std::string> common_text(
    const std::map<std::int64_t, std::string>& texts, std::string_view name) {
  std::vector<Cursor> cursors;
  for (const auto& [size, text] : texts) cursors.push_back({size, text});
  if (cursors.size() < 3) {
    return fail(ErrorCode::failed, "three sizes are needed to tell what grows");
  }
  std::string common;
  while (!std::ranges::any_of(cursors, &Cursor::is_over)) {
    const std::string_view digits = cursors[0].digits();
    const bool some_digits = std::ranges::any_of(
        cursors, [](const Cursor& cursor) { return is_digit(cursor.now()); });
    if (some_digits && !begin_alike(cursors)) {
      auto one = number(cursors, name);
      if (!one) return std::unexpected(one.error());
      common += *one;
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
