"""Kernels that are slower in the program than who computes without them: what a call
takes, and what it comes to."""

import itertools
import unittest
from unittest import mock

import torch
from backend_case import BackendCase, Net
from torch import nn

from weft.backend.implementations import first_result_check, timing_rounds
from weft.backend.implementations.composed_module import ComposedModule, Constants


class Trial(unittest.TestCase):
    """By played times: seconds that each call of a side takes. A side's replay
    is "again" and its name."""

    def chosen(self, seconds=300, ours="kernels", record=None, **played):
        played = {
            name.replace("_", " "): one if isinstance(one, list) else [one]
            for name, one in played.items()
        }
        played = {
            name: itertools.chain(one, itertools.repeat(one[-1])) for name, one in played.items()
        }
        self.clock = 0.0

        def taken(side, arguments, devices):
            self.clock += (one := next(played[side]))
            return one

        with (
            mock.patch.object(timing_rounds, "_seconds", taken),
            mock.patch.object(timing_rounds.time, "monotonic", lambda: self.clock),
        ):
            return timing_rounds.select_fastest(
                "framework", ours, [torch.zeros(2)], seconds, record
            )[:2]

    def test_who_is_slower_is_told_by_how_much(self):
        found = self.chosen(framework=[9, 2, 2, 2, 2, 2], kernels=[1, 3, 3, 3, 90, 3])
        self.assertEqual(found, ("framework", 1.5))

    def test_who_is_faster_stays(self):
        self.assertEqual(self.chosen(framework=2, kernels=1), ("kernels", 0))

    def test_kernels_that_are_hardly_faster_are_given_up(self):
        for taken in (1.005, 1, 0.995):
            self.assertEqual(self.chosen(framework=1, kernels=taken), ("framework", taken))

    def test_one_round_of_the_other_kind_is_chance_two_are_not(self):
        found = self.chosen(framework=2, kernels=[6, 1, 1, 2.2, 1, 1])
        self.assertEqual(found, ("kernels", 0))
        found = self.chosen(framework=2, kernels=[6, 2.2, 1, 2.2, 1, 1])
        self.assertEqual(found, ("framework", 0.5))

    def test_where_the_time_is_over_the_search_s_word_stands(self):
        found = self.chosen(25, framework=1, kernels=9)
        self.assertEqual(found, ("kernels", 0))
        self.assertEqual(self.clock, 20)  # of 60 seconds for all rounds
        self.assertEqual(self.chosen(0, framework=1, kernels=9), ("kernels", 0))
        self.assertEqual(self.clock, 0)

    def test_short_calls_are_compared_more_often(self):
        found = self.chosen(300, framework=0.1, kernels=[1] * 3 + [0.05])
        self.assertEqual(found, ("kernels", 0))
        self.assertAlmostEqual(self.clock, 26 * 0.1 + 3 + 23 * 0.05)

    def test_no_side_is_always_first_or_after_the_same(self):
        for sides in (["a", "b"], ["a", "b", "c", "d"]):
            called = []
            with mock.patch.object(
                timing_rounds, "_seconds", lambda side, *_: called.append(side) or 1e-4
            ):
                timing_rounds._times(sides, [], timing_rounds.time.monotonic() + 60)
            count = len(sides)
            rounds = [called[i : i + count] for i in range(0, len(called), count)]
            self.assertEqual(len(rounds), timing_rounds.ROUNDS_MAX + 1)
            for side in sides:
                firsts = sum(one[0] == side for one in rounds)
                self.assertLessEqual(abs(firsts - len(rounds) / count), 2)
                before = {one[one.index(side) - 1] for one in rounds if one[0] != side}
                self.assertEqual(len(before), min(2, count - 1), sides)

    def test_three_rounds_are_enough(self):
        found = self.chosen(45, framework=1, kernels=9)
        self.assertEqual((found, self.clock), (("framework", 9), 40))

    def test_replays_are_left_out_where_time_is_short(self):
        found = self.chosen(
            60,
            framework=1,
            kernels=2,
            record=lambda side: "again " + side,
            again_framework=0.5,
            again_kernels=0.5,
        )
        self.assertEqual(found, ("again framework", 1))
        found = self.chosen(
            25,
            framework=1,
            kernels=2,
            record=lambda side: "again " + side,
            again_framework=0.5,
            again_kernels=0.5,
        )
        self.assertEqual((found, self.clock), (("framework", 2), 22))

    def test_a_replay_is_taken_where_it_is_faster(self):
        def again(side):
            return "again " + side

        for times, found in (
            ((5, 4, 2, 1), ("again kernels", 0)),
            ((5, 4, 2, 3.99), ("again framework", 2)),
            ((5, 4, 4.9, 3.97), ("kernels", 0)),  # by too little
            ((5, 4, 6, 7), ("kernels", 0)),
            ((1, 4, 6, 3), ("framework", 3)),
        ):
            names = ("framework", "kernels", "again_framework", "again_kernels")
            with self.subTest(times):
                self.assertEqual(self.chosen(record=again, **dict(zip(names, times))), found)

    def test_without_kernels_the_framework_may_be_replayed(self):
        def again(side):
            return "again " + side

        found = self.chosen(ours=None, record=again, framework=2, again_framework=1)
        self.assertEqual(found, ("again framework", 0))
        found = self.chosen(ours=None, record=lambda _: None, framework=2)
        self.assertEqual(found, ("framework", 0))
        self.assertEqual(
            (self.chosen(ours=None, framework=2), self.clock), (("framework", 0), 0)
        )  # there is nothing to compare

    def test_without_time_nothing_is_recorded(self):
        def never(_):
            raise AssertionError("it was recorded")

        self.assertEqual(self.chosen(0, record=never), ("kernels", 0))


class InThePiece(BackendCase):
    def test_slower_kernels_are_given_up_and_why_is_told(self):
        net = Net().eval()

        def slow(framework, kernels, arguments, seconds, record):
            self.assertEqual(torch._C._len_torch_dispatch_stack(), 0)
            self.assertIsInstance(kernels, ComposedModule)
            self.assertNotIsInstance(framework, ComposedModule)
            self.assertEqual(
                (len(arguments) > 0, seconds, record), (True, 1, None)
            )  # there is no GPU
            return timing_rounds.Choice(framework, 1.5)

        with mock.patch.object(timing_rounds, "select_fastest", slow):
            mine = self.compiled(net, trial_s=1, replay_mb=1)
            x = torch.randn(5, 12)
            with torch.no_grad():
                for _ in range(2):
                    self.assert_same(mine(x), net(x))
        self.assertEqual(self.states("inference"), ["pytorch"])
        self.assertIn(
            "in this program the kernels take 1.50 times as long as eager", self.reasons()
        )

    def test_attention_without_dropout_draws_nothing(self):
        from weft.backend.graphs.random_state import uses_rng

        def attention(dropout):
            def forward(q, k, v):
                return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout, True)[0]

            q = torch.empty(1, 2, 8, 16, device="meta")
            return torch.fx.experimental.proxy_tensor.make_fx(forward)(q, q, q)

        self.assertTrue(uses_rng(attention(0.5)))
        self.assertFalse(uses_rng(attention(0.0)))

    def test_a_graph_that_draws_is_not_called_again(self):
        class Draws(nn.Module):
            def forward(self, x):
                return torch.tanh(x) + torch.rand_like(x)

        def never(*_):
            raise AssertionError("it was tried")

        with mock.patch.object(timing_rounds, "select_fastest", never), torch.no_grad():
            mine = self.compiled(Draws(), trial_s=1)
            for _ in range(2):
                mine(torch.randn(4, 8))
        self.assertNotIn("tried", " ".join(self.reasons()))
        self.assertEqual(self.states(), ["ready"])


class Precision(unittest.TestCase):
    def test_products_in_tf32_keep_as_many_bits_as_halves(self):
        expected = [torch.ones(64)]
        got = [torch.ones(64) * 1.004]
        self.assertIn("an error of", first_result_check.difference(expected, got))
        self.assertEqual(first_result_check.difference(expected, got, "tf32"), "")
        far = [torch.ones(64) * 1.1]
        self.assertIn("an error of", first_result_check.difference(expected, far, "tf32"))
        wide = [one.double() for one in expected], [one.double() for one in got]
        self.assertIn("an error of", first_result_check.difference(*wide, "tf32"))


class OwnConstants(unittest.TestCase):
    """As torchvision's Swin makes them: numbers on the processor, on a GPU."""

    def test_numbers_are_where_the_arguments_are(self):
        table = torch.arange(3)
        given = Constants([torch.tensor(2.0), table])
        number, other = given.beside([4, torch.empty(2, device="meta")])
        self.assertEqual(number.device.type, "meta")
        self.assertIs(other, table)

    def test_on_the_processor_they_are_what_they_are_now(self):
        number = torch.tensor(2.0)
        given = Constants([number])
        self.assertEqual(given.beside([torch.empty(2)])[0].item(), 2)
        number.data.fill_(3)
        self.assertEqual(given.beside([torch.empty(2)])[0].item(), 3)

    def test_they_are_moved_once_and_again_when_written_to(self):
        number = torch.tensor(2.0)
        given = Constants([number])
        x = [torch.empty(2, device="meta")]
        first = given.beside(x)
        self.assertIs(given.beside(x), first)
        number.fill_(3)
        self.assertIsNot(given.beside(x), first)

    def test_what_is_a_result_stays_where_it_is(self):
        given = Constants([torch.tensor(2.0), torch.tensor(1)], {0, 1})
        there = given.beside([torch.empty(2, device="meta")])
        self.assertEqual([one.device.type for one in there], ["cpu", "meta"])


if __name__ == "__main__":
    unittest.main()
