#!/usr/bin/env python3
"""Judges every cheat and every honest kernel of tests/cheats on this machine's GPU.

Several are judged at a time. A row for each shows the verdicts of the CPU and the GPU.

    python3 tests/gpu/cheats.py [--target cuda] [--jobs N] [--seconds S]
        [--verdicts FILE] [--compare FILE] [--out FILE] [NAME ...]

Needs `weft` (WEFT_BIN, otherwise build/weft), and PyTorch with CUDA and Triton in the Python
that runs this. With --target cpu it judges on the CPU; --verdicts keeps what was said, with
which a later --compare fills the column of the CPU. Without --compare that column is what the
file's docstring expects (tests/python/test_cheats.py). NAME is a part of a file's name.

Noise may decide a timed verdict. Such a candidate is judged again, at the end, with two at a time.
Ends with 1 if a verdict is not the one that the candidate's docstring names, or is missing.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "python")]

import test_cheats
from test_cheats import CHEATS, Sample
from weft_case import environment

#: Candidates of one oracle, which loads PyTorch and the reference once for all.
GROUP_MAX = 5
#: A process with less time than this does not get to its first verdict.
LEAST_S = 5.0
#: How often a verdict that noise may have decided is asked for again.
ROUNDS_AGAIN = 2
HEADS = ("candidate", "cpu", "here", "compared", "as expected", "reason")

#: A candidate's line of `weft eval --json`.
Evaluation = dict[str, Any]
Group = tuple[str, list[Sample]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a file's name")
    parser.add_argument("--target", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="at the same time"
    )
    parser.add_argument("--seconds", type=float, default=290, help="end at the latest after this")
    parser.add_argument("--verdicts", metavar="FILE", help="append a JSON line for each verdict")
    parser.add_argument("--compare", metavar="FILE", help="what --verdicts kept on a CPU")
    parser.add_argument("--out", metavar="FILE", help="the table, as Markdown")
    return parser.parse_args()


def wanted(target: str, names: list[str]) -> list[Sample]:
    """All candidates that can run there, with what is expected of them there."""
    is_gpu = target == "cuda"
    found: list[Sample] = test_cheats.samples(CHEATS, is_gpu)
    if is_gpu:
        found += test_cheats.samples(os.path.join(CHEATS, "gpu"), is_gpu)
    return [s for s in found if not names or any(name in short(s.path) for name in names)]


def short(path: str) -> str:
    return os.path.relpath(path, CHEATS).removesuffix(".py")


def groups_of(samples: list[Sample], size_max: int) -> list[Group]:
    """The candidates by their references, the longest work first."""
    by_reference = collections.defaultdict(list)
    for sample in samples:
        by_reference[sample.reference].append(sample)
    groups = [
        (reference, found[first : first + size_max])
        for reference, found in by_reference.items()
        for first in range(0, len(found), size_max)
    ]
    return sorted(groups, key=lambda group: -len(group[1]))


class Judging:
    """Runs groups at the same time, and shows each verdict when it is there."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.target = options.target
        self.verdicts = options.verdicts
        self.end = time.monotonic() + options.seconds
        self.compared = read_verdicts(options.compare) if options.compare else None
        #: By the candidates' short names.
        self.found: dict[str, Evaluation] = {}
        self.errors: list[str] = []
        self.showing = threading.Lock()

    def judge(self, samples: list[Sample], jobs: int, size_max: int) -> None:
        groups = groups_of(samples, size_max)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(self.judge_group, *group) for group in groups]:
                done.result()

    def judge_group(self, reference: str, group: list[Sample]) -> None:
        by_path = {os.path.basename(sample.path): sample for sample in group}
        for evaluation in self.evaluations(reference, group):
            sample = by_path[os.path.basename(evaluation["candidate"])]
            with self.showing:
                self.found[short(sample.path)] = evaluation
                print(markdown(self.row(sample)), flush=True)
                if self.verdicts:
                    append(self.verdicts, short(sample.path), self.target, evaluation)

    def evaluations(self, reference: str, group: list[Sample]) -> Iterator[Evaluation]:
        """One process' verdicts, until it ends or the time is over."""
        left_s = self.end - time.monotonic()
        if left_s < LEAST_S:
            return
        words = test_cheats.command(reference, group, "--target", self.target)
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=said, text=True, env=environment()
            )
            # Interrupts it: then it ends its own processes.
            clock = threading.Timer(left_s, process.terminate)
            clock.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    evaluation = json.loads(line)
                    if "candidate" in evaluation and "verdict" in evaluation:
                        yield evaluation
                    else:
                        self.errors.append(f"{reference}: {line.strip()}")
                process.wait()
            finally:
                clock.cancel()
            said.seek(0)
            self.errors += [f"{reference}: {line.strip()}" for line in said if line.strip()]

    def again(self, samples: list[Sample]) -> list[Sample]:
        """Those without the expected verdict, where noise may be the reason."""
        return [
            sample
            for sample in samples
            if (found := self.found.get(short(sample.path))) is None
            or (sample.complaints(found) and sample.may_be_asked_again(found))
        ]

    def row(self, sample: Sample) -> list[str]:
        found = self.found.get(short(sample.path))
        if found is None:
            return [short(sample.path), self.cpu(sample)[0], "no verdict", "", "**no**", ""]
        cpu, is_accepted = self.cpu(sample)
        same = "" if is_accepted is None else "same"
        if is_accepted not in (None, found["accepted"]):
            same = "**different**"
        complaints = sample.complaints(found)
        return [
            short(sample.path),
            cpu,
            named(found["accepted"], found["verdict"]["kind"]),
            same,
            "**no**: " + "; ".join(complaints) if complaints else "yes",
            found["verdict"]["reason"] or found["remark"],
        ]

    def cpu(self, sample: Sample) -> tuple[str, bool | None]:
        """The CPU's verdict: as words, and whether it is accepted."""
        if self.compared is not None:
            found = self.compared.get(short(sample.path))
            if found is None:
                return "not judged", None
            return named(found["accepted"], found["kind"]), found["accepted"]
        if os.path.dirname(sample.path) != CHEATS:
            return "not judged", None
        expected = Sample(sample.path)
        is_accepted = expected.decision == "accepted"
        return named(is_accepted, " or ".join(expected.kinds)) + " (expected)", is_accepted


def named(is_accepted: bool, kind: str) -> str:
    return ("accepted" if is_accepted else "rejected") + (f" ({kind})" if kind else "")


def markdown(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def append(path: str, name: str, target: str, evaluation: Evaluation) -> None:
    line = {
        "name": name,
        "target": target,
        "accepted": evaluation["accepted"],
        "kind": evaluation["verdict"]["kind"],
        "reason": evaluation["verdict"]["reason"],
    }
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_verdicts(path: str) -> dict[str, Any]:
    """The last of each name counts: it may have been asked again."""
    with open(path, encoding="utf-8") as file:
        return {line["name"]: line for line in map(json.loads, file)}


def left_out(target: str) -> list[str]:
    """Candidates that are not judged there, with the reason."""
    lines = []
    for path in sorted(glob.glob(os.path.join(CHEATS, "*.py"))):
        sample = Sample(path)
        if target == "cuda" and sample.gpu == "host":
            lines.append(f"{short(path)}: works on host memory")
        elif sample.lacks():
            lines.append(f"{short(path)}: needs {' '.join(sample.lacks())}")
    return lines


def main() -> int:
    options = arguments()
    begun = time.monotonic()
    judging = Judging(options)
    samples = wanted(options.target, options.names)
    head = [markdown(list(HEADS)), "|---" * len(HEADS) + "|"]
    print("\n".join(head), flush=True)
    judging.judge(samples, options.jobs, GROUP_MAX)
    for _ in range(ROUNDS_AGAIN):
        if again := judging.again(samples):
            print(f"\nAgain: {', '.join(short(s.path) for s in again)}\n", flush=True)
            judging.judge(again, min(2, options.jobs), 1)
    rows = sorted((judging.row(sample) for sample in samples), key=lambda row: row[0])
    bad = [row for row in rows if row[4] != "yes"]
    other = [row for row in rows if row[3] == "**different**"]
    text = [
        *head,
        *map(markdown, rows),
        "",
        f"{len(rows)} candidates, {len(other)} judged otherwise than on the CPU, {len(bad)} not as"
        f" expected on this target; {time.monotonic() - begun:.0f} s with {options.jobs} at a time.",
        *(f"* not judged: {line}" for line in left_out(options.target) if not options.names),
        *(f"* {line}" for line in judging.errors[:20]),
    ]
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
    print("\n" + "\n".join([*head, *map(markdown, [*other, *(r for r in bad if r not in other)])]))
    print("\n".join(text[len(rows) + 2 :]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
