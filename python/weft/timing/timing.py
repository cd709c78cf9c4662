"""Sets the stage for timing: baseline process, buffers, data, expectations.

docs/explanation/timing.md says what is timed, and how. A bench (a subgraph's here, a
model's in time_model.py) is kept with its baseline process, because torch.compile costs
more than everything else together.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.build import built_code
from weft.expect import compare, inputs, perturbed_runs
from weft.device.arena import Arena, BufferSet
from weft.candidate.baseline import COMPILE_MODES
from weft.expect.expected import CaseMaker
from weft.candidate.gpu_package import KINDS
from weft.candidate.harness import BUILDS_WHEN_LOADED, TELLS_BUILT_CODE
from weft.device.trace_spans import lap
from weft.expect.reference import Reference, load_graph
from weft.timing.bench import Bench
from weft.timing.rounds import (
    BASELINE_START_MS,
    BASELINE_WALL_MS,
    BaselineLost,
    Rounds,
    ask_baseline,
    rejection,
)
from weft.candidate.slot import CandidateFailed, Slot
from weft.judge.verify_subgraph import ArenaKeeper, Limits
from weft.timing.back_to_back import BackToBackTimes
from weft.timing.untimed_work import Message, TooBusy, UntimedWork

if TYPE_CHECKING:
    import torch

    from weft.device.device import Device
    from weft.device.device_arena import DeviceArena
    from weft.oracle.replies import TimingReply

#: One message asks for so many calls that the way there and back is noise.
BATCH_TARGET_S = 0.002
BATCH_MAX = 64
#: Buffers for one batch; each call of a batch has its own.
BATCH_BYTES_MAX = 64 << 20
#: The same on a device, where emptying the caches takes longer than a call.
DEVICE_BATCH_MAX = 16
DEVICE_BATCH_BYTES_MAX = 4 << 30
#: Of a compared batch, so many calls are compared …
EXAMINED_MAX = 4
#: … two at least, the others while that has taken no longer: somebody may wait
#: for the device.
EXAMINED_MIN = 2
EXAMINE_S = 0.2


class TimingFailed(Exception):
    """There is nothing to hold the candidate against."""


class NotTimed(TimingFailed):
    """Noise hides what there is."""


class Timer:
    """Owns the baseline's process, which lives as long as its bench."""

    def __init__(self, slot: Slot, baseline: Slot, device: Device) -> None:
        self._slot, self._baseline = slot, baseline
        self._device, self._lock = device, device.lock
        self._keeper = ArenaKeeper(device)
        self._bench: Bench | None = None

    def close(self) -> None:
        self._baseline.kill()
        self._keeper.close()

    def forget(self) -> None:
        """Ends the bench and frees what it shared."""
        self._end_bench(more=False)
        self._baseline.forget_arena()
        self._slot.forget_arena()
        self._keeper.close()

    def forget_large(self) -> None:
        """The same, where others need the memory more."""
        is_large = self._bench is None or self._bench.is_large
        if is_large and self._keeper.is_large:
            self.forget()

    def time_subgraph(
        self,
        path: str,
        job: dict[str, Any],
        request: dict[str, Any],
        limits: Limits,
        like: list[compare.Expected] | None = None,
    ) -> TimingReply:
        """`like`: what a check expected of such data, if it is known."""
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        key = ("subgraph", digest, request.get("random_seed", 0))
        return self._time(
            key, lambda: SubgraphBench(path, key[2], self._device, like), job, request, limits
        )

    @property
    def is_starting(self) -> bool:
        """Whether `prepare` would have to wait for a process to begin."""
        return self._baseline.is_starting

    def prepare(
        self, make_bench: Callable[[], Bench], key: tuple[Any, ...], request: dict[str, Any]
    ) -> None:
        """The bench, with what is to be compiled of it on its way; a large
        one's to the end, for its memory goes before the next request."""
        bench = self._prepare(key, make_bench)
        for name in compiled_baselines(request):
            self._begin_to_compile(bench, name)
            # One that searches has its share of the device for as long.
            if name == "compile" and not bench.is_large:
                break
            self._await_compiler(bench)

    def time_model(
        self,
        make_bench: Callable[[], Bench],
        key: tuple[Any, ...],
        job: dict[str, Any],
        request: dict[str, Any],
        limits: Limits,
    ) -> TimingReply:
        return self._time(key, make_bench, job, request, limits)

    def lend_compiled(
        self, make_bench: Callable[[], Bench], key: tuple[Any, ...], name: str
    ) -> Lent:
        """The process with Model as that baseline compiled it, to run it on
        what its arena holds; TimingFailed. It is to be closed."""
        bench = self._prepare(key, make_bench)
        self._begin_to_compile(bench, name)
        self._await_compiler(bench)
        return Lent(bench, self._baseline, name)

    def _time(
        self,
        key: tuple[Any, ...],
        make_bench: Callable[[], Bench],
        job: dict[str, Any],
        request: dict[str, Any],
        limits: Limits,
    ) -> TimingReply:
        """docs/reference/worker-protocol.md's `timing`."""
        with contextlib.suppress(TimingFailed):  # begun for another request
            self._await_compiler(self._prepare(key, make_bench))
        bench = self._prepare(key, make_bench)
        names = compiled_baselines(request)
        for name in names[:1]:  # beside the candidate's beginning
            self._begin_to_compile(bench, name)
        # Not the request's seed: a candidate may know that one, and could work
        # out all that it is timed on before it is called.
        secret = random.SystemRandom().getrandbits(62)
        generator = self._device.generator(secret)
        budget_s = float(request.get("budget_ms", 2000)) / 1000
        is_right = False
        try:
            bench.begin(self._slot, job, limits)
            rounds = self._rounds(
                bench, ["eager", *(n for n in names if self._is_compiled(bench, n))], limits
            )
            with self._lock.exclusive():
                with lap("rounds"):
                    rounds.run(budget_s, generator, random.Random())
                row = BackToBackTimes()
                if rounds.is_right:
                    row = rounds.back_to_back(random.Random())
                if row.seconds:
                    rounds.look_again(generator, random.Random())
            is_right = rounds.is_right
            if row.ends_baseline:
                self._bench = None
            built = self._built_code(job, limits) if is_right else {}
        except BaselineLost as lost:
            self._bench = None
            raise TimingFailed(f"the baseline failed: {lost}") from None
        except CandidateFailed as ended:
            return rejection(ended.kind, ended.reason)
        finally:
            # After a module's timing a run is over.
            self._slot.dismiss(keep=is_right, more=job["kind"] != "model")
        try:
            timing = rounds.report()
            timing["rejected"] = timing["rejected"] or row.untimed_work(timing, bench.bytes_written)
            return {**row.lower(timing), "built": built, "lacks_float64": bench.lacks_float64}
        except TooBusy as busy:
            raise NotTimed(str(busy)) from None

    def _built_code(self, job: dict[str, Any], limits: Limits) -> dict[str, Any]:
        """What the candidate's kernels were built into, as it says itself: for
        whoever betters them. No verdict depends on it."""
        if job["kind"] not in TELLS_BUILT_CODE:
            return {}
        try:
            answer, _ = self._slot.call(limits.wall_ms, describes=True)
        except CandidateFailed:
            return {}
        return built_code.believed(answer.get("built"))

    def _rounds(self, bench: Bench, parties: list[str], limits: Limits) -> Rounds:
        if not self._device.is_cuda:
            return Rounds(self._slot, self._baseline, bench, parties, limits)
        from weft.timing.device_rounds import DeviceRounds

        return DeviceRounds(self._slot, self._baseline, bench, parties, limits, self._device)

    def _end_bench(self, more: bool) -> None:
        """The baseline's process may serve another, unless it has compiled:
        what that leaves is not known to be gone."""
        bench, self._bench = self._bench, None
        was_plain = bench is not None and not bench.compiling and not bench.compile_errors
        self._baseline.dismiss(keep=was_plain, more=more)

    def _prepare(self, key: tuple[Any, ...], make_bench: Callable[[], Bench]) -> Bench:
        if self._bench is not None and self._bench.key == key:
            return self._bench
        self._end_bench(more=True)
        try:
            with lap("bench"):
                bench = self._make(key, make_bench)
        except CandidateFailed as ended:
            raise TimingFailed(f"the baseline failed: {ended.reason}") from None
        self._bench = bench
        return bench

    def _make(self, key: tuple[Any, ...], make_bench: Callable[[], Bench]) -> Bench:
        self._baseline.settle()
        self._baseline.launch()  # which takes its time beside the next
        bench = make_bench()
        bench.key = key
        #: {baseline: empty, or why it could not be compiled} …
        bench.compile_errors = {}
        #: … and the one that is being compiled; then its process does only that.
        bench.compiling = ""
        bench.set_up(self._keeper, self._baseline, self._lock.released)
        return bench

    def _is_compiled(self, bench: Bench, name: str) -> bool:
        """Whether the compiled reference is ready; else why is kept."""
        self._begin_to_compile(bench, name)
        self._await_compiler(bench)
        return not bench.compile_errors[name]

    def _begin_to_compile(self, bench: Bench, name: str) -> None:
        if name in bench.compile_errors or name == bench.compiling:
            return
        self._await_compiler(bench)
        with self._ending():
            bench.begin_to_compile(self._baseline, name)
            bench.compiling = name

    def _await_compiler(self, bench: Bench) -> None:
        if not bench.compiling:
            return
        # Its process takes the lock when it needs it.
        with lap(bench.compiling), self._lock.released(), self._ending():
            answer, _ = self._baseline.collect(BASELINE_START_MS)
        error = str(answer.get("compile_error", ""))
        bench.compile_errors[bench.compiling] = error
        bench.compiling = ""

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """What it is for the bench if the baseline's process ends within."""
        try:
            yield
        except CandidateFailed as ended:
            # Eager's is gone with it: the bench starts anew.
            self._bench = None
            raise TimingFailed(f"torch.compile: {ended.reason}") from None


class Lent:
    """A model's bench for calls that are not timed."""

    def __init__(self, bench: Bench, baseline: Slot, name: str) -> None:
        self._bench, self._baseline, self._name = bench, baseline, name
        self.error = bench.compile_errors[name]

    @property
    def arena(self) -> Arena | DeviceArena:
        return self._bench.arena

    def call(self, seed: int, steps: list[str]) -> dict[str, Any]:
        """The answer of such a call, with all state from the arena."""
        return self._baseline.call(
            BASELINE_WALL_MS, steps=steps, seed=seed, parameters=True, function=self._name
        )[0]

    def rest(self) -> None:
        """Inputs and results of the last call go."""
        with contextlib.suppress(CandidateFailed):  # the next call tells
            self._baseline.call(BASELINE_WALL_MS, steps=["rest"])

    def close(self) -> None:
        """The bench is as it was."""
        with contextlib.suppress(CandidateFailed):  # then it starts anew
            self._bench.restore()


def compiled_baselines(request: dict[str, Any]) -> list[str]:
    """Those that it names, in the order that they are compiled in."""
    return [name for name in COMPILE_MODES if name in request.get("baselines", ())]


class SubgraphBench(Bench):
    """A subgraph's buffers, one set for each call of a batch."""

    warm_rounds = 1
    has_rows = False
    baseline_rested = False
    trusts_events = False

    def __init__(
        self, path: str, seed: int, device: Device, like: list[compare.Expected] | None = None
    ) -> None:
        self._path, self._device = path, device
        self.reference = Reference(load_graph(path), device.torch)
        self._maker = CaseMaker(self.reference, device)
        generator = device.generator(seed)
        self._base = self._maker.storages("normal", generator)
        self.calls = self._batch()
        specs = self.reference.inputs + self.reference.outputs
        self.bytes_floor = sum(s.touched_bytes for s in specs)
        self._order = list(range(self.calls))
        self._kept: dict[int, list[torch.Tensor]] = {}
        #: What was expected of a check's data, or of the first compared call's,
        #: less the tensors.
        self._like = like or []
        #: Whatever the algorithm: an input may rightly be read in part.
        self.bytes_written = sum(s.touched_bytes for s in self.reference.outputs)
        size = BufferSet.bytes_needed(self.reference.inputs, self.reference.outputs)
        self.is_large = device.is_large(size)
        #: Of a call's message on a device, where caches are emptied.
        self._flush = {"flush": True} if device.is_cuda else {}
        #: Of the candidate's. A device's allocator gives what it has kept.
        self._pays = self._flush or {"allocates": True}

    def _batch(self) -> int:
        """How many calls one message asks for: enough to drown the overhead."""
        views = self._maker.views(self._base)
        eager = self.reference.function()
        took = []
        for _ in range(3):
            start = time.perf_counter()
            eager(*views)
            self._device.synchronize()
            took.append(time.perf_counter() - start)
        size = BufferSet.bytes_needed(self.reference.inputs, self.reference.outputs)
        wanted = int(BATCH_TARGET_S / max(min(took), 1e-7))
        if self._device.is_cuda:
            # Two at least, so that pointers change, where there is room.
            room = DEVICE_BATCH_BYTES_MAX // size
            return max(1, min(max(wanted, 2), DEVICE_BATCH_MAX, room))
        return max(1, min(wanted, BATCH_MAX, BATCH_BYTES_MAX // size))

    def set_up(
        self,
        keeper: ArenaKeeper,
        baseline: Slot,
        released: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._sets, cursor = [], 0
        for _ in range(self.calls):
            buffer_set = BufferSet(cursor, self.reference.inputs, self.reference.outputs)
            self._sets.append(buffer_set)
            cursor = buffer_set.end
        self._baseline = baseline
        self._arena = keeper.of(cursor)
        self._arena.clear()
        for set_ in self._sets:
            set_.bind(self._arena)
            set_.write_inputs(self._base)
        job = {"kind": "reference", "graph": self._path, **self._places()}
        with released():  # nobody waits while its process starts
            baseline.begin(job, self._arena, Limits(BASELINE_START_MS, 0, False))

    @property
    def lacks_float64(self) -> bool:
        """Whether there was no room for it."""
        return self._maker.lacks_float64

    def _rest(self) -> None:
        """The baseline's spare memory, before float64 needs it."""
        if self.is_large:
            ask_baseline(self._baseline, sets=[], rest=True)
            self.baseline_rested = True

    def _places(self) -> dict[str, Any]:
        return {"sizes": self.reference.sizes, "sets": [s.to_json() for s in self._sets]}

    def begin(self, slot: Slot, job: dict[str, Any], limits: Limits) -> None:
        # A package is a list of launches, which our code makes.
        self.trusts_events = job["kind"] in KINDS
        job = {**job, **self._places()}
        if self._device.is_cuda or job["kind"] in BUILDS_WHEN_LOADED:
            limits = limits.for_job(job, self._device)
        slot.begin(job, self._arena, limits)

    def begin_to_compile(self, baseline: Slot, name: str) -> None:
        baseline.ask(sets=[0], function=name)

    def refresh(self, generator: torch.Generator, dice: random.Random) -> None:
        dice.shuffle(self._order)
        self._kept.clear()
        for index, one in enumerate(self._sets):
            fresh = [
                inputs.freshen(storage, spec.dtype, generator)
                for storage, spec in zip(self._base, self.reference.inputs)
            ]
            one.write_inputs(fresh)
            one.fill_outputs()
            self._kept[index] = fresh

    def call_candidate(self, slot: Slot, wall_ms: int) -> tuple[dict[str, Any], float]:
        # A batch is of calls that take milliseconds together: what a single one
        # may take is more than it needs.
        return slot.call(wall_ms, sets=self._order, **self._pays)

    def untimed_work(self, timed: list[Message]) -> UntimedWork:
        return UntimedWork()  # a kernel finds its buffers filled, and fills them

    def call_empty(self, baseline: Slot, party: str) -> tuple[dict[str, Any], float]:
        return baseline.call(BASELINE_WALL_MS, sets=[], function=party)

    def call_baseline(self, baseline: Slot, party: str) -> tuple[dict[str, Any], float]:
        return baseline.call(BASELINE_WALL_MS, sets=self._order, function=party, **self._flush)

    def examine(self, slot: Slot, limits: Limits, dice: random.Random) -> tuple[int, str]:
        """(calls compared, why one was wrong)."""
        until = time.monotonic() + EXAMINE_S
        chosen = dice.sample(self._order, min(EXAMINED_MAX, self.calls))
        for compared, index in enumerate(chosen, 1):
            one, kept = self._sets[index], self._kept[index]
            wrong = one.out_of_bounds_write(kept)
            if wrong:
                raise CandidateFailed("cheated", wrong)
            reason = self._reason(one.output_views, kept)
            if reason:
                return compared, reason
            if compared >= EXAMINED_MIN and time.monotonic() > until:
                break
        return compared, ""

    def _reason(self, views: list[torch.Tensor], kept: list[torch.Tensor]) -> str:
        """Why these results of those inputs are wrong, or "". float64 takes
        longer than all the rest: mostly one look at it is enough."""
        if self._like and self._are_near(views, kept):
            return ""
        self._rest()
        made = self._maker.expect(kept)
        self._like = [one.without_tensors() for one in made]
        reason = perturbed_runs.PerturbedRuns(
            made, lambda factor: self._maker.expect_scaled(kept, factor)
        ).first_reason(views)
        if self.is_large:
            del made
            self._device.give_back()  # the baseline needs it again
        return reason

    def _are_near(self, views: list[torch.Tensor], kept: list[torch.Tensor]) -> bool:
        try:
            near = self._maker.expect_near(kept, self._like)
            return not compare.first_reason(views, near)
        except RuntimeError:
            # Out of memory, or what a library makes of that: there is more
            # once the baseline rests. What else it is, it will be again.
            return False
