"""A folder of bench results that somebody else made. Nothing outside it changes, and a message
names each file that weft does not write."""

import json
import os

from bench_rows import SETTINGS, result_of, row_of
from canaries import Canaries
from weft.bench import bench_report, kernelbench, plots, records, results
from weft.bench.problems import Problem
from weft_case import WeftCase

#: Names that a bench writes by name.
NAMES = (
    "lock",
    "bench.json",
    "bench.json.new",
    "results.csv.new",
    "records",
    "logs",
    "runs",
    "kernelbench",
    "logs/one.out",
    "records/one.json.new",
    "runs/one",
    "kernelbench/level0",
    "kernelbench/level0/one.py",
    "runs/one/result.json",
    "runs/one/composed/model_new.py",
)
#: Values that a result.json may have in the place of a field, or of all.
VALUES = (
    None,
    5,
    -1,
    0,
    "x",
    [],
    {},
    True,
    float("inf"),
    float("nan"),
    2**400,
    [1],
    {"ratio": "x"},
)


class HostileFolders(WeftCase):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries(self.path("canaries"))
        self.problems = self.path("problems")
        os.makedirs(self.problems)
        with open(os.path.join(self.problems, "one.py"), "w", encoding="utf-8") as file:
            file.write("raise SystemExit\n")

    def tearDown(self):
        self.assertEqual(self.canaries.changed(), [])
        super().tearDown()

    def test_no_link_or_pipe_is_written_through(self):
        for number, name in enumerate(NAMES):
            for kind in ("file", "new", "pipe"):
                with self.subTest(name=name, kind=kind):
                    out = self.path(f"out{number}{kind}")
                    path = os.path.join(out, name)
                    os.makedirs(os.path.dirname(path))
                    if kind == "pipe":
                        os.mkfifo(path)
                    else:
                        os.symlink(
                            self.path("canaries/" + ("secret" if kind == "file" else kind)), path
                        )
                    self.assertEqual(records.first_link(out), path)
        done = self.weft("bench", self.problems, "--out", self.path("out0file"), timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("is not a plain file", done.stderr)

    def test_records_of_other_types_count_as_none(self):
        kept = records.Records(self.path("out"))
        problem = Problem(0, 1, os.path.join(self.problems, "one.py"))
        for value in VALUES:
            for name in ("digest", "state", "exit_code", "reason", "tries", "alone", "device"):
                self.write(f"out/records/{problem.key}.json", json.dumps({name: [value]}))
                with self.subTest(name=name, value=repr(value)[:40]):
                    results.row(problem, kept.load(problem), None)
        for sessions in VALUES:
            self.assertFalse(sessions and records.are_pairs(sessions))

    def test_a_result_of_other_types_is_said_to_be_damaged(self):
        rows = []
        for value in VALUES:
            told = json.dumps(result_of())
            for path in paths(json.loads(told)):
                result = json.loads(told)
                put(result, path, value)
                rows.append(row_of(len(rows), result))
        self.assertGreater(len(rows), 500)
        verdicts = {row.verdict for row in rows}
        self.assertIn("result.json damaged", verdicts)
        self.assertIn("verified", verdicts)
        rates = results.add_floors(rows)
        bench_report.markdown(SETTINGS, rows, rates, [[0.0, 1.0]])
        results.results_csv(rows)
        plots.all_plots(rows)
        kernelbench.files(SETTINGS, rows)


def paths(value, at=()):
    """The paths of all fields, the deepest included."""
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield (*at, key)
        yield from paths(value[key], (*at, key))


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


if __name__ == "__main__":
    import unittest

    unittest.main()
