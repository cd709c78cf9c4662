"""Files that TorchInductor's code for a subgraph is turned into: what they hold,
and that the oracle judges them as any candidate."""

import contextlib
import functools
import io
import json
import os
import re
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [HERE, PACKAGES]

import oracle_samples as samples  # noqa: E402
from weft.build import python_file  # noqa: E402
from weft.candidate import allocations as allocations_of  # noqa: E402
from weft.candidate import python_kernel  # noqa: E402
from weft.inductor import stand_alone  # noqa: E402
from weft.oracle import oracle  # noqa: E402

import torch  # noqa: E402

LIMITS = {"wall_ms": 120_000, "memory_bytes": 4 << 30}


def setUpModule():
    global folder, judge
    folder = tempfile.mkdtemp(prefix="weft-inductor-")
    torch.set_grad_enabled(False)
    judge = oracle.Oracle(os.path.join(folder, "scratch"), [], 2)


def tearDownModule():
    judge.close()
    shutil.rmtree(folder)


def call(name, target, args, shape, dtype="float32", **kwargs):
    node = samples.node(name, "call", target, args, [samples.tensor(shape, dtype)])
    node["kwargs"] = kwargs
    return node


def tensor(name, shape, dtype="float32", **more):
    return {**samples.node(name, "input", name, values=[samples.tensor(shape, dtype)]), **more}


X = samples.ref("x")
#: Rows, added to where an index says.
SUMS_AT_PLACES = samples.graph(
    [
        tensor("x", [512, 256]),
        tensor("places", [4096], "int64"),
        tensor("rows", [4096, 256]),
        call(
            "a",
            "aten.index_add.default",
            [X, 0, samples.ref("places"), samples.ref("rows")],
            [512, 256],
        ),
    ],
    ["a"],
)
#: Softmax of what has been scaled, and the row's sums beside it.
ROWS = samples.graph(
    [
        tensor("x", [64, 96]),
        tensor("scale", [96]),
        call("a", "aten.mul.Tensor", [X, samples.ref("scale")], [64, 96]),
        call("b", "aten.softmax.int", [samples.ref("a"), -1], [64, 96]),
        call("c", "aten.sum.dim_IntList", [samples.ref("a"), [1]], [64]),
    ],
    ["b", "c"],
)
#: Each operator rounds to half precision, as eager mode does.
HALVES = samples.graph(
    [
        tensor("x", [32, 64], "bfloat16"),
        call("a", "aten.mul.Tensor", [X, X], [32, 64], "bfloat16"),
        call("b", "aten.add.Tensor", [samples.ref("a"), X], [32, 64], "bfloat16"),
        call("c", "aten.tanh.default", [samples.ref("b")], [32, 64], "bfloat16"),
    ],
    ["c"],
)
#: A product, which stays the library's, with an activation behind it.
PRODUCT = samples.graph(
    [
        tensor("x", [32, 48]),
        tensor("w", [48, 16]),
        call("a", "aten.mm.default", [X, samples.ref("w")], [32, 16]),
        call("b", "aten.relu.default", [samples.ref("a")], [32, 16]),
    ],
    ["b"],
)
#: What Inductor has no code for.
LOGARITHMS = samples.graph(
    [
        tensor("x", [4, 30]),
        call("a", "aten.logcumsumexp.default", [X, 1], [4, 30]),
    ],
    ["a"],
)
#: Adds numbers that lie in the graph.
CONSTANT = samples.graph(
    [
        tensor("x", [8, 3]),
        {
            **samples.node("k", "constant", "k", values=[samples.tensor([3])]),
            "elements": [1.5, -2.0, 0.25],
        },
        call("a", "aten.add.Tensor", [X, samples.ref("k")], [8, 3]),
    ],
    ["a"],
)
#: … and more of them than belong into a text.
CONSTANTS = samples.graph(
    [
        tensor("x", [5000]),
        {
            **samples.node("k", "constant", "k", values=[samples.tensor([5000])]),
            "elements": [0.5] * 5000,
        },
        call("a", "aten.add.Tensor", [X, samples.ref("k")], [5000]),
    ],
    ["a"],
)
#: Results that share memory: with another, and with an input.
VIEWS = samples.graph(
    [
        tensor("x", [8, 4]),
        call("a", "aten.relu.default", [X], [8, 4]),
        call("b", "aten.view.default", [samples.ref("a"), [32]], [32]),
        call("c", "aten.view.default", [X, [32]], [32]),
    ],
    ["a", "b", "c"],
)


def turned(graph, name):
    """(exit code, the file's path, the graph's)."""
    path = os.path.join(folder, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(graph, file)
    made = os.path.join(folder, name + ".py")
    return stand_alone.main([path, made]), made, path


@functools.cache
def rows():
    return turned(ROWS, "rows")


def ask(verb, made, path, **more):
    reply = judge.answer(
        {
            "id": 1,
            "verb": verb,
            "subgraph": path,
            "random_seed": 3,
            "candidate": {"kind": "inductor", "library": made},
            "limits": LIMITS,
            **more,
        }
    )
    judge.rest()
    assert reply["ok"], reply
    return reply


class InductorsFile(unittest.TestCase):
    def right(self, code, made, path):
        self.assertEqual(code, 0)
        verdict = ask("check", made, path)["verdict"]
        self.assertTrue(verdict["correct"], verdict)
        with open(made, encoding="utf-8") as file:
            return file.read(), made, path

    def test_several_results_are_right_and_timed(self):
        text, made, path = self.right(*rows())
        self.assertNotIn("torch._inductor", text)  # C++ needs none of it
        timing = ask("time", made, path, budget_ms=50, baselines=["eager"])["timing"]
        self.assertEqual(timing["rejected"], "")
        self.assertGreater(timing["outputs_checked"], 0)

    def test_halves_are_rounded_as_eager_mode_rounds_them(self):
        self.right(*turned(HALVES, "halves"))

    def test_inductors_own_loader_serves_where_ours_does_not(self):
        with mock.patch.object(stand_alone, "INDUCTORS_OWN", re.compile("")):
            text, _, _ = self.right(*turned(HALVES, "loaded"))
        self.assertIn("torch._inductor.async_compile", text)

    def test_a_product_is_called(self):
        text, _, _ = self.right(*turned(PRODUCT, "product"))
        self.assertIn("extern_kernels.mm(", text)

    def test_constants_of_the_graph_are_written_down(self):
        text, _, _ = self.right(*turned(CONSTANT, "constant"))
        self.assertIn("[1.5, -2.0, 0.25]", text)

    def test_results_may_share_memory(self):
        self.right(*turned(VIEWS, "views"))

    def test_what_cannot_be_turned_is_refused_with_the_reason(self):
        for graph, name, reason in (
            (CONSTANTS, "constants", "it reads a constant of 5000 numbers"),
            (SUMS_AT_PLACES, "sums", "its code adds atomically"),
        ):
            told = io.StringIO()
            with self.subTest(name), contextlib.redirect_stderr(told):
                code, made, _ = turned(graph, name)
                self.assertEqual(code, 1, told.getvalue())
                self.assertIn("Inductor: " + reason, told.getvalue())
                self.assertFalse(os.path.exists(made))

    def test_a_wrong_file_is_rejected(self):
        _, made, path = rows()
        with open(made, encoding="utf-8") as file:
            text = file.read()
        spoilt = os.path.join(folder, "spoilt.py")
        with open(spoilt, "w", encoding="utf-8") as file:
            file.write(
                text.replace(
                    "call([*CONSTANTS, *inputs])", "call([inputs[0] * 1.001, *inputs[1:]])"
                )
            )
        verdict = ask("check", spoilt, path)["verdict"]
        self.assertEqual(verdict["kind"], "wrong", verdict)

    def test_another_processors_vectors_are_an_error(self):
        with open(rows()[1], encoding="utf-8") as file:
            text = file.read()
        here = torch.backends.cpu.get_cpu_capability()
        with self.assertRaisesRegex(RuntimeError, "this processor's vectors"):
            exec(text.replace(f"CppKernels({here!r}", "CppKernels('ELSE'"), {})

    def test_only_a_file_with_the_function_passes(self):
        with self.assertRaises(python_file.Refused):
            python_file.parsed("call = print\n")


class Places(unittest.TestCase):
    """Where a file's results lie, from the second call on."""

    def calls(self, call, *outputs):
        """Whether each result lies in its place; the places are overwritten by
        what two calls give."""
        module = types.SimpleNamespace(empty_strided_cpu=torch._C._dynamo.guards._empty_strided_cpu)
        allocations = allocations_of.Allocations()
        allocations.of_inductor(module)
        for _ in range(2):
            for output in outputs:
                output.fill_(-1)
            allocations.begin(outputs)
            results = call(module.empty_strided_cpu)
            allocations.learn(results)
            python_kernel.copy_out(results, outputs)
        return [result.data_ptr() == output.data_ptr() for result, output in zip(results, outputs)]

    def counted(self, allocate, shape, stride):
        made = allocate(shape, stride, torch.float32)
        span = torch.as_strided(made, (allocations_of.span(made) // 4,), (1,))
        torch.arange(len(span), out=span)
        return made

    def test_an_allocation_that_is_a_result_is_its_place(self):
        output = torch.empty(4, 8)
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (4, 8), (8, 1))], output), [True]
        )
        self.assertEqual(output.flatten().tolist(), list(range(32)))

    def test_so_is_one_that_is_seen_in_another_shape(self):
        output = torch.empty(2, 2, 8)
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (4, 8), (8, 1)).view(2, 2, 8)], output),
            [True],
        )
        self.assertEqual(output.flatten().tolist(), list(range(32)))

    def test_other_steps_are_copied_where_none_is_taken(self):
        output = torch.empty_strided((8, 1), (1, 8))
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (8, 1), (1, 1))], output), [False]
        )
        self.assertEqual(output.flatten().tolist(), list(range(8)))

    def test_a_permuted_view_is_copied(self):
        output = torch.empty(8, 4)
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (4, 8), (8, 1)).t()], output), [False]
        )
        self.assertEqual(output.t().flatten().tolist(), list(range(32)))

    def test_a_permuted_view_whose_place_is_permuted_is_not(self):
        output = torch.empty(4, 8).t()
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (4, 8), (8, 1)).t()], output), [True]
        )
        self.assertEqual(output.t().flatten().tolist(), list(range(32)))

    def test_an_expanded_view_is_copied(self):
        output = torch.empty(4, 8)
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (8,), (1,)).expand(4, 8)], output), [False]
        )
        self.assertEqual(output.tolist(), [list(range(8))] * 4)

    def test_an_allocation_larger_than_the_place_is_copied(self):
        output = torch.empty(4, 4)
        self.assertEqual(
            self.calls(
                lambda made: [self.counted(made, (28,), (1,)).as_strided((4, 4), (8, 1))], output
            ),
            [False],
        )
        self.assertEqual(output[3].tolist(), [24, 25, 26, 27])

    def test_two_results_of_one_allocation_are_both_right(self):
        def call(made):
            one = self.counted(made, (4, 8), (8, 1))
            return [one, one.t(), one.view(32)]

        outputs = torch.empty(4, 8), torch.empty(8, 4), torch.empty(32)
        lie = self.calls(call, *outputs)
        self.assertFalse(lie[1])
        self.assertLessEqual(sum(lie), 1)
        for output in (outputs[0], outputs[1].t(), outputs[2]):
            self.assertEqual(output.flatten().tolist(), list(range(32)))

    def test_another_type_is_copied(self):
        output = torch.empty(8)
        self.assertEqual(
            self.calls(
                lambda made: [self.counted(made, (8,), (1,)).view(torch.int32).view(torch.float32)],
                output,
            ),
            [True],
        )
        halves = torch.empty(16, dtype=torch.bfloat16)
        self.assertEqual(
            self.calls(lambda made: [self.counted(made, (8,), (1,)).view(torch.bfloat16)], halves),
            [False],
        )

    def test_what_is_no_tensor_is_told_as_ever(self):
        with self.assertRaisesRegex(TypeError, "result 0 is a int, no tensor"):
            self.calls(lambda made: [3], torch.empty(8))


class WithoutOperators(unittest.TestCase):
    """With --no-extern."""

    def built(self, made, *flags):
        """(exit code, what was said)"""
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            code = python_file.main([made, made + ".checked", "--inductors", *flags])
        return code, told.getvalue()

    def refused(self, made, operator):
        self.assertEqual(self.built(made), (0, ""))
        code, told = self.built(made, "--no-extern")
        self.assertEqual(code, 1)
        self.assertRegex(
            told,
            rf"^line \d+: calls {re.escape(operator)}, "
            "and with --no-extern",
        )

    def test_a_product_is_refused(self):
        self.refused(turned(PRODUCT, "product")[1], "extern_kernels.mm")

    def test_a_product_is_refused_with_inductors_own_loader(self):
        with mock.patch.object(stand_alone, "INDUCTORS_OWN", re.compile("")):
            made = turned(PRODUCT, "loaded-product")[1]
        self.refused(made, "extern_kernels.mm")

    def test_an_operator_without_code_is_refused(self):
        self.refused(turned(LOGARITHMS, "logarithms")[1], "torch.ops.aten.logcumsumexp.default")

    def test_operators_are_found_under_the_names_that_they_are_given(self):
        for text in (
            "aten = torch.ops.aten\naten.mm.default(1, 2)",
            "mm = torch.ops.mkldnn._linear_pointwise\nmm(1, 2)",
            "from torch import ops\nops.aten.mm(1, 2)",
            "import torch as t\nt.ops.aten.mm(1, 2)",
            "inductor_ops = torch.ops.inductor\ninductor_ops._mm_plus_mm(1, 2)",
        ):
            file = f"import torch\n{text}\ndef kernel_function(): pass\n"
            with self.subTest(text), self.assertRaises(python_file.Refused):
                python_file.check_inductors(file, no_extern=True)

    def test_what_inductor_writes_itself_passes(self):
        for graph, name in ((ROWS, "rows"), (VIEWS, "views")):
            with self.subTest(name):
                made = turned(graph, name)[1]
                self.assertEqual(self.built(made, "--no-extern"), (0, ""))


if __name__ == "__main__":
    unittest.main()
