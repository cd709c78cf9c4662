"""The bench for a whole model: Model eager and compiled against ModelNew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from weft.expect import inputs
from weft.device.trace_spans import lap
from weft.timing.bench import Bench
from weft.timing.baseline_calls import (
    BASELINE_START_MS,
    BASELINE_WALL_MS,
    BaselineLost,
    ask_baseline,
)
from weft.timing.untimed_work import (
    CallMessages,
    Message,
    UntimedWork,
    untimed_work,
    untimed_work_by,
)
from weft.candidate.slot import CandidateFailed, Slot
from weft.judge.limits import Limits
from weft.judge.model_case import RunData
from weft.judge.verify_model import begin, hold_kernels, layout_difference

if TYPE_CHECKING:
    import contextlib
    import random

    from weft.device.arena import Arena
    from weft.device.device_arena import DeviceArena
    from weft.device.arena_keeper import ArenaKeeper
    from weft.judge.whole_model import WholeModel


class ModelBench(Bench):
    """One set of inputs, refilled each round; state as of one random case."""

    calls = 1
    #: Inputs lie in two places in turn, and each leaves a device's memory cut
    #: otherwise: until then a timed call may have to ask for more.
    warm_rounds = 2
    baseline_rested = False
    trusts_events = False
    lacks_float64 = False  # of a case it is not told
    rest_call = {"steps": ["rest"]}

    def __init__(self, whole: WholeModel, path: str) -> None:
        self.maker = self._whole = whole
        self._path = path
        generator = whole.device.generator(whole.seed)
        # What it should give is worked out for each round's own inputs.
        self._data = self._base = whole.data("given", generator)
        self.is_large = whole.is_large
        self.has_rows = not whole.is_large
        self._draws = self._must_draw(generator)
        if self.is_large:
            whole.device.give_back()  # the other processes need it
        self._flush = {"flush": True} if whole.device.is_cuda else {}
        #: What the call took that woke the baseline. On a device it is the warm
        #: one, with no inputs in sight, and no empty one is made.
        self._woken = Message()
        self.bytes_written = sum(place.spec.touched_bytes for place in whole.places["outputs"])
        self.bytes_floor = whole.bytes_floor

    def _must_draw(self, generator: torch.Generator) -> bool:
        """Whether inputs must be those that get_inputs() gives, another seed
        each time: Model may not take them rolled and scaled (offsets that begin
        at zero, a matrix that must stay positive definite)."""
        whole, base = self._whole, self._base
        if whole.takes_any_values and (
            whole.is_large or whole.takes(replace(base, leaves=self._freshened(generator)))
        ):
            return False
        drawn = self._fresh(generator, True)
        if drawn is None or all(map(torch.equal, drawn, base.leaves)):
            raise CandidateFailed(
                "failed",
                "forward() takes no inputs but those that "
                "get_inputs() gives: timing needs others for each call",
            )
        return True

    def _fresh(self, generator: torch.Generator, draws: bool) -> list[torch.Tensor] | None:
        if draws:
            return self._whole.drawn(
                int(torch.randint(1 << 30, (1,), generator=generator, device=generator.device))
            )
        return self._freshened(generator)

    def _freshened(self, generator: torch.Generator) -> list[torch.Tensor]:
        return self._whole.as_laid_out(
            [
                inputs.freshen(t.reshape(-1), t.dtype, generator).reshape(t.shape)
                for t in self._base.leaves
            ]
        )

    def set_up(
        self,
        keeper: ArenaKeeper,
        baseline: Slot,
        released: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._baseline = baseline
        self._arena = keeper.of(self._whole.buffers.end)
        self._arena.clear()
        self._bind()
        job = {
            "kind": "model_reference",
            "problem": self._path,
            **self._whole.job(),
        }
        with released():  # nobody waits while its process starts
            baseline.begin(job, self._arena, Limits(BASELINE_START_MS, 0, False))
        self._load(baseline, BASELINE_WALL_MS, True)

    def _bind(self) -> None:
        """A check in between has bound the same buffers to its own arena."""
        self._whole.buffers.bind(self._arena)
        self._whole.write(self._base)

    @property
    def arena(self) -> Arena | DeviceArena:
        return self._arena

    def restore(self) -> None:
        """After calls on other data: the baseline's state is its own again."""
        self._bind()
        self._load(self._baseline, BASELINE_WALL_MS, True)

    def begin(self, slot: Slot, job: dict[str, Any], limits: Limits) -> None:
        #: What calls take that are not timed: the candidate's in each round,
        #: and by the number of rounds that were compared, …
        self._loads: list[Message] = []
        self._exports: dict[int, Message] = {}
        self._wall_ms = limits.wall_ms
        #: … and the framework's.
        self._usual_loads: list[Message] = []
        self._usual_exports: list[Message] = []
        self._bind()
        begin(slot, self._whole, job, self._arena, limits)
        self._whole.write(self._base)
        self._load(slot, limits.wall_ms, True)

    def _load(
        self,
        slot: Slot,
        wall_ms: int,
        parameters: bool,
        reuse: bool = False,
        before: Sequence[str] = (),
    ) -> tuple[dict[str, Any], float]:
        """(the answer, seconds that it took). before: what is asked first."""
        return slot.call(
            wall_ms,
            steps=[*before, "load"],
            seed=self._data.seed,
            parameters=parameters,
            reuse=reuse,
        )

    def begin_to_compile(self, baseline: Slot, name: str) -> None:
        self._load(baseline, BASELINE_WALL_MS, True)
        baseline.ask(steps=["run"], function=name)

    def refresh(self, generator: torch.Generator, dice: random.Random) -> None:
        # Now the same addresses with new contents, now other addresses.
        self._reuse = dice.random() < 0.5
        self._late_write = ""
        self._data, self._kept = self._base, []  # the last round's inputs go first
        # What forward() draws is new, too: a mask could be remembered.
        seed = int(torch.randint(1 << 30, (1,), generator=generator, device=generator.device))
        leaves = self._fresh(generator, self._draws)
        if leaves is None:
            raise BaselineLost(
                "get_inputs() gives tensors of another form after another "
                "seed: timing needs one form for all calls"
            )
        self._data = RunData(seed, leaves, self._base.state)
        self._kept = self._data.flat
        self._whole.buffers.write_inputs(self._kept)
        self._whole.buffers.fill_outputs()

    def _warm(self, slot: Slot, wall_ms: int, **how: Any) -> None:
        """On a device a call's time holds what the host takes to launch it.
        The baseline's process runs two parties in a round, and finds that code
        in the processor's caches; so each party first runs once, on what the
        round before left."""
        if not self._flush:
            return
        # What a candidate wrote after its call is about to be overwritten.
        self._late_write = self._late_write or self._whole.buffers.out_of_bounds_write(self._kept)
        # What a candidate is timed on is not there yet; a baseline's caches
        # grow as cold meanwhile.
        with lap("hide"):
            self._whole.hide_inputs()
        with lap("warm"):
            slot.call(wall_ms, steps=["warm"], **how)
        with lap("hide"):
            self._whole.buffers.write_inputs(self._kept)
            # The other process does not wait for what this one began.
            self._whole.device.synchronize()

    def call_candidate(self, slot: Slot, wall_ms: int) -> tuple[dict[str, Any], float]:
        woken = Message()
        if not self._flush:
            # By an empty call, as the baseline was; it counts as loading.
            _, seconds = slot.call(wall_ms, steps=[])
            woken = Message.last_of(slot, seconds)
        self._warm(slot, wall_ms)
        with lap("loads"):
            # Of the round before: a message of its own would be one in which
            # nobody counts what a candidate does.
            told, seconds = self._load(slot, wall_ms, False, self._reuse, before=["ran"])
        self._loads.append(woken.then(Message.last_of(slot, seconds)))
        hold_kernels(told, "timed call")
        with lap("timed calls"):
            answer, seconds = slot.call(wall_ms, steps=["run"], **self._flush)
        # In every round: the baseline reads the same inputs.
        with lap("guards"):
            wrong = self._late_write or self._whole.buffers.out_of_bounds_write(self._kept)
        if wrong:
            raise CandidateFailed("cheated", wrong)
        return answer, seconds

    def call_empty(self, baseline: Slot, party: str) -> tuple[dict[str, Any], float]:
        answer, seconds = baseline.call(BASELINE_WALL_MS, steps=[])
        self._woken = Message.last_of(baseline, seconds)
        return answer, seconds

    def call_baseline(self, baseline: Slot, party: str) -> tuple[dict[str, Any], float]:
        self._warm(baseline, BASELINE_WALL_MS, function=party)
        with lap("loads"):
            _, seconds = self._load(baseline, BASELINE_WALL_MS, False, self._reuse)
        self._usual_loads.append(self._woken.then(Message.last_of(baseline, seconds)))
        with lap("timed calls"):
            return baseline.call(BASELINE_WALL_MS, steps=["run"], function=party, **self._flush)

    @property
    def reads_rows(self) -> bool:
        """Whether a row whose results are read says something: on the host
        untimed_work() knows what an export takes."""
        return bool(self._flush) and not self.is_large

    def back_to_back(
        self, process: Slot, party: str, numbers: Sequence[int], reads: bool = False
    ) -> list[float]:
        """Seconds of so many calls without a pause, for each of these numbers, on
        the last round's inputs. `reads`: with each call's results copied out."""
        how: dict[str, Any] = {} if party == "candidate" else {"function": party}
        wall_ms = self._wall_ms if party == "candidate" else BASELINE_WALL_MS
        if reads:
            how["reads"] = True
        self._load(process, wall_ms, False)
        process.call(wall_ms, steps=["row"], calls=1, **how)  # warms up
        return [process.call(wall_ms, steps=["row"], calls=number, **how)[1] for number in numbers]

    def untimed_work(self, timed: list[Message]) -> UntimedWork:
        """The UntimedWork of a candidate with these timed messages, in each round
        that counts."""
        if not self._usual_exports:
            return UntimedWork()  # no result was right: it is rejected for that
        first = len(self._loads) - len(timed)
        exports = {number - first: one for number, one in self._exports.items() if number >= first}
        # Of the rounds that count; the first export was before them.
        messages = CallMessages(
            timed,
            self._loads[first:],
            exports,
            self._usual_loads[-len(timed) :],
            self._usual_exports[1:] or self._usual_exports,
        )
        if self._flush:  # a processor may sleep while the device works
            return untimed_work_by("seconds", messages)
        return untimed_work(messages)

    def examine(self, slot: Slot, limits: Limits, dice: random.Random) -> tuple[int, str]:
        """(1, why the last call was wrong)."""
        answer, seconds = slot.call(limits.wall_ms, steps=["export"])
        self._exports[len(self._loads) - 1] = Message.last_of(slot, seconds)
        wrong = self._late_write or self._whole.buffers.out_of_bounds_write(self._kept)
        if wrong:
            raise CandidateFailed("cheated", wrong)
        reason = self.why_wrong(
            "given",
            self._data,
            self._whole.buffers.output_views,
            lambda case: layout_difference(answer, case.form),
        )
        if reason:
            return 1, reason
        if self.is_large:  # the baseline's result may have made room for ours
            self._whole.device.give_back()  # and needs it again
            return 1, ""
        # Last: it writes where the candidate's results were. The candidate
        # stands still until they are overwritten.
        _, seconds = ask_baseline(self._baseline, steps=["export"])
        self._usual_exports.append(Message.last_of(self._baseline, seconds))
        return 1, ""
