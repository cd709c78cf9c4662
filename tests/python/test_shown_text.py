"""Text of somebody else's in a terminal, a log and a Markdown table."""

import unittest

from weft.shown_text import csv_cell, html_text, table_cell, terminal_line, terminal_paragraph


class ShownText(unittest.TestCase):
    def test_a_line_has_no_second_line_and_no_control(self):
        self.assertEqual(terminal_line("a\nb\tc\r"), "a\\nb c\\x0d")
        self.assertEqual(terminal_line("\x1b[31m\x9b"), "\\x1b[31m\\u009b")

    def test_what_reorders_or_hides_text_is_shown_by_its_number(self):
        self.assertEqual(
            terminal_line("\u202e\u2066\u200b\u2028\ud800"), "\\u202e\\u2066\\u200b\\u2028\\ud800"
        )

    def test_other_text_stays_as_it_is(self):
        self.assertEqual(terminal_line("9.87× – ü 漢字"), "9.87× – ü 漢字")

    def test_further_lines_of_a_paragraph_pass_for_no_others(self):
        self.assertEqual(terminal_paragraph("x\nfile.py: accepted\n"), "x\n    | file.py: accepted")

    def test_a_cell_has_no_end_and_no_mark_up(self):
        self.assertEqual(table_cell("a|b\n# <b> [x](y) `z`"), "a\\|b # \\<b> [x]\\(y) \\`z\\`")
        self.assertEqual(table_cell(None), "")

    def test_an_element_of_html_has_no_mark_up_and_hides_nothing(self):
        self.assertEqual(html_text('<b>\n\u202e\x1b&"'), "&lt;b&gt;<br>\\u202e\\x1b&amp;&quot;")

    def test_a_spreadsheet_computes_no_cell(self):
        for text in ("=1+1", "+1", "-1", "@SUM(A1)", " =1", "\uff1d1"):
            self.assertEqual(csv_cell(text), "'" + text)
        for text in ("a=1", "", "  "):
            self.assertEqual(csv_cell(text), text)
        self.assertEqual(csv_cell("\t=1"), "' =1")
        self.assertEqual(csv_cell("\r=1\x1b[31m"), "\\x0d=1\\x1b[31m")
        self.assertEqual(csv_cell("\n=1"), "\\n=1")


if __name__ == "__main__":
    unittest.main()
