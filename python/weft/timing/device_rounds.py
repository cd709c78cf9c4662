"""Rounds of timed calls on a GPU.

There a message costs more than many kernels, and emptying the caches more still. A side's
time is that between the side's events. The oracle's clock checks them. In addition to its
events, a candidate's message may take no longer than eager's messages, which empty the same
caches.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from weft.device import gpu_facts
from weft.device.trace_spans import lap
from weft.timing.rounds import Rounds

if TYPE_CHECKING:
    import random
    import torch

    from weft.candidate.slot import Slot
    from weft.device.device import Device
    from weft.judge.limits import Limits
    from weft.oracle.replies import TimingReply
    from weft.timing.bench import Bench

#: More than this beside the events, and beyond what the framework's messages
#: take beside theirs, in every round, is work that the events do not see …
HIDDEN_SLACK_S = 0.0003
#: … if it is this share of what they see, too.
HIDDEN_SHARE = 0.5
#: A kernel whose work goes on after it, in every round, by this share.
LATE_SHARE = 0.25
#: Nothing writes faster than the measured copy, beyond noise of this factor.
BANDWIDTH_SLACK = 1.1
#: Rounds after whose calls the clocks are read: each time asks the driver.
CLOCKED_ROUNDS = 5


class DeviceRounds(Rounds):
    """As Rounds, with the clocks of one GPU."""

    # Memory of a device's may have to be asked for.
    untimed_work_slack_s = 0.001

    def __init__(
        self,
        slot: Slot,
        baseline: Slot,
        bench: Bench,
        parties: list[str],
        limits: Limits,
        device: Device,
    ) -> None:
        super().__init__(slot, baseline, bench, parties, limits)
        self._device = device
        self._beside: list[float] = []
        self._late: list[float] = []
        assert device.driver is not None
        self._nvml = gpu_facts.Nvml(device.driver.uuid())
        self._copy_gbps = 0.0
        self._sm_mhz: dict[str, list[int]] = {}
        self._throttled: set[str] = set()

    def run(self, budget_s: float, generator: torch.Generator, dice: random.Random) -> None:
        self._copy_gbps = gpu_facts.copy_gbps(self._device)
        self._device.give_back_much()
        super().run(budget_s, generator, dice)

    def _round(self, number: int, dice: random.Random) -> None:
        # New data must not be in the making when a clock starts.
        self._device.synchronize()
        super()._round(number, dice)

    def _note(self, party: str, seconds: float, answer: dict[str, Any]) -> None:
        own = answer["ns"] / 1e9
        if party != "candidate":
            self._beside.append(max(0.0, seconds - own))
        else:
            late = answer.get("late_ns")
            self._late.append(late / 1e9 if type(late) is int else 0.0)
        self._read_clocks(party)

    def _time_empty(self, party: str) -> None:
        """The framework's messages beside their events say it all."""

    def _unhurried(self, party: str) -> list[float]:
        """A processor's time says nothing of a device's."""
        return self._seconds(party)

    def _read_clocks(self, party: str) -> None:
        """Right after a party's call: as fast as it ran, or less."""
        seen = self._sm_mhz.setdefault(party, [])
        if len(seen) == CLOCKED_ROUNDS:
            return
        with lap("clocks"):
            told = self._nvml.clocks()
        seen.append(told.get("sm_mhz", 0))
        self._throttled.update(told.get("throttled", ()))

    def _overhead(self) -> float:
        """What nine of ten messages of the framework's took beside their
        events, at most: a candidate's time is its events', unless even so more
        has passed. (The most of all would excuse more with each round.)"""
        return sorted(self._beside)[9 * len(self._beside) // 10]

    def _seconds(self, party: str) -> list[float]:
        """How late a message comes says what else the machine does: where the
        events can be trusted it counts for nothing."""
        if party != "candidate" or self._bench.trusts_events:
            return [max(own, 1e-9) for _, own in self._clocks[party]]
        return super()._seconds(party)

    def _has_false_clock(self) -> bool:
        most = self._overhead()
        return all(
            outside - own - most > HIDDEN_SLACK_S + HIDDEN_SHARE * own
            for outside, own in self._clocks["candidate"]
        )

    def _may_have_false_clock(self) -> bool:
        return self._has_false_clock()

    def _goes_on(self) -> bool:
        both = zip(self._late, self._clocks["candidate"])
        return all(late > LATE_SHARE * own for late, (_, own) in both)

    def floor_s(self) -> float:
        """No call can be shorter: its results have to be written, and all but
        what the cache may keep of them goes to memory."""
        driver = self._device.driver
        assert driver is not None
        l2_bytes = driver.attribute("l2_bytes")
        least = max(0, self._bench.bytes_written - l2_bytes)
        return least / (self._copy_gbps * 1e9 * BANDWIDTH_SLACK)

    def report(self) -> TimingReply:
        """docs/reference/worker-protocol.md's `timing`, with `gpu`."""
        told = super().report()
        seconds = statistics.median(self._seconds("candidate")) / self._bench.calls
        if not told["rejected"] and self._goes_on():
            told["rejected"] = (
                "cheated: its work goes on after the stream that it was started on is done"
            )
        if not told["rejected"] and seconds < self.floor_s():
            told["rejected"] = (
                f"cheated: {seconds * 1e6:.1f} us are less than writing the "
                f"results takes ({self.floor_s() * 1e6:.1f} us)"
            )
        told["gpu"] = {
            "copy_gbps": self._copy_gbps,
            "floor_us": self._bench.bytes_floor / self._copy_gbps / 1e3,
            "late_us": max(self._late, default=0.0) * 1e6,
            "sm_mhz": {
                party: statistics.median_low(seen)
                for party, seen in self._sm_mhz.items()
                if any(seen)
            },
            "throttled": sorted(self._throttled),
        }
        return told
