"""How much a whole model's kernels may err, by what its forward() calls."""

import os
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

from weft_case import problem_with
from weft.expect import compare
from weft.expect.inputs import DISTRIBUTIONS, is_finite
from weft.problem.module_state import state_of
from weft.expect.summed_terms import ELEMENTWISE, UNTOLD
from weft.judge.whole_model import WholeModel

CUSTOM = """
from torch import library


@library.custom_op("weft_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
"""
COUNTS = "self.calls += 1"
LAYERS = (
    "self.layers = nn.Sequential(*[layer for _ in range({0}) "
    "for layer in (nn.Linear({1}, {1}), nn.Tanh())])"
)
IMAGES = "[torch.rand(2, 4, 8, 8)]"


def whole_of(forward, **more):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(problem_with(forward, **more))
        return WholeModel(path, 1)


def length_of(forward, **more):
    return whole_of(forward, **more)._length


class Length(unittest.TestCase):
    def test_elementwise_calls_add_up_and_what_only_moves_is_none(self):
        for forward, calls in (
            ("return torch.relu(x)", 1),
            ("return torch.exp(torch.relu(x) + 1)", 3),
            ("return x.add_(1).masked_fill_(x > 0.5, 0)", 2),
            ("return torch.cat([x.t(), x.t()]).sort(-1)[0] * 2", 1),
            ("return F.hardswish(F.glu(x))", 2),
        ):
            self.assertEqual(
                length_of(forward, head="F = nn.functional"), calls * ELEMENTWISE, forward
            )

    def test_sums_add_up(self):
        self.assertEqual(length_of("return torch.softmax(x, -1)"), 16)
        self.assertEqual(length_of("return torch.softmax(x @ x.t(), -1)"), 24)
        self.assertEqual(length_of("return nn.functional.layer_norm(x, (16,))"), 16)
        self.assertEqual(length_of("return torch.logcumsumexp(x, 0)"), 8)
        self.assertEqual(
            length_of("return self.layers(x)", init=LAYERS.format(3, 16)), 3 * (16 + ELEMENTWISE)
        )

    def test_windows_that_overlap_are_summed_whole(self):
        for pool, length in (
            ("avg_pool2d(x, 5, 1, 2)", 25),
            ("avg_pool2d(x, 2)", 4),
            ("adaptive_avg_pool2d(x, 2)", 16),
        ):
            self.assertEqual(length_of(f"return nn.functional.{pool}", inputs=IMAGES), length)

    def test_a_compiled_or_scripted_function_is_what_it_calls(self):
        for decorator in ("torch.compile", "torch.jit.script"):
            head = (
                f"@{decorator}\ndef scaled(x):\n"
                "    return torch.relu(x) * 2 + x.sum(-1, keepdim=True)\n"
            )
            self.assertEqual(length_of("return scaled(x)", head=head), 16 + 3 * ELEMENTWISE)

    def test_what_is_not_known_has_the_cap(self):
        for forward in (
            "return twice(x)",
            "return nn.functional.dropout(x)",
            "return torch.relu(x) + torch.rand_like(x)",
            "return torch.fft.fft(x).abs()",
            "return torch.linalg.inv(x @ x.t() + torch.eye(8))",
            "return torch.cdist(x, x)",
            "return x.index_add(0, torch.tensor([0]), x[:1])",
            "return nn.functional.mse_loss(x, x * 2)",
            "return nn.functional.interpolate(x[None, None], scale_factor=2, mode='bilinear')",
            "return nn.functional.scaled_dot_product_attention("
            "x[None, None], x[None, None], x[None, None])",
            "y = torch.empty_like(x); y.copy_(x); return y",
            "return torch.from_numpy(x.numpy() * 2)",
        ):
            self.assertEqual(length_of(forward, head=CUSTOM), UNTOLD, forward)
        self.assertEqual(
            length_of("return self.lstm(x)[0]", init="self.lstm = nn.LSTM(16, 4)"), UNTOLD
        )

    def test_what_cannot_be_traced_runs_without(self):
        whole = whole_of("return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))")
        self.assertEqual(whole._length, UNTOLD)
        case = whole.case("uniform", whole.device.generator(1))
        self.assertTrue(torch.equal(case.outputs[0].framework, torch.sin(case.data.leaves[0])))

    def test_the_trace_is_no_further_call(self):
        whole = whole_of(f"{COUNTS}; return x * 2", init="self.calls = 0")
        self.assertEqual(whole.model.calls, 1)

    def test_the_trace_loads_no_compiler(self):
        script = (
            "import sys, test_summed_terms as t\n"
            "t.length_of('return torch.softmax(x, -1)')\n"
            "assert 'torch._dynamo' not in sys.modules"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)


class Tolerance(unittest.TestCase):
    def test_it_is_that_of_the_length(self):
        whole = whole_of("return torch.relu(x)")
        case = whole.case("wide", whole.device.generator(1))
        self.assertEqual(
            case.outputs[0].tolerance, compare.roundoff_floor(torch.float32, ELEMENTWISE)
        )

    def test_without_float64_it_is_the_cap(self):
        whole = whole_of("return torch.relu(x)")
        whole._uses_float64 = False
        case = whole.case("wide", whole.device.generator(1))
        self.assertEqual(case.outputs[0].tolerance, compare.FLOAT32_FLOOR_MAX)
        whole = whole_of("return torch.relu(x.double())")
        case = whole.case("wide", whole.device.generator(1))
        self.assertEqual(case.outputs[0].tolerance, compare.roundoff_floor(torch.float64, UNTOLD))


def in_order(x):
    """Of the last dimension, one term after the other."""
    total = torch.zeros_like(x[..., 0])
    for part in x.unbind(-1):
        total = total + part
    return total


def power_of_two(x):
    """exp as Triton has it."""
    return torch.exp2(x * 1.4426950408889634)


def tanh_by_exp(x):
    e = power_of_two(-2 * x.abs())
    return torch.sign(x) * (1 - e) / (1 + e)


def erf_by_polynomial(x):
    """Abramowitz and Stegun, 7.1.26: to 1.5e-7."""
    t = 1 / (1 + 0.3275911 * x.abs())
    sum_ = 1.061405429
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sum_ = sum_ * t + c
    return torch.sign(x) * (1 - sum_ * t * torch.exp(-x * x))


def online_softmax(x):
    most, total = x[:, 0], torch.ones_like(x[:, 0])
    for part in x.unbind(-1)[1:]:
        now = torch.maximum(most, part)
        total = total * power_of_two(most - now) + power_of_two(part - now)
        most = now
    return power_of_two(x - most[:, None]) / total[:, None]


def norm_by_welford(x):
    mean, squares = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
    for number, part in enumerate(x.unbind(-1)):
        off = part - mean
        mean = mean + off / (number + 1)
        squares = squares + off * (part - mean)
    spread = torch.rsqrt(squares / x.shape[1] + 1e-5)
    return (x - mean[:, None]) * spread[:, None]


class Candidates(unittest.TestCase):
    """Held against the cases that `weft eval` makes, outside the sandbox."""

    def reason(self, candidate, forward, **more):
        whole = whole_of(forward, **more)
        generator = whole.device.generator(7)
        for name in ("given", *DISTRIBUTIONS):
            if not is_finite(name):  # how nan passes is no matter of rounding
                continue
            case = whole.case(name, generator)
            for (_, held), value in zip(state_of(whole.model), case.data.state):
                held.data.copy_(value)
            with torch.no_grad():
                got = candidate(*case.data.leaves, whole.model)
            found = compare.compare(got, case.outputs[0])
            if found.reason:
                return f"{name}: {found.reason}"
        return ""

    def test_a_factor_that_no_rounding_explains_is_wrong(self):
        self.assertTrue(self.reason(lambda x, _: torch.relu(x) * 1.00005, "return torch.relu(x)"))
        self.assertTrue(
            self.reason(lambda x, _: F.gelu(x) * 1.00003 + 1, "return nn.functional.gelu(x) + 1")
        )

    def test_of_an_unknown_operator_it_passes(self):
        self.assertFalse(self.reason(lambda x, _: x * 2 * 1.00005, "return twice(x)", head=CUSTOM))

    def test_other_vector_functions_pass(self):
        large = "[torch.randn(512, 512)]"
        for forward, candidate in (
            ("exp(x)", power_of_two),
            ("cosh(x)", lambda x: (power_of_two(x) + power_of_two(-x)) / 2),
            ("tanh(x)", tanh_by_exp),
            ("erf(x)", erf_by_polynomial),
            ("nn.functional.gelu(x)", lambda x: x / 2 * (1 + erf_by_polynomial(x * 0.5**0.5))),
            ("nn.functional.silu(x)", lambda x: x / (1 + power_of_two(-x))),
            (
                "nn.functional.gelu(x, approximate='tanh')",
                lambda x: x / (1 + power_of_two(-1.5957691216 * (x + 0.044715 * x * x * x))),
            ),
            ("pow(x.abs(), 2.5)", lambda x: torch.exp2(2.5 * torch.log2(x.abs()))),
        ):
            if not forward.startswith("nn"):
                forward = "torch." + forward
            self.assertFalse(
                self.reason(
                    lambda x, _, candidate=candidate: candidate(x),
                    f"return {forward}",
                    inputs=large,
                ),
                forward,
            )

    def test_steps_that_cancel_pass(self):
        self.assertFalse(
            self.reason(
                lambda x, _: (
                    torch.log2(1 + power_of_two(x)) * 0.6931471805599453
                    - x / (1 + power_of_two(-x))
                    + torch.log(x.abs() + 1)
                ),
                "return torch.log(1 + torch.exp(x)) - x * torch.sigmoid(x) "
                "+ torch.log(x.abs() + 1)",
            )
        )

    def test_sums_in_another_order_pass(self):
        for width in (8, 100, 1000):
            inputs = f"[torch.randn(64, {width})]"
            for forward, candidate in (
                ("torch.softmax(x, -1)", online_softmax),
                (f"nn.functional.layer_norm(x, ({width},))", norm_by_welford),
                ("x @ x.t()", lambda x: in_order(x[:, None] * x[None])),
                ("x.mean(-1)", lambda x: in_order(x) / x.shape[1]),
            ):
                self.assertFalse(
                    self.reason(
                        lambda x, _, candidate=candidate: candidate(x),
                        f"return {forward}",
                        inputs=inputs,
                    ),
                    (forward, width),
                )

    def test_layers_in_another_order_pass(self):
        def candidate(x, model):
            for layer in model.layers:
                if isinstance(layer, torch.nn.Linear):
                    x = in_order(x[:, None] * layer.weight) + layer.bias
                else:
                    x = tanh_by_exp(x)
            return x

        for depth, width in ((3, 8), (12, 48)):
            self.assertFalse(
                self.reason(
                    candidate,
                    "return self.layers(x)",
                    init=LAYERS.format(depth, width),
                    inputs=f"[torch.randn(32, {width})]",
                ),
                depth,
            )


if __name__ == "__main__":
    unittest.main()
