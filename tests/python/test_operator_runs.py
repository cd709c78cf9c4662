"""benchmarks/opinfo.py: its parts, and the processes that take them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import opinfo
import worker_processes


def square(number: int) -> int:
    """Of some numbers there is none."""
    if number == 3:
        os._exit(7)
    if number == 4:
        raise ValueError("no square of 4")
    if number == 5:
        time.sleep(600)
    return number * number


class WorkerProcesses(unittest.TestCase):
    def test_a_part_that_ends_its_process_costs_no_other(self) -> None:
        parts = [(number,) for number in (1, 2, 3, 4, 6)]
        got = dict(worker_processes.answers(square, parts, 2))
        self.assertEqual([got[1,], got[2,], got[6,]], [1, 4, 36])
        self.assertRegex(str(got[3,]), "process ended with 7")
        self.assertRegex(str(got[4,]), "ValueError: no square of 4")

    def test_a_part_that_hangs_is_stopped(self) -> None:
        worker_processes.PART_SECONDS, before = 10.0, worker_processes.PART_SECONDS
        self.addCleanup(setattr, worker_processes, "PART_SECONDS", before)
        got = dict(worker_processes.answers(square, [(5,), (6,)], 1))
        self.assertRegex(str(got[5,]), "no answer within 10 s")
        self.assertEqual(got[6,], 36)

    def test_nothing_begins_after_the_last_second(self) -> None:
        self.assertEqual(list(worker_processes.answers(square, [(1,), (2,)], 2, 0.0)), [])


class Parts(unittest.TestCase):
    COUNTS = (("a", 70), ("b", 3), ("c", 0), ("d", 30))

    def test_each_sample_is_in_one_part(self) -> None:
        parts = opinfo.parts_of(self.COUNTS, 32)
        self.assertEqual([sum(b - a for _, a, b in part) for part in parts].count(32), 3)
        samples = sorted((name, i) for part in parts for name, a, b in part for i in range(a, b))
        self.assertEqual(samples, [(name, i) for name, count in self.COUNTS for i in range(count)])

    def test_halves_of_a_part_end_with_one_sample(self) -> None:
        waiting, single = opinfo.parts_of(self.COUNTS, 32), []
        while waiting:
            part = waiting.pop()
            smaller = opinfo.halves(part)
            waiting += smaller
            single += [] if smaller else part
        self.assertEqual({b - a for _, a, b in single}, {1})
        self.assertEqual(len(single), 103)


class Summary(unittest.TestCase):
    def test_a_case_that_was_run_again_counts_once(self) -> None:
        rows = [("add.0", "differs"), ("add.0", "lowered"), ("add.1+gaps", "pytorch")]
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for case, outcome in rows:
                row = {"target": "cpu", "dtype": "int8", "case": case, "outcome": outcome}
                file.write(json.dumps({**row, "reason": ""}) + "\n")
            file.flush()
            text = opinfo.summary([file.name])
        self.assertIn("| cpu | forward | int8 | 1 | 2 | 0 | 1 | 1 | 0 |", text)
        self.assertNotIn("differs:", text)


if __name__ == "__main__":
    unittest.main()
