"""ModelNew in the plain uses of a model: trained, put in
another mode, traced, exported, mapped over a batch.

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
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

LINEAR = simple(
    "return torch.tanh(torch.exp(-x * x) * self.scale + 1.0)",
    init="self.scale = nn.Parameter(torch.rand(6))",
)
#: Its mode is one that nothing in it reads.
EVAL_IN_INIT = simple("return torch.tanh(torch.exp(-x * x) + 1.0)", init="self.eval()")
DROPS = simple(
    "return torch.tanh(self.drop(x)) * 2", init="self.drop = nn.Dropout(0.5)\nself.eval()"
)


def setUpModule():
    parts.setUpModule()


def tearDownModule():
    parts.tearDownModule()


class PlainUse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.old, cls.new = parts.both("linear", LINEAR)

    def setUp(self):
        torch.manual_seed(1)
        self.ours = self.new.ModelNew()
        torch.manual_seed(1)
        self.model = self.old.Model()
        self.x = torch.randn(self.old.get_inputs()[0].shape)
        self.new._weft_told.clear()

    def goes(self, call):
        """(What call() gives, the warnings of ours that it made)."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = call()
        return result, [
            str(one.message) for one in told if "ModelNew runs the original" in str(one.message)
        ]

    def assert_original(self, call, why):
        result, told = self.goes(call)
        self.assertEqual(len(told), 1, told)
        self.assertIn(why, told[0])
        return result

    def assert_kernels(self, call):
        gone, patch = parts.noting(self.ours)
        with patch:
            result, told = self.goes(call)
        self.assertEqual((gone, told), ([], []))
        return result

    def test_where_none_is_wanted_the_kernels_run(self):
        with torch.no_grad():
            self.assert_kernels(lambda: self.ours(self.x))
        with torch.inference_mode():
            self.assert_kernels(lambda: self.ours(self.x))
        self.ours.requires_grad_(False)
        result = self.assert_kernels(lambda: self.ours(self.x))
        torch.testing.assert_close(result, self.model(self.x).detach())

    def test_another_shape_is_told_by_the_argument_s_name(self):
        with torch.no_grad():
            self.assert_original(
                lambda: self.ours(self.x[:2]), "x is no plain float32 tensor of shape"
            )

    def test_a_trace_holds_no_constants(self):
        with torch.no_grad():
            traced = self.assert_original(lambda: torch.jit.trace(self.ours, (self.x,)), "tracer")
            other = torch.randn_like(self.x)
            torch.testing.assert_close(traced(other), self.model(other))

    def test_transforms_see_the_original(self):
        x, step = self.x, torch.randn_like(self.x)
        batch = torch.stack([x, step])
        calls = {
            "vmap": lambda m: torch.vmap(m)(batch),
            "jvp": lambda m: torch.func.jvp(m, (x,), (step,))[1],
            "grad": lambda m: torch.func.grad(lambda x: m(x).sum())(x),
            "make_fx": lambda m: make_fx(m)(x)(step),
            "export": lambda m: torch.export.export(m, (x,)).module()(step),
            "strict export": lambda m: torch.export.export(m, (x,), strict=True).module()(step),
            "compile": lambda m: torch.compile(m, backend="eager", fullgraph=True)(step),
        }
        with torch.no_grad():
            for what, call in calls.items():
                with self.subTest(what), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    torch.testing.assert_close(call(self.ours), call(self.model))

    def test_so_does_a_dual_number(self):
        with torch.no_grad(), forward_ad.dual_level():
            dual = forward_ad.make_dual(self.x, torch.ones_like(self.x))
            ours = self.assert_original(lambda: self.ours(dual), "transform")
            torch.testing.assert_close(
                forward_ad.unpack_dual(ours).tangent,
                forward_ad.unpack_dual(self.model(dual)).tangent,
            )

    def test_so_does_a_tensor_without_memory(self):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fake = mode.from_tensor(self.x)
        with torch.no_grad():
            made = self.assert_original(lambda: self.ours(fake), "x is no plain")
            self.assertEqual(made.shape, self.x.shape)
            with mode:
                made = self.assert_original(lambda: self.ours(fake), "fake")
            self.assertEqual(made.shape, self.x.shape)


class Modes(unittest.TestCase):
    def check(self, model, mode, goes):
        x = torch.randn(4, 6)
        gone, patch = parts.noting(model)
        with patch, torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.train(mode)(x)
        self.assertEqual(bool(gone), goes)

    def test_one_that_nothing_reads_takes_the_kernels_in_both(self):
        _, new = parts.both("eval_in_init", EVAL_IN_INIT)
        model = new.ModelNew()
        self.assertFalse(model.training)
        self.check(model, False, goes=False)
        self.check(model, True, goes=False)

    def test_one_that_a_part_reads_is_the_one_of_the_constructor(self):
        _, new = parts.both("drops", DROPS)
        model = new.ModelNew()
        self.check(model, False, goes=False)
        self.check(model, True, goes=True)
        self.assertIn("in eval mode", new._weft_passed_on)


if __name__ == "__main__":
    unittest.main()
