"""Rounds of timed calls: candidate, eager and compiled, in random order.

The oracle's clock decides: from sending a call to its answer, less what an
empty call costs at least. The party's own clock can only make a time longer.
On a GPU its events decide, where our own code reads them (device_rounds.py).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from weft.device.trace_spans import lap
from weft.candidate.slot import CandidateFailed, Slot
from weft.timing import back_to_back
from weft.timing.baseline_calls import BaselineLost
from weft.timing.untimed_work import QUIET_SHARE, Message, TooBusy, UntimedWork
from weft.timing.quantiles import median_bounds, quantile

if TYPE_CHECKING:
    import random
    import torch

    from weft.judge.limits import Limits
    from weft.oracle.replies import Speedup, Times, TimingReply
    from weft.timing.bench import Bench

ROUNDS_MIN = 3
ROUNDS_MAX = 400
#: After so many it is over if every interval is so narrow, high over low. (All
#: six of six are below the median, or above it, once in 32 times: their range
#: is a 97 % interval, as narrow as the slowest of them is near to the fastest.)
ROUNDS_SHARP = 6
SHARP = 1.02
#: So many before a time is rejected for work that lies beside it.
ROUNDS_IN_DOUBT = 25
#: … while that takes no more than this.
DOUBT_S = 30.0
#: So many while what lies beside the clock would be cheating, and the machine's
#: noise hides whether it does.
ROUNDS_HIDDEN = 100
#: So many timed calls are compared at least, however short the timing: of calls
#: that are wrong every fourth time none is seen once in a hundred times …
COMPARED_MIN = 16
#: … while the rounds for it, beyond the budget, take no more than this.
COMPARED_S = 120.0
#: Rounds that decide whether a lead over eager is noise, if the budget's rounds
#: do not: of fewer, one slow call widens the interval over 1. The second number
#: is for a lead that is still unsure after the first, and is large.
ROUNDS_UNDECIDED = (12, 60)
#: Limit of the time for each, beyond the budget, in seconds.
EXTENSIONS_S = (5.0, 15.0)
#: Least lead for each.
LEADS_MIN = (1.02, 1.1)
#: Share of the rounds whose outputs are compared, chosen at random.
CHECKED_SHARE = 0.25
#: … while comparing has taken less than this share of the time so far.
CHECKED_TIME_SHARE = 0.5
#: A candidate whose own clock misses so much of the oracle's in *every* round,
#: beyond what nine of ten empty calls took, has tampered with it. (One quiet
#: round is enough to be believed: a busy machine delays anybody.)
CLOCK_RATIO_MAX = 3.0
CLOCK_SLACK_S = 0.001
#: Taking inputs and giving results, which are not timed, may cost a candidate
#: so much more than the framework's side, beyond a share of its own time, by the
#: low end of an interval: a busy machine makes it longer, never shorter.
OFF_CLOCK_SLACK_S = 0.0002
OFF_CLOCK_SHARE = 0.5
#: Beyond this share of eager's time, by its low end, and beyond the noise of the
#: framework's side, it is hidden work.
OFF_CLOCK_EAGER_SHARE = 1 / 3


#: If other threads of the candidate are seen at work for this share of what may be
#: untimed work, they are named as the reason for not_timed.
OTHERS_SHARE = 0.5


def _why_hidden(found: UntimedWork) -> str:
    """The reason for not_timed: the candidate's other threads, or other programs,
    hide whether the candidate works outside of its timed calls."""
    hidden_s = max(found.median_s, found.most_s)
    if found.by_others_s >= OTHERS_SHARE * hidden_s:
        return (
            "other threads or processes of the candidate work outside of its "
            f"timed calls ({found.by_others_s * 1e3:.1f} ms of processor time a "
            "call), and weft cannot tell whether that is work of these calls; let "
            "them sleep while they wait, or end them"
        )
    return (
        f"the machine is too busy: {hidden_s * 1e3:.1f} ms a call seem to lie "
        "outside the measured time, and weft cannot tell whether that is noise; "
        "try again when less runs here"
    )


class Rounds:
    """Times one candidate on a Bench (bench.py), which knows what a call is."""

    untimed_work_slack_s = OFF_CLOCK_SLACK_S

    def __init__(
        self, slot: Slot, baseline: Slot, bench: Bench, parties: list[str], limits: Limits
    ) -> None:
        self._slot, self._baseline = slot, baseline
        self._bench, self._limits = bench, limits
        self._parties = ["candidate", *parties]
        self._empty: list[float] = []
        self._clocks: dict[str, list[tuple[float, float]]] = {name: [] for name in self._parties}
        #: What processors worked for these.
        self._worked: dict[str, list[Message]] = {name: [] for name in self._parties}
        self._examining_s = 0.0
        self._outputs_checked = 0
        self._outputs_wrong = 0
        self._reason = ""

    def run(self, budget_s: float, generator: torch.Generator, dice: random.Random) -> None:
        """Until the budget is spent, or nothing is left to learn for it; but
        at least ROUNDS_MIN rounds."""
        start = time.monotonic()
        # One of the first rounds is always compared; which, nobody knows.
        lucky = dice.randrange(ROUNDS_MIN)
        is_examined = True
        extensions = 0
        for number in range(-self._bench.warm_rounds, ROUNDS_MAX):
            if number == 0:  # what it takes to warm up is not its budget's
                start = time.monotonic()
                self._examining_s = 0.0
            spent = time.monotonic() - start
            is_enough = (
                number >= ROUNDS_MIN
                and spent > budget_s
                or number >= ROUNDS_SHARP
                and self._is_sharp()
            )
            # Few rounds on a busy machine may look like hidden work.
            is_few = is_enough and number < ROUNDS_IN_DOUBT and spent < budget_s + DOUBT_S
            seems_to_hide = is_few and self._seems_to_hide()
            in_doubt = seems_to_hide or (is_few and self._may_have_false_clock())
            if is_enough and not in_doubt and number < ROUNDS_HIDDEN:
                in_doubt = seems_to_hide = spent < budget_s + DOUBT_S and self._is_hidden_by_noise()
            # Calls, not rounds, and not time: who is wrong now and then must
            # be found in a short timing, too.
            lacks = (
                is_enough and self._outputs_checked < COMPARED_MIN and spent < budget_s + COMPARED_S
            )
            # Once begun, to the end: to stop at the first good interval
            # would be to choose it.
            goes_on = self._is_within(extensions, number, spent - budget_s)
            if (
                is_enough
                and not goes_on
                and extensions < len(LEADS_MIN)
                and self._has_unsure_lead(LEADS_MIN[extensions])
            ):
                extensions += 1
                goes_on = self._is_within(extensions, number, spent - budget_s)
            if is_enough and not in_doubt and not goes_on and not lacks:
                break
            # Rounds below 0 warm caches and threads, and are not counted.
            with lap("refresh"):
                self._bench.refresh(generator, dice)
            self._warm_up()
            self._round(number, dice)
            is_chosen = dice.random() < CHECKED_SHARE
            is_cheap = self._examining_s < CHECKED_TIME_SHARE * spent
            is_examined = (
                number in (-1, lucky) or seems_to_hide or lacks or (is_chosen and is_cheap)
            )
            if is_examined:
                self._examine(dice)
            if not self.is_right and number >= 0:
                return
        # Who is right at first and wrong for good later is found here.
        if not is_examined:
            self._examine(dice)

    def _is_sharp(self) -> bool:
        """Whether every interval is narrow (whatever it says: to stop where
        it says what one hopes for would be to choose it)."""
        overs = map(self._over, self._parties[1:])
        return all(over is not None and over["high"] <= SHARP * over["low"] for over in overs)

    def _seems_to_hide(self) -> bool:
        """Whether `report` charges it, unless that turns out as noise."""
        found = self._off_clock()
        return self._is_charged(max(found.median_s, found.quiet_s))

    def _off_clock(self) -> UntimedWork:
        return self._bench.untimed_work(self._messages("candidate"))

    def _is_meant(self, found: UntimedWork) -> bool:
        """Whether no busy machine puts so many seconds beside the clock."""
        return self._is_charged(found.least_s) and found.least_s > max(
            self._honest_s(), found.noise_s
        )

    def _honest_s(self, is_quiet: bool = False) -> float:
        """No honest module has more beside the clock."""
        eager_s = self._unhurried("eager")
        eager = quantile(eager_s, QUIET_SHARE) if is_quiet else median_bounds(eager_s)[1]
        return self.untimed_work_slack_s + OFF_CLOCK_EAGER_SHARE * eager

    def _is_hidden_by_noise(self) -> bool:
        """Whether half of the rounds say that it cheats, and all together
        cannot: so may an honest one's on a busy machine. Or the quietest say
        that it works there, and how much nobody knows."""
        found = self._off_clock()
        says_half = self._is_charged(found.median_s) and found.median_s > self._honest_s()
        say_quietest = self._is_charged(found.quiet_s) and found.most_s > self._honest_s(
            is_quiet=True
        )
        return (says_half or say_quietest) and not self._is_meant(found)

    def _has_unsure_lead(self, lead_min: float) -> bool:
        """Whether it is faster than eager by so much, but not beyond noise."""
        over = self._over("eager")
        return over is not None and over["low"] <= 1.0 and over["ratio"] > lead_min

    @staticmethod
    def _is_within(extensions: int, number: int, beyond_s: float) -> bool:
        """Whether the last extension begun lasts: all rounds are pooled."""
        return (
            extensions > 0
            and number < ROUNDS_UNDECIDED[extensions - 1]
            and beyond_s < EXTENSIONS_S[extensions - 1]
        )

    def _warm_up(self) -> None:
        """A baseline that has given its memory up takes it again before it is
        timed: a candidate never had to."""
        if self._bench.baseline_rested:
            for party in self._parties[1:]:
                self._time_baseline(party)
        self._bench.baseline_rested = False

    def _round(self, number: int, dice: random.Random) -> None:
        parties = self._parties[:]
        dice.shuffle(parties)
        for party in parties:
            if party == "candidate":
                answer, seconds = self._bench.call_candidate(self._slot, self._limits.wall_ms)
                own = answer.get("ns")
                if type(own) is not int or not 0 <= own < 1 << 62:
                    raise CandidateFailed("cheated", "no time of the candidate's own")
            else:
                answer, seconds = self._time_baseline(party)
            if number >= 0:
                slot = self._slot if party == "candidate" else self._baseline
                self._clocks[party].append((seconds, answer["ns"] / 1e9))
                self._worked[party].append(Message.last_of(slot, seconds))
                self._note(party, seconds, answer)

    def _note(self, party: str, seconds: float, answer: dict[str, Any]) -> None:
        """What else a timed call's answer says: nothing on the host."""

    def _time_baseline(self, party: str) -> tuple[dict[str, Any], float]:
        try:
            self._time_empty(party)
            return self._bench.call_baseline(self._baseline, party)
        except CandidateFailed as ended:
            raise BaselineLost(ended.reason) from None

    def _time_empty(self, party: str) -> None:
        _, empty = self._bench.call_empty(self._baseline, party)
        self._empty.append(empty)

    def _examine(self, dice: random.Random) -> None:
        start = time.monotonic()
        with lap("examine"):
            checked, reason = self._bench.examine(self._slot, self._limits, dice)
        self._outputs_checked += checked
        if reason:
            self._outputs_wrong += 1
            self._reason = f"wrong: a timed call's {reason}"
        self._examining_s += time.monotonic() - start

    @property
    def is_right(self) -> bool:
        """Whether no output was wrong so far."""
        return not self._reason

    def look_again(self, generator: torch.Generator, dice: random.Random) -> None:
        """One round more, compared: who is wrong after thousands of calls, as
        there are in a row, is found."""
        self._bench.refresh(generator, dice)
        self._warm_up()
        self._round(0, dice)
        self._examine(dice)

    def back_to_back(self, dice: random.Random) -> back_to_back.BackToBackTimes:
        """The same parties' BackToBackTimes. CandidateFailed: of the candidate, where eager goes
        on."""
        sides = {
            party: self._slot if party == "candidate" else self._baseline for party in self._parties
        }
        call_s = statistics.median(self._seconds("eager")) / self._bench.calls
        return back_to_back.measured(self._bench, sides, call_s, dice)

    def report(self) -> TimingReply:
        """docs/reference/worker-protocol.md's `timing`, by the rounds alone. TooBusy: there is none."""
        overhead = self._overhead()
        rejected = self._reason
        hidden = self._off_clock()
        if not rejected and self._is_hidden_by_noise():
            raise TooBusy(_why_hidden(hidden))
        if not rejected and self._has_false_clock():
            rejected = "cheated: its own clock misses most of the oracle's time"
        if not rejected and self._may_have_false_clock():
            raise TooBusy(
                "the machine is too busy: its own clock misses most of the oracle's time, "
                "and empty calls take as long; try again when less runs here"
            )
        hidden_s = max(hidden.median_s, hidden.quiet_s)
        is_meant = self._is_meant(hidden)  # held against what was not charged
        if self._is_charged(max(hidden.least_s, hidden.quiet_s)):
            self._charge(hidden_s)
        if not rejected and is_meant:
            rejected = (
                f"cheated: {hidden_s * 1e3:.1f} ms of work a call lie "
                "before or after the time that is taken"
            )
        times = {name: summary(self._seconds(name), self._bench.calls) for name in self._clocks}
        return {
            "candidate": times["candidate"],
            "eager": times["eager"],
            "compile": times.get("compile"),
            "compile_autotune": times.get("compile-autotune"),
            "over_eager": self._over("eager"),
            "over_compile": self._over("compile"),
            "over_compile_autotune": self._over("compile-autotune"),
            "compile_error": self._bench.compile_errors.get("compile", ""),
            "compile_autotune_error": self._bench.compile_errors.get("compile-autotune", ""),
            "outputs_checked": self._outputs_checked,
            "outputs_wrong": self._outputs_wrong,
            "clock_ratio": self._clock_ratio(overhead),
            "bytes_floor": self._bench.bytes_floor,
            "off_clock_us": hidden_s * 1e6,
            "overhead_us": overhead * 1e6,
            "calls_per_run": self._bench.calls,
            "rejected": rejected,
        }

    def _overhead(self) -> float:
        """Near the least that an empty call costs: under load its median may
        exceed a whole small batch."""
        return sorted(self._empty)[len(self._empty) // 10]

    def _seconds(self, party: str) -> list[float]:
        """Of a message's work, in each round."""
        overhead = self._overhead()
        return [net_s(both, overhead) for both in self._clocks[party]]

    def _messages(self, party: str) -> list[Message]:
        """Those that were timed, with such seconds."""
        return [
            one._replace(seconds=seconds)
            for one, seconds in zip(self._worked[party], self._seconds(party))
        ]

    def _unhurried(self, party: str) -> list[float]:
        """Its seconds as if none of its threads had waited for a processor: what
        lies beside the clock may be a share of them, which must not grow with
        what else runs."""
        return [
            min(message.seconds, max(message.answering_s, message.by_all_s / self._slot.threads))
            for message in self._messages(party)
        ]

    def _is_charged(self, hidden: float) -> bool:
        """Whether work done while no time was taken is more than a share of
        the candidate's times."""
        own = statistics.median(self._unhurried("candidate"))
        return hidden > self.untimed_work_slack_s + OFF_CLOCK_SHARE * own

    def _charge(self, hidden: float) -> None:
        """Adds it to them."""
        self._clocks["candidate"] = [
            (outside + hidden, inside + hidden) for outside, inside in self._clocks["candidate"]
        ]

    def _over(self, party: str) -> Speedup | None:
        """How many times faster the candidate is, round by round: what
        disturbs the machine disturbs both sides of a round."""
        if party not in self._clocks:
            return None
        pairs = zip(self._seconds(party), self._seconds("candidate"))
        return median_interval([other / own for other, own in pairs])

    def _clock_ratio(self, overhead: float) -> float:
        """Outside over inside time of the candidate, medians."""
        both = self._clocks["candidate"]
        outside = statistics.median(max(0.0, s - overhead) for s, _ in both)
        return outside / max(statistics.median(own for _, own in both), 1e-9)

    def _has_false_clock(self) -> bool:
        return self._clock_misses(0.9)

    def _may_have_false_clock(self) -> bool:
        """So it seems, but for a busy machine."""
        return self._clock_misses(0.5)

    def _clock_misses(self, share: float) -> bool:
        """Whether its own clock misses most of ours in every round, and more
        than what such a share of the empty calls take."""
        slack = CLOCK_SLACK_S + quantile(self._empty, share)
        return all(
            outside - own > slack and outside > CLOCK_RATIO_MAX * own
            for outside, own in self._clocks["candidate"]
        )


def net_s(both: tuple[float, float], overhead: float) -> float:
    """Seconds of one message's work from (outside, inside)."""
    outside, own = both
    return max(outside - overhead, own, 1e-9)


def median_interval(values: Iterable[float]) -> Speedup:
    """Such bounds of a ratio, as reports hold them."""
    ratio, low, high = median_bounds(values)
    return {"ratio": ratio, "low": low, "high": high}


def summary(seconds: Iterable[float], calls: int) -> Times:
    """T of docs/reference/worker-protocol.md from what messages of so many calls took."""
    net = sorted(second / calls * 1e6 for second in seconds)
    last = len(net) - 1
    return {
        "median_us": statistics.median(net),
        "p10_us": net[round(0.1 * last)],
        "p90_us": net[round(0.9 * last)],
        "runs": len(net),
        "mean_us": statistics.fmean(net),
        "std_us": statistics.pstdev(net),
        "min_us": net[0],
        "max_us": net[-1],
    }


def rejection(kind: str, reason: str) -> TimingReply:
    """The `timing` of a candidate that did not survive it."""
    return {
        "candidate": None,
        "eager": None,
        "compile": None,
        "compile_error": "",
        "outputs_checked": 0,
        "outputs_wrong": 0,
        "clock_ratio": 0.0,
        "bytes_floor": 0,
        "rejected": f"{kind}: {reason}",
    }
