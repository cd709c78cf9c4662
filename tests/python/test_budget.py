"""weft run --budget-s: the run ends with what it has, and that is verified."""

import json
import unittest

from weft_case import TINY, WeftCase


class Budget(WeftCase):
    def result(self, run):
        with open(f"{run}/result.json", encoding="utf-8") as file:
            return json.load(file)

    def test_a_run_whose_time_is_over_ends_verified(self):
        """To load PyTorch takes longer than that."""
        problem, run = self.write("tiny.py", TINY), self.path("run")
        done = self.weft("run", problem, "--out", run, "--budget-s", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verified", done.stdout)
        result = self.result(run)
        self.assertTrue(result["verdict"]["correct"])
        for subgraph in result["subgraphs"]:
            self.assertIn("budget of 1 s", subgraph["reason"])
        (told,) = [note for note in result["notes"] if "Time:" in note]
        self.assertRegex(told, r"of the budget of 1 s, \d+\.\d s went to the "
                         r"capture, 0\.\d s to the search, \d+\.\d s to")
        self.assert_replays(run)

    def test_a_budget_is_a_number_of_seconds(self):
        done = self.weft("run", self.write("tiny.py", TINY), "--budget-s", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--budget-s", done.stderr)


if __name__ == "__main__":
    unittest.main()
