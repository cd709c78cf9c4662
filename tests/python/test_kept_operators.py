"""Operators that stay single calls (decompositions.KEPT_LOWERED) are in every graph that
kernels are made for: of a capture, of a step of training, and of torch.compile."""

from __future__ import annotations

import contextlib
import json
import unittest
import unittest.mock
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from capture_case import CaptureTest, simple

import opinfo_cases
from weft.backend.entry import dynamo
from weft.backend.graphs import tracer_lock
from weft.capture import capture, decompositions, export
from weft.training import joint

#: PyTorch's tests of these have another name.
OTHER_NAMES = {"log_sigmoid": "nn.functional.logsigmoid"}
#: Calls that compute something else first, or only that.
OTHER_TESTS = ("masked.", "nn.functional.silu.complex")
TYPES = (torch.float32, torch.bfloat16)
SAMPLES_MAX = 2


def tests_of(name: str, dtype: torch.dtype) -> list[Any]:
    """PyTorch's tests of that ATen operator."""
    return [
        op
        for op in opinfo_cases.operators(dtype, None, ())
        if (OTHER_NAMES.get(name) in (None, op.name))
        and (name in (op.aten_name, op.name.split(".")[-1]) or name in OTHER_NAMES)
        and not op.full_name.startswith(OTHER_TESTS)
    ]


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class Shrinks(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(16, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softshrink(x * self.scale, 0.3) + F.hardshrink(x + self.scale, 0.3)


SHRINKS = {"aten.softshrink.default", "aten.hardshrink.default"}


def targets(graph: torch.fx.Graph) -> set[str]:
    return {str(node.target) for node in graph.nodes if node.op == "call_function"}


@contextlib.contextmanager
def graphs_seen() -> Iterator[list[torch.fx.GraphModule]]:
    """The forward graphs that Dynamo's backend is given."""
    seen = []

    class Compiled:
        def __init__(self, module: torch.fx.GraphModule, *_: Any) -> None:
            seen.append(module)
            self.module = module

        def __call__(self, arguments: Any) -> Any:
            return self.module(*arguments)

    with unittest.mock.patch.object(dynamo, "CompiledGraph", Compiled):
        yield seen


class KeptOperators(CaptureTest):
    def test_each_of_the_table_is_in_the_exported_graph(self) -> None:
        table = decompositions.decomposition_table()
        for name in decompositions.KEPT_LOWERED:
            for dtype in TYPES:
                calls = [
                    case
                    for op in tests_of(name, dtype)
                    for case in opinfo_cases.cases_of(
                        op, dtype, None, specials=False, cases_max=SAMPLES_MAX
                    )
                ]
                self.assertTrue(calls, f"no sample of {name} in {dtype}")
                for case in calls:
                    with self.subTest(case=case.name, dtype=dtype):
                        with warnings.catch_warnings(), export.prepared_exporter():
                            warnings.simplefilter("ignore")
                            program = torch.export.export(
                                Call(case.function), case.inputs, strict=False
                            ).run_decompositions(table)
                        found = {decompositions.aten_name(t) for t in targets(program.graph)}
                        self.assertIn(name, found)

    def test_a_captured_model_in_halves_has_them(self) -> None:
        for name in ("softshrink", "hardshrink"):
            for dtype in ("bfloat16", "float16"):
                inputs = f"[torch.randn(64, 48).to(torch.{dtype})]"
                path = self.write(simple(f"return F.{name}(x, 0.3)", inputs))
                reply = capture.reply_of(path, self.out)
                self.assertTrue(reply["ok"], reply)
                with open(self.out, encoding="utf-8") as file:
                    found = [node["target"] for node in json.load(file)["nodes"]]
                self.assertIn(f"aten.{name}.default", found)

    def test_a_step_of_training_has_them(self) -> None:
        step = joint.capture(Shrinks(), [torch.randn(8, 16).bfloat16()])
        self.assertLessEqual(SHRINKS, targets(step.forward.graph))
        self.assertLessEqual(
            {"aten.softshrink_backward.default", "aten.hardshrink_backward.default"},
            targets(step.backward.graph),
        )

    def test_a_graph_of_torch_compile_has_them(self) -> None:
        options = unittest.mock.Mock(fallback="eager")
        model, x = Shrinks(), torch.randn(8, 16).bfloat16()
        for dynamic in (False, True):
            torch._dynamo.reset()
            with graphs_seen() as seen:
                compiled = torch.compile(
                    model,
                    dynamic=dynamic,
                    backend=lambda graph, inputs: dynamo.compile_graph(graph, inputs, options),
                )
                compiled(x)
            self.assertLessEqual(SHRINKS, targets(seen[0].graph))

    def test_a_graph_that_is_traced_again_keeps_them(self) -> None:
        x = torch.randn(8, 16).bfloat16()
        found = tracer_lock.traced(lambda x: F.softshrink(x) + F.hardshrink(x), [x])
        again = tracer_lock.traced(found, [x], tracing_mode="symbolic")
        self.assertLessEqual(SHRINKS, targets(again.graph))

    def test_pytorch_is_as_before_afterwards(self) -> None:
        def kernels() -> list[dict[Any, Any]]:
            names = ("softshrink", "softshrink_backward")
            return [dict(getattr(torch.ops.aten, name).default.py_kernels) for name in names]

        before = kernels()
        with decompositions.kept_in_traces():
            inside = kernels()
            with decompositions.kept_in_traces():
                self.assertEqual([*map(set, kernels())], [*map(set, inside)])
            self.assertNotEqual(inside, before)
        self.assertEqual(kernels(), before)


if __name__ == "__main__":
    unittest.main()
