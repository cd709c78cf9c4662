"""When an output is the reference's: docs/explanation/verification.md, "The error model"."""

import os
import sys
import types
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [PACKAGES]

from weft.expect import compare, expected  # noqa: E402
from weft.expect.controls import Controls  # noqa: E402


class ErrorModel(unittest.TestCase):
    def test_either_answer_is_right_where_float64_and_framework_part(self):
        made = compare.expect("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]).double())
        made.tolerance = 1e-6
        for value in (2.0, 3.0):
            got = torch.tensor([1.0, value])
            self.assertFalse(compare.compare(got, made).reason)
        self.assertTrue(compare.compare(torch.tensor([1.0, 2.5]), made).reason)

    def test_a_tie_may_be_broken_either_way(self):
        made = compare.expect("i", torch.tensor([0]), torch.tensor([0]))
        made.operand = torch.tensor([[5.0, 1.0, 5.0]]).double()
        made.operand_dim = 1
        self.assertFalse(compare.compare(torch.tensor([2]), made).reason)
        self.assertTrue(compare.compare(torch.tensor([1]), made).reason)
        self.assertTrue(compare.compare(torch.tensor([9]), made).reason)

    def test_a_nan_may_be_an_infinity_but_never_a_number(self):
        truth = torch.tensor([float("nan"), 1.0])
        made = compare.expect("y", truth, truth.double())
        for value, is_right in ((float("-inf"), True), (0.0, False)):
            got = torch.tensor([value, 1.0])
            self.assertEqual(not compare.compare(got, made).reason, is_right)

    def test_what_the_framework_leaves_alone_must_be_left_alone(self):
        for was in (torch.tensor([1.0, 0.0]), torch.tensor([1.0, float("nan")])):
            made = compare.untouched("weight", was.clone())
            for value, is_right in (
                (1.0, True),
                (1.0 + 2**-22, True),
                (1.001, False),
                (float("nan"), False),
            ):
                got = was.clone()
                got[0] = value
                self.assertEqual(not compare.compare(got, made).reason, is_right, (was, value))
        made = compare.untouched("count", torch.tensor([3]))
        self.assertFalse(compare.compare(torch.tensor([3]), made).reason)
        self.assertTrue(compare.compare(torch.tensor([4]), made).reason)

    def test_where_float64_is_lost_the_framework_is_the_measure(self):
        for lost in (float("nan"), float("inf"), float("-inf")):
            made = compare.expect("y", torch.tensor([2.0, 1.0]), torch.tensor([lost, 1.0]).double())
            for value, is_right in ((2.0, True), (2.01, False), (0.0, False)):
                got = torch.tensor([value, 1.0])
                self.assertEqual(not compare.compare(got, made).reason, is_right, (lost, value))

    def test_what_is_lost_is_held_against_its_own_size(self):
        for wide in ([float("nan")] * 2, [float("nan"), 1e3]):
            made = compare.expect(
                "y", torch.tensor([1e-7, wide[1]]).nan_to_num(1e-7), torch.tensor(wide).double()
            )
            made.tolerance = 1e-5
            for value, is_right in ((1e-7, True), (0.0, False)):
                got = made.framework.clone()
                got[0] = value
                self.assertEqual(not compare.compare(got, made).reason, is_right, (wide, value))

    def test_a_half_format_does_not_hide_a_coarser_one(self):
        truth = torch.randn(4096, generator=torch.Generator().manual_seed(1))
        truth = truth.double()
        for dtype, less in ((torch.bfloat16, 2), (torch.float16, 2)):
            made = compare.expect("y", truth.to(dtype), truth)
            self.assertFalse(compare.compare(made.framework, made).reason)
            digits = {torch.bfloat16: 8, torch.float16: 11}[dtype] - less
            mantissa, exponent = torch.frexp(truth)
            coarse = torch.ldexp((mantissa * 2**digits).round() / 2**digits, exponent)
            self.assertIn("root mean square", compare.compare(coarse.to(dtype), made).reason)

    def test_infinities_must_have_the_right_sign(self):
        truth = torch.tensor([float("inf"), 1.0])
        made = compare.expect("y", truth, truth.double())
        self.assertFalse(compare.compare(truth, made).reason)
        self.assertTrue(compare.compare(-truth, made).reason)

    def test_one_element_that_overflows_excuses_no_others(self):
        for dtype, largest in ((torch.float32, 200), (torch.float16, 40)):
            x = torch.randn(10_000, generator=torch.Generator().manual_seed(1))
            x[7] = largest
            wide = x.to(dtype).double().exp()
            made = compare.expect("y", wide.to(dtype), wide)
            self.assertTrue(torch.isinf(made.framework[7]))
            self.assertFalse(compare.compare(made.framework, made).reason)
            nothing = torch.zeros_like(made.framework)
            nothing[7] = float("inf")
            self.assertTrue(compare.compare(nothing, made).reason)

    def test_another_shape_is_not_what_is_expected(self):
        made = compare.expect("y", torch.ones(6), torch.ones(6).double())
        self.assertIn("shape", compare.compare(torch.ones(2, 3), made).reason)

    def test_float64_of_another_shape_is_none(self):
        made = compare.expect("y", torch.ones(6), torch.ones(7).double())
        self.assertIsNone(made.wide)
        self.assertTrue(compare.compare(torch.zeros(6), made).reason)

    def test_one_element_beyond_a_threshold_excuses_no_others(self):
        apart = compare.expect("y", torch.tensor([1.0, -1.0]), torch.tensor([1.0, 1.0]).double())
        self.assertGreater(apart.tolerance, 1)
        made = compare.near(torch.tensor([1.0, 1.0]), apart)
        self.assertTrue(compare.compare(torch.zeros(2), made).reason)
        self.assertTrue(compare.compare(torch.tensor([1.0, 1.0001]), made).reason)
        self.assertFalse(compare.compare(torch.ones(2), made).reason)


class Noise(unittest.TestCase):
    """A control: something off by as much as the output is large."""

    def held(self, framework, wide):
        held = Controls()
        made = compare.expect("y", framework, wide)
        held.hold([], [made], is_finite=True)
        return held.rejected["noise"]

    def test_it_is_told_from_an_answer(self):
        y = torch.randn(16, 16)
        self.assertIs(self.held(y, y.double()), True)

    def test_it_is_not_where_the_framework_errs_as_much(self):
        y = torch.randn(16, 16)
        self.assertIs(self.held((y + 1e9) - 1e9, y.double()), False)

    def test_whole_numbers_have_none(self):
        y = torch.arange(16)
        self.assertIsNone(self.held(y, y))


class Slices(unittest.TestCase):
    """Each row and channel is held against its own size."""

    def made(self, f, shape=(4, 40, 64)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        return compare.expect("y", f(x), f(x.double()))

    def fading(self):
        steps = torch.arange(40)
        return self.made(lambda x: x.tanh() * 0.5 ** steps.to(x.dtype)[:, None])

    def assert_wrong(self, got, made, where):
        self.assertIn(where, compare.compare(got, made).reason)

    def test_a_row_far_below_the_largest_counts(self):
        made = self.fading()
        self.assertFalse(compare.compare(made.wide.float(), made).reason)
        got = made.framework.clone()
        got[1, 39] = 0
        self.assert_wrong(got, made, "row [1, 39] is off by 1 of its own size")
        got = made.framework.clone()
        got[:, 35] *= 1.01
        self.assert_wrong(got, made, "of its own size")

    def test_one_element_of_such_a_row_counts(self):
        made = self.fading()
        got = made.framework.clone()
        got[3, 38, 5] = 0
        self.assert_wrong(got, made, "row [3, 38]")

    def test_so_does_a_channel_that_lies_in_every_row(self):
        made = self.made(lambda x: x * 0.5 ** torch.arange(64).to(x.dtype))
        got = made.framework.clone()
        got[..., 60] = 0
        self.assert_wrong(got, made, "slice of dimension 2 60")

    def test_what_rounding_left_of_a_row_is_not_held(self):
        def cancels(x):
            x = torch.cat([x[:, :1] * 0 + 0.1, x[:, 1:]], 1)
            return x - x.mean(-1, keepdim=True)

        made = self.made(cancels)
        got = made.wide.float()
        got[:, 0] = 1e-9  # for 1e-18 or so
        self.assertFalse(compare.compare(got, made).reason)
        got[:, 1] = 1e-9
        self.assertTrue(compare.compare(got, made).reason)

    def test_what_is_not_finite_leaves_the_rest_of_its_row(self):
        made = self.fading()
        for place, value in (((2, 38, 1), float("nan")), ((2, 37, 2), float("inf"))):
            made.framework[place] = made.wide[place] = value
        made = compare.expect("y", made.framework, made.wide)
        got = made.framework.clone()
        self.assertFalse(compare.compare(got, made).reason)
        got[2, 38, 2:] = 0
        self.assert_wrong(got, made, "row [2, 38]")

    def test_of_other_data_the_tolerance_is_taken_over(self):
        made = self.fading()
        near = compare.near(made.framework, made.without_tensors())
        self.assertFalse(compare.compare(made.framework, near).reason)
        got = made.framework.clone()
        got[1, 39] = 0
        self.assert_wrong(got, near, "row [1, 39]")

    def test_without_float64_rows_above_the_roundoff_are_held(self):
        made = self.fading()
        made = compare.expect("y", made.framework, None)
        got = made.framework.clone()
        got[:, 39] = 0  # below 1e-11
        self.assertFalse(compare.compare(got, made).reason)
        got[1, 22] = 0
        self.assert_wrong(got, made, "row [1, 22]")

    def test_a_row_whose_size_is_one_elements_is_held_with_the_whole(self):
        def of(left):
            x = torch.randn(200, 64)
            x[7] = -1.0
            x[7, :left] = 3.36e-7  # what a sum of many terms left
            made = compare.expect("y", x.relu(), x.relu().double())
            got = made.framework.clone()
            got[7] *= 0.9
            return compare.compare(got, made).reason

        self.assertFalse(of(left=1))
        self.assertIn("row 7 is off by 0.1 of its own size", of(left=9))

    def test_many_such_rows_are_no_accident(self):
        x = torch.full((3000, 64), -1.0)
        x[:2000, 5] = 3.36e-7
        x[2000:] = torch.randn(1000, 64)
        made = compare.expect("y", x.relu(), x.relu().double())
        got = made.framework.clone()
        got[:2000] = 0
        self.assert_wrong(got, made, "row 0 is off by 1 of its own size")

    def test_so_many_of_few_rows_are_none_either(self):
        x = torch.full((64, 64), -1.0)
        x[:, 5] = 3.36e-7
        x[60:] = torch.randn(4, 64)
        made = compare.expect("y", x.relu(), x.relu().double())
        got = made.framework.clone()
        got[:60] = 0
        self.assert_wrong(got, made, "row 0 is off by 1 of its own size")

    def test_of_few_elements_there_is_no_slice(self):
        for shape in ((4000,), (5, 3), (0, 4), ()):
            self.assertIsNone(self.made(torch.sin, shape).slices)


class LongestSum(unittest.TestCase):
    """By the shapes of a call's operands."""

    def length(self, name, *shapes, before=(), after=(), result=(4, 5)):
        nodes = {
            f"x{i}": {"name": f"x{i}", "kind": "input", "values": [{"shape": shape}]}
            for i, shape in enumerate(shapes)
        }
        call = {
            "name": "y",
            "kind": "call",
            "target": f"aten.{name}.default",
            "args": [*before, *({"node": name} for name in nodes), *after],
            "values": [{"shape": result}],
        }
        graph = types.SimpleNamespace(nodes=nodes, graph={"nodes": [*nodes.values(), call]})
        return expected.reduction_length(graph)

    def test_of_products_it_is_what_both_share(self):
        self.assertEqual(self.length("mm", [4, 96], [96, 5]), 96)
        self.assertEqual(self.length("linear", [2, 4, 96], [5, 96]), 96)
        self.assertEqual(self.length("linear", [4, 96], [5, 96], [5]), 96)
        self.assertEqual(self.length("addmm", [5], [4, 96], [96, 5]), 96)
        self.assertEqual(self.length("matmul", [4, 96], [3, 96, 5]), 96)

    def test_of_a_convolution_it_is_a_filter(self):
        self.assertEqual(self.length("convolution", [2, 8, 9, 9], [16, 8, 3, 3]), 72)

    def test_of_a_transposed_convolution_it_is_what_an_element_meets(self):
        transposed = [None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1]
        self.assertEqual(
            self.length("convolution", [2, 64, 9, 9], [64, 2, 3, 3], after=transposed), 576
        )

    def test_of_a_window_it_is_all_of_it(self):
        self.assertEqual(
            self.length(
                "avg_pool2d", [2, 8, 9, 9], after=[[3, 3], [1, 1], [1, 1]], result=(2, 8, 9, 9)
            ),
            9,
        )

    def test_of_an_einsum_it_is_what_the_result_lacks(self):
        shapes = [2, 4, 96], [2, 96, 5]
        for equation, length in (("bmk,bkn->bmn", 96), ("bmk,bkn->mn", 192)):
            self.assertEqual(self.length("einsum", *shapes, before=[equation]), length)

    def test_of_attention_it_is_the_longer_of_two(self):
        self.assertEqual(
            self.length("scaled_dot_product_attention", [2, 7, 64], [2, 300, 64], [2, 300, 64]), 300
        )

    def test_of_what_sums_nothing_it_is_one(self):
        self.assertEqual(self.length("relu", [4, 96]), 1)


if __name__ == "__main__":
    unittest.main()
