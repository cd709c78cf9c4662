"""Calls without a pause, as a person's own loop makes them.

In a round each side wakes for its one call, finds its code in cold caches, and launches
more slowly than a loop does. A side with fewer launches gains by that, and the device's
work hides behind it. So a module is timed both ways, and the lower speedup is reported.
Nothing is compared here: who is faster in a loop alone gains nothing by it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from weft.candidate.slot import CandidateFailed, Slot
from weft.device.trace_spans import lap
from weft.timing.untimed_work import TooBusy

if TYPE_CHECKING:
    import random

    from weft.oracle.replies import TimingReply
    from weft.timing.bench import Bench

#: So many turns. All but the lowest and the highest are a 96 % interval of their
#: median, which one disturbed turn does not widen.
TURNS = 9
#: A turn's calls of one side take so long, by a row of eager's …
ROW_S = 0.02
CALLS_MIN, CALLS_MAX = 3, 2000
#: … which are left out where one call takes longer: to wake is little of that.
CALL_S_MAX = 0.03
#: All of them. Where others than eager have used it up, the turns that there
#: were tell enough; else the machine is busy.
TURNS_S = 5.0
#: Turns of rows whose results are read.
READ_TURNS = 5
#: Untimed work is what exceeds this and both shares: of the candidate's own call,
#: and of the time to copy the results, which eager's launches may hide. The copy
#: of a small result takes 3 to 8 us (H200, 2026-11-29).
UNTIMED_SLACK_S = 10e-6
UNTIMED_OWN_SHARE = 0.5
UNTIMED_COPY_SHARE = 2.0
#: A call in a row that takes longer than so many single calls (their 90th
#: percentile), and this beyond them, did its work before the single ones. Beyond their
#: median alone it may have: a busy machine lengthens some single calls, and a row less.
ROW_OVER_SINGLE, ROW_SLACK_S = 1.5, 50e-6


class BackToBackTimes:
    """{party: seconds a call, in each turn}; empty where there is nothing to
    say, and `why` not. `ends_baseline`: a call in it ended that process."""

    def __init__(self, why: str = "", ends_baseline: bool = False) -> None:
        self.calls, self.why = 0, why
        self.seconds: dict[str, list[float]] = {}
        #: The same, with each call's results read; empty on the host.
        self.read_seconds: dict[str, list[float]] = {}
        self.ends_baseline = ends_baseline
        self.asked = "eager"  # who makes the calls now, or made the last

    def run(self, bench: Bench, sides: dict[str, Slot], dice: random.Random) -> None:
        """`sides`: {party: its process}. CandidateFailed: of the one that `asked` names."""
        self.calls = CALLS_MIN
        for _ in range(2):  # of few calls a message's own time says too much
            nothing, few = bench.back_to_back(sides["eager"], "eager", (0, self.calls))
            call_s = max((few - nothing) / self.calls, 1e-6)
            self.calls = max(CALLS_MIN, min(CALLS_MAX, int(ROW_S / call_s)))
        until = time.monotonic() + TURNS_S
        self.seconds = self._turns(TURNS, bench, sides, dice, until)
        if self.seconds and bench.reads_rows:
            self.read_seconds = self._turns(
                READ_TURNS, bench, sides, dice, until + TURNS_S, reads=True
            )

    def _turns(
        self,
        count: int,
        bench: Bench,
        sides: dict[str, Slot],
        dice: random.Random,
        until: float,
        reads: bool = False,
    ) -> dict[str, list[float]]:
        """{party: seconds a call, in each turn}; empty on a busy machine."""
        found: dict[str, list[float]] = {party: [] for party in sides}
        empty: dict[str, list[float]] = {party: [] for party in sides}
        for _ in range(count):
            if time.monotonic() > until:
                if sum(found["eager"]) > TURNS_S / len(sides) / 2:
                    self.why = "the machine is too busy"
                    return {}
                break
            order = list(sides)
            dice.shuffle(order)
            for self.asked in order:
                nothing, row = bench.back_to_back(
                    sides[self.asked],
                    self.asked,
                    (0, self.calls),
                    **({"reads": True} if reads else {}),
                )
                empty[self.asked].append(nothing)
                found[self.asked].append(row)
        if not all(found.values()):  # the time was over before the first turn
            return {}
        seconds = {}
        for party, rows in found.items():
            message_s = statistics.median(empty[party])
            seconds[party] = [max(row - message_s, 1e-9) / self.calls for row in rows]
        return seconds

    def untimed_work(self, timing: TimingReply, bytes_written: int) -> str:
        """Why the device's work of a candidate is not in that timing of its single
        calls; "" if it is. `bytes_written`: of a call's results. Raises TooBusy if calls in
        a row took longer than single calls, and noise may be the reason."""
        if not self.seconds or "gpu" not in timing:
            return ""
        own = statistics.median(self.seconds["candidate"])
        if self.read_seconds:
            copy_s = 2 * bytes_written / (timing["gpu"]["copy_gbps"] * 1e9)
            added = {
                party: [
                    read - statistics.median(self.seconds[party])
                    for read in self.read_seconds[party]
                ]
                for party in ("candidate", "eager")
            }
            hidden = _second_lowest(a - b for a, b in zip(added["candidate"], added["eager"]))
            if hidden > (UNTIMED_SLACK_S + UNTIMED_OWN_SHARE * own + UNTIMED_COPY_SHARE * copy_s):
                return _untimed(hidden, "after")
        assert timing["candidate"] is not None and timing["eager"] is not None
        unseen = self._beyond_single("candidate", timing["candidate"]["p90_us"])
        if unseen:
            return _untimed(unseen, "before")
        unseen = self._beyond_single("candidate", timing["candidate"]["median_us"])
        if unseen and not self._beyond_single("eager", timing["eager"]["median_us"]):
            raise TooBusy(
                f"the machine is too busy: {unseen * 1e3:.2g} ms of a call may lie before the "
                "time that is taken, or be noise; try again when less runs here"
            )
        return ""

    def _beyond_single(self, party: str, single_us: float) -> float:
        """By how much a party's call in a row is longer than a single one, in seconds;
        0 for the usual difference."""
        single = single_us / 1e6
        least = _second_lowest(self.seconds[party])
        return least - single if least > ROW_OVER_SINGLE * single + ROW_SLACK_S else 0.0

    def lower(self, timing: TimingReply) -> TimingReply:
        """The timing of the rounds with what is lower of its speedups and these;
        `back_to_back` has the times."""
        told: dict[str, Any] = dict(timing, back_to_back=None, not_back_to_back=self.why)
        if not self.seconds:
            return cast("TimingReply", told)
        told["back_to_back"] = {
            "calls": self.calls,
            "us": {
                _name(party): statistics.median(times) * 1e6
                for party, times in self.seconds.items()
            },
        }
        own = self.seconds["candidate"]
        for party, times in self.seconds.items():
            over = f"over_{_name(party)}"
            if party == "candidate" or not told.get(over):
                continue
            ratios = sorted(a / b for a, b in zip(times, own))
            found = statistics.median(ratios)
            if found < told[over]["ratio"]:
                far = 1 if len(ratios) > 2 else 0
                told[over] = {"ratio": found, "low": ratios[far], "high": ratios[-1 - far]}
        return cast("TimingReply", told)


def _second_lowest(values: Iterable[float]) -> float:
    """One disturbed turn does not decide."""
    ordered = sorted(values)
    return ordered[min(1, len(ordered) - 1)]


def _untimed(seconds: float, when: str) -> str:
    return (
        f"cheated: {seconds * 1e3:.2g} ms of work a call lie before or after the "
        f"time that is taken ({when} it, by calls in a row)"
    )


def _name(party: str) -> str:
    """As a timing has it."""
    return party.replace("-", "_")


def measured(
    bench: Bench, sides: dict[str, Slot], call_s: float, dice: random.Random
) -> BackToBackTimes:
    """The BackToBackTimes of these, if eager's call takes call_s in a round. CandidateFailed: the
    candidate's did, in calls that eager's survived."""
    if not bench.has_rows:
        return BackToBackTimes()
    if call_s > CALL_S_MAX:
        return BackToBackTimes("to wake is little beside a call")
    row = BackToBackTimes()
    try:
        with lap("in a row"):
            row.run(bench, sides, dice)
    except CandidateFailed as ended:
        if row.asked == "candidate" and _survives(bench, sides["eager"], row.calls):
            raise
        return BackToBackTimes(f"{row.asked}: {ended.reason}", ends_baseline=True)
    return row


def _survives(bench: Bench, process: Slot, calls: int) -> bool:
    """Whether eager's does so many calls, as it may not in a model that counts
    them."""
    try:
        bench.back_to_back(process, "eager", (0, calls))
    except CandidateFailed:
        return False
    return True
