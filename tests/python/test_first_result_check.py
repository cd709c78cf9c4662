"""The last check in the user's process: kernels that are as exact as eager pass,
others do not, in half precision as in float32 (first_result_check.py, reference_run.py)."""

import functools
import math
import time
import unittest
from unittest import mock

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from weft.backend.graphs import random_state
from weft.backend.implementations import (
    first_result_check,
    reference_attention,
    reference_run,
)
from weft.expect import tf32, tolerance

DEPTH, WIDTH, ROWS = 8, 64, 96


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        q = self.norm(x)
        x = x + F.scaled_dot_product_attention(q[None], q[None], q[None])[0]
        return x + self.down(F.gelu(self.up(x)))


def deep(dtype):
    torch.manual_seed(0)
    net = nn.Sequential(*[Block() for _ in range(DEPTH)], nn.LayerNorm(WIDTH))
    for parameter in net.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(4)  # its errors are those of deeper nets
    return net.eval().to(dtype), torch.randn(ROWS, WIDTH, dtype=dtype)


@functools.cache
def deep_in_halves():
    """The arguments of a deep net in bfloat16, its graph, eager's results, and those
    of float32 rounded once: as exact as kernels can be."""
    net, x = deep(torch.bfloat16)
    arguments = [x, *(one.detach() for one in net.parameters())]
    return arguments, *taken(flat(net), arguments)


def taken(function, arguments):
    with torch.no_grad():
        graph = make_fx(function, tracing_mode="fake")(*arguments)
        eager = list(graph(*arguments))
        exact = function(*wider(arguments))
    return graph, eager, [one.to(a.dtype) for one, a in zip(exact, eager, strict=True)]


def flat(net):
    """A function of an input and the net's parameters."""
    names = [name for name, _ in net.named_parameters()]

    def forward(x, *parameters):
        return [torch.func.functional_call(net, dict(zip(names, parameters)), (x,))]

    return forward


def gradients(net):
    forward = flat(net)

    def backward(outer, x, *parameters):
        _, pull = torch.func.vjp(forward, x, *parameters)
        return list(pull([outer]))

    return backward


def wider(arguments, dtype=torch.float32):
    return [
        one.to(dtype) if isinstance(one, torch.Tensor) and one.is_floating_point() else one
        for one in arguments
    ]


class Checked(unittest.TestCase):
    def take(self, function, *arguments, state=(), **options):
        """A traced graph, eager's results, and what "kernels" give that compute in
        float32 and round once."""
        self.arguments = [
            one.detach() if isinstance(one, torch.Tensor) else one for one in arguments
        ]
        self.graph, self.eager, got = taken(function, self.arguments)
        self.check = first_result_check.Check(self.graph, self.arguments, state=state, **options)
        return got

    def take_deep(self):
        self.arguments, self.graph, self.eager, got = deep_in_halves()
        self.check = first_result_check.Check(self.graph, self.arguments)
        return got

    def assert_right(self, got):
        self.assertEqual(self.check.why_not(self.eager, got), "")

    def assert_wrong(self, got, words="an error of"):
        self.assertIn(words, self.check.why_not(self.eager, got))


class HalfPrecision(Checked):
    def setUp(self):
        self.got = self.take_deep()
        self.x = self.arguments[0]

    def test_a_deep_net_errs_by_more_than_the_slack_and_is_right(self):
        self.assertNotEqual(first_result_check.difference(self.eager, self.got), "")
        self.assert_right(self.got)

    def test_wrong_results_are_rejected_with_both_errors(self):
        [right] = self.got
        shifted = right.clone()
        shifted[-1, :-1] = right[-1, 1:]
        stale = right.clone()
        stale[-8:] = 0
        for name, wrong in (
            ("off by one in the last row", shifted),
            ("a block that is not written", stale),
            ("a wrong scale", right * 1.06),
            ("a missing term", right - right.mean(0)),
        ):
            with self.subTest(name):
                why = self.check.why_not(self.eager, [wrong])
                self.assertRegex(why, "result 0: an error of .* eager's are .*against a reference")

    def test_a_term_that_is_missing_inside_is_rejected(self):
        arguments = [*self.arguments]
        arguments[1 + 6 * 4 + 4] = torch.zeros_like(arguments[1 + 6 * 4 + 4])
        with torch.no_grad():
            self.assert_wrong(list(self.graph(*arguments)))

    def test_float32_is_reference_enough_and_float64_where_it_is_not(self):
        rounding = reference_run.rounding_of(self.graph)
        self.assertEqual((rounding.halves, rounding.wide), ([torch.bfloat16], torch.float32))
        self.take(lambda x: [x.float().exp(), x * x], self.x)
        rounding = reference_run.rounding_of(self.graph)
        self.assertEqual((rounding.halves, rounding.wide), ([None, torch.bfloat16], torch.float64))

    def test_a_float32_result_of_half_products_may_err_as_they_do(self):
        def autocast(x, y, z):
            return [(torch.tanh(x @ y) @ z).float().softmax(-1)]

        x, y, z = (torch.randn(64, 64, dtype=torch.bfloat16) for _ in range(3))
        got = self.take(autocast, x, y, z)
        self.assert_right(got)
        self.assert_wrong([got[0].roll(1, 0)])

    def test_gradients(self):
        outer = torch.randn_like(self.x)
        net, _ = deep(torch.bfloat16)
        got = self.take(gradients(net), outer, self.x, *net.parameters())
        self.assert_right(got)
        wrong = [one.clone() for one in got]
        wrong[-1] = wrong[-1] * 0.8
        self.assert_wrong(wrong)

    def test_saved_results_that_are_arguments_take_no_reference(self):
        got = self.take(lambda x, y: [x @ y, x], self.x, self.x.t().contiguous())
        self.assert_right([got[0], self.arguments[0]])

    def test_one_number_for_which_eager_was_lucky(self):
        def loss(x, y):
            return [((x @ y) * (x @ y)).mean().sqrt()]

        torch.manual_seed(4)
        x, y = (torch.randn(64, 64, dtype=torch.bfloat16) for _ in range(2))
        [got] = self.take(loss, x, y)
        self.assert_right([got])
        self.assert_wrong([got * 1.2])

    def test_other_kinds_of_results(self):
        for wrong, words in (
            ([], "0 results"),
            ([1], "no tensor"),
            ([self.eager[0].float()], "dtype"),
            ([self.eager[0][:-1]], "shape"),
            ([self.eager[0].t().contiguous().t()], "strides"),
            ([self.eager[0] * math.nan], ""),
        ):
            self.assert_wrong(wrong, words)
            self.assertTrue(self.check.why_not(self.eager, wrong))


class SinglePrecision(Checked):
    def test_another_order_is_right_and_tf32_is_not(self):
        torch.manual_seed(0)
        x, y = torch.randn(200, 300), torch.randn(300, 100)
        self.take(lambda x, y: [F.relu(x @ y)], x, y)
        parts = F.relu(x[:, ::2] @ y[::2] + x[:, 1::2] @ y[1::2])
        self.assert_right([parts])
        lossy = F.relu(tf32.rounded(x) @ tf32.rounded(y))
        self.assert_wrong([lossy])
        self.check.precision = "tf32"  # eager's products were TF32 in the search
        self.assert_right([lossy])
        self.assert_wrong([F.relu(x.half() @ y.half()).float() * 1.01])

    def test_a_row_far_below_the_others_is_held_by_itself(self):
        x = torch.randn(32, 64) * torch.logspace(0, -12, 32)[:, None]
        self.take(lambda x: [x * 3], x)
        wrong = self.eager[0].clone()
        self.assert_right([wrong])
        wrong[-1] = 0
        self.assert_wrong([wrong])

    def test_equal_values_may_be_chosen_otherwise_others_not(self):
        x = torch.randn(16, 64)
        self.take(lambda x: [x.argmax(-1)], x)
        self.assert_right([self.eager[0].clone()])
        self.assert_wrong([(self.eager[0] + 1) % 64], "expected")

    def test_zeros_are_zeros(self):
        self.take(lambda x: [x * 0], torch.ones(64))
        self.assert_wrong([torch.full((64,), 1e-30)])

    def test_what_a_cast_of_the_graph_s_own_leaves(self):
        def left(x):
            return [x - x.bfloat16().float()]

        x = torch.randn(64, 64)
        self.take(left, x)
        self.assert_right(left(x))
        self.assert_wrong([x - x.half().float()])


class Reference(Checked):
    def test_what_it_may_not_take_it_does_not(self):
        got = self.take_deep()
        with mock.patch.object(first_result_check, "free_bytes", lambda _: 1 << 10):
            self.assert_wrong(got, "it takes more than 0 MiB")
        self.check.seconds_max = -1
        self.assert_wrong(got, "its time was over")

    def test_intermediate_values_go(self):
        """A chain of operators has two values alive, however long it is."""

        def chain(x):
            for _ in range(40):
                x = torch.sin(x)
            return [x]

        x = torch.randn(1 << 14)
        self.take(chain, x)
        limits = reference_run.Limits(3 * 8 * x.numel(), time.monotonic() + 60)
        [found] = reference_run.run(self.graph, [x], torch.float64, limits)
        torch.testing.assert_close(found, chain(x.double())[0])

    def test_parameters_are_widened_one_by_one(self):
        weights = [torch.randn(128, 128) for _ in range(12)]

        def layers(x, *weights):
            for weight in weights:
                x = torch.tanh(x @ weight.t())
            return [x]

        self.take(layers, x := torch.randn(2, 128), *weights)
        limits = reference_run.Limits(2 * 8 * 128 * 128, time.monotonic() + 60)
        reference_run.run(self.graph, [x, *weights], torch.float64, limits)

    def test_nothing_of_the_program_is_written(self):
        self.take(lambda x: [x.mul_(2)], torch.ones(4))
        with self.assertRaisesRegex(reference_run.NoReference, "writes into"):
            reference_run.run(
                self.graph,
                [x := torch.ones(4)],
                torch.float64,
                reference_run.Limits(1 << 20, time.monotonic() + 60),
            )
        self.assertTrue(torch.equal(x, torch.ones(4)))

    def test_views_by_layout_and_bits_are_the_graph_s(self):
        def views(x):
            y = (x.t() + 1).as_strided((4, 2), (2, 1))
            return [y * 2, (x * 2).view(torch.int16) + 1]

        x = torch.randn(4, 4, dtype=torch.bfloat16)
        self.take(views, x)
        wide = reference_run.run(
            self.graph, [x], torch.float64, reference_run.Limits(1 << 20, time.monotonic() + 60)
        )
        torch.testing.assert_close(wide[0].to(x.dtype), self.eager[0])
        self.assertTrue(torch.equal(wide[1], self.eager[1]))

    def test_softmax_that_widens_its_operand(self):
        def softmax(x):
            return [torch.ops.aten._softmax.default(x, -1, False)]

        self.take(softmax, x := torch.randn(4, 8, dtype=torch.bfloat16))
        for node in self.graph.graph.find_nodes(
            op="call_function", target=torch.ops.aten._softmax.default
        ):
            node.args = (*node.args[:2], True)  # as a GPU's autocast has it
        [found] = reference_run.run(
            self.graph, [x], torch.float64, reference_run.Limits(1 << 20, time.monotonic() + 60)
        )
        torch.testing.assert_close(found, x.double().softmax(-1))

    def test_draws_are_eager_s_and_the_generator_stays(self):
        def dropped(x, y):
            for _ in range(6):
                x = torch.tanh(x @ y * 0.5)
            dropped, mask = torch.native_dropout(x, 0.5, True)
            return [dropped @ y + torch.rand_like(x), mask]

        x, y = (torch.randn(64, 64, dtype=torch.bfloat16) for _ in range(2))
        torch.manual_seed(3)
        before = random_state.random_states([x])
        self.take(dropped, x, y, random=before)
        random_state.set_random_states(before)
        with torch.no_grad():
            self.eager = list(self.graph(x, y))
        after = random_state.random_states([x])
        with torch.no_grad():
            # The same numbers, by which float32 computes the rest.
            random_state.set_random_states(before)
            hidden = torch.native_dropout(x, 0.5, True)[1]
            drawn = torch.rand_like(x).float()
            x, y = x.float(), y.float()
            for _ in range(6):
                x = torch.tanh(x @ y * 0.5)
            got = ((x * hidden * 2) @ y + drawn).bfloat16()
        random_state.set_random_states(after)
        self.assertNotEqual(first_result_check.difference(self.eager[:1], [got]), "")
        self.assert_right([got, hidden])
        self.assert_wrong([got.roll(1, 0), hidden])
        self.assertTrue(torch.equal(after[0], random_state.random_states([got])[0]))


class Inductor(Checked):
    def test_it_may_err_more_than_kernels_but_not_by_anything(self):
        [got] = self.take_deep()
        worse = [got * 1.1]
        self.assert_wrong(worse)
        self.check.factor = tolerance.INDUCTOR_FACTOR
        self.assert_right(worse)
        self.assert_wrong([got.roll(1, 0)])
        with mock.patch.object(first_result_check, "free_bytes", lambda _: 0):
            self.assert_right(worse)
            self.assert_wrong([got.roll(1, 0)])


class Attention(unittest.TestCase):
    """Operators of GPUs, played by what the processor has."""

    def call(self, name, results, *args, **kwargs):
        real = getattr(torch.ops.aten, name).default

        class Played:
            _schema = real._schema

            def __call__(self, *_, **__):
                return results

        played = Played()
        kinds = [
            kind
            for kind in vars(reference_attention).values()
            if isinstance(kind, set) and real in kind
        ]
        for kind in kinds:
            kind.add(played)
            self.addCleanup(kind.discard, played)
        return reference_attention.compute(played, args, kwargs, args, kwargs)

    def setUp(self):
        torch.manual_seed(0)
        self.q, self.k, self.v = (
            torch.randn(2, heads, 16, 8, dtype=torch.float64, requires_grad=True)
            for heads in (4, 2, 2)
        )
        self.expected = F.scaled_dot_product_attention(
            self.q, self.k, self.v, is_causal=True, enable_gqa=True
        )

    def test_forward(self):
        like = torch.empty(2, 16, 4, 8, dtype=torch.bfloat16).transpose(1, 2)
        padded = torch.empty(2, 4, 32)
        output, logsumexp, *_ = self.call(
            "_scaled_dot_product_flash_attention",
            (like, padded, None, None, 16, 16, None, None, None),
            self.q,
            self.k,
            self.v,
            0.0,
            True,
        )
        self.assertEqual(output.stride(), like.stride())
        torch.testing.assert_close(output, self.expected)
        scores = self.q @ self.k.repeat_interleave(2, 1).mT / math.sqrt(8)
        scores = scores.masked_fill(~torch.ones(16, 16).bool().tril(), -math.inf)
        torch.testing.assert_close(logsumexp[..., :16], scores.logsumexp(-1))

    def test_backward(self):
        outer = torch.randn_like(self.expected)
        grads = torch.autograd.grad(self.expected, [self.q, self.k, self.v], outer)
        found = self.call(
            "_scaled_dot_product_flash_attention_backward",
            [torch.empty_like(one) for one in grads],
            outer,
            self.q,
            self.k,
            self.v,
            self.expected,
            None,
            None,
            None,
            16,
            16,
            0.0,
            True,
            None,
            None,
        )
        for one, other in zip(found, grads, strict=True):
            torch.testing.assert_close(one, other)

    def test_backward_of_a_bias(self):
        bias = torch.randn(1, 4, 16, 16, dtype=torch.float64, requires_grad=True)
        k, v = (one.detach().repeat_interleave(2, 1).requires_grad_() for one in (self.k, self.v))
        output = F.scaled_dot_product_attention(self.q, k, v, bias)
        outer = torch.randn_like(output)
        grads = torch.autograd.grad(output, [self.q, k, v, bias], outer)
        found = self.call(
            "_scaled_dot_product_efficient_attention_backward",
            [torch.empty_like(one) for one in grads],
            outer,
            self.q,
            k,
            v,
            bias,
            output,
            None,
            None,
            None,
            0.0,
            [True] * 4,
        )
        for one, other in zip(found, grads, strict=True):
            torch.testing.assert_close(one, other)

    def test_what_drops_has_no_reference(self):
        with self.assertRaises(reference_attention.Unsupported):
            self.call("_scaled_dot_product_flash_attention", (), self.q, self.k, self.v, 0.1, True)


if __name__ == "__main__":
    unittest.main()
