"""Where a decomposition differs from eager: capture finds the operator, keeps it,
and goes on; outputs get eager's strides; one tensor with two names is one."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import CaptureTest, simple

import torch

from weft.capture import check, undecomposed_calls

CHANNELS_LAST = "[torch.randn({}, 8, 6, 6).to(memory_format=torch.channels_last)]"
# The end of the attention block of a diffusion VAE.
GROUP_NORM = (
    "h = x.flatten(2).transpose(1, 2) @ self.w\n"
    "h = h.transpose(1, 2).{}(x.shape) + x\n"
    "return F.group_norm(h, 4)"
)


class OperatorsThatDiffer(CaptureTest):
    def kept(self, text):
        graph = self.capture(text)
        return graph, [(one["operator"], one["reason"]) for one in graph["kept"]]

    def test_most_models_have_none(self):
        _, kept = self.kept(simple("return F.normalize(x, dim=1)"))
        self.assertEqual(kept, [])

    def test_other_values_keep_the_operator_alone(self):
        text = simple(
            "c = torch.linalg.cross(x, x)\nreturn c / c, x.sin() * 2",
            inputs="[torch.randn(4096, 3)]",
        )
        graph, kept = self.kept(text)
        self.assertEqual(
            kept, [("aten.linalg_cross.default", "its decomposition gives other values than eager")]
        )
        self.assertIn("linalg.cross", text.splitlines()[graph["kept"][0]["line"] - 1])
        self.assertEqual(
            self.targets(graph),
            ["aten.linalg_cross.default", "aten.div.Tensor", "aten.sin.default", "aten.mul.Tensor"],
        )

    def test_a_decomposition_without_aten_form_keeps_the_operator(self):
        for call, target in (
            ("torch.index_fill(x, 1, torch.tensor([0, 2]), 1.5)", "aten.index_fill.int_Scalar"),
            ("x.clone().index_fill_(1, torch.tensor([0, 2]), 1.5)", "aten.index_fill.int_Scalar"),
        ):
            with self.subTest(call=call):
                graph, kept = self.kept(
                    simple(f"return {call} * 2", inputs=CHANNELS_LAST.format(4))
                )
                self.assertEqual(len(kept), 1)
                self.assertIn(target, self.targets(graph))

    def test_strides_of_a_batch_of_one_are_eager_s(self):
        for form, batch in (("view", 1), ("reshape", 1), ("view", 2)):
            with self.subTest(form=form, batch=batch):
                graph, kept = self.kept(
                    simple(
                        GROUP_NORM.format(form),
                        init="self.w = nn.Parameter(torch.randn(16, 16))",
                        inputs=f"[torch.randn({batch}, 16, 4, 4)]",
                    )
                )
                self.assertIn("aten.native_group_norm.default", self.targets(graph))
                self.assertEqual(bool(kept), batch == 1)

    def test_two_calls_that_differ_are_the_model_s(self):
        text = "import random\n" + simple("return x * random.random()")
        error = self.refuse(text, "capture_differs", "two calls of the model", code="failed")
        self.assertNotIn("internal error", error["message"])

    def test_two_calls_that_agree_are_not(self):
        self.assertIn("internal error", str(check.Mismatch("output 0 differs")))
        self.assertIn("internal error", str(check.GraphFailed(ValueError("x"))))

    def test_a_functional_form_is_the_same_overload(self):
        aten = torch.ops.aten
        for one, other in (
            (aten.mul_.Tensor, aten.mul.Tensor),
            (aten.view.default, aten.view.default),
            (aten.index_fill_.int_Scalar, aten.index_fill.int_Scalar),
            (aten.add.out, None),
        ):
            self.assertEqual(undecomposed_calls.functional(one), other)
        self.assertFalse(undecomposed_calls.can_keep(aten.equal.default))


class OutputLayouts(CaptureTest):
    def strides(self, body, inputs):
        """(the graph, strides of its outputs)"""
        graph = self.capture(simple(body, inputs=inputs))
        values = {node["name"]: node["values"][0] for node in graph["nodes"]}
        return graph, [values[name]["stride"] for name in graph["outputs"]]

    def test_an_output_with_other_strides_gets_one_copy(self):
        graph, strides = self.strides(
            "return F.channel_shuffle(x, 4) * 2, torch.tanh(x)", CHANNELS_LAST.format(3)
        )
        self.assertEqual(strides, [[288, 1, 48, 8]] * 2)
        self.assertEqual(self.targets(graph).count("aten.clone.default"), 2)
        self.assertEqual(graph["kept"], [])

    def test_an_output_that_is_returned_twice_gets_the_same_copy(self):
        graph, strides = self.strides(
            "y = F.channel_shuffle(x, 4) * 2\nreturn y, x + 1, y", CHANNELS_LAST.format(3)
        )
        self.assertEqual(strides, [[288, 1, 48, 8]] * 3)
        self.assertEqual(graph["outputs"][0], graph["outputs"][2])

    def test_outputs_with_eager_s_strides_get_none(self):
        for body in (
            "return x * 2",
            "return x.transpose(1, 2)",
            "return x[:, ::2].expand(3, -1, -1, -1)",
            "return x.sum()",
            "return x[:0] * 2",
        ):
            with self.subTest(body=body):
                graph, _ = self.strides(body, CHANNELS_LAST.format(3))
                self.assertFalse(
                    [node for node in graph["nodes"] if node["name"].endswith("_layout")]
                )


class OneTensorWithTwoNames(CaptureTest):
    def test_a_shared_module_is_captured_once(self):
        graph = self.capture(
            simple(
                "return self.second(torch.tanh(self.first(x)))",
                init="self.first = nn.BatchNorm1d(6)\nself.second = self.first",
            )
        )
        state = [
            node["target"] for node in graph["nodes"] if node["kind"] in ("parameter", "buffer")
        ]
        self.assertEqual(
            state,
            [
                "first.weight",
                "first.bias",
                "first.running_mean",
                "first.running_var",
                "first.num_batches_tracked",
            ],
        )
        self.assertEqual([one["target"] for one in graph["mutations"]], state[2:])

    def test_so_are_tied_weights_and_buffers(self):
        graph = self.capture(
            simple(
                "self.a.add_(1)\nreturn self.p(x) + self.q(x) + self.b",
                init="self.p, self.q = nn.Linear(6, 6), nn.Linear(6, 6, False)\n"
                "self.q.weight = self.p.weight\n"
                "self.register_buffer('a', torch.ones(6))\n"
                "self.register_buffer('b', self.a)",
            )
        )
        self.assertEqual(
            [node["target"] for node in graph["nodes"] if node["kind"] in ("parameter", "buffer")],
            ["p.weight", "p.bias", "a"],
        )

    def test_views_of_one_memory_are_refused_without_advice(self):
        error = self.refuse(
            simple(
                "self.a.add_(x)\nreturn self.b * 2",
                init="self.register_buffer('a', torch.zeros(4, 6))\n"
                "self.register_buffer('b', self.a[:2])",
            ),
            "unsupported",
            ("a and b", "two tensors share"),
            line="self.a.add_(x)",
        )
        self.assertNotIn("clone()", error["message"])


if __name__ == "__main__":
    unittest.main()
