"""Calls without a pause: what is made of their times; and real ones."""

import json
import random
import types
import unittest
from unittest import mock

import weft_case
from weft.candidate.slot import CandidateFailed
from weft.timing import back_to_back, untimed_work

MS = 1e-3


def speedup(ratio):
    return {"ratio": ratio, "low": 0.98 * ratio, "high": 1.02 * ratio}


class Bench:
    """A side's call takes so long; a message 2 ms besides."""

    has_rows = True

    def __init__(self, takes, busy=(), reading=None):
        """`reading`: seconds that a read of its results adds to a side's call."""
        self.takes, self.busy, self.asked = takes, iter(busy), []
        self.reads_rows, self.reading = reading is not None, reading

    def back_to_back(self, process, party, numbers, reads=False):
        if reads:
            return [2 * MS + calls * (self.takes[party] + self.reading[party]) for calls in numbers]
        self.asked.append((process, party, numbers))
        late = next(self.busy, 0)
        return [2 * MS + late + calls * self.takes[party] for calls in numbers]


class BackToBackTimes(unittest.TestCase):
    def measured(self, bench, call_s=4 * MS):
        sides = {party: party + "'s" for party in bench.takes}
        return back_to_back.measured(bench, sides, call_s, random.Random(1))

    def told(self, bench, **timing):
        return self.measured(bench).lower(
            {
                "over_eager": speedup(2),
                "over_compile": None,
                "over_compile_autotune": None,
                **timing,
            }
        )

    def test_the_lower_speedup_of_both_ways_is_told(self):
        takes = {
            "candidate": 4 * MS,
            "eager": 4.4 * MS,
            "compile": 3.6 * MS,
            "compile-autotune": 16 * MS,
        }
        told = self.told(Bench(takes), over_compile=speedup(1.2), over_compile_autotune=speedup(3))
        self.assertAlmostEqual(told["over_eager"]["ratio"], 1.1)
        self.assertAlmostEqual(told["over_compile"]["ratio"], 0.9)
        self.assertEqual(told["over_compile_autotune"], speedup(3))
        row = told["back_to_back"]
        self.assertEqual(row["calls"], 4)  # 20 ms of eager's
        self.assertAlmostEqual(row["us"]["candidate"], 4000)
        self.assertAlmostEqual(row["us"]["compile_autotune"], 16000)

    def test_who_is_faster_in_a_loop_alone_gains_nothing(self):
        told = self.told(Bench({"candidate": 1e-6, "eager": 4 * MS}))
        self.assertEqual(told["over_eager"], speedup(2))
        self.assertIsNone(told["over_compile"])

    def test_every_side_has_its_own_process_and_its_turns(self):
        bench = Bench({"candidate": MS, "eager": MS, "compile": MS})
        self.measured(bench)
        turns = bench.asked[2:]  # two say how many calls there are
        for party in bench.takes:
            own = [one for one in turns if one[1] == party]
            self.assertEqual(own, [(party + "'s", party, (0, 20))] * back_to_back.TURNS)
        first = [party for _, party, _ in turns[::3]]
        self.assertGreater(len(set(first)), 1)  # in no fixed order

    def test_one_slow_turn_does_not_widen_the_interval(self):
        bench = Bench({"candidate": MS, "eager": 1.5 * MS}, busy=[0, 0, 0, 0, 50 * MS])
        over = self.told(bench)["over_eager"]
        for bound in over.values():
            self.assertAlmostEqual(bound, 1.5)

    def test_long_calls_and_benches_without_rows_are_left_out(self):
        takes = {"candidate": MS, "eager": MS}
        for call_s, has_rows in ((0.05, True), (4 * MS, False)):
            bench = Bench(takes)
            bench.has_rows = has_rows
            row = self.measured(bench, call_s)
            self.assertEqual((row.seconds, bench.asked), ({}, []))
        self.assertIsNone(row.lower({"over_eager": None})["back_to_back"])

    def test_a_machine_too_busy_for_its_turns_says_nothing(self):
        row = self.of_two_turns({"candidate": 700 * MS, "eager": 700 * MS})
        self.assertEqual((row.seconds, row.why), ({}, "the machine is too busy"))

    def test_who_is_too_slow_for_its_turns_is_told_by_those_it_had(self):
        row = self.of_two_turns({"candidate": 700 * MS, "eager": MS})
        told = row.lower({"over_eager": speedup(2), "over_compile": None})
        self.assertAlmostEqual(told["over_eager"]["ratio"], 1 / 700)
        self.assertEqual(len(row.seconds["candidate"]), 2)

    def of_two_turns(self, takes):
        clock = iter(range(0, 1000, 2))
        with mock.patch.object(
            back_to_back, "time", types.SimpleNamespace(monotonic=lambda: next(clock))
        ):
            return self.measured(Bench(takes))

    def test_a_candidate_that_fails_where_eager_goes_on_is_refused(self):
        bench = Failing({"candidate": MS, "eager": MS}, ["candidate"])
        with self.assertRaises(CandidateFailed):
            self.measured(bench)

    def test_where_eager_fails_too_nothing_is_said(self):
        for who in (["eager"], ["candidate", "eager"]):
            row = self.measured(Failing({"candidate": MS, "eager": MS}, who))
            self.assertEqual((row.seconds, row.ends_baseline), ({}, True))
            told = row.lower({"over_eager": speedup(2)})
            self.assertEqual(told["over_eager"], speedup(2))
            self.assertIn("left its table", told["not_back_to_back"])


class UntimedWork(unittest.TestCase):
    """On a device, where a message's own time hides what is left to others."""

    OUTPUT_BYTES = 4 << 20  # copied in 2 us

    def said(self, takes, reading, single_us=300.0, device="gpu", median_us=None):
        bench = Bench(takes, reading=reading)
        row = back_to_back.measured(
            bench, {party: party for party in takes}, 4 * MS, random.Random(1)
        )
        single = {"p90_us": single_us, "median_us": median_us or single_us}
        timing = {
            "candidate": single,
            "eager": {party: takes["eager"] * 1e6 for party in single},
            device: {"copy_gbps": 4000.0},
        }
        return row.untimed_work(timing, self.OUTPUT_BYTES)

    def test_work_that_a_reader_starts_is_found(self):
        takes = {"candidate": 4e-6, "eager": 40e-6}
        said = self.said(takes, {"candidate": 38e-6, "eager": 4e-6})
        self.assertIn("cheated", said)
        self.assertIn("after it", said)

    def test_work_before_a_single_call_is_found(self):
        takes = {"candidate": 187e-6, "eager": 177e-6}
        reading = {"candidate": 4e-6, "eager": 4e-6}
        self.assertIn("before it", self.said(takes, reading, single_us=32))
        self.assertEqual(self.said(takes, reading, single_us=220), "")

    def test_work_that_noise_may_hide_is_neither_found_nor_excused(self):
        takes = {"candidate": 95e-6, "eager": 90e-6}
        reading = {"candidate": 4e-6, "eager": 4e-6}
        # As a cheat on an H200, with seven other candidates on its processors.
        with self.assertRaisesRegex(untimed_work.TooBusy, "too busy: 0.09 ms of a call"):
            self.said(takes, reading, single_us=40, median_us=5)
        self.assertEqual(self.said(takes, reading, single_us=120, median_us=80), "")

    def test_a_row_that_is_slow_for_eager_too_says_nothing(self):
        takes = {"candidate": 95e-6, "eager": 90e-6}
        row = back_to_back.BackToBackTimes()
        row.seconds = {party: [seconds] * 9 for party, seconds in takes.items()}
        times = {"p90_us": 40, "median_us": 5}
        timing = {"candidate": times, "eager": times, "gpu": {"copy_gbps": 4000.0}}
        self.assertEqual(row.untimed_work(timing, self.OUTPUT_BYTES), "")

    def test_a_copy_that_eager_hides_behind_its_launches_is_no_work(self):
        takes = {"candidate": 10e-6, "eager": 150e-6}
        self.assertEqual(self.said(takes, {"candidate": 9e-6, "eager": 0.0}), "")

    def test_nothing_is_said_of_a_host(self):
        takes = {"candidate": 187e-6, "eager": 177e-6}
        reading = {"candidate": 90e-6, "eager": 0.0}
        self.assertEqual(self.said(takes, reading, single_us=10, device="host"), "")


class Failing(Bench):
    """Where these fail after more than three calls."""

    def __init__(self, takes, who):
        super().__init__(takes)
        self.who = who

    def back_to_back(self, process, party, numbers, reads=False):
        if party in self.who and max(numbers) > back_to_back.CALLS_MIN:
            raise CandidateFailed("crashed", "its counter left its table")
        return super().back_to_back(process, party, numbers)


class RealRun(weft_case.WeftCase):
    def test_a_module_is_timed_both_ways(self):
        done = self.weft(
            "run",
            self.write("problem.py", weft_case.TINY),
            "--out",
            "run",
            "--no-compile-baseline",
            "--variants",
            "1",
            "--timing-ms",
            "50",
        )
        self.assert_ends(done, 0)
        with open(self.path("run/result.json"), encoding="utf-8") as file:
            row = json.load(file)["timing"]["back_to_back"]
        self.assertGreaterEqual(row["calls"], 3)
        for side in ("candidate", "eager"):
            self.assertGreater(row[side + "_us"], 0)
        with open(self.path("run/report.md"), encoding="utf-8") as file:
            self.assertIn(f"| {row['calls']} calls in a row, each |", file.read())


if __name__ == "__main__":
    unittest.main()
