#include "messages/shown_text.hpp"

#include <doctest/doctest.h>

#include "messages/csv_cell.hpp"

namespace weft {
namespace {

TEST_CASE("a line for a terminal has no second line and no control") {
  CHECK(terminal_line("a\nb\tc") == "a\\nb c");
  CHECK(terminal_line("\x1b[31mred") == "\\x1b[31mred");
  CHECK(terminal_line("\r\b\x7f") == "\\x0d\\x08\\x7f");
  CHECK(terminal_line("\xc2\x9b"
                      "31m") == "\\u009b31m");
  CHECK(terminal_line(std::string_view("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("what reorders or hides text is shown by its number") {
  CHECK(terminal_line("\u202e") == "\\u202e");
  CHECK(terminal_line("\u2066x\u2069") == "\\u2066x\\u2069");
  CHECK(terminal_line("\u2028") == "\\u2028");
  CHECK(terminal_line("\u200b") == "\\u200b");
  CHECK(terminal_line("\u061c") == "\\u061c");
}

TEST_CASE("bytes that are no UTF-8 are shown as bytes") {
  CHECK(terminal_line("\xff") == "\\xff");
  CHECK(terminal_line("\xc3") == "\\xc3");
  CHECK(terminal_line("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(terminal_line("\xc0\x8a") == "\\xc0\\x8a");
}

TEST_CASE("other text stays as it is") {
  CHECK(terminal_line("9.87× – ü 漢字 \\d") == "9.87× – ü 漢字 \\d");
}

TEST_CASE("a paragraph's further lines cannot pass for others") {
  CHECK(terminal_paragraph("x\nfile.py: accepted\n") ==
        "x\n    | file.py: accepted");
}

TEST_CASE("a listing keeps its lines") {
  CHECK(terminal_listing("a\n\tb\x1b\n") == "a\n\tb\\x1b\n");
}

TEST_CASE("a spreadsheet computes no text") {
  for (const char* text : {"=1+1", "+1", "-1", "@SUM(A1)", " =1", "\uFF1D1"}) {
    CHECK(csv_cell(text) == "'" + std::string(text));
  }
  CHECK(csv_cell("\t=1") == "' =1");
  CHECK(csv_cell("=HYPERLINK(\"x\",\"y\")") ==
        "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"");
  CHECK(csv_cell("a=1") == "a=1");
  CHECK(csv_cell("  ") == "  ");
  CHECK(csv_cell("") == "");
}

TEST_CASE("a cell is one line without controls") {
  CHECK(csv_cell("a,b\nc") == "\"a,b\\nc\"");
  CHECK(csv_cell("\r=1\x1b[31m") == "\\x0d=1\\x1b[31m");
}

TEST_CASE("a line of Markdown has no mark-up of its own") {
  CHECK(markdown_line("a|b\n# c") == "a\\|b # c");
  CHECK(markdown_line("<script>") == "\\<script>");
  CHECK(markdown_line("[x](javascript:1)") == "[x]\\(javascript:1)");
  CHECK(markdown_line("`rm`") == "\\`rm\\`");
  CHECK(markdown_line("\\<b>") == "\\\\\\<b>");  // its own hides no escape
  CHECK(markdown_line("a\\\\|") == "a\\\\\\\\\\|");
  CHECK(markdown_line("x[3, 4] (f)") == "x[3, 4] (f)");
}

}  // namespace
}  // namespace weft
