"""Operators that stay single calls (decompositions.KEPT_LOWERED) are in every graph that
kernels are made for: of a capture, of a step of training, and of torch.compile."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import os
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
from weft.capture import capture, decompositions, export, tracer_lock
from weft.capture.traced_operators import INTERPOLATIONS, kept_in_traces
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


HALVES = (torch.bfloat16, torch.float16)
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
#: PyTorch takes these apart in traces, and in halves their values are those of eager.
EQUAL_IN_HALVES = {
    "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa",
    "_upsample_lanczos2d_aa",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "dropout",
    "gru",
    "native_batch_norm",
    "rnn_relu",
    "rnn_tanh",
}
#: The processor has none, or none in halves.
NO_HALVES = {
    "cudnn_batch_norm",
    "miopen_batch_norm",
    "multi_margin_loss",
    "multilabel_margin_loss_forward",
}
#: Equal without gradients. With them, eager in bfloat16 calls oneDNN, and traces do not.
NO_TRAINING_IN_HALVES = {"lstm"}
SHRINKS = {"aten.softshrink.default", "aten.hardshrink.default"}


def with_gradient(function: Any) -> Any:
    """A function that gives its result and the gradient of its input."""

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            result = function(leaf)
            (gradient,) = torch.autograd.grad(result, leaf, torch.ones_like(result) * 0.37)
        return result.detach(), gradient

    return both


def kernels() -> list[dict[Any, Any]]:
    """Python kernels of some operators."""
    aten = torch.ops.aten
    operators = (
        aten.softshrink.default,
        aten.softshrink_backward.default,
        aten.upsample_bilinear2d.vec,
        aten.upsample_bilinear2d.default,
        aten.upsample_bilinear2d_backward.default,
    )
    return [dict(operator.py_kernels) for operator in operators]


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

    def test_interpolation_in_halves_is_a_call_in_traces(self) -> None:
        """Forward and backward, with sizes and with factors: exactly eager's values."""
        for name, mode in zip(INTERPOLATIONS, ("linear", "bilinear", "bicubic", "trilinear")):
            rank = int(name[-2])
            for dtype, channels_last in itertools.product(HALVES, (False, True)):
                x = torch.randn(2, 4, *(7,) * rank).to(dtype)
                if channels_last and rank > 1:
                    x = x.to(memory_format=CHANNELS_LAST[rank])
                for size in ({"size": (11,) * rank}, {"scale_factor": 1.7}):
                    with self.subTest(name=name, dtype=dtype, size=size, last=channels_last):
                        function = with_gradient(
                            lambda x, size=size, mode=mode: F.interpolate(x, **size, mode=mode)
                        )
                        graph = tracer_lock.traced(function, [x], tracing_mode="symbolic")
                        kept = {f"aten.{name}.default", f"aten.{name}_backward.default"}
                        self.assertLessEqual(kept, targets(graph.graph))
                        for got, want in zip(graph(x), function(x), strict=True):
                            self.assertTrue(torch.equal(got, want))
                            self.assertEqual(got.stride(), want.stride())

    def test_no_operator_is_taken_apart_that_is_not_known(self) -> None:
        """PyTorch's kernels in Python that a trace with symbolic sizes calls."""
        key = torch._C.DispatchKey.Autograd
        names = {
            name.removeprefix("aten::").split(".")[0]
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::")
        }
        found = {
            name
            for name in names
            for overload in getattr(torch.ops.aten, name).overloads()
            if key in getattr(getattr(torch.ops.aten, name), overload).py_kernels
        }
        self.assertLessEqual({*INTERPOLATIONS, "softshrink", "hardshrink"}, found)
        found -= {*INTERPOLATIONS, "softshrink", "hardshrink"}
        self.assertEqual(found - EQUAL_IN_HALVES - NO_HALVES - NO_TRAINING_IN_HALVES, set())

    def test_pytorch_is_as_before_afterwards(self) -> None:
        before = kernels()
        with kept_in_traces():
            inside = kernels()
            with kept_in_traces():
                self.assertEqual([*map(set, kernels())], [*map(set, inside)])
            self.assertNotEqual(inside, before)
        self.assertEqual(kernels(), before)

    def test_traces_that_overlap_do_not_disturb_each_other(self) -> None:
        before = kernels()
        first, second = contextlib.ExitStack(), contextlib.ExitStack()
        first.enter_context(kept_in_traces())
        inside = kernels()
        second.enter_context(kept_in_traces())
        first.close()
        self.assertEqual(kernels(), inside)
        second.close()
        self.assertEqual(kernels(), before)

    def test_captures_in_threads_give_the_graphs_of_one_thread(self) -> None:
        before = kernels()
        paths = []
        for factor in (2, 3):
            body = f"x = F.interpolate(x, scale_factor={factor}, mode='bilinear')"
            text = simple(
                body + "\nreturn F.dropout(F.softshrink(x, 0.3), 0.5, True)",
                "[torch.randn(2, 3, 8, 8).to(torch.bfloat16)]",
            )
            paths.append(os.path.join(self.folder, f"problem{factor}.py"))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)

        def graph_of(order: tuple[int, str]) -> Any:
            number, path = order
            out = os.path.join(self.folder, f"graph{number}.json")
            reply = capture.reply_of(path, out)
            self.assertTrue(reply["ok"], reply)
            with open(out, encoding="utf-8") as file:
                return json.load(file)

        alone = [graph_of(order) for order in enumerate(paths)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(graph_of, enumerate(paths * 4)))
        self.assertEqual(together, alone * 4)
        self.assertEqual(kernels(), before)

    def test_traces_in_threads_are_those_of_one_thread(self) -> None:
        x = torch.randn(2, 4, 7, 7).bfloat16()

        def trace(_: object) -> str:
            function = with_gradient(
                lambda x: F.softshrink(F.interpolate(x, scale_factor=2.0, mode="bilinear"))
            )
            return tracer_lock.traced(function, [x], tracing_mode="symbolic").code

        alone = trace(None)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(set(pool.map(trace, range(12))), {alone})


if __name__ == "__main__":
    unittest.main()
