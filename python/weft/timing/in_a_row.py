"""Calls without a pause, as a person's own loop makes them.

In a round each side wakes for its one call, finds its code in cold caches, and
launches more slowly than a loop does. Whoever launches less gains by that, and
what the device does hides behind it. So a module is timed both ways, and what is
said of it is the lower of the two. Nothing is compared here: who is faster in a
loop alone gains nothing by it.
"""

import statistics
import time

from weft.candidate.slot import Ended
from weft.device.laps import lap
from weft.timing.quantiles import median_bounds

#: So many turns: all on one side of 1 is chance once in 64 times.
TURNS = 7
#: A turn's calls of one side take so long, by eager's time in the rounds …
ROW_S = 0.02
CALLS_MIN, CALLS_MAX = 3, 100
#: … which are left out where one call takes longer: to wake is little of that.
CALL_S_MAX = 0.03
#: All of them, unless the machine is busy.
TURNS_S = 5.0


class InARow:
    """{party: seconds a call, in each turn}; empty where there is nothing to
    say."""

    def __init__(self):
        self.calls, self.seconds = 0, {}

    def run(self, bench, sides, call_s, dice):
        """`sides`: {party: its process}; `call_s`: of eager's. Ended: of the
        candidate's or the baseline's process."""
        self.calls = max(CALLS_MIN, min(CALLS_MAX, int(ROW_S / call_s)))
        found = {party: [] for party in sides}
        empty = dict.fromkeys(sides, ROW_S)
        until = time.monotonic() + TURNS_S
        for _ in range(TURNS):
            if time.monotonic() > until:
                return
            order = list(sides)
            dice.shuffle(order)
            for party in order:
                nothing, row = bench.in_a_row(
                    sides[party], party, (0, self.calls))
                empty[party] = min(empty[party], nothing)
                found[party].append(row)
        self.seconds = {
            party: [max(row - empty[party], 1e-9) / self.calls for row in rows]
            for party, rows in found.items()}

    def lower(self, timing):
        """The timing of the rounds with what is lower of its speedups and these;
        `in_a_row` has the times."""
        told = dict(timing, in_a_row=None)
        if not self.seconds:
            return told
        told["in_a_row"] = {"calls": self.calls, "us": {
            _name(party): statistics.median(times) * 1e6
            for party, times in self.seconds.items()}}
        own = self.seconds["candidate"]
        for party, times in self.seconds.items():
            over = f"over_{_name(party)}"
            if party == "candidate" or not told.get(over):
                continue
            found = median_bounds([a / b for a, b in zip(times, own)])
            if found[0] < told[over]["ratio"]:
                told[over] = dict(zip(("ratio", "low", "high"), found))
        return told


def _name(party):
    """As a timing has it."""
    return party.replace("-", "_")


def measured(bench, sides, call_s, dice):
    """The InARow of these. None: a call failed that did not by itself, as it may
    in a model that counts its calls; and its process has ended."""
    row = InARow()
    if call_s > CALL_S_MAX or not bench.has_rows:
        return row
    try:
        with lap("in a row"):
            row.run(bench, sides, call_s, dice)
    except Ended:
        return None
    return row
