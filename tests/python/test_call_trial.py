"""The trial of the user's call: with the module's own forward() and with kernels."""

import math
import unittest
from unittest import mock

import torch

from weft.backend.graphs import call_structure
from weft.backend.implementations import call_trial, timing_rounds
from weft.backend.implementations.call_trial import CallSpeed, Trial


class Box:
    def __init__(self, items):
        self.items = items


def trial_of(own, optimised, *args, written=(), draws=False):
    return Trial(own, optimised, call_structure.flatten((args, {})), list(written), draws)


class Differences(unittest.TestCase):
    def why(self, own, optimised, *args, **named):
        return trial_of(own, optimised, *args, **named).difference()

    def test_rounding_is_no_difference(self):
        x = torch.randn(64)
        for make in (
            torch.tanh,
            lambda x: (x.half() * 3, [None, 1.5]),
            lambda x: torch.complex(x, x),
            lambda x: x > 0,
            lambda x: x.where(x > 0, torch.inf),
            lambda x: x.to_sparse(),
        ):
            self.assertEqual(self.why(make, make, x), "")
        self.assertEqual(self.why(torch.tanh, lambda x: torch.tanh(x) * 1.01, x), "")

    def test_other_results_are(self):
        x = torch.randn(64)
        for own, optimised in (
            (torch.tanh, lambda x: torch.tanh(x) * 2),
            (torch.tanh, lambda x: [torch.tanh(x)]),
            (torch.tanh, lambda x: torch.tanh(x)[:3]),
            (torch.tanh, lambda x: torch.tanh(x).double()),
            (lambda x: 1, lambda x: 2),
            (lambda x: x > 0, lambda x: x < 0),
            (lambda x: x, lambda x: x.where(x > 0, torch.nan)),
            (lambda x: torch.complex(x, x), lambda x: torch.complex(x, -x)),
        ):
            self.assertIn("something else", self.why(own, optimised, x))

    def test_a_second_call_with_another_result_is_state(self):
        calls = []

        def counting(x):
            calls.append(x)
            return x * len(calls)

        self.assertEqual(self.why(counting, torch.tanh, torch.ones(4)), call_trial.STATEFUL)

    def test_numbers_that_are_drawn_are_drawn_again(self):
        x, before = torch.ones(64), torch.get_rng_state()

        def dropped(x):
            return torch.dropout(x, 0.5, True)

        self.assertEqual(self.why(dropped, dropped, x, draws=True), "")
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_what_is_written_is_put_back(self):
        x, box = torch.ones(4), Box([])

        def writes(x, box):
            box.items = [*box.items, 1]
            return x.add_(1), len(box.items)

        self.assertEqual(self.why(writes, writes, x, box, written=[x]), "")
        self.assertEqual((x.tolist(), box.items), ([1.0] * 4, []))


class Speeds(unittest.TestCase):
    """By a clock that the functions themselves advance."""

    def speed(self, own_s, optimised_s, seconds=1e9):
        now = [0.0]

        def taking(taken):
            def run(x):
                now[0] += taken
                return x

            return run

        def clock():
            return now[0]

        with (
            mock.patch.object(timing_rounds.time, "monotonic", clock),
            mock.patch.object(timing_rounds.time, "perf_counter", clock),
        ):
            return trial_of(taking(own_s), taking(optimised_s), torch.ones(2)).speed(seconds)

    def test_only_a_clear_gain_counts(self):
        for own, optimised, is_faster in (
            (2.0, 1.0, True),
            (1.05, 1.0, True),
            (1.01, 1.0, False),
            (1.0, 1.0, False),
            (1.0, 2.0, False),
            (2e-5, 1e-5, True),
            (1e-5, 2e-5, False),
        ):
            found = self.speed(own, optimised)
            self.assertEqual(found.is_faster, is_faster, (own, optimised))
            self.assertTrue(math.isclose(found.ratio, own / optimised), found)

    def test_without_time_the_search_s_timing_stands(self):
        self.assertEqual(self.speed(5.0, 5.0, seconds=1.0), CallSpeed(0.0, True))

    def test_the_reason_names_the_speed(self):
        of = trial_of(torch.tanh, torch.tanh, torch.ones(4))
        with mock.patch.object(Trial, "speed", lambda *_: CallSpeed(0.75, False)):
            why, speed = call_trial.refusal(of, 1.0)
        self.assertIn("not worth compiling", why)
        self.assertIn("0.75 times", why)
        self.assertEqual(speed.ratio, 0.75)
        self.assertEqual(call_trial.refusal(of, 0.0)[0], "")


if __name__ == "__main__":
    unittest.main()
