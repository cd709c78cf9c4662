"""Rounds of timed calls on a GPU, as the oracle reckons with their clocks:
no device is needed.
"""

import os
import sys
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from weft.timing import device_rounds  # noqa: E402
from weft.timing.untimed_work import UntimedWork  # noqa: E402


class FakeBench:
    calls = 1
    bytes_floor = 3 << 30
    bytes_written = 1 << 30
    compile_errors = {}
    trusts_events = False

    def untimed_work(self, timed):
        return UntimedWork()


class PackageBench(FakeBench):
    trusts_events = True


def device_rounds_with(candidate, baseline, late=0.0, bench=FakeBench):
    """DeviceRounds after rounds with these (outside, inside) seconds."""
    fake = types.SimpleNamespace(
        driver=types.SimpleNamespace(uuid=lambda: "none", attribute=lambda name: 50 << 20)
    )
    made = device_rounds.DeviceRounds(None, None, bench(), ["eager"], None, fake)
    made._copy_gbps = 4000.0
    for party, clocks in (("candidate", candidate), ("eager", baseline)):
        for outside, own in clocks:
            made._clocks[party].append((outside, own))
            answer = {"ns": int(own * 1e9), "late_ns": int(late * 1e9)}
            made._note(party, outside, answer)
    return made


class DeviceClocks(unittest.TestCase):
    BASELINE = [(0.0030, 0.0020), (0.0031, 0.0020), (0.0032, 0.0020)]

    def rejected(self, candidate, **more):
        return device_rounds_with(candidate, self.BASELINE, **more).report()["rejected"]

    def test_an_honest_party_has_its_events_time(self):
        made = device_rounds_with([(0.0021, 0.001)] * 3, self.BASELINE)
        report = made.report()
        self.assertEqual(report["rejected"], "")
        self.assertAlmostEqual(report["candidate"]["median_us"], 1000, delta=1)
        self.assertAlmostEqual(report["over_eager"]["ratio"], 2, delta=0.01)

    def test_work_that_the_events_do_not_see_is_cheating(self):
        self.assertIn("clock", self.rejected([(0.0060, 0.001)] * 3))

    def test_one_round_without_it_clears_a_candidate(self):
        clocks = [(0.0060, 0.001), (0.0022, 0.001), (0.0060, 0.001)]
        self.assertEqual(self.rejected(clocks), "")

    def test_more_outside_time_than_any_baseline_had_counts(self):
        made = device_rounds_with([(0.0027, 0.001)] * 3, self.BASELINE)
        told = made.report()["candidate"]["median_us"]
        self.assertAlmostEqual(told, 1500, delta=1)

    def test_a_package_has_its_events_time_on_a_busy_machine(self):
        made = device_rounds_with(
            [(0.0060, 0.001), (0.0070, 0.001), (0.0021, 0.001)], self.BASELINE, bench=PackageBench
        )
        told = made.report()
        self.assertEqual(told["rejected"], "")
        self.assertAlmostEqual(told["candidate"]["p90_us"], 1000, delta=1)
        self.assertAlmostEqual(told["over_eager"]["low"], 2, delta=0.01)

    def test_even_a_package_hides_nothing_in_every_round(self):
        self.assertIn("clock", self.rejected([(0.0060, 0.001)] * 3, bench=PackageBench))

    def test_one_slow_message_of_the_framework_s_hides_no_false_clock(self):
        made = device_rounds_with([(0.0060, 0.001)] * 15, self.BASELINE * 4 + [(0.0500, 0.0020)])
        self.assertIn("clock", made.report()["rejected"])

    def test_a_package_that_takes_no_time_divides_nothing_by_it(self):
        made = device_rounds_with([(0.0011, 0.0)] * 3, self.BASELINE, bench=PackageBench)
        self.assertIn("less than writing", made.report()["rejected"])

    def test_work_after_the_end_of_the_stream_is_cheating(self):
        self.assertIn("goes on", self.rejected([(0.0021, 0.001)] * 3, late=0.0005))

    def test_nothing_writes_faster_than_memory(self):
        self.assertIn("less than writing", self.rejected([(0.0011, 0.0001)] * 3))


class RatesOfTheDevice(unittest.TestCase):
    def told(self, *after):
        """What is reported where the driver says this after each call."""
        made = device_rounds_with([], [])
        left = list(after)
        made._nvml = types.SimpleNamespace(clocks=lambda: left.pop(0))
        for _ in range(device_rounds.CLOCKED_ROUNDS + 1):
            for party in ("candidate", "eager"):
                answer = {"ns": 1_000_000, "late_ns": 0}
                made._clocks[party].append((0.0011, 0.001))
                made._note(party, 0.0011, answer)
        self.assertEqual(left, [])
        return made.report()["gpu"]

    def test_each_party_s_clock_is_read_after_its_first_calls(self):
        slow = {"sm_mhz": 1500, "throttled": ["power cap"]}
        fast = {"sm_mhz": 1980, "throttled": []}
        told = self.told(*[slow, fast] * device_rounds.CLOCKED_ROUNDS)
        self.assertEqual(told["sm_mhz"], {"candidate": 1500, "eager": 1980})
        self.assertEqual(told["throttled"], ["power cap"])

    def test_without_the_library_nothing_is_told(self):
        told = self.told(*[{}] * (2 * device_rounds.CLOCKED_ROUNDS))
        self.assertEqual((told["sm_mhz"], told["throttled"]), ({}, []))


if __name__ == "__main__":
    unittest.main()
