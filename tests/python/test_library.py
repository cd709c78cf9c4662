"""Runs that share a kernel library: the second takes the first one's kernel,
and a wrong one that stands there is found out."""

import os
import sqlite3
import unittest

import weft_case
from weft_case import WeftCase, problem_with

PROBLEM = problem_with("return torch.relu(x) * 1.75", inputs="[torch.rand(256, 512)]")
SHORT = (
    "--variants",
    "2",
    "--no-compile-baseline",
    "--timing-ms",
    "100",
    "--final-timing-ms",
    "300",
)


class LibraryTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.problem = self.write("problem.py", PROBLEM)
        self.kept_kernels = self.path("library.db")

    def run_weft(self, name, *words):
        done = self.weft(
            "run",
            self.problem,
            "--out",
            self.path(name),
            *SHORT,
            "--library",
            self.kept_kernels,
            *words,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_replays(self.path(name))
        self.events = weft_case.events_of(self.path(name))
        return done.stdout

    def bodies(self, kind):
        return [e["body"] for e in self.events if e["type"] == kind]

    def change(self, sql):
        database = sqlite3.connect(self.kept_kernels)
        with database:
            database.execute(sql)
        database.close()

    def kept(self, column):
        database = sqlite3.connect(self.kept_kernels)
        rows = database.execute(f"SELECT {column} FROM kernel").fetchall()
        database.close()
        return [row[0] for row in rows]

    def test_a_second_run_takes_it_and_a_third_finds_it_poisoned(self):
        self.run_weft("first")
        (right,) = self.kept("source")
        self.assertIn("1.75", right)

        # Whatever it takes now is not slower than that.
        self.change("UPDATE kernel SET median_us = 1e9, p90_us = 1e9")
        told = self.run_weft("second")
        self.assertIn("captured by an earlier run", told)
        (verified,) = self.bodies("VerifySeed")
        self.assertEqual(verified["seed"]["origin"], "library")
        (result,) = self.bodies("SeedResult")
        self.assertTrue(result["verdict"]["correct"])
        self.assertTrue(result["timed"])
        with open(self.path("second/result.json"), encoding="utf-8") as file:
            self.assertIn('"origin": "library"', file.read())
        self.assertIn("library-0", self.weft("show", self.path("second")).stdout)
        self.assertEqual(self.kept("uses"), [1])

        self.change("UPDATE kernel SET source = replace(source, '1.75', '1.5')")
        told = self.run_weft("third")
        self.assertIn("its kernel is wrong, and goes", told)
        verdicts = [r["verdict"]["kind"] for r in self.bodies("SeedResult")]
        self.assertEqual(verdicts[0], "wrong")
        self.assertIn("correct", verdicts)
        self.assertTrue(all("1.75" in source for source in self.kept("source")))
        self.assertEqual(self.kept("origin"), ["compiler"])

    def test_a_damaged_library_is_a_note(self):
        with open(self.kept_kernels, "wb") as file:
            file.write(b"no database" * 1000)
        told = self.run_weft("run")
        self.assertEqual(told.count("is damaged, or was never one"), 1)

    def test_only_the_library_and_no_library_is_refused(self):
        done = self.weft(
            "run", self.problem, "--out", self.path("run"), "--seeds", "library", "--no-library"
        )
        self.assert_ends(done, 2, "--seeds")
        self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    unittest.main()
