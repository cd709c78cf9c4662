"""Measures work outside the clock: before a call is timed, or after it.

The untimed part of a candidate's messages is compared with that of eager's, since both copy
the same inputs and results.
"""

from __future__ import annotations

import operator
import statistics
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.timing.quantiles import median_bounds, quantile

if TYPE_CHECKING:
    from weft.candidate.slot import Slot

#: What stands for the quietest rounds: the candidate's that such a share lies
#: below, and this of each message of the framework's.
QUIET_SHARE = 0.05
QUIET_USUAL_SHARE = 0.1
#: The same work takes up to twice as much of a processor whose caches others
#: fill: a candidate's may be such a one throughout, and the framework's not. So
#: much of what the framework's take counts as noise, at most.
OTHERS_CACHES_S = 0.001
#: In so many of a candidate's messages threads or processes may have begun, and
#: nothing is made of it.
UNSEEN_SHARE = 0.1


class TooBusy(Exception):
    """Nothing can be said of times here and now."""


class UntimedWork(typing.NamedTuple):
    """Seconds of work a call that lie beside the clock."""

    median_s: float = 0.0
    #: By the low end of the median's interval.
    least_s: float = 0.0
    #: How many the framework's own may exceed their median by there, but for
    #: the longest tenth before the clock, and after it; and a candidate's by
    #: the same work.
    noise_s: float = 0.0
    #: By the quietest rounds of both sides: a machine that is busy for most of
    #: the time hides nothing of them.
    quiet_s: float = 0.0
    #: The median, held against the framework's quietest: it is no more.
    most_s: float = 0.0
    #: How much of the median, or of that, threads and processes of the candidate
    #: were seen to work which do not answer.
    by_others_s: float = 0.0


class Message(typing.NamedTuple):
    """What one took …"""

    seconds: float = 0.0
    #: … and of processors (work_clock.py): the thread that answers, and all
    #: threads and processes that were seen.
    answering_s: float = 0.0
    by_all_s: float = 0.0
    is_all: bool = True

    @staticmethod
    def last_of(slot: Slot, seconds: float) -> Message:
        """The last one to that slot, which took so long."""
        worked = slot.worked
        return Message(seconds, worked.answering_ns / 1e9, worked.by_all_ns / 1e9, worked.is_all)

    def then(self, other: Message) -> Message:
        return Message(
            self.seconds + other.seconds,
            self.answering_s + other.answering_s,
            self.by_all_s + other.by_all_s,
            self.is_all and other.is_all,
        )


@dataclass(frozen=True)
class CallMessages:
    """The messages of the calls that were timed: a candidate's, and eager's."""

    timed: list[Message]
    loads: list[Message]  #: before the timed ones
    exports: dict[int, Message]  #: after them, by the round's number
    usual_loads: list[Message]  #: eager's
    usual_exports: list[Message]


def untimed_work(messages: CallMessages) -> UntimedWork:
    """The UntimedWork of a candidate's messages on the host: by what processors
    worked, which is no more on a busy machine, unlike what passed.

    What the thread works that answers is surely work. Other threads and
    processes may work for it, or spin while they wait for their next task: so
    they make nobody a cheat, and are nothing where no time has passed for it.
    """
    surely, seen, passed = (
        untimed_work_by(kind, messages) for kind in ("answering_s", "by_all_s", "seconds")
    )
    by_others_s = max(
        min(likely, passed.most_s) - sure
        for sure, likely in ((surely.median_s, seen.median_s), (surely.most_s, seen.most_s))
    )
    untimed = [*messages.loads, *messages.exports.values()]
    unseen = sum(not one.is_all for one in untimed)
    if unseen > UNSEEN_SHARE * len(untimed):  # it may be all that has passed
        seen = UntimedWork(*map(max, seen, passed))
    median_s, _, _, quiet_s, most_s = (
        max(sure, min(likely, passed.most_s)) for sure, likely in zip(surely[:5], seen)
    )
    return surely._replace(
        median_s=median_s, quiet_s=quiet_s, most_s=most_s, by_others_s=max(0.0, by_others_s)
    )


def untimed_work_by(kind: str, messages: CallMessages) -> UntimedWork:
    """The UntimedWork by that kind of seconds. Work may lie before the clock in one round and after it in another: so all
    is added up by the round."""

    def of(some: list[Message]) -> list[float]:
        return [getattr(message, kind) for message in some]

    timed_s = of(messages.timed)
    usual_loads_s, usual_exports_s = of(messages.usual_loads), of(messages.usual_exports)
    begun = list(map(operator.add, timed_s, of(messages.loads)))
    ended = [begun[number] + getattr(one, kind) for number, one in messages.exports.items()]
    own, load = statistics.median(timed_s), statistics.median(usual_loads_s)
    beyond = [[seconds - own - load for seconds in median_bounds(begun)[:2]]]
    if not ended:
        median, least = beyond[0]
        return UntimedWork(max(0.0, median), max(0.0, least), _noise(usual_loads_s))
    usual = own + load + statistics.median(usual_exports_s)
    beyond.append([seconds - usual for seconds in median_bounds(ended)[:2]])
    median, least = map(max, zip(*beyond))
    quiet = (
        own
        + quantile(usual_loads_s, QUIET_USUAL_SHARE)
        + quantile(usual_exports_s, QUIET_USUAL_SHARE)
    )
    return UntimedWork(
        max(0.0, median),
        max(0.0, least),
        _noise(usual_loads_s, usual_exports_s),
        max(0.0, quantile(ended, QUIET_SHARE) - quiet),
        max(0.0, median, statistics.median(ended) - quiet),
    )


def _noise(*messages: Sequence[float]) -> float:
    """Seconds by which a candidate's may exceed the framework's and be the same."""
    return sum(map(_spread, messages)) + min(sum(map(statistics.median, messages)), OTHERS_CACHES_S)


def _spread(values: Iterable[float]) -> float:
    """By how much nine of ten exceed their median at most."""
    ordered = sorted(values)
    return ordered[(9 * len(ordered) - 1) // 10] - statistics.median(ordered)
