"""Small values that large loops read: which are computed apart, and that nothing else
changes."""

import unittest
from unittest import mock

import torch
from test_incumbent import IncumbentCase
from test_regions import graph_of
from torch import nn
from torch.nn import functional

import weft
from weft.backend.searches import improvement, program_forms, region_search
from weft.regions import hoisting, insertion
from weft.regions.insertion import NAMESPACE
from weft.regions.regions import operator_name


def norm(x, mean, variance, weight, bias):
    return torch.relu(functional.batch_norm(x, mean, variance, weight, bias))


def norm_inputs(dtype, size=8):
    state = torch.randn(6), torch.rand(6) + 0.5, torch.randn(6), torch.randn(6)
    return torch.randn(4, 6, size, size, dtype=dtype), *(one.to(dtype) for one in state)


class Hoisting(unittest.TestCase):
    def hoisted(self, function, *inputs):
        """(the graph as Inductor gets it, the same with small values computed apart)"""
        module = graph_of(function, *inputs)
        return module, hoisting.hoisted(
            module, lambda small, fakes: lambda arguments: small(*arguments)
        )

    def operators(self, module):
        return [operator_name(node) for node in module.graph.nodes if node.op == "call_function"]

    def own_operators(self, module):
        return [
            node
            for node in module.graph.nodes
            if getattr(node.target, "namespace", "") == NAMESPACE
        ]

    def test_a_norm_s_root_is_computed_once_for_each_channel(self):
        inputs = norm_inputs(torch.float32)
        module, made = self.hoisted(norm, *inputs)
        self.assertEqual(len(self.own_operators(made)), 1)
        self.assertNotIn("sqrt", self.operators(made))
        self.assertTrue(torch.equal(module(*inputs), made(*inputs)))

    def test_of_halves_a_norm_becomes_a_scale_and_a_shift(self):
        for dtype in hoisting.HALVES:
            inputs = norm_inputs(dtype)
            module, made = self.hoisted(norm, *inputs)
            self.assertEqual(self.operators(made).count("mul"), 1)
            self.assertNotIn("sub", self.operators(made))
            wide = norm(*(one.double() for one in inputs))
            error = (made(*inputs).double() - wide).abs().max()
            own_error = (module(*inputs).double() - wide).abs().max()
            self.assertLessEqual(error, 1.01 * own_error + 1e-6)

    def test_a_large_mean_costs_no_digits(self):
        x, mean, variance, weight, bias = norm_inputs(torch.bfloat16)
        mean = torch.full_like(mean, 1000.0)
        inputs = (x + 1000, mean, variance, weight, bias)
        module, made = self.hoisted(norm, *inputs)
        self.assertLess((made(*inputs) - module(*inputs)).abs().max(), 0.02)

    def test_two_norms_are_one_operator(self):
        first, second = norm_inputs(torch.bfloat16), norm_inputs(torch.bfloat16)[1:]
        _, made = self.hoisted(lambda *given: norm(norm(*given[:5]), *given[5:]), *first, *second)
        self.assertEqual(len(self.own_operators(made)), 1)

    def test_more_inputs_than_an_operator_takes(self):
        def norms(x, *state):
            for i in range(0, len(state), 4):
                x = norm(x, *state[i : i + 4])
            return x

        inputs = norm_inputs(torch.float32) + 19 * norm_inputs(torch.float32)[1:]
        scaled = inputs[0], *(one + 1.5 for one in inputs[1:])
        module, made = self.hoisted(norms, *scaled)
        (call,) = self.own_operators(made)
        self.assertGreater(len(call.all_input_nodes), 0)
        self.assertTrue(torch.equal(module(*scaled), made(*scaled)))
        halves = [one.bfloat16() for one in scaled]
        _, made = self.hoisted(norms, *halves)
        (call,) = self.own_operators(made)
        self.assertGreater(len(call.all_input_nodes), insertion.ARGUMENTS_MAX)
        expected = norms(*(one.double() for one in halves))
        error = (made(*halves).double() - expected).norm() / expected.norm()
        self.assertLess(error, 0.05)

    def test_reductions_with_two_results(self):
        inputs = torch.randn(96, 16), torch.rand(16)

        def scaled(x, s):
            variance, mean = torch.var_mean(x, 1, keepdim=True)
            return (x - mean) * torch.rsqrt(variance) * torch.exp(s)

        module, made = self.hoisted(scaled, *inputs)
        self.assertNotIn("exp", self.operators(made))
        self.assertTrue(torch.equal(module(*inputs), made(*inputs)))

    def test_rotary_angles(self):
        def rotated(x, frequencies):
            angles = torch.arange(16, device=x.device)[:, None] * frequencies
            return x * torch.cos(angles)

        inputs = torch.randn(40, 16, 4), torch.rand(4)
        module, made = self.hoisted(rotated, *inputs)
        self.assertNotIn("cos", self.operators(made))
        self.assertTrue(torch.equal(module(*inputs), made(*inputs)))

    def test_what_stays(self):
        x = torch.randn(64, 32)
        for name, function, inputs in (
            ("only cheap operators", lambda x, y: x * (y + 1), (x, torch.rand(32))),
            ("as large as its reader", lambda x, y: x * torch.exp(y), (x, torch.rand(64, 32))),
            ("no reader", lambda x, y: (x + 1, torch.exp(y)), (x, torch.rand(32))),
            ("a result", lambda x, y: (x * (e := torch.exp(y)), e), (x, torch.rand(32))),
            ("transposed", lambda x, y: x[:, :, None] * torch.exp(y.t()), (x, torch.rand(2, 32))),
            ("of a computed value", lambda x: x * torch.exp(x.sum(0)), (x,)),
        ):
            with self.subTest(name):
                self.assertIsNone(self.hoisted(function, *inputs)[1])

    def test_a_product_s_result_is_the_same(self):
        inputs = torch.randn(96, 16), torch.randn(16, 16), torch.rand(16)
        module, made = self.hoisted(lambda x, w, s: (x @ w) * torch.sigmoid(s), *inputs)
        self.assertNotIn("sigmoid", self.operators(made))
        self.assertTrue(torch.equal(module(*inputs), made(*inputs)))


class Programs(IncumbentCase):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.filters = nn.Conv2d(3, 8, 3, bias=False)
            self.norm = nn.BatchNorm2d(8)

        def forward(self, x):
            return torch.relu(self.norm(self.filters(x)))

    def setUp(self):
        super().setUp()
        self.patch(program_forms, "DEVICES", ("cpu",))

    def run_net(self, **options):
        net, x = self.Net().eval(), torch.randn(4, 3, 16, 16)
        net.norm.running_var.uniform_(0.5, 2)
        with torch.no_grad():
            mine = self.compiled(net, **options)
            mine(x)
            self.assert_same(mine(x), net(x))
            net.norm.running_var.mul_(4)  # it is read in each call
            self.assert_same(mine(x), net(x))
        (program,) = self.programs()
        return program

    def test_a_program_uses_it_if_it_is_faster(self):
        # Without timing a variant counts as faster; kernels would replace the norm.
        self.patch(region_search, "chosen", lambda *_: [])
        program = self.run_net()
        self.assertEqual(program.state, "ready")
        self.assertIn("small values are computed apart", program.summary)
        self.assertIn("small values are computed apart", str(weft.explain().graphs[-1]))

    def test_a_program_that_is_not_faster_stays(self):
        with mock.patch.object(improvement.Improvement, "_is_faster", lambda *_: False):
            program = self.run_net()
        self.assertNotIn("small values", program.summary)

    def test_a_failure_leaves_the_search(self):
        with mock.patch.object(hoisting, "hoisted", side_effect=RuntimeError("no memory")):
            program = self.run_net()
        self.assertNotIn("small values", program.summary)
        self.assertTrue(program.candidates)


if __name__ == "__main__":
    unittest.main()
