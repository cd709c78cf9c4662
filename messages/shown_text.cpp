#include "messages/shown_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace weft {
namespace {

/// One character, or a byte that begins none.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool is_valid = false;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const std::size_t bytes = first >= 0xf0   ? 4
                            : first >= 0xe0 ? 3
                            : first >= 0xc2 ? 2
                                            : 0;
  if (bytes == 0 || first > 0xf4) return {first, 1, false};
  std::uint32_t code = first & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {first, 1, false};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x1'0000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[bytes] || code > 0x10'ffff || is_surrogate) {
    return {first, 1, false};
  }
  return {code, bytes, true};
}

/// Controls of a terminal, and what changes the order or hides text.
bool is_hidden(std::uint32_t code) {
  constexpr std::uint32_t ranges[][2] = {
      {0x00, 0x1f},      {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},
      {0x115f, 0x1160},  {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},
      {0x2060, 0x206f},  {0x3164, 0x3164}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
      {0xe0000, 0xe0fff}};
  return std::ranges::any_of(ranges, [code](const auto& range) {
    return code >= range[0] && code <= range[1];
  });
}

std::string escaped(const Character& character) {
  char text[16];
  const bool is_byte = !character.is_valid || character.code < 0x80;
  std::snprintf(text, sizeof text, is_byte ? "\\x%02x" : "\\u%04x",
                static_cast<unsigned>(character.code));
  return text;
}

/// `on_break` and `on_tab` stand for these.
std::string safe(std::string_view text, std::string_view on_break,
                 std::string_view on_tab) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code == '\n') {
      out += on_break;
    } else if (character.code == '\t') {
      out += on_tab;
    } else if (!character.is_valid || is_hidden(character.code)) {
      out += escaped(character);
    } else {
      out += text.substr(at, character.bytes);
    }
    at += character.bytes;
  }
  return out;
}

}  // namespace

std::string terminal_line(std::string_view text) {
  return safe(text, "\\n", " ");
}

std::string terminal_listing(std::string_view text) {
  return safe(text, "\n", "\t");
}

std::string terminal_paragraph(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return safe(text, "\n    | ", "\t");
}

std::string markdown_line(std::string_view text) {
  std::string out;
  for (const char c : safe(text, " ", " ")) {
    // A backslash is added only before a character that would be mark-up. The
    // text's own backslashes before it are doubled: one of them would escape
    // the added one.
    if (c == '`' || c == '<' || c == '|') {
      const auto last = out.find_last_not_of('\\');
      const auto from = last == std::string::npos ? 0 : last + 1;
      out.append(out.size() - from + 1, '\\');
    }
    if (c == '(' && out.ends_with(']')) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace weft
