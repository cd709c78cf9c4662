"""Values drawn for integers, and where they are tried first."""

import itertools
import unittest
from unittest import mock

import oracle_samples as samples
from weft.device import device
from weft.expect import expected, inputs, reference

import torch

LOGITS, CLASSES = (6, 40), (6,)


def classified(more=()):
    """A loss by classes, x1; the graph may read these otherwise, too."""
    return reference.Reference(
        samples.graph(
            samples.given(LOGITS)
            + [
                samples.node("x1", "input", "x1", values=samples.tensor(CLASSES, "int64")),
                samples.node(
                    "l",
                    "call",
                    "aten.nll_loss_forward.default",
                    [samples.ref("x0"), samples.ref("x1"), None, 1, -100],
                    [samples.tensor(()), samples.tensor(())],
                    is_tuple=True,
                ),
                samples.node("y", "call", "getitem", [samples.ref("l"), 0], samples.tensor(())),
                *more,
            ],
            ["y"],
        )
    )


def shifted():
    return samples.node(
        "s", "call", "aten.add.Tensor", [samples.ref("x1"), 1], samples.tensor(CLASSES, "int64")
    )


class Integers(unittest.TestCase):
    def test_classes_are_drawn_from_all_that_there_are(self):
        self.assertEqual(inputs.integer_limits(classified()), {"x1": 40})

    def test_what_is_read_as_an_index_alone_is_bounded(self):
        self.assertTrue(inputs.are_bounded(classified()))
        self.assertFalse(inputs.are_bounded(classified([shifted()])))

    def test_what_nothing_bounds_is_tried_on_the_host_first(self):
        gpu = mock.Mock(wraps=device.HOST, is_cuda=True, torch="a gpu")
        with mock.patch.object(reference.Reference, "function"):
            for more, place in (([], "a gpu"), ([shifted()], device.HOST.torch)):
                with self.subTest(more=len(more)):
                    maker = expected.CaseMaker(classified(more), gpu)
                    self.assertEqual(maker._trial_device, place)

    def test_cases_of_bounded_classes_are_made(self):
        made = expected.make_cases(classified(), 1)
        self.assertTrue(all(int(case.data[1].max()) < 40 for case in made.cases))
        self.assertGreater(
            max(int(case.data[1].max()) for case in made.cases), inputs.INTEGER_LIMIT
        )
        self.assertEqual(made.cases[0].data[1].dtype, torch.int64)


class Floats(unittest.TestCase):
    def drawn(self, name, count=4096):
        generator = torch.Generator().manual_seed(5)
        return [inputs.floats(count, name, inputs.of_case(name, generator)) for _ in range(2)]

    def test_on_the_grid_values_meet_and_cancel(self):
        one, other = self.drawn("grid")
        self.assertTrue(torch.equal(one, other))
        self.assertTrue(torch.equal(one * 4, (one * 4).round()))
        self.assertLess(len(one.unique()), 30)
        pairs = one[2048:3584].reshape(-1, 2)
        self.assertTrue((pairs.sum(1) == 0).all())
        self.assertEqual(one[-512:].unique().tolist(), [0.75])

    def test_elsewhere_two_inputs_are_two(self):
        one, other = self.drawn("normal")
        self.assertFalse((one == other).any())

    def test_far_from_zero_the_spread_is_small(self):
        one, _ = self.drawn("far")
        for part, units in ((1, 50), (2, -300), (4, 300)):
            part = one.split(512)[part]
            self.assertAlmostEqual(float(part.mean() / part.std()) / units, 1, delta=0.1)

    def test_a_case_lies_below_zero(self):
        for values in self.drawn("negative"):
            self.assertLessEqual(float(values.max()), -1 / 8)

    def test_few_elements_are_no_trouble(self):
        for name in inputs.DISTRIBUTIONS:
            for count in (0, 1, 2, 7, 9):
                self.assertEqual(len(self.drawn(name, count)[0]), count)

    def test_a_call_may_differ_by_next_to_nothing(self):
        generator = torch.Generator().manual_seed(5)
        for tensor in (torch.rand(30, 40), torch.arange(1200).reshape(30, 40)):
            for how, width in (("outlier", 1), ("row", 40)):
                with self.subTest(how=how, dtype=tensor.dtype):
                    made = inputs.touched(tensor, how, generator)
                    rows = (made != tensor).nonzero()[:, 0].unique()
                    self.assertEqual(len(rows), 1)
                    differ = int((made != tensor).sum())
                    self.assertEqual(differ, width if tensor.is_floating_point() else 1)
        for tensor in (torch.rand(()), torch.rand(0, 4), torch.rand(3)):
            made = inputs.touched(tensor, "row", generator)
            self.assertEqual(made.shape, tensor.shape)

    def test_the_last_element_or_the_first_may_be_an_extreme_of_all(self):
        generator = torch.Generator().manual_seed(5)
        tensors = (
            torch.randn(30, 40),
            1000 * torch.randn(30, 40),
            60000 * torch.rand(30, 40).half(),
            torch.arange(1200).roll(7).reshape(30, 40),
            torch.arange(1200).reshape(30, 40) > 5,
        )
        for tensor, (how, place, rest) in itertools.product(
            tensors, (("last", -1, slice(None, -1)), ("first", 0, slice(1, None)))
        ):
            with self.subTest(tensor.dtype, how=how):
                up, down = (
                    inputs.touched(tensor, how, generator, attempt).flatten() for attempt in (0, 1)
                )
                self.assertTrue(torch.equal(up[rest], tensor.flatten()[rest]))
                self.assertEqual(up[place], up.amax())
                self.assertEqual(down[place], down.amin())
                self.assertTrue(up.isfinite().all())
        for tensor, how in itertools.product(
            (torch.rand(()), torch.rand(0, 4)), ("last", "first", "nan")
        ):
            made = inputs.touched(tensor, how, generator)
            self.assertEqual(made.shape, tensor.shape)

    def test_a_lone_element_may_be_no_number(self):
        generator = torch.Generator().manual_seed(5)
        made = inputs.touched(torch.rand(30, 40), "nan", generator)
        self.assertEqual(int(made.isnan().sum()), 1)

    def test_no_flag_may_be_set_or_all(self):
        flags = torch.rand(30, 40) < 0.5
        none, full = (inputs.flagged(flags, which) for which in inputs.FLAGS)
        self.assertFalse(none.any())
        self.assertTrue(full.all())
        numbers = torch.arange(3)
        self.assertIs(inputs.flagged(numbers, "all set"), numbers)


if __name__ == "__main__":
    unittest.main()
