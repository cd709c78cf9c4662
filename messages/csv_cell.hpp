// A text of somebody else's as a cell of a CSV file; python/weft/shown_text.py
// has the same for Python.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// The cell, quoted if it must be, in one line without control characters: it
/// may be printed on a terminal. A spreadsheet computes a cell that begins
/// with =, +, - or @, in ASCII or full-width, also after blanks: such a text
/// gets an apostrophe before it. For texts, not for numbers.
std::string csv_cell(std::string_view text);

}  // namespace weft
