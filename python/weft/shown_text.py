"""Text that somebody else wrote, made fit for the medium that shows it, as
messages/shown_text.hpp has it for C++: one function for each medium."""

import html
import re

#: Controls of a terminal, and what reorders or hides text.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
#: Beginning of a formula. Some spreadsheets skip blanks before it, and take the
#: full-width character for the ASCII one.
_COMPUTED = re.compile(" *[=+@\uff1d\uff0b\uff0d\uff20-]")
TABLE_CELL_LENGTH_MAX = 400


def terminal_line(text: str) -> str:
    """One line for a terminal or a log: a line break is "\\n" there, a tab a blank,
    and a control or hidden character its number."""
    return _shown(text, {"\n": "\\n", "\t": " "})


def terminal_paragraph(text: str) -> str:
    """A message of several lines: each but the first begins with "    | "."""
    return _shown(text.rstrip("\n"), {"\n": "\n    | ", "\t": "\t"})


def table_cell(text: str | None) -> str:
    """One line of a Markdown table that ends no cell, and has no mark-up."""
    line = " ".join((text or "").split())[:TABLE_CELL_LENGTH_MAX]
    line = "".join("\\" + one if one in "\\`<|" else one for one in terminal_line(line))
    return line.replace("](", "]\\(")


def html_text(text: str) -> str:
    """Text of an HTML element: no mark-up, and line breaks stay."""
    return "<br>".join(html.escape(terminal_line(line)) for line in text.split("\n"))


def csv_cell(text: str) -> str:
    """A text for csv.writer, which adds quotes: one line that a spreadsheet does not
    evaluate as a formula. Not for numbers."""
    line = terminal_line(text)
    return "'" + line if _COMPUTED.match(line) else line


def _shown(text: str, instead: dict[str, str]) -> str:
    def of(found: re.Match[str]) -> str:
        one = found.group()
        code = ord(one)
        return instead.get(one) or (f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}")

    return _HIDDEN.sub(of, text)
