"""Sets the stage for timing: baseline process, buffers, data, expectations.

docs/explanation/timing.md says what is timed, and how. A bench (a subgraph's in
time_subgraph.py, a model's in time_model.py) is kept with its baseline process, because
torch.compile costs more than everything else together.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.build import built_code
from weft.candidate.baseline import COMPILE_MODES
from weft.candidate.harness import TELLS_BUILT_CODE
from weft.device.trace_spans import lap
from weft.timing.bench import Bench
from weft.timing.baseline_calls import BASELINE_START_MS, BASELINE_WALL_MS, BaselineLost
from weft.timing.rounds import Rounds, rejection
from weft.candidate.slot import CandidateFailed, Slot
from weft.device.arena_keeper import ArenaKeeper
from weft.judge.limits import Limits
from weft.timing.back_to_back import BackToBackTimes
from weft.timing.untimed_work import TooBusy

if TYPE_CHECKING:
    from weft.device.arena import Arena
    from weft.device.device import Device
    from weft.device.device_arena import DeviceArena
    from weft.judge.model_case import Seed
    from weft.oracle.replies import TimingReply


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

    def lend_compiled(
        self, make_bench: Callable[[], Bench], key: tuple[Any, ...], name: str
    ) -> Lent:
        """The process with Model as that baseline compiled it, to run it on
        what its arena holds; TimingFailed. It is to be closed."""
        bench = self._prepare(key, make_bench)
        self._begin_to_compile(bench, name)
        self._await_compiler(bench)
        return Lent(bench, self._baseline, name)

    def time(
        self,
        make_bench: Callable[[], Bench],
        key: tuple[Any, ...],
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

    def call(self, seed: Seed, steps: list[str]) -> dict[str, Any]:
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
