"""A part of PyTorch's own operator tests, against kernels of every target; all
of them: benchmarks/opinfo.py."""

import unittest

# Before torch, which may look for Triton.
import triton_kernels  # noqa: F401

import torch

#: What most models are made of, and what has had faults.
OPERATORS = {
    "abs",
    "add",
    "addcmul",
    "amax",
    "argmax",
    "atan2",
    "cat",
    "clamp",
    "cumsum",
    "div",
    "eq",
    "exp",
    "expm1",
    "flip",
    "floor_divide",
    "fmod",
    "gather",
    "index_select",
    "log1p",
    "log_softmax",
    "logsumexp",
    "lt",
    "masked_fill",
    "max",
    "maximum",
    "mean",
    "mul",
    "narrow",
    "nn.functional.avg_pool2d",
    "nn.functional.batch_norm",
    "nn.functional.embedding",
    "nn.functional.gelu",
    "nn.functional.group_norm",
    "nn.functional.hardtanh",
    "nn.functional.layer_norm",
    "nn.functional.max_pool2d",
    "nn.functional.nll_loss",
    "nn.functional.pad",
    "nn.functional.silu",
    "nn.functional.softplus",
    "permute",
    "pow",
    "prod",
    "remainder",
    "roll",
    "rsub",
    "sigmoid",
    "softmax",
    "split",
    "std",
    "sub",
    "sum",
    "take",
    "tanh",
    "tril",
    "var_mean",
    "where",
    "linalg.vector_norm",
    "__rpow__",
    "__rsub__",
    "__rdiv__",
}
#: Of those, what is tried where a kernel is run element by element.
FEW = {
    "add",
    "mul",
    "clamp",
    "div",
    "eq",
    "softmax",
    "sum",
    "where",
    "nn.functional.layer_norm",
    "nn.functional.gelu",
    "__rpow__",
    "index_select",
    "max",
    "floor_divide",
}


class OpInfo(unittest.TestCase):
    def judge(self, target, dtype, wanted, samples, lowered_min):
        import opinfo_cases

        cases = [
            case
            for op in opinfo_cases.operators(dtype, wanted)
            for case in opinfo_cases.cases_of(op, dtype, samples)
        ]
        found = opinfo_cases.outcomes(opinfo_cases.variant_of(target), cases, batch=24)
        for name, outcome, reason in found:
            with self.subTest(target=target, dtype=dtype, case=name):
                self.assertNotEqual(outcome, "differs", reason)
        lowered = sum(outcome == "lowered" for _, outcome, _ in found)
        self.assertGreaterEqual(lowered, lowered_min, found)

    def test_the_whole_capture(self):
        import opinfo_cases
        import opinfo_capture

        wanted = {
            "add",
            "clamp",
            "combinations",
            "cov",
            "floor_divide",
            "index_fill",
            "max",
            "native_group_norm",
            "sum",
            "where",
        }
        for dtype in (torch.float32, torch.int32):
            cases = [
                case
                for op in opinfo_cases.operators(dtype, wanted)
                for case in opinfo_cases.cases_of(op, dtype, None, cases_max=2)
            ]
            self.assertGreater(len(cases), 12)
            for name, outcome, reason in opinfo_capture.outcomes(cases):
                with self.subTest(dtype=dtype, case=name):
                    self.assertEqual(outcome, "captured", reason)

    def test_a_crashed_sample_has_the_name_of_its_case(self):
        import opinfo_cases

        for full_name in ("div.floor_rounding", "div.no_rounding_mode", "nn.functional.conv2d"):
            for gradients in (False, True):
                what = {"cases_max": 6, "gradients": gradients}
                [op] = opinfo_cases.tests_of(torch.float32, full_name)
                tried = opinfo_cases.tried_samples_of(op, torch.float32, None, 6, gradients)
                self.assertEqual(len(tried), 6)
                names = []
                for index in range(len(tried)):
                    which = slice(index, index + 1)
                    cases = opinfo_cases.cases_of(op, torch.float32, None, which=which, **what)
                    name = opinfo_cases.case_name(torch.float32, full_name, index, None, **what)
                    names += [case.name for case in cases]
                    if cases:
                        self.assertEqual(cases[0].name, name)
                self.assertTrue(names, full_name)

    def test_operators_are_named_with_or_without_their_variant(self):
        import opinfo_cases

        def names(*wanted):
            return {op.full_name for op in opinfo_cases.operators(torch.float32, set(wanted))}

        self.assertEqual(names("div.floor_rounding"), {"div.floor_rounding"})
        self.assertIn("div.floor_rounding", names("div"))
        self.assertEqual(names("abs"), {"abs"})

    def test_float32_on_the_processor(self):
        self.judge("cpu", torch.float32, OPERATORS, 2, 100)

    def test_int64_on_the_processor(self):
        self.judge("cpu", torch.int64, FEW, 1, 8)

    def test_halves_on_the_processor(self):
        self.judge("cpu", torch.bfloat16, FEW, 1, 8)
        self.judge("cpu", torch.float16, FEW, 1, 8)

    def test_bfloat16_in_triton(self):
        self.judge("triton", torch.bfloat16, FEW, 1, 10)

    def test_float16_in_cuda(self):
        self.judge("cuda", torch.float16, FEW, 1, 10)


if __name__ == "__main__":
    unittest.main()
