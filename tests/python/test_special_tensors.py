"""Tensors that are not dense are named before anything is captured, faults of
weft's own say what to report, and no reason is cut within a sentence."""

import os
import sys
import unittest
from unittest import mock

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from backend_case import BackendCase
from capture_case import CaptureTest, simple
from torch.testing._internal.two_tensor import TwoTensor

import weft
from weft.backend.options import told
from weft.capture import capture, export
from weft.problem import sentences
from weft.problem.tensor_kinds import special_kind

JAGGED = "torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged)"
SPECIAL = {
    JAGGED: "a nested tensor",
    "torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)])": "a nested tensor",
    "torch.eye(8).to_sparse()": "the layout torch.sparse_coo",
    "torch.eye(8).to_sparse_csr()": "the layout torch.sparse_csr",
    "torch.randn(8, 8).to_mkldnn()": "the layout torch._mkldnn",
    "torch.quantize_per_tensor(torch.randn(8, 8), 0.1, 0, torch.quint8)": "a quantised tensor (torch.quint8)",
    "TwoTensor(torch.randn(8, 8), torch.randn(8, 8))": "a TwoTensor, a subclass",
    "torch.masked.masked_tensor(torch.randn(8, 8), torch.rand(8, 8) > 0.5)": "a MaskedTensor, a subclass",
}
#: Words of Python's own errors.
OF_PYTHON = r"Error|Exception|object has no attribute|Cannot convert|Unable to cast"


def value_of(text: str) -> torch.Tensor:
    return eval(text, {"torch": torch, "TwoTensor": TwoTensor})


class SpecialKinds(unittest.TestCase):
    def test_each_kind_has_a_name(self) -> None:
        for text, kind in SPECIAL.items():
            self.assertIn(kind, special_kind(value_of(text)), text)

    def test_inside_a_transform(self) -> None:
        seen = []

        def look(x: torch.Tensor) -> torch.Tensor:
            seen.append(special_kind(x))
            return x.sum()

        torch.func.vmap(look)(torch.randn(3, 4))
        torch.func.grad(look)(torch.randn(3))
        self.assertEqual(len(seen), 2)
        for one in seen:
            self.assertIn("torch.func transform", one)

    def test_dense_tensors_have_none(self) -> None:
        class Plain(torch.Tensor):
            pass

        for value in (
            torch.randn(3),
            torch.nn.Parameter(torch.randn(3)),
            3,
            None,
            torch.randn(3).as_subclass(Plain),
            torch.randn(3, dtype=torch.complex64).conj(),
            torch._neg_view(torch.randn(3)),
            torch.empty(3, device="meta"),
        ):
            self.assertEqual(special_kind(value), "")


class BeforeCapture(CaptureTest):
    def test_an_argument_is_refused_by_one_sentence(self) -> None:
        header = "from torch.testing._internal.two_tensor import TwoTensor\n"
        for text, kind in SPECIAL.items():
            with self.subTest(text=text):
                error = self.refuse(
                    header
                    + simple("return torch.sin(xs[0]) * 2", names="xs", inputs=f"[[{text}]]"),
                    "unsupported",
                    (kind, "its argument xs[0] is", "dense tensors"),
                )
                self.assertNotRegex(error["message"], OF_PYTHON)

    def test_so_is_the_model_s_state(self) -> None:
        self.refuse(
            simple(
                "return self.mask.to_dense() + x",
                inputs="[torch.randn(8, 8)]",
                init="self.mask = torch.eye(8).to_sparse()",
            ),
            "unsupported",
            "its attribute mask is a tensor of the layout",
        )


class InternalErrors(CaptureTest):
    def test_an_unexpected_error_says_what_to_report(self) -> None:
        with mock.patch.object(capture, "capture", side_effect=KeyError("w")):
            error = self.refuse(
                simple("return x"),
                "bug",
                ("internal error: capture failed with KeyError: 'w'", "report it"),
                code="failed",
            )
        self.assertIn("KeyError", error["details"])

    def test_the_exporter_s_own_too(self) -> None:
        with mock.patch.object(torch.export, "export", side_effect=AttributeError("no such node")):
            error = self.refuse(
                simple("return x"),
                "unsupported",
                (
                    "internal error of torch.export (AttributeError: no such node)",
                    "report it to PyTorch",
                ),
            )
        self.assertNotIn("plain tensor operators", error["message"])
        self.assertTrue(export.is_internal(IndexError("x")))
        self.assertFalse(export.is_internal(RuntimeError("x")))


class InTheBackend(BackendCase):
    @torch.no_grad()
    def test_nested_tensors_have_one_sentence(self) -> None:
        x = value_of(JAGGED)
        compiled = self.compiled(lambda x: torch.sin(x) * 2 + 1)
        self.assertTrue(torch.equal(compiled(x).values(), (x.sin() * 2 + 1).values()))
        self.assertTrue(self.reasons())
        for reason in self.reasons():
            self.assertIn("nested tensors", reason)
            self.assertNotRegex(reason, OF_PYTHON)


class InOptimize(BackendCase):
    def reason(self, model: torch.nn.Module, *inputs: torch.Tensor) -> str:
        return weft.optimize(model, list(inputs), budget_s=3)[1].reason

    def test_an_argument_is_named(self) -> None:
        for text, kind in SPECIAL.items():
            with self.subTest(text=text):
                reason = self.reason(torch.nn.Tanh(), value_of(text))
                self.assertIn("its argument 0 is", reason)
                self.assertIn(kind, reason)
                self.assertNotRegex(reason, OF_PYTHON)

    def test_so_are_packed_weights(self) -> None:
        model = torch.ao.quantization.quantize_dynamic(
            torch.nn.Sequential(torch.nn.Linear(8, 8)), {torch.nn.Linear}, dtype=torch.qint8
        )
        self.assertIn("packed weights of a quantised layer", self.reason(model, torch.randn(2, 8)))


class Sentences(unittest.TestCase):
    TEXT = "The first one. The second is longer.\nA line without an end\n  The last."

    def test_whole_ones_are_taken(self) -> None:
        for length_max, taken in (
            (0, "The first one. …"),
            (14, "The first one. …"),
            (36, "The first one. The second is longer. …"),
            (1000, "The first one. The second is longer. A line without an end The last."),
        ):
            self.assertEqual(sentences.whole_sentences(self.TEXT, length_max), taken)
        self.assertEqual(sentences.whole_sentences("  \n", 10), "")

    def test_a_long_sentence_is_not_cut(self) -> None:
        text = "shape " * 500 + "is wrong. And more."
        self.assertEqual(
            sentences.first_sentence(ValueError(text)), text.removesuffix(" And more.")
        )
        self.assertTrue(told(ValueError(text)).endswith("is wrong. …"))

    def test_whole_lines_are_taken(self) -> None:
        for length_max, taken in (
            (1000, self.TEXT),
            (40, "The first one. The second is longer.\n…"),
            (20, "The first one. …"),
        ):
            self.assertEqual(sentences.whole_lines(self.TEXT, length_max), taken)

    def test_a_sentence_longer_than_all_is_cut_between_words_and_says_so(self) -> None:
        self.assertEqual(
            sentences.whole_lines("shape " * 500, 20),
            "shape shape shape … (2983 characters are left out)",
        )
        self.assertLess(len(sentences.whole_lines("x" * 5000, 20)), 100)

    def test_an_error_without_words_has_its_class(self) -> None:
        self.assertEqual(sentences.first_sentence(KeyError()), "KeyError")
        self.assertEqual(sentences.of_error(KeyError()), "KeyError")


if __name__ == "__main__":
    unittest.main()
