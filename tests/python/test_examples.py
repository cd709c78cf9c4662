"""Every example is a problem that can be captured, and says what it shows."""

import ast
import glob
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from weft.capture import capture

EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples", "*.py")))


class ExamplesTest(unittest.TestCase):
    def test_there_are_at_least_twelve(self):
        self.assertGreaterEqual(len(EXAMPLES), 12)

    def test_each_is_captured(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in EXAMPLES:
                with self.subTest(os.path.basename(path)):
                    reply = capture.reply_of(path, os.path.join(folder, "graph.json"))
                    self.assertTrue(reply["ok"], reply)

    def test_each_says_what_it_shows_and_stands_in_the_table(self):
        with open(os.path.join(ROOT, "examples", "README.md"), encoding="utf-8") as file:
            readme = file.read()
        for path in EXAMPLES:
            with self.subTest(os.path.basename(path)):
                with open(path, encoding="utf-8") as file:
                    self.assertTrue(ast.get_docstring(ast.parse(file.read())))
                self.assertIn(os.path.basename(path), readme)


if __name__ == "__main__":
    unittest.main()
