"""What is drawn for integers, and where they are tried first."""

import unittest
from unittest import mock

import oracle_samples as samples
from weft.device import device
from weft.expect import expected, inputs, reference

import torch

LOGITS, CLASSES = (6, 40), (6,)


def classified(more=()):
    """A loss by classes, x1; the graph may read these otherwise, too."""
    return reference.Reference(samples.graph(
        samples.given(LOGITS)
        + [samples.node("x1", "input", "x1",
                        values=samples.tensor(CLASSES, "int64")),
           samples.node("l", "call", "aten.nll_loss_forward.default",
                        [samples.ref("x0"), samples.ref("x1"), None, 1, -100],
                        [samples.tensor(()), samples.tensor(())],
                        is_tuple=True),
           samples.node("y", "call", "getitem", [samples.ref("l"), 0],
                        samples.tensor(())),
           *more],
        ["y"]))


def shifted():
    return samples.node("s", "call", "aten.add.Tensor",
                        [samples.ref("x1"), 1],
                        samples.tensor(CLASSES, "int64"))


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
        self.assertTrue(all(int(case.storages[1].max()) < 40
                            for case in made.cases))
        self.assertGreater(max(int(case.storages[1].max())
                               for case in made.cases), inputs.INTEGER_LIMIT)
        self.assertEqual(made.cases[0].storages[1].dtype, torch.int64)


if __name__ == "__main__":
    unittest.main()
