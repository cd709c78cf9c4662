"""The bench for a subgraph: its calls, eager and compiled, against a kernel.

It is another one than a model's (time_model.py). A kernel takes microseconds: one message
asks for a batch of calls, each in its buffers. A module takes more, and makes its
own results: it is called once in a message, and what it does before and after is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.candidate.gpu_package import KINDS
from weft.candidate.harness import BUILDS_WHEN_LOADED
from weft.candidate.slot import CandidateFailed, Slot
from weft.device.arena import BufferSet
from weft.expect import inputs
from weft.expect.expected import CaseMaker
from weft.expect.reference import Reference, load_graph
from weft.judge.limits import Limits
from weft.timing.bench import Bench
from weft.timing.baseline_calls import BASELINE_START_MS, BASELINE_WALL_MS
from weft.timing.untimed_work import Message, UntimedWork

if TYPE_CHECKING:
    import contextlib
    import random

    import torch

    from weft.device.arena_keeper import ArenaKeeper
    from weft.device.device import Device
    from weft.expect.expected import SubgraphCase

#: Time of a batch: the way to the process and back is noise in it.
BATCH_TARGET_S = 0.002
BATCH_MAX = 64
#: Buffers for one batch; each call of a batch has its own.
BATCH_BYTES_MAX = 64 << 20
#: The same on a device, where emptying the caches takes longer than a call.
DEVICE_BATCH_MAX = 16
DEVICE_BATCH_BYTES_MAX = 4 << 30
#: Most calls of a batch that are compared …
EXAMINED_MAX = 4
#: … and fewest. The others are compared for EXAMINE_S at most, because other
#: processes may wait for the device.
EXAMINED_MIN = 2
EXAMINE_S = 0.2


class SubgraphBench(Bench):
    """A subgraph's buffers, one set for each call of a batch."""

    warm_rounds = 1
    has_rows = False
    baseline_rested = False
    trusts_events = False

    maker: CaseMaker
    rest_call = {"sets": [], "rest": True}

    def __init__(
        self, path: str, seed: int, device: Device, like: SubgraphCase | None = None
    ) -> None:
        """`like`: what a check expected of such data, if it is known."""
        self._path, self._device = path, device
        self.reference = Reference(load_graph(path), device.torch)
        self.maker = CaseMaker(self.reference, device)
        generator = device.generator(seed)
        self._base = self.maker.storages("normal", generator)
        self.calls = self._batch()
        specs = self.reference.inputs + self.reference.outputs
        self.bytes_floor = sum(s.touched_bytes for s in specs)
        self._order = list(range(self.calls))
        self._kept: dict[int, list[torch.Tensor]] = {}
        self.like = like
        #: Whatever the algorithm: an input may rightly be read in part.
        self.bytes_written = sum(s.touched_bytes for s in self.reference.outputs)
        size = BufferSet.bytes_needed(self.reference.inputs, self.reference.outputs)
        self.is_large = device.is_large(size)
        #: Fields of a call's message on a device, where caches are emptied.
        self._flush = {"flush": True} if device.is_cuda else {}
        #: The same for the candidate's calls. A device's allocator gives what it has kept.
        self._pays = self._flush or {"allocates": True}

    def _batch(self) -> int:
        """How many calls one message asks for: enough to drown the overhead."""
        views = self.maker.views(self._base)
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
        return self.maker.lacks_float64

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
            reason = self.why_wrong("normal", kept, one.output_views)
            if reason:
                return compared, reason
            if compared >= EXAMINED_MIN and time.monotonic() > until:
                break
        return compared, ""
