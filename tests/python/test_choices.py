"""Choices that affect only speed are listed, overridden by name, and tried."""

import json
import unittest

from weft_case import WeftCase, problem_with

SHORT = ("--no-compile-baseline", "--variants", "1", "--timing-ms", "10", "--final-timing-ms", "10")


class Choices(WeftCase):
    def test_all_are_listed_with_unit_and_source(self):
        done = self.weft("choices", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreater(len(rows), 100)
        for row in rows:
            self.assertTrue(row["unit"] and row["source"], row)
            self.assertLessEqual(row["least"], row["value"])
        some = self.weft("choices", "cuda.windows")
        self.assertEqual(len(some.stdout.splitlines()), 7, some.stdout)
        self.assertEqual(self.weft("choices", "cuda.wind0ws").returncode, 2)

    def test_what_is_no_choice_is_refused_with_what_is_near(self):
        problem = self.write("p.py", problem_with())
        for choice, said in (
            ("cpu.fold_column_max=8", "cpu.fold_columns_max"),
            ("cpu.fold_columns_max=0", "from 1 to 65536 columns"),
            ("cpu.fold_columns_max=1.5", "whole number"),
            ("cpu.fold_columns_max=many", "NAME=NUMBER"),
            ("cpu.fold_columns_max", "NAME=NUMBER"),
        ):
            done = self.weft("run", problem, "--choice", choice)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(said, done.stderr)
        done = self.weft("tune", problem, "--try", "cpu.fold_columns_max=")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing to try", done.stderr)

    def test_values_are_tried_and_the_run_says_which(self):
        problem, out = self.write("p.py", problem_with()), self.path("runs")
        done = self.weft(
            "tune",
            problem,
            "--json",
            "--out",
            out,
            "--try",
            "loops.parallel_elements_min=0",
            *SHORT,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        usual, tried = map(json.loads, done.stdout.splitlines())
        self.assertEqual((usual["value"], tried["value"]), ("default", "0"))
        self.assertEqual(usual["texts_changed"], 0)
        # So small a model is otherwise one thread's.
        self.assertGreater(tried["texts_changed"], 0)
        self.assertGreater(tried["median_us"], 0)
        self.assertEqual(tried["result"]["choices"], {"loops.parallel_elements_min": 0})
        with open(f"{out}/0/report.md", encoding="utf-8") as file:
            self.assertIn("loops.parallel_elements_min = 0", file.read())
        self.assert_replays(f"{out}/0")


if __name__ == "__main__":
    unittest.main()
