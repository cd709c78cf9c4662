"""The table of tests/gpu/cheats.py: which verdicts it calls the same as the CPU's, and
which as expected."""

import argparse
import importlib.util
import json
import os
import tempfile
import unittest

from weft_case import ROOT


def load():
    path = os.path.join(ROOT, "tests", "gpu", "cheats.py")
    spec = importlib.util.spec_from_file_location("gpu_cheats", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def evaluation(accepted, kind):
    return {
        "accepted": accepted,
        "verdict": {"kind": kind, "reason": "a | b\nc"},
        "remark": "",
        "operators": {},
        "timing": None,
    }


class CheatsTableTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cheats = load()

    def judging(self, **changes):
        options = {"target": "cuda", "verdicts": None, "compare": None, "seconds": 10.0}
        return self.cheats.Judging(argparse.Namespace(**{**options, **changes}))

    def sample(self, name):
        (found,) = self.cheats.wanted("cuda", [name])
        return found

    def row(self, name, found, **options):
        judging = self.judging(**options)
        judging.found[name] = found
        return judging.row(self.sample(name))

    def test_a_gpu_gets_the_files_of_the_host_and_its_own(self):
        names = {self.cheats.short(s.path) for s in self.cheats.wanted("cuda", [])}
        self.assertLessEqual({"N1_zeros", "gpu/honest_compiled", "gpu/T1_side_stream"}, names)
        self.assertNotIn("honest_native", names)
        self.assertTrue(any("honest_native" in line for line in self.cheats.left_out("cuda")))

    def test_a_row_compares_with_the_docstring(self):
        row = self.row("N1_zeros", evaluation(True, "correct"))
        self.assertEqual(row[3], "**different**")
        self.assertIn("must be rejected", row[4])
        row = self.row("N1_zeros", evaluation(False, "wrong"))
        self.assertEqual(row[3:5], ["same", "yes"])

    def test_a_row_compares_with_verdicts_that_were_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kept")
            self.cheats.append(path, "N1_zeros", "cpu", evaluation(False, "wrong"))
            self.cheats.append(path, "N1_zeros", "cpu", evaluation(True, "correct"))
            row = self.row("N1_zeros", evaluation(True, "correct"), compare=path)
            self.assertEqual(row[1:4], ["accepted (correct)", "accepted (correct)", "same"])
            self.assertIn("must be rejected", row[4])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.loads(file.readline())["kind"], "wrong")

    def test_a_verdict_that_is_missing_is_not_as_expected(self):
        row = self.judging().row(self.sample("N1_zeros"))
        self.assertEqual((row[2], row[4]), ("no verdict", "**no**"))

    def test_a_cell_is_one_line(self):
        text = self.cheats.markdown(self.row("N1_zeros", evaluation(False, "wrong")))
        self.assertIn("a \\| b c |", text)
        self.assertEqual(len(text.splitlines()), 1)

    def test_groups_have_one_reference_and_a_limit(self):
        groups = self.cheats.groups_of(self.cheats.wanted("cuda", []), 5)
        for reference, group in groups:
            self.assertLessEqual(len(group), 5)
            self.assertEqual({s.reference for s in group}, {reference})
        judged = sum(len(group) for _, group in groups)
        self.assertEqual(judged, len(self.cheats.wanted("cuda", [])))


if __name__ == "__main__":
    unittest.main()
