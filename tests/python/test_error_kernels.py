"""The error model's sums as a GPU makes them, its kernels run on the
processor (cuda_on_host.py), against PyTorch's steps."""

import ctypes
import math
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [PACKAGES, HERE]

import cuda_on_host  # noqa: E402
from kernel_cases import numbers, special  # noqa: E402
from weft.expect import compare, error_kernels, error_sums, slices  # noqa: E402
from weft.device.cuda_driver import CudaError  # noqa: E402

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def on_host(folder):
    told = {"launches": [{"function": f} for f in error_kernels.NAMES]}
    source = {"text": error_kernels.SOURCE, "launches": told}
    library, prefix, _ = cuda_on_host.load([source], folder)[0]

    def launch(name, blocks, addresses):
        how = cuda_on_host.Launch(blocks, error_kernels.THREADS, 1, False, 0)
        getattr(library, f"{prefix}_{name}")(
            ctypes.byref(how), (ctypes.c_void_p * len(addresses))(*addresses)
        )

    return error_kernels.Kernels(launch)


class ErrorKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.kernels = on_host(folder.name)

    def both(self, ask):
        """What the framework's steps say, and what the kernels say."""
        steps = ask()
        with (
            mock.patch.object(error_sums, "kernels_for", lambda *tensors: self.kernels),
            mock.patch.object(slices, "kernels_for", error_sums.kernels_for),
        ):
            return steps, ask()

    def assert_close(self, ask):
        steps, kernels = self.both(ask)
        for one, other in zip(steps, kernels, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-12 * abs(one))

    def test_sums_of_squares_leave_out_what_is_not_finite(self):
        for dtype in DTYPES:
            for tensor in (numbers(7001), special(400), numbers(1)):
                with self.subTest(dtype=dtype, elements=tensor.numel()):
                    tensor = tensor.to(dtype)
                    self.assert_close(lambda: error_sums.squares(tensor, tensor))

    def test_no_square_overflows(self):
        for first in (1e152, 1e200):
            tensor = torch.tensor([first, -1e300, 3.0], dtype=torch.float64)
            self.assert_close(lambda: error_sums.squares(tensor, tensor))

    def test_sums_of_squares_leave_out_what_overflows_beside_them(self):
        wide = numbers(9000).double()
        wide[[7, 8000]] = 1e86
        self.assert_close(lambda: error_sums.squares(wide, wide.float()))
        total, count = error_sums.squares(wide, wide.float())
        self.assertEqual(count, 8998)
        self.assertLess(total, 1e6)

    def test_tensors_that_are_not_alike_are_left_to_the_steps(self):
        one = numbers(600)
        for other in (numbers(601), one.long(), one.to("meta")):
            self.assertFalse(error_kernels.takes([one, other]))
            with self.assertRaises(ValueError):
                self.kernels.errors(one, other, 1.0)

    def test_a_scale_that_is_no_number_makes_no_output_right(self):
        made = types.SimpleNamespace(
            truth=numbers(300).double(),
            framework=numbers(300),
            tolerance=0.5,
            scale=float("nan"),
            lost_scale=float("nan"),
        )
        steps, kernels = self.both(lambda: error_sums.hold(made.framework, made).place)
        self.assertIsNotNone(steps)
        self.assertIsNotNone(kernels)

    def test_the_worst_is_named_by_its_place_in_the_whole(self):
        made = compare.expect("y", numbers(3000), numbers(3000).double())
        got = made.framework.clone()
        got[2345] += 1
        with mock.patch.object(error_sums, "KERNEL_CHUNK", 1000):
            steps, kernels = self.both(lambda: error_sums.hold(got, made).place)
        self.assertEqual((steps, kernels), (2345, 2345))

    def test_where_float64_is_lost_the_framework_is_summed(self):
        wide, framework = special(20_000).double(), numbers(20_000)
        framework[3] = float("inf")  # lost in both
        self.assert_close(lambda: error_sums.squares_where_lost(wide, framework))

    def test_errors_are_those_of_what_is_finite_in_both(self):
        for dtype in DTYPES:
            for truth in (numbers(9000).double(), special(9000).double()):
                with self.subTest(dtype=dtype):
                    result = (truth * (1 + 1e-4 * numbers(9000))).to(dtype)
                    result[5] = float("nan")
                    self.assert_close(lambda: error_sums.errors(result, truth, 0.7))

    def test_where_nothing_is_finite_there_is_no_error(self):
        lost = torch.full((64,), float("nan"))
        self.assertEqual(*self.both(lambda: error_sums.errors(lost, lost, 1.0)))

    def test_what_a_kernel_left_is_judged_alike(self):
        inf, nan = float("inf"), float("nan")
        right = special(5000)
        for dtype in DTYPES:
            framework = right.to(dtype)
            truth = right.double()
            truth[100:120], truth[120:140] = inf, nan  # lost to float64
            made = compare.expect("y", framework, truth)
            for name, place, value in (
                ("right", 0, right[0].item()),
                ("off", 4000, 1e3),
                ("unwritten", 4999, nan),
                ("infinite", 17, inf),
                ("where float64 is infinite", 110, right[110].item() + 1),
                ("where float64 is nan", 130, right[130].item() + 1),
                ("right, a nan that is infinite", 130, inf),
                ("sign", 10, -inf),
            ):
                got = framework.clone()
                got[place] = value
                with self.subTest(name, dtype=dtype):
                    steps, kernels = self.both(lambda: error_sums.hold(got, made))
                    self.assertEqual(steps.place, kernels.place)
                    self.assertAlmostEqual(steps.worst, kernels.worst)
                    self.assertEqual(steps.place is None, "right" in name)
                    if steps.place is None:
                        self.assertAlmostEqual(
                            steps.squares, kernels.squares, delta=1e-12 * steps.squares
                        )

    def test_of_equal_errors_the_first_is_named(self):
        made = types.SimpleNamespace(
            truth=torch.zeros(3000).double(),
            framework=torch.zeros(3000),
            scale=1.0,
            lost_scale=1.0,
            tolerance=0.5,
        )
        got = torch.zeros(3000)
        got[[1980, 700, 1468]] = 2.0  # of one thread
        self.assertEqual(*self.both(lambda: error_sums.hold(got, made).place))

    def test_slices_have_the_same_sums(self):
        for shape in ((300, 40), (7, 5, 3, 31), (2, 40_000), (900, 16), (60, 1), (3, 2, 20_000)):
            for dtype in DTYPES:
                truth = numbers(math.prod(shape)).double().reshape(shape)
                framework = truth.to(dtype)
                got = (truth * (1 + 1e-3 * truth.sin())).to(dtype)
                got.reshape(-1)[3] = float("inf")
                truth.reshape(-1)[[5, 17]] = float("nan")
                for squares in (
                    slices._squares(truth, framework),
                    slices._differences(got, truth, truth),
                    slices._differences(got, truth, framework),
                ):
                    with self.subTest(shape=shape, dtype=dtype):
                        steps, kernels = self.both(lambda: slices._sums(shape, squares))
                        self.assertEqual(len(steps), len(kernels))
                        for one, other in zip(steps, kernels):
                            torch.testing.assert_close(other, one, rtol=1e-12, atol=0)

    def test_a_slice_beyond_its_own_size_is_named_alike(self):
        truth = torch.rand(64, 300).double() + 0.5
        truth[7] *= 1e-5
        made = compare.expect("y", truth.float(), truth)
        got = made.framework.clone()
        got[7] *= 1.1
        steps, kernels = self.both(lambda: compare.compare(got, made))
        self.assertIn("row 7 is off by", steps.reason)
        self.assertEqual(steps.reason, kernels.reason)

    def test_without_float64_the_framework_is_held_against(self):
        made = compare.expect("y", numbers(3000), None)
        for got in (made.framework * (1 + 1e-7), made.framework * 1.01):
            steps, kernels = self.both(lambda: compare.compare(got, made))
            self.assertEqual(steps.reason, kernels.reason)

    def test_a_driver_that_refuses_them_leaves_the_frameworks_steps(self):
        driver = mock.Mock()
        driver.attribute.return_value = 9
        refused = CudaError("cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE", "")
        driver.load_module.side_effect = refused
        with (
            mock.patch.object(error_kernels, "opened", lambda _: driver),
            mock.patch.object(error_kernels, "Compiler"),
        ):
            self.assertIsNone(error_kernels.of.__wrapped__(0))
            refused.name = "CUDA_ERROR_OUT_OF_MEMORY"
            with self.assertRaises(CudaError):  # there may be room later
                error_kernels.of.__wrapped__(0)

    def test_they_run_on_the_framework_s_stream(self):
        driver = mock.Mock(ordinal=1)
        with mock.patch.object(torch.cuda, "current_stream") as current:
            current.return_value.cuda_stream = 77
            error_kernels._Launcher(driver, b"")("errors", 3, [1, 2])
        current.assert_called_once_with(1)
        self.assertEqual(driver.launch.call_args.args[1:], (3, error_kernels.THREADS, [1, 2], 77))


if __name__ == "__main__":
    unittest.main()
