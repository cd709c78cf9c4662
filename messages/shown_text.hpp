// Text that somebody else wrote (a candidate's exception, a model's words, a
// file's name, a journal's field), made fit for the medium that shows it. One
// function for each medium; python/weft/shown_text.py has the same for Python.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// One line for a terminal or a log. Line breaks are shown as "\n"; control
/// characters, bytes that are no UTF-8, and characters that reorder or hide
/// text (bidirectional controls, zero width, line separators) as "\x1b" or
/// "\u202e". A tab becomes a blank.
std::string terminal_line(std::string_view text);

/// A listing, such as a source file: line breaks and tabs stay. Whoever writes
/// it could write a line that looks like one of weft's own: it is shown
/// indented, or alone.
std::string terminal_listing(std::string_view text);

/// A message that may have several lines: each but the first begins with "    |
/// ".
std::string terminal_paragraph(std::string_view text);

/// One line of Markdown without mark-up: no HTML, code, link, image or cell's
/// end.
std::string markdown_line(std::string_view text);

}  // namespace weft
