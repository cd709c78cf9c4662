"""Graphs with Python floats that are symbols keep their kernels, and reasons name
the user's file and line."""

import json
import os
import unittest
from typing import Any

# Before torch, which may look for Triton.
import triton_kernels

import torch
from backend_case import BackendCase
from cuda_on_host import CudaVariant
from torch import library, nn

from weft.backend.graphs import problem_source
from weft.backend.searches import search
from weft.backend.implementations.composed_module import Numbers, SizeTensors
from weft.backend.graphs.graph_arguments import _WeftSize
from weft.capture import capture
from weft.expect.reference import Reference


TRITON = triton_kernels.TritonVariant("floats", 0, 1, 132)
CUDA = CudaVariant("floats", 0, 1, 132)


class Tempered(nn.Module):
    """A softmax with an attribute that changes between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x / self.temperature, -1) + x.cos()


class ScaledBySize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * 2) / x.shape[0] ** 0.25 + x.sin()


class FilledBySize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 2 + torch.full_like(x, 1.0 / x.shape[0])


class SymbolicFloats(BackendCase):
    def texts(self) -> list[str]:
        return [
            kernels.source.text
            for graph in self.compiled_graphs()
            for kernels in graph.kernels.values()
        ]

    def captured(self, text: str) -> list[str]:
        """The operators of that problem file's graph."""
        return [node["target"] for node in self.graph(text)["nodes"]]

    def graph(self, text: str) -> dict[str, Any]:
        """That problem file's graph."""
        problem, out = (os.path.join(self.folder, name) for name in ("problem.py", "graph.json"))
        with open(problem, "w", encoding="utf-8") as file:
            file.write(text)
        reply = capture.reply_of(problem, out)
        self.assertTrue(reply["ok"], reply)
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    def assert_kernels_for_a_gpu(self, text: str, variants: list[Any]) -> None:
        """Kernels of GPU targets, run here, give what eager gives."""
        graph = self.graph(text)
        reference = Reference(graph)
        inputs = [
            spec.view(torch.rand(spec.storage_elements).to(spec.dtype)) for spec in reference.inputs
        ]
        for variant in variants:
            (answer,) = variant.generate([graph], ())
            self.assertNotIn("error", answer)
            (function,) = variant.build([graph], [answer], self.folder)[0].values()
            for got, wanted in zip(function(inputs), reference.function()(*inputs), strict=True):
                torch.testing.assert_close(got, wanted)

    @torch.no_grad()
    def test_a_float_that_changes_is_an_argument(self) -> None:
        model, x = Tempered(), torch.randn(6, 8)
        compiled = self.compiled(model)
        for temperature in (0.5, 0.7, 0.9, 1.1):
            model.temperature = temperature
            self.assert_same(compiled(x), model(x))
        self.assertEqual(set(self.states()), {"ready"})
        text = self.texts()[-1]
        self.assertIn("torch.float64, 'cpu'", text)
        targets = self.captured(text)
        self.assertIn("aten._to_copy.default", targets)
        self.assertFalse([one for one in targets if one.startswith("prims")])
        self.assert_kernels_for_a_gpu(text, [TRITON, CUDA])

    @torch.no_grad()
    def test_a_float_of_a_symbolic_size_is_one_graph_s(self) -> None:
        model = ScaledBySize()
        compiled = self.compiled(model, dynamic=True)
        for rows in (12, 20, 33):
            x = torch.randn(rows, 8)
            self.assert_same(compiled(x), model(x))
        self.assertEqual(self.states(), ["ready"])
        text = self.texts()[0]
        self.assertIn("forward(self, arg2_1, arg3_1)", text)
        self.assertNotIn("(weft_batch)", text)  # but in shapes
        self.captured(text)
        # Triton has no pow of float64: there it stays PyTorch's.
        self.assert_kernels_for_a_gpu(text, [CUDA])

    @torch.no_grad()
    def test_a_float_of_a_size_that_is_no_operand_is_named(self) -> None:
        model = FilledBySize()
        compiled = self.compiled(model, dynamic=True)
        for rows in (12, 20):
            x = torch.randn(rows, 8)
            self.assert_same(compiled(x), model(x))
        # At any size it is PyTorch's, at the first size kernels compute it.
        self.assertEqual(set(self.states()), {"framework", "ready"})
        (reason,) = filter(None, self.reasons())
        self.assertIn("aten.full_like.default takes a float that is computed from a size", reason)
        self.assertIn(os.path.basename(__file__), reason)

    def test_a_number_on_the_host_goes_where_the_others_are(self) -> None:
        x, t = torch.empty(3, device="meta"), torch.tensor(0.5)
        self.assertEqual(
            [one.device.type for one in Numbers([0, 1]).on_device([x, t])], ["meta", "meta"]
        )
        self.assertEqual(
            [one.device.type for one in Numbers([0]).on_device([x, t])], ["meta", "cpu"]
        )
        host = [torch.empty(3), t]
        self.assertIs(Numbers([0, 1]).on_device(host), host)

    def test_a_tensor_of_a_size_is_made_once(self) -> None:
        made = SizeTensors([(_WeftSize([(2, [(0, 1)]), (1, [])]), torch.float32)])
        for columns in (4, 5):
            (one,) = made.of([torch.empty(3, columns)])
            self.assertEqual((one.dtype, one.item()), (torch.float32, 2 * columns + 1))
            (again,) = made.of([torch.empty(7, columns)])
            self.assertIs(one, again)


class UserLines(BackendCase):
    @torch.no_grad()
    def test_operators_have_the_user_s_line(self) -> None:
        self.compiled(Tempered())(torch.randn(6, 8))
        (kernels,) = self.compiled_graphs()[0].kernels.values()
        with open(__file__, encoding="utf-8") as file:
            line = next(number for number, text in enumerate(file, 1) if "softmax(x / self" in text)
        self.assertIn(
            f"_softmax.default(div, -1, False)  # from {os.path.basename(__file__)}:{line}\n",
            kernels.source.text,
        )

    def test_reasons_have_it_instead_of_the_problem_file_s(self) -> None:
        text = "import torch\nx = 1  # from model.py:23\ny = 2\n"
        for reason, said in (
            ("problem.py:2: it is none", "model.py:23: it is none"),
            ("problem.py:3: it is none", "it is none"),
            ("problem.py:9: it is none", "it is none"),
        ):
            self.assertEqual(problem_source.at_user_lines(reason, text), said)

    @torch.no_grad()
    def test_so_does_an_operator_that_is_not_pytorch_s(self) -> None:
        @library.custom_op("weft_tests::thrice", mutates_args=())
        def thrice(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        thrice.register_fake(torch.empty_like)
        self.compiled(lambda x: thrice(x) + 1)(torch.randn(3))
        self.assertRegex(self.reasons()[0], rf"thrice.*\({os.path.basename(__file__)}:\d+\)")

    @torch.no_grad()
    def test_a_search_s_reason_has_it(self) -> None:
        def failing(*_, **__):
            return 2, "problem.py:40: it cannot be captured"

        self.patch(search.weft_process, "run", failing)
        self.compiled(Tempered())(torch.randn(6, 8))
        self.assertRegex(
            self.reasons()[0],
            r"^(test_symbolic_floats.py:\d+: )?it "
            "cannot be captured$",
        )


if __name__ == "__main__":
    unittest.main()
