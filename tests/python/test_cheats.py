"""Every cheat of the catalogue is rejected, every honest kernel accepted.

Each file of tests/cheats says in its docstring what it does and what must
become of it: `Reference:` names the model it claims to replace, `Expect:`
"rejected" or "accepted" and the kinds of verdict that are right, `Reason:` and
`Remark:` a part of the message, `Operators:` what must be listed. `Gpu:` says
what differs on a GPU, and why: "accepted" or "rejected" instead of `Expect:`, or
"host" for a file that works on host memory and is not judged there.
catalogue.toml has what docs/reference/cheats.md says of each row.
"""

import ast
import collections
import concurrent.futures
import glob
import hashlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from unittest import mock

from weft_case import ROOT, WEFT, environment

CHEATS = os.path.join(ROOT, "tests", "cheats")
ROWS = {"T": 14, "O": 12, "N": 24, "G": 6, "S": 7}
#: Where cheats show only in times: those are timed for so long
#: (test_timed_cheats). The others are only checked, two references at once.
TIMING_MS = {"slow": 400, "linear": 100, "short": 100, "sort": 200}
#: Kinds that say as much of the machine as of the candidate.
BUSY = ("not_timed", "timed_out")
HAS_GPU = os.path.exists("/dev/nvidiactl")


class Sample:
    """One file, and what its docstring says of it."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
        with open(path, encoding="utf-8") as file:
            text = ast.get_docstring(ast.parse(file.read()))
        found = dict(re.findall(r"^(\w+): (.*)$", text, re.MULTILINE))
        self.reference = found["Reference"]
        self.decision, *self.kinds = found["Expect"].split()
        self.reason = found.get("Reason", "")
        self.remark = found.get("Remark", "")
        self.operators = found.get("Operators", "").split()
        self.needs = found.get("Needs", "").split()
        self.gpu = found.get("Gpu", "").partition(":")[0]

    def on_gpu(self):
        """The same, with what must become of it on a GPU."""
        if self.gpu:
            self.decision, self.kinds = self.gpu, []
            self.reason = self.remark = ""
        return self

    def lacks(self):
        return [n for n in self.needs if not importlib.util.find_spec(n)]

    def may_be_asked_again(self, found):
        """Whether noise may have decided: nothing was said of the time, or an
        honest candidate was rejected for it. Not where a cheat was accepted:
        who is accepted once is not rejected."""
        return found["verdict"]["kind"] in BUSY or (
            self.decision == "accepted" and bool(found["timing"]) and not found["accepted"]
        )

    def complaints(self, found):
        """What is not as the docstring says; empty: all is."""
        verdict = found["verdict"]
        if verdict["kind"] == "not_timed":
            return ["the machine is too busy"]
        told = (
            []
            if found["accepted"] == (self.decision == "accepted")
            else [f"must be {self.decision}"]
        )
        if self.kinds and verdict["kind"] not in self.kinds:
            told.append(f"kind is {verdict['kind']}")
        if self.reason not in verdict["reason"]:
            told.append(f"reason lacks {self.reason!r}")
        if self.remark not in found["remark"]:
            told.append(f"remark lacks {self.remark!r}")
        listed = found["operators"] or {}
        if self.operators == ["none"] and listed:
            told.append("operators are listed")
        if self.operators != ["none"]:
            told += [f"{o} is not listed" for o in self.operators if o not in listed]
        return told


def samples(folder, is_gpu=False):
    paths = sorted(glob.glob(os.path.join(folder, "*.py")))
    found = [s for s in map(Sample, paths) if not s.lacks()]
    return [s.on_gpu() for s in found if s.gpu != "host"] if is_gpu else found


def command(reference, group, *flags):
    """The words of `weft eval` for those candidates, by one oracle."""
    words = [WEFT, "eval", os.path.join(CHEATS, "references", reference + ".py")]
    words += [s.path for s in group]
    words += [
        "--json",
        "--no-compile-baseline",
        "--call-ms",
        "20000",
        "--random-seed",
        "1",
    ]  # the same inputs each time
    is_timed = reference in TIMING_MS or "cuda" in flags
    words += ["--timing-ms", str(TIMING_MS.get(reference, 150)), *flags]
    return words if is_timed else [*words, "--no-timing"]


def judge(reference, group, *flags):
    """{file name: evaluation}, of one oracle."""
    done = subprocess.run(
        command(reference, group, *flags),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=400,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {os.path.basename(x["candidate"]): x for x in lines if "candidate" in x}
    for sample in group:
        if sample.name not in found:
            raise AssertionError(f"no verdict on {sample.name}: {done.stderr}")
    return found


def judge_all(folder, *flags, of=lambda reference: True):
    """(sample, its evaluation), by reference."""
    groups = collections.defaultdict(list)
    for sample in samples(folder, "cuda" in flags):
        if of(sample.reference):
            groups[sample.reference].append(sample)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        quick = {
            r: pool.submit(judge, r, g, *flags) for r, g in groups.items() if r not in TIMING_MS
        }
    for reference, group in groups.items():
        found = quick[reference].result() if reference in quick else judge(reference, group, *flags)
        # What shows only in times may drown when the machine is busy: up to
        # three times more, and then it counts.
        for _ in range(3):
            again = [
                s
                for s in group
                if s.complaints(found[s.name]) and s.may_be_asked_again(found[s.name])
            ]
            if again:
                found.update(judge(reference, again, *flags))
        yield from ((s, found[s.name]) for s in group)


def fingerprint(folder):
    """Of every source file below it."""
    digest = hashlib.sha256()
    for path in sorted(glob.glob(folder + "/**/*.py", recursive=True)):
        with open(path, "rb") as file:
            digest.update(path.encode() + file.read())
    return digest.hexdigest()


class Verdicts:
    """For a unittest.TestCase."""

    def hold(self, folder, *flags, **which):
        for sample, found in judge_all(folder, *flags, **which):
            with self.subTest(sample.name):
                told = sample.complaints(found)
                # Then nothing is said of it, and it is not accepted.
                if found["verdict"]["kind"] == "not_timed":
                    self.assertFalse(found["accepted"])
                    self.skipTest(found["verdict"]["reason"])
                self.assertEqual(told, [], json.dumps(found)[:1500])


class CheatsTest(Verdicts, unittest.TestCase):
    def test_each_gets_the_verdict_that_it_names(self):
        before = fingerprint(CHEATS)
        self.hold(CHEATS, "--target", "cpu", of=lambda reference: reference not in TIMING_MS)
        self.assertEqual(fingerprint(CHEATS), before)

    @unittest.skipUnless(HAS_GPU, "no CUDA device here")
    def test_each_of_the_gpu_gets_the_verdict_that_it_names(self):
        self.hold(os.path.join(CHEATS, "gpu"), "--target", "cuda")

    @unittest.skipUnless(HAS_GPU, "no CUDA device here")
    def test_each_of_the_host_gets_the_same_verdict_on_a_gpu(self):
        self.hold(CHEATS, "--target", "cuda")


class AskedAgainTest(unittest.TestCase):
    """What noise may have decided is asked again, and nothing else."""

    def counted(self, name, *answers):
        """Whether that file counts as accepted, if it is judged so."""

        def answer(kind, accepted):
            return {
                "accepted": accepted,
                "timing": {"rejected": ""},
                "verdict": {"kind": kind, "reason": "before or after the time"},
                "remark": "",
                "operators": {},
            }

        left = itertools.starmap(answer, answers)
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(
                sys.modules[__name__],
                "judge",
                lambda reference, group, *flags: {one.name: next(left) for one in group},
            ),
        ):
            shutil.copy(os.path.join(CHEATS, name), folder)
            ((_, found),) = judge_all(folder)
        return found["accepted"]

    def test_a_cheat_that_was_accepted_once_is(self):
        self.assertTrue(
            self.counted("T3_short_work_when_read.py", ("correct", True), ("cheated", False))
        )
        self.assertTrue(
            self.counted(
                "T3_short_work_when_read.py",
                ("not_timed", False),
                ("correct", True),
                ("cheated", False),
            )
        )

    def test_an_honest_one_may_be_rejected_by_noise(self):
        self.assertTrue(
            self.counted(
                "honest_short.py", ("not_timed", False), ("cheated", False), ("correct", True)
            )
        )


class CatalogueTest(unittest.TestCase):
    """catalogue.toml, from which tools/docs writes docs/reference/cheats.md."""

    def setUp(self):
        with open(os.path.join(CHEATS, "catalogue.toml"), "rb") as file:
            self.rows = tomllib.load(file)

    def test_no_row_of_the_catalogue_is_missing(self):
        rows = {f"{k}{i}" for k, n in ROWS.items() for i in range(1, n + 1)}
        self.assertEqual(set(self.rows), rows)

    def test_each_row_has_files_and_a_reason_or_says_why_there_are_none(self):
        for row, entry in self.rows.items():
            with self.subTest(row):
                files = glob.glob(os.path.join(CHEATS, "**", row + "_*.py"), recursive=True)
                self.assertEqual(set(entry), {"cheat", "why" if files else "not_played"})

    def test_each_file_belongs_to_a_row(self):
        for path in glob.glob(os.path.join(CHEATS, "*.py")) + glob.glob(
            os.path.join(CHEATS, "gpu", "*.py")
        ):
            row = os.path.basename(path).partition("_")[0]
            self.assertIn(row, {*self.rows, "honest"}, path)


if __name__ == "__main__":
    unittest.main()
