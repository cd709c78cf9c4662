"""Times one candidate against the framework, interleaved (docs/verdict.md).

The oracle's clock decides: from sending a call to its answer, less what an
empty call costs. The candidate's own clock is only compared with it.
"""

import random
import statistics
import time
from dataclasses import dataclass

import torch

from . import compare, inputs
from .arena import BufferSet
from .expected import CaseMaker
from .reference import Reference, load_graph
from .slot import Ended, Slot
from .verify import ArenaKeeper, Limits

#: One message asks for so many calls that the way there and back is noise.
BATCH_TARGET_S = 0.002
BATCH_MAX = 64
#: Buffers for one batch; each call of a batch has its own.
BATCH_BYTES_MAX = 64 << 20
ROUNDS_MIN = 3
ROUNDS_MAX = 400
#: Share of the rounds whose outputs are compared, chosen at random.
CHECKED_SHARE = 0.25
CHECKED_MAX = 40
COMPILE_TIMEOUT_MS = 300_000
#: Outside over inside time; a candidate beyond this many times what the
#: trusted baseline shows in the same rounds has tampered with its clock.
CLOCK_RATIO_MAX = 3.0
CLOCK_SLACK_S = 0.001


class TimingFailed(Exception):
    """The candidate did not survive its timing."""


@dataclass
class Bench:
    """Buffers and baseline process for one subgraph, kept for the next."""

    key: tuple
    reference: Reference
    maker: CaseMaker
    sets: list
    arena: object
    base: list  # storages that every round's data is made from
    has_compiled: bool = False
    compile_error: str = ""


class Timer:
    """Owns the baseline's process, which lives as long as the subgraph."""

    def __init__(self, slot, threads, environment):
        self._slot = slot
        self._baseline = Slot([], threads, environment)
        self._keeper = ArenaKeeper()
        self._bench = None

    def close(self):
        self._baseline.kill()
        self._keeper.close()

    def time_subgraph(self, path, job, seed, limits, baselines, budget_ms):
        """docs/worker-protocol.md's `timing`."""
        generator = torch.Generator().manual_seed(seed)
        bench = self._prepare(path, seed, generator)
        names = ["eager"]
        if "compile" in baselines and self._compile(bench):
            names.append("compile")
        until = time.monotonic() + budget_ms / 1000
        try:
            described = {**job, "sets": [s.to_json() for s in bench.sets]}
            self._slot.begin(described, bench.arena, limits)
            rounds = Rounds(self._slot, self._baseline, bench, names, limits)
            rounds.run(until, generator, random.Random(seed))
        except Ended as ended:
            raise TimingFailed(f"{ended.kind}: {ended.reason}") from None
        finally:
            self._slot.end()
        return rounds.report(bench)

    def _prepare(self, path, seed, generator):
        with open(path, "rb") as file:
            key = (file.read(), seed)
        if self._bench is not None and self._bench.key == key:
            return self._bench
        self._bench = None
        self._baseline.end()
        reference = Reference(load_graph(path))
        maker = CaseMaker(reference)
        base = maker.storages("normal", generator)
        count = _batch(maker, reference, base)
        sets, cursor = [], 0
        for _ in range(count):
            sets.append(BufferSet(cursor, reference.inputs, reference.outputs))
            cursor = sets[-1].end
        arena = self._keeper.of(cursor)
        arena.clear()
        for one in sets:
            one.bind(arena)
            one.write_inputs(base)
        places = [s.to_json() for s in sets]
        job = {"kind": "reference", "graph": path, "sets": places}
        free = Limits(COMPILE_TIMEOUT_MS, 0, False)
        try:
            self._baseline.begin(job, arena, free)
            self._baseline.call(COMPILE_TIMEOUT_MS, sets=[0], function="eager")
        except Ended as ended:
            raise TimingFailed(f"the baseline failed: {ended.reason}") from None
        self._bench = Bench(key, reference, maker, sets, arena, base)
        return self._bench

    def _compile(self, bench):
        """Whether the compiled reference is ready; else why is kept."""
        if bench.has_compiled or bench.compile_error:
            return bench.has_compiled
        try:
            answer, _ = self._baseline.call(
                COMPILE_TIMEOUT_MS, sets=[0], function="compile"
            )
            bench.compile_error = str(answer.get("compile_error", ""))
        except Ended as ended:
            raise TimingFailed(f"torch.compile: {ended.reason}") from None
        bench.has_compiled = not bench.compile_error
        return bench.has_compiled


def _batch(maker, reference, base):
    """How many calls one message asks for: enough to drown the overhead."""
    views = [s.view(t) for s, t in zip(reference.inputs, base)]
    eager = reference.function()
    took = []
    for _ in range(3):
        start = time.perf_counter()
        eager(*views)
        took.append(time.perf_counter() - start)
    size = BufferSet.bytes_needed(reference.inputs, reference.outputs)
    wanted = int(BATCH_TARGET_S / max(min(took), 1e-7))
    return max(1, min(wanted, BATCH_MAX, BATCH_BYTES_MAX // size))


class Rounds:
    """Rounds of one call each: candidate, eager, compiled, in random order."""

    def __init__(self, slot, baseline, bench, names, limits):
        self._slot, self._baseline = slot, baseline
        self._bench, self._limits = bench, limits
        self._parties = ["candidate", *names]
        self._empty = []
        self._times = {name: [] for name in self._parties}
        self._clocks = {name: [] for name in self._parties}
        self._outputs_checked = 0
        self._outputs_wrong = 0
        self._reason = ""

    def run(self, until, generator, dice):
        for number in range(-1, ROUNDS_MAX):
            if number >= ROUNDS_MIN and time.monotonic() > until:
                break
            # Round -1 warms caches and threads, and is not counted; it is
            # checked like any other, so that it cannot be told apart.
            self._round(number, generator, dice)

    def _round(self, number, generator, dice):
        bench = self._bench
        order = list(range(len(bench.sets)))
        dice.shuffle(order)
        kept = {}
        for index, one in enumerate(bench.sets):
            specs = bench.reference.inputs
            fresh = [inputs.freshen(b, s.dtype, generator)
                     for b, s in zip(bench.base, specs)]
            one.write_inputs(fresh)
            one.fill_outputs()
            kept[index] = fresh
        parties = self._parties[:]
        dice.shuffle(parties)
        for party in parties:
            if party == "candidate":
                seconds = self._time_candidate(order)
            else:
                seconds = self._time_baseline(party, order)
            if number >= 0:
                self._times[party].append(seconds / len(order))
        is_early = number < ROUNDS_MIN
        if is_early or dice.random() < CHECKED_SHARE:
            if self._outputs_checked < CHECKED_MAX:
                self._examine(dice.choice(order), kept)

    def _time_candidate(self, order):
        answer, seconds = self._slot.call(
            self._limits.wall_ms * len(order), sets=order
        )
        inside = answer.get("ns")
        if type(inside) is not int or inside < 0:
            raise Ended("cheated", "the candidate gave no time of its own")
        self._clocks["candidate"].append((seconds, inside / 1e9))
        return seconds

    def _time_baseline(self, party, order):
        _, empty = self._baseline.call(
            COMPILE_TIMEOUT_MS, sets=[], function=party
        )
        answer, seconds = self._baseline.call(
            COMPILE_TIMEOUT_MS, sets=order, function=party
        )
        self._clocks[party].append((seconds, answer["ns"] / 1e9))
        self._empty.append(empty)
        return seconds

    def _examine(self, index, kept):
        """Holds the outputs of one timed call against the reference."""
        one = self._bench.sets[index]
        wrong = one.trespass(kept[index])
        if wrong:
            raise Ended("cheated", wrong)
        self._outputs_checked += 1
        wants = self._bench.maker.expect(kept[index])
        for x, made in zip(one.output_views, wants):
            finding = compare.compare(x, made)
            if finding.reason:
                self._outputs_wrong += 1
                self._reason = f"a timed call was wrong: {finding.reason}"
                return

    def report(self, bench):
        overhead = statistics.median(self._empty)
        calls = len(bench.sets)
        ratio, gap = self._clock("candidate", overhead)
        usual, _ = self._clock("eager", overhead)
        kind, reason = ("wrong", self._reason) if self._reason else ("correct", "")
        if ratio > CLOCK_RATIO_MAX * max(usual, 1.0) and gap > CLOCK_SLACK_S:
            kind = "cheated"
            reason = f"its own clock says {1 / ratio:.2f} of what passed outside"
        specs = bench.reference.inputs + bench.reference.outputs
        return {
            "candidate": summary(self._times["candidate"], overhead / calls),
            "eager": summary(self._times["eager"], overhead / calls),
            "compile": summary(self._times["compile"], overhead / calls)
            if "compile" in self._times
            else None,
            "compile_error": bench.compile_error,
            "outputs_checked": self._outputs_checked,
            "outputs_wrong": self._outputs_wrong,
            "clock_ratio": ratio,
            "bytes_floor": sum(s.storage_bytes for s in specs),
            "overhead_us": overhead * 1e6,
            "calls_per_run": calls,
            "kind": kind,
            "reason": reason,
        }

    def _clock(self, party, overhead):
        """(outside over inside time, outside less inside) of one message."""
        both = self._clocks[party]
        outside = statistics.median(max(0.0, s - overhead) for s, _ in both)
        inside = statistics.median(s for _, s in both)
        return outside / max(inside, 1e-9), outside - inside


def summary(seconds, overhead):
    """T of docs/worker-protocol.md, the empty call's cost taken off."""
    net = sorted(max(s - overhead, 1e-9) * 1e6 for s in seconds)
    last = len(net) - 1
    return {
        "median_us": statistics.median(net),
        "p10_us": net[round(0.1 * last)],
        "p90_us": net[round(0.9 * last)],
        "runs": len(net),
    }
