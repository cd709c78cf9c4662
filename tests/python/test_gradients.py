"""ModelNew where a gradient is wanted: its kernels compute the results, and the
gradients are the original's.

Needs the program compose_cli, as test_model_attributes.py does.
"""

import os
import sys
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import test_model_attributes as parts
from capture_case import simple

import torch
from torch.utils.checkpoint import checkpoint

LINEAR = simple(
    "return torch.tanh(torch.exp(-x * x) * self.scale + 1.0)",
    init="self.scale = nn.Parameter(torch.rand(6))",
)
#: Several results: one without a gradient, one of whole numbers, one twice.
SEVERAL = simple(
    "y = torch.exp(-x * x) * self.scale\n"
    "return {'y': torch.tanh(y), 'n': [(y > 0.5).long(), None]}, "
    "torch.sigmoid(y.detach()), torch.exp(x) * 2",
    init="self.scale = nn.Parameter(torch.rand(6))",
)
DROPS = simple(
    "return torch.tanh(self.drop(x * self.scale) * 2) + 1",
    init="self.scale = nn.Parameter(torch.rand(6))\nself.drop = nn.Dropout(0.5)",
)
NORM = simple("return torch.tanh(self.norm(x) * 2) + 1", init="self.norm = nn.BatchNorm1d(6)")
#: The buffer is read before it is written.
COUNTS = simple(
    "y = torch.tanh(x * self.scale + self.seen)\nself.seen += 1\nreturn y * 2",
    init="self.scale = nn.Parameter(torch.rand(6))\nself.register_buffer('seen', torch.zeros(6))",
)
#: What is kept has a gradient of its own.
HIDDEN = simple(
    "self.hidden = torch.tanh(x * self.scale + self.hidden)\nreturn self.hidden * 2",
    init="self.scale = nn.Parameter(torch.rand(6))\n"
    "self.register_buffer('hidden', torch.zeros(4, 6))",
)
TIED = simple(
    "return torch.tanh(x * self.a) * torch.exp(self.b * x)",
    init="self.a = nn.Parameter(torch.rand(6))\nself.b = self.a",
)
VIEWS = simple(
    "return torch.tanh(x * self.scale), x.t()", init="self.scale = nn.Parameter(torch.rand(6))"
)
ELSEWHERE = simple(
    "return torch.tanh(x * self.held[0]) * self.scale",
    init="self.scale = nn.Parameter(torch.rand(6))\nself.held = [torch.linspace(0, 1, 6)]",
)

_made = {}


def setUpModule():
    parts.setUpModule()


def tearDownModule():
    parts.tearDownModule()


class Gradients(unittest.TestCase):
    def take(self, name, text):
        """Two models alike; the first call of ModelNew, which is the
        original's, is done."""
        if text not in _made:
            _made[text] = parts.both(name, text)
        old, new = _made[text]
        new._weft_told.clear()
        torch.manual_seed(1)
        self.ours = new.ModelNew()
        torch.manual_seed(1)
        self.model = old.Model()
        self.module = new
        self.x = torch.randn(4, 6)
        self.gone, patch = parts.noting(self.ours)
        patch.start()
        self.addCleanup(patch.stop)
        torch.manual_seed(2)
        first = self.ours(self.x)
        torch.manual_seed(2)
        self.same(first, self.model(self.x))
        self.assertEqual(len(self.gone), 1)
        self.gone.clear()

    def same(self, ours, theirs):
        ours, form = torch.utils._pytree.tree_flatten(ours)
        theirs, their_form = torch.utils._pytree.tree_flatten(theirs)
        self.assertEqual(form, their_form)
        torch.testing.assert_close(ours, theirs)
        for mine, other in zip(ours, theirs):
            if isinstance(mine, torch.Tensor):
                self.assertEqual(mine.requires_grad, other.requires_grad)

    def both(self, call):
        """What call(model) gives, of both from one state of the generator."""
        torch.manual_seed(3)
        ours = call(self.ours)
        drawn = torch.get_rng_state()
        torch.manual_seed(3)
        theirs = call(self.model)
        self.assertTrue(torch.equal(drawn, torch.get_rng_state()))
        return ours, theirs

    def assert_same_gradients(self, total=lambda y: y.sum(), x=None):
        """By kernels, and with one run of the original for them."""
        x = self.x if x is None else x

        def call(model):
            given = x.detach().clone().requires_grad_(x.requires_grad)
            model.zero_grad()
            result = model(given)
            self.gone_before = list(self.gone)
            total(result).backward()
            return result, given.grad, [p.grad for p in model.parameters()]

        torch.manual_seed(3)
        ours = call(self.ours)
        self.assertEqual(self.gone_before, [])
        self.assertEqual(len(self.gone), 1)
        torch.manual_seed(3)
        theirs = call(self.model)
        self.same(ours[0], theirs[0])
        torch.testing.assert_close(ours[1:], theirs[1:])
        buffers = dict(self.model.named_buffers())
        for name, buffer in self.ours.named_buffers():
            torch.testing.assert_close(buffer, buffers[name])

    def test_kernels_compute_the_results(self):
        self.take("linear", LINEAR)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                result = self.ours(self.x)
        self.assertEqual(self.gone, [])
        self.assertTrue(result.requires_grad)
        self.assert_same_gradients()

    def test_once_trained_the_original_computes_both(self):
        self.take("trained", LINEAR)
        self.ours(self.x).sum().backward()
        self.gone.clear()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(2):
                self.ours(self.x).sum().backward()
        self.assertEqual(len(self.gone), 2)
        self.assertEqual([1], [1 for one in told if "backward()" in str(one.message)])
        with torch.no_grad():
            self.gone.clear()
            self.ours(self.x)
        self.assertEqual(self.gone, [])

    def test_an_input_has_one_too(self):
        self.take("of_input", LINEAR)
        x = self.x.clone().requires_grad_()
        self.ours(x)  # the first of this kind
        self.gone.clear()
        self.assert_same_gradients(x=x)

    def test_each_result_requires_one_where_the_original_s_does(self):
        self.take("several", SEVERAL)
        self.assert_same_gradients(lambda r: r[0]["y"].sum())

    def test_a_result_that_is_not_used_adds_nothing(self):
        self.take("unused", SEVERAL)
        x = self.x.clone().requires_grad_()
        self.ours(x)
        self.gone.clear()
        self.assert_same_gradients(lambda r: r[2].sum(), x=x)

    def test_what_is_drawn_is_drawn_again(self):
        self.take("drops", DROPS)
        self.assert_same_gradients()

    def test_running_statistics_are_written_once(self):
        self.take("norm", NORM)
        self.assert_same_gradients()

    def test_a_buffer_is_read_as_it_was(self):
        self.take("counts", COUNTS)
        one, other = self.ours(self.x), self.ours(self.x)
        (one.sum() + other.sum()).backward()
        (self.model(self.x).sum() + self.model(self.x).sum()).backward()
        torch.testing.assert_close(self.ours.scale.grad, self.model.scale.grad)
        torch.testing.assert_close(self.ours.seen, self.model.seen)

    def test_a_parameter_of_two_names_is_one(self):
        self.take("tied", TIED)
        self.assert_same_gradients()

    def test_a_gradient_s_gradient(self):
        self.take("twice", LINEAR)
        x = self.x.clone().requires_grad_()
        self.ours(x)
        self.gone.clear()

        def call(model):
            (made,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            return torch.autograd.grad(made.square().sum(), [x, model.scale])

        ours, theirs = self.both(call)
        torch.testing.assert_close(ours, theirs)

    def test_hooks_run_once(self):
        self.take("hooks", LINEAR)
        calls = []
        self.ours.scale.register_hook(lambda _: calls.append("tensor"))
        self.ours.register_full_backward_hook(lambda *_: calls.append("module"))
        self.ours(self.x).sum().backward()
        self.assertEqual(sorted(calls), ["module", "tensor"])

    def assert_original(self, call, why):
        self.module._weft_told.clear()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(3):
                call()
        self.assertIn(why, str([str(one.message) for one in told]))
        self.assertEqual(len(self.gone), 3)

    def test_what_kernels_cannot_stand_in_for_is_the_original_s(self):
        for name, text in (("hidden", HIDDEN), ("views", VIEWS)):
            with self.subTest(name):
                self.take(name, text)
                self.assert_original(lambda: self.ours(self.x), "cannot be had beside kernels")

    def test_so_are_tensors_that_the_model_does_not_know_of(self):
        self.take("elsewhere", ELSEWHERE)
        del self.ours.__dict__["_weft_kinds"]
        self.ours.held[0].requires_grad_()
        self.ours(self.x)
        self.gone.clear()
        self.assert_original(lambda: self.ours(self.x), "beside kernels")

    def test_checkpoints_see_the_original(self):
        self.take("checkpoint", LINEAR)
        checkpoint(self.ours, self.x, use_reentrant=False).sum().backward()
        self.model(self.x).sum().backward()
        torch.testing.assert_close(self.ours.scale.grad, self.model.scale.grad)

    def test_a_model_changed_meanwhile_is_refused(self):
        self.take("changed", DROPS)
        result = self.ours(self.x)
        self.ours.eval()
        with self.assertRaisesRegex(RuntimeError, "another mode"):
            result.sum().backward()

    def test_so_is_a_parameter_written_or_replaced_meanwhile(self):
        self.take("written", LINEAR)
        result, other = self.ours(self.x), self.ours(self.x)
        with torch.no_grad():
            self.ours.scale.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "inplace"):
            result.sum().backward()
        self.ours.scale = torch.nn.Parameter(torch.rand(6))
        with self.assertRaisesRegex(RuntimeError, "inplace|another mode"):
            other.sum().backward()

    def test_only_arguments_and_parameters_are_kept(self):
        self.take("kept", LINEAR)
        result = self.ours(self.x)
        saved = {id(t) for t in result.grad_fn.saved_tensors}
        self.assertEqual(saved, {id(self.x), id(self.ours.scale)})


if __name__ == "__main__":
    unittest.main()
