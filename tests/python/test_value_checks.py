"""PyTorch's own looks at values are no reason to refuse a model: Transformers with
masks and losses with checks are captured. The model's own looks stay one."""

from __future__ import annotations

import unittest

import torch
from capture_case import CaptureTest, simple
from torch import nn
from torch.nn import functional

from weft.backend.graphs import call_structure, exported_module
from weft.capture import capture, value_checks

LAYERS = {
    "TransformerEncoder": "self.part(x, mask=self.mask)",
    "TransformerDecoder": "self.part(x, x, tgt_mask=self.mask)",
    "Transformer": "self.part(x, x, src_mask=self.mask, tgt_mask=self.mask)",
}
PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {part}
        self.register_buffer("mask", {mask})

    def forward(self, x):
        return {call}

def get_inputs():
    return [torch.randn(2, 6, 16)]

def get_init_inputs():
    return []
"""
CAUSAL = "nn.Transformer.generate_square_subsequent_mask(6)"
#: Causal, none, one that is not causal, and booleans.
MASKS = (CAUSAL, "torch.zeros(6, 6)", f"{CAUSAL}.flip(0, 1)", f"{CAUSAL} < 0")
#: In eval mode, PyTorch's fast path takes a float mask for booleans.
BIAS = "torch.full((6, 6), -1.0).tril()"


def part_of(name: str) -> str:
    options = "16, 2, dim_feedforward=32, dropout=0.0, batch_first=True"
    if name == "Transformer":
        return f"nn.Transformer({options}, num_encoder_layers=1, num_decoder_layers=1)"
    return f"nn.{name}(nn.{name}Layer({options}), 2)"


class Masks(CaptureTest):
    def test_transformers_with_a_mask_are_captured(self) -> None:
        for name, call in LAYERS.items():
            masks = MASKS if name == "TransformerEncoder" else MASKS[:1]
            for mask in masks:
                for mode in ("train", "eval"):
                    with self.subTest(name=name, mask=mask, mode=mode):
                        self.assert_captured(
                            PROBLEM.format(part=part_of(name), mask=mask, call=call), mode
                        )

    def test_a_mask_of_other_numbers_is_captured(self) -> None:
        self.assert_captured(
            PROBLEM.format(
                part=part_of("TransformerEncoder"), mask=BIAS, call=LAYERS["TransformerEncoder"]
            ),
            "train",
        )

    def test_a_fast_path_that_computes_something_else_is_named(self) -> None:
        text = PROBLEM.format(
            part=part_of("TransformerEncoder"), mask=BIAS, call=LAYERS["TransformerEncoder"]
        )
        reply = capture.reply_of(self.write(text), self.out, mode="eval")
        self.assertEqual(reply["error"]["kind"], "unsupported")
        self.assertRegex(
            reply["error"]["message"],
            r"part.layers.0 cannot be captured: .*nn.TransformerEncoderLayer .*set_fastpath_enabled",
        )
        # As the message says.
        self.assert_captured(text.replace(BIAS, f"{BIAS} > 0.5"), "eval")
        torch.backends.mha.set_fastpath_enabled(False)
        self.addCleanup(torch.backends.mha.set_fastpath_enabled, True)
        self.assert_captured(text, "eval")

    def assert_captured(self, text: str, mode: str = "as-is") -> None:
        """Captured graphs agree with eager: capture compares them."""
        reply = capture.reply_of(self.write(text), self.out, mode=mode)
        self.assertTrue(reply["ok"], reply)

    def test_a_mask_made_in_forward_is_captured(self) -> None:
        self.assert_captured(
            PROBLEM.format(
                part=part_of("TransformerEncoder"),
                mask=CAUSAL,
                call="self.part(x, nn.Transformer.generate_square_subsequent_mask(x.shape[1]))",
            )
        )

    def test_the_user_s_module_is_captured(self) -> None:
        part = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2
        ).eval()
        mask = nn.Transformer.generate_square_subsequent_mask(6)
        call = call_structure.flatten(((torch.randn(2, 6, 16),), {"mask": mask}))
        _, module = exported_module.capture(part, call, [])
        self.assertIn("scaled_dot_product_attention", str(module.graph))
        # At any size of a batch, too: the first dimension of the first tensor.
        owners = [{0: 0} if leaf is call.leaves[0] else {} for leaf in call.leaves]
        exported_module._check_any_size(part, call, owners)

    def test_the_model_s_own_look_is_refused(self) -> None:
        reply = capture.reply_of(
            self.write(simple("return x * 2 if (x == x.abs()).all() else x")), self.out
        )
        self.assertFalse(reply["ok"])
        self.assertIn("depends on the values of a tensor", reply["error"]["message"])

    def test_outside_of_transformers_a_tensor_has_its_truth(self) -> None:
        with value_checks.left_out():
            self.assertTrue(torch.tensor(True))
            self.assertTrue(bool(torch.ones(3).all()))


class Losses(CaptureTest):
    def test_gaussian_nll_loss_has_eager_s_values(self) -> None:
        x, y = torch.randn(4, 3), torch.randn(4, 3)
        for var in (0.5, torch.rand(4, 3), torch.rand(4), torch.rand(4, 1), torch.zeros(4, 3)):
            for full in (False, True):
                for reduction in ("none", "mean", "sum"):
                    with self.subTest(var=var, full=full, reduction=reduction):
                        options = {"full": full, "reduction": reduction}
                        with value_checks.left_out():
                            got = functional.gaussian_nll_loss(x, y, var, **options)
                        wanted = functional.gaussian_nll_loss(x, y, var, **options)
                        torch.testing.assert_close(got, wanted, rtol=0, atol=0)

    def test_gaussian_nll_loss_has_eager_s_gradients(self) -> None:
        gradients = []
        for checks in (value_checks.left_out(), torch.enable_grad()):
            var = torch.tensor([0.0, 0.5, 2.0], requires_grad=True)
            with checks:
                nn.GaussianNLLLoss(eps=0.1)(torch.ones(3), torch.zeros(3), var).backward()
            gradients.append(var.grad)
        torch.testing.assert_close(*gradients, rtol=0, atol=0)

    def test_gaussian_nll_loss_is_captured(self) -> None:
        for var in ("x.abs()", "x.abs()[:, 0]", "0.25"):
            with self.subTest(var=var):
                reply = capture.reply_of(
                    self.write(
                        simple(f"return torch.nn.functional.gaussian_nll_loss(x, x.tanh(), {var})")
                    ),
                    self.out,
                )
                self.assertTrue(reply["ok"], reply)


if __name__ == "__main__":
    unittest.main()
