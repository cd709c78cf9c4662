"""Runs weft on PyTorch's own operator tests. Each operator's samples are tried in several
layouts, some with special numbers, as pieces of a model. Prints a table of what a target
lowers, leaves to PyTorch, or computes otherwise.

    benchmarks/opinfo.py [--target cpu] [--device cuda] [--dtypes float32,int64]
        [--samples N | --cases-max N] [--gradients] [--cases FILE] [--out FILE]
        [--processes N] [--shard I/N] [--seconds S] [OPERATOR ...]
    benchmarks/opinfo.py --summary FILE ...

Targets: capture (no kernels: the whole capture, compared with eager), cpu (built here),
triton (in Triton's interpreter), cuda (the kernels' text, run on the host). With --device
cuda, the last two run on this machine's GPU, and capture captures there. All but capture
want the code generators' test programs in build/ (tests/compiler/tools). All samples of all
operators take hours of one core: --shard 2/5 runs every fifth part, and --cases appends
what each case became, of which --summary makes one table. Exits with 1 where something
differs, crashes or is refused with an error of Python's own.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import os
import random
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "python")]

import worker_processes

OUTCOMES = ("captured", "lowered", "pytorch", "differs", "refused", "internal", "crashed")
FAULTS = ("differs", "internal", "crashed")
TARGETS = ("capture", "cpu", "triton", "cuda")
#: The samples of one part, whose kernels are built together.
SAMPLES_AT_ONCE = 48
#: The same with a GPU, where Triton's compiler takes a second for each.
SAMPLES_AT_ONCE_ON_GPU = 16

#: One case: (name, outcome, reason).
Found = tuple[str, str, str]
#: Some samples of one operator: its name, the first and the last one's successor.
Samples = tuple[str, int, int]


def shard(text: str) -> tuple[int, int]:
    """(I, N) of "I/N", where 1 <= I <= N; ValueError else."""
    index, shards = map(int, text.split("/"))
    if not 1 <= index <= shards:
        raise ValueError(text)
    return index, shards


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "operators", nargs="*", metavar="OPERATOR", help="only these (all); or the names of cases"
    )
    parser.add_argument("--target", choices=TARGETS, default="cpu")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,int64")
    parser.add_argument(
        "--samples",
        type=int,
        help="of an operator, at most (all, and each again with "
        "gaps between its elements and with its channels last)",
    )
    parser.add_argument(
        "--cases-max", type=int, help="of an operator: samples in all layouts, evenly chosen"
    )
    parser.add_argument(
        "--gradients", action="store_true", help="the operators' derivatives instead"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--shard", type=shard, metavar="I/N", help="the I-th of N equal parts, from 1"
    )
    parser.add_argument("--seconds", type=float, help="begin nothing later than this")
    parser.add_argument("--out", help="the table, as Markdown")
    parser.add_argument(
        "--cases", metavar="FILE", help="append a JSON line for each case when its part ends"
    )
    parser.add_argument(
        "--summary", nargs="+", metavar="FILE", help="one table of what --cases wrote"
    )
    return parser.parse_args()


def table(title: str, found: list[Found]) -> str:
    """Markdown: how many of each, and every operator that differs."""
    counts = collections.Counter(outcome for _, outcome, _ in found)
    lines = [
        f"## {title}",
        "",
        "| " + " | ".join(OUTCOMES) + " |",
        "|---" * len(OUTCOMES) + "|",
        "| " + " | ".join(str(counts[o]) for o in OUTCOMES) + " |",
        "",
    ]
    for outcome in ("differs", "crashed", "internal", "refused", "pytorch"):
        names = collections.defaultdict(set)
        for name, got, reason in found:
            if got == outcome:
                names[name if outcome in FAULTS else operator_of(name)].add(reason)
        if names:
            lines += [f"### {outcome}", "", "| operator | why |", "|---|---|"]
            lines += [
                f"| {name} | {'; '.join(sorted(reasons))[:160]} |"
                for name, reasons in sorted(names.items())
            ] + [""]
    return "\n".join(lines)


def operator_of(case: str) -> str:
    return case.rsplit(".", 1)[0]


def is_case(word: str) -> bool:
    """Whether that is "add.3", "add.3+gaps" and the like, of `operator_of` it."""
    return re.fullmatch(r".+\.\d+(\+\w+)*", word) is not None


def crashed_case(
    name: str,
    operator: str,
    index: int,
    samples: int | None,
    gradients: bool,
    cases_max: int | None,
) -> str:
    """The name of the case whose process ended, as it has when it is run alone."""
    import torch

    import opinfo_cases

    dtype = getattr(torch, name)
    return opinfo_cases.case_name(dtype, operator, index, samples, cases_max, gradients)


def summary(paths: list[str]) -> str:
    """Markdown: a line for each target and type of those files' cases, the last of
    which counts where a case was run again, then every fault."""
    last: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                target = row["target"] + ("" if row.get("device", "cpu") == "cpu" else " on GPU")
                last[target, row["dtype"], row["case"]] = row
    groups = collections.defaultdict(list)
    for (target, dtype, case), row in last.items():
        kind = "derivatives" if case.endswith("+gradient") else "forward"
        groups[target, kind, dtype].append(row)
    heads = ("target", "", "dtype", "operators", "cases", *OUTCOMES)
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for key, rows in sorted(groups.items()):
        counts = collections.Counter(row["outcome"] for row in rows)
        numbers = [len({operator_of(row["case"]) for row in rows}), len(rows)]
        numbers += [counts[outcome] for outcome in OUTCOMES]
        lines.append("| " + " | ".join([*key, *map(str, numbers)]) + " |")
    faults = [(key, row) for key, row in sorted(last.items()) if row["outcome"] in FAULTS]
    lines += ["", *(f"* {' '.join(key)}: {row['outcome']}: {row['reason']}" for key, row in faults)]
    return "\n".join(lines)


def count(
    name: str,
    operators: list[str],
    samples: int | None,
    gradients: bool,
    cases_max: int | None,
) -> list[int]:
    """How many samples each of those has of that type."""
    import torch

    import opinfo_cases

    torch.set_num_threads(1)
    dtype = getattr(torch, name)
    return [
        sum(
            len(opinfo_cases.tried_samples_of(op, dtype, samples, cases_max, gradients))
            for op in opinfo_cases.tests_of(dtype, operator)
        )
        for operator in operators
    ]


def outcomes_of(
    target: str,
    device: str,
    name: str,
    wanted: list[Samples],
    samples: int | None,
    threads: int,
    gradients: bool,
    cases_max: int | None,
) -> list[Found]:
    """The outcomes of those samples of one type."""
    if target == "triton" and device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before torch asks for Triton
    import torch

    import opinfo_cases

    torch.set_num_threads(threads)
    dtype = getattr(torch, name)
    cases = []
    for operator, first, last in wanted:
        for op in opinfo_cases.tests_of(dtype, operator):
            which = slice(max(first, 0), max(last, 0))
            cases += opinfo_cases.cases_of(
                op, dtype, samples, gradients=gradients, cases_max=cases_max, which=which
            )
            # The numbers of tests with the same name run on.
            size = len(opinfo_cases.tried_samples_of(op, dtype, samples, cases_max, gradients))
            first, last = first - size, last - size
    if target == "capture":
        import opinfo_capture

        return opinfo_capture.outcomes(
            cases, torch.device("cuda", 0) if device == "cuda" else torch.device("cpu")
        )
    return opinfo_cases.outcomes(opinfo_cases.variant_of(target, device), cases)


def names_of(target: str, name: str, wanted: set[str] | None) -> list[str]:
    """The names of operators that take that type, with their variants, each
    once. `wanted`: names of operators, or of cases that a run printed."""
    import torch

    import opinfo_cases

    left_out = opinfo_cases.LEFT_OUT if target != "capture" else ()
    if wanted is not None:
        wanted |= {operator_of(one) for one in wanted if is_case(one)}
    return list(
        dict.fromkeys(
            op.full_name for op in opinfo_cases.operators(getattr(torch, name), wanted, left_out)
        )
    )


def parts_of(counts: Iterable[tuple[str, int]], at_once: int) -> list[list[Samples]]:
    """All samples of those operators in parts of `at_once` samples. Their order mixes
    the operators and is always the same."""
    parts: list[list[Samples]] = []
    part: list[Samples] = []
    room = at_once
    for name, samples in counts:
        first = 0
        while first < samples:
            last = min(samples, first + room)
            part.append((name, first, last))
            room -= last - first
            first = last
            if room == 0:
                parts.append(part)
                part, room = [], at_once
    if part:
        parts.append(part)
    random.Random(0).shuffle(parts)
    return parts


def halves(part: list[Samples]) -> list[list[Samples]]:
    """That part as two, or none where it is one sample."""
    if len(part) > 1:
        middle = len(part) // 2
        return [part[:middle], part[middle:]]
    name, first, last = part[0]
    if last - first < 2:
        return []
    middle = (first + last) // 2
    return [[(name, first, middle)], [(name, middle, last)]]


class Run:
    """The samples of one target, as the options say."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.threads = max(1, (os.cpu_count() or 2) // options.processes)
        self.end = time.monotonic() + (options.seconds or math.inf)
        self.what = (options.samples, options.gradients, options.cases_max)

    def counts(self, name: str) -> list[tuple[str, int]]:
        names = names_of(self.options.target, name, set(self.options.operators) or None)
        # Neighbours are relatives, some with far more samples than others.
        parts = [
            (name, names[i :: 4 * self.options.processes], *self.what)
            for i in range(4 * self.options.processes)
        ]
        counts: dict[str, int] = {}
        for part, answer in worker_processes.answers(count, parts, self.options.processes):
            if isinstance(answer, worker_processes.Ended):
                raise answer
            counts.update(zip(part[1], answer, strict=True))
        return [(one, counts[one]) for one in names]

    def parts(self, name: str) -> list[list[Samples]]:
        on_gpu = self.options.device == "cuda"
        parts = parts_of(self.counts(name), SAMPLES_AT_ONCE_ON_GPU if on_gpu else SAMPLES_AT_ONCE)
        if not self.options.shard:
            return parts
        index, shards = self.options.shard
        return parts[index - 1 :: shards]

    def found(self, name: str) -> Iterator[list[Found]]:
        """Each part's cases, of that type. A part whose process ends, or loses its
        GPU, is halved until there is one sample to blame."""
        waiting, options = self.parts(name), self.options
        done, total = 0, len(waiting)
        samples, gradients, cases_max = self.what
        while waiting:
            answers = worker_processes.answers(
                outcomes_of,
                [
                    (
                        options.target,
                        options.device,
                        name,
                        part,
                        samples,
                        self.threads,
                        gradients,
                        cases_max,
                    )
                    for part in waiting
                ],
                options.processes,
                self.end - time.monotonic(),
                is_gpu_lost,
            )
            broken, crashed = [], []
            for part, answer in answers:
                done += 1
                is_over = isinstance(answer, worker_processes.Ended)
                if (is_over or is_gpu_lost(answer)) and (smaller := halves(part[3])):
                    broken += smaller
                elif not is_over:
                    yield answer
                else:
                    ((operator, first, _),) = part[3]
                    crashed.append(((name, operator, first, *self.what), str(answer)))
                print(f"{name}: {done} of {total} parts", file=sys.stderr, flush=True)
            if crashed:
                yield from self.named(crashed)
            waiting = broken
            total += len(broken)
        if done < total:
            print(f"{name}: {total - done} parts were left out: no time", flush=True)

    def named(self, crashed: list[tuple[tuple[Any, ...], str]]) -> Iterator[list[Found]]:
        """Those cases. Their names are found by other processes: this one has no
        samples."""
        reasons = dict(crashed)
        answers = worker_processes.answers(crashed_case, list(reasons), self.options.processes)
        for part, answer in answers:
            _, operator, index, *_ = part
            is_over = isinstance(answer, worker_processes.Ended)
            case = f"{operator}.sample-{index}" if is_over else answer
            yield [(case, "crashed", reasons[part])]


def is_gpu_lost(found: list[Found]) -> bool:
    """Whether nothing more can be computed by the process that found that."""
    return any("CUDA error" in reason for _, _, reason in found)


def append_cases(options: argparse.Namespace, dtype: str, found: list[Found]) -> None:
    import opinfo_capture

    opinfo_capture.append(
        options.cases,
        (
            {
                "target": options.target,
                "device": options.device,
                "dtype": dtype,
                "case": case,
                "outcome": outcome,
                "reason": reason,
            }
            for case, outcome, reason in found
        ),
    )


def main() -> int:
    options = arguments()
    if options.summary:
        print(summary(options.summary))
        return 0
    import torch

    run = Run(options)
    text = [f"# OpInfo, target {options.target} on {options.device}, PyTorch {torch.__version__}"]
    faults = 0
    for name in options.dtypes.split(","):
        found = []
        for ended in run.found(name):
            found += ended
            if options.cases:
                append_cases(options, name, ended)
        faults += sum(outcome in FAULTS for _, outcome, _ in found)
        text.append(table(name, found))
        print(text[-1], flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n\n".join(text) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
