"""Sets the stage for timing: baseline process, buffers, data, expectations.

What is timed, how and against what: docs/verdict.md. A bench (a subgraph's
here, a model's in time_model.py) is kept with its baseline process, because
torch.compile costs more than everything else together.
"""

import hashlib
import random
import time

import torch

from . import compare, inputs
from .arena import BufferSet
from .expected import CaseMaker
from .reference import Reference, load_graph
from .rounds import BASELINE_WALL_MS, BaselineLost, Rounds, rejection
from .slot import Ended, Slot
from .verify import ArenaKeeper, Limits

#: One message asks for so many calls that the way there and back is noise.
BATCH_TARGET_S = 0.002
BATCH_MAX = 64
#: Buffers for one batch; each call of a batch has its own.
BATCH_BYTES_MAX = 64 << 20
#: Of a compared batch, so many calls are compared.
EXAMINED_MAX = 4


class TimingFailed(Exception):
    """There is nothing to hold the candidate against."""


class Timer:
    """Owns the baseline's process, which lives as long as its bench."""

    def __init__(self, slot, threads, environment):
        self._slot = slot
        self._baseline = Slot([], threads, environment)
        self._keeper = ArenaKeeper()
        self._bench = None

    def close(self):
        self._baseline.kill()
        self._keeper.close()

    def time_subgraph(self, path, job, request, limits):
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        key = ("subgraph", digest, request.get("seed", 0))
        return self._time(key, lambda: SubgraphBench(path, key[2]), job,
                          request, limits)

    def time_model(self, make_bench, key, job, request, limits):
        return self._time(key, make_bench, job, request, limits)

    def _time(self, key, make_bench, job, request, limits):
        """docs/worker-protocol.md's `timing`."""
        bench = self._prepare(key, make_bench)
        parties = ["eager"]
        if "compile" in request.get("baselines", ()) and self._compile(bench):
            parties.append("compile")
        seed = request.get("seed", 0)
        generator = torch.Generator().manual_seed(seed)
        budget_s = float(request.get("budget_ms", 2000)) / 1000
        rounds = Rounds(self._slot, self._baseline, bench, parties, limits)
        try:
            bench.begin(self._slot, job, limits)
            rounds.run(budget_s, generator, random.Random())
        except BaselineLost as lost:
            self._bench = None
            raise TimingFailed(f"the baseline failed: {lost}") from None
        except Ended as ended:
            return rejection(ended.kind, ended.reason)
        finally:
            self._slot.end()
        return rounds.report()

    def _prepare(self, key, make_bench):
        if self._bench is not None and self._bench.key == key:
            return self._bench
        self._bench = None
        self._baseline.end()
        bench = make_bench()
        bench.key = key
        bench.has_compiled, bench.compile_error = False, ""
        try:
            bench.set_up(self._keeper, self._baseline)
        except Ended as ended:
            raise TimingFailed(f"the baseline failed: {ended.reason}") from None
        self._bench = bench
        return bench

    def _compile(self, bench):
        """Whether the compiled reference is ready; else why is kept."""
        if bench.has_compiled or bench.compile_error:
            return bench.has_compiled
        try:
            answer = bench.compile(self._baseline)
            bench.compile_error = str(answer.get("compile_error", ""))
        except Ended as ended:
            # The process is gone, and eager's with it: the bench starts anew.
            self._bench = None
            raise TimingFailed(f"torch.compile: {ended.reason}") from None
        bench.has_compiled = not bench.compile_error
        return bench.has_compiled


class SubgraphBench:
    """A subgraph's buffers, one set for each call of a batch."""

    def __init__(self, path, seed):
        self._path = path
        self.reference = Reference(load_graph(path))
        self._maker = CaseMaker(self.reference)
        generator = torch.Generator().manual_seed(seed)
        self._base = self._maker.storages("normal", generator)
        self.calls = self._batch()
        specs = self.reference.inputs + self.reference.outputs
        self.bytes_floor = sum(s.storage_bytes for s in specs)
        self._order = list(range(self.calls))
        self._kept = {}

    def _batch(self):
        """How many calls one message asks for: enough to drown the overhead."""
        views = self._maker.views(self._base)
        eager = self.reference.function()
        took = []
        for _ in range(3):
            start = time.perf_counter()
            eager(*views)
            took.append(time.perf_counter() - start)
        size = BufferSet.bytes_needed(self.reference.inputs, self.reference.outputs)
        wanted = int(BATCH_TARGET_S / max(min(took), 1e-7))
        return max(1, min(wanted, BATCH_MAX, BATCH_BYTES_MAX // size))

    def set_up(self, keeper, baseline):
        self._sets, cursor = [], 0
        for _ in range(self.calls):
            made = BufferSet(cursor, self.reference.inputs, self.reference.outputs)
            self._sets.append(made)
            cursor = made.end
        self._arena = keeper.of(cursor)
        self._arena.clear()
        for one in self._sets:
            one.bind(self._arena)
            one.write_inputs(self._base)
        job = {"kind": "reference", "graph": self._path, **self._places()}
        baseline.begin(job, self._arena, Limits(BASELINE_WALL_MS, 0, False))

    def _places(self):
        return {"sets": [s.to_json() for s in self._sets]}

    def begin(self, slot, job, limits):
        slot.begin({**job, **self._places()}, self._arena, limits)

    def compile(self, baseline):
        answer, _ = baseline.call(BASELINE_WALL_MS, sets=[0], function="compile")
        return answer

    def refresh(self, generator, dice):
        dice.shuffle(self._order)
        for index, one in enumerate(self._sets):
            fresh = [
                inputs.freshen(storage, spec.dtype, generator)
                for storage, spec in zip(self._base, self.reference.inputs)
            ]
            one.write_inputs(fresh)
            one.fill_outputs()
            self._kept[index] = fresh

    def call_candidate(self, slot, wall_ms):
        return slot.call(wall_ms * self.calls, sets=self._order)

    def off_clock_s(self):
        return 0.0  # a kernel finds its buffers filled, and fills them

    def call_empty(self, baseline, party):
        return baseline.call(BASELINE_WALL_MS, sets=[], function=party)

    def call_baseline(self, baseline, party):
        return baseline.call(BASELINE_WALL_MS, sets=self._order, function=party)

    def examine(self, slot, limits, dice):
        """(calls compared, why one was wrong)."""
        chosen = dice.sample(self._order, min(EXAMINED_MAX, self.calls))
        for index in chosen:
            one, kept = self._sets[index], self._kept[index]
            wrong = one.trespass(kept)
            if wrong:
                raise Ended("cheated", wrong)
            for x, made in zip(one.output_views, self._maker.expect(kept)):
                reason = compare.compare(x, made).reason
                if reason:
                    return len(chosen), reason
        return len(chosen), ""
