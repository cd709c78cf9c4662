"""A region's part of a composed module as a graph whose kernels are operators."""

import json
import os
import tempfile
import unittest

import torch
from torch._inductor.compile_fx import compile_fx_inner

from test_regions import graph_of
from weft.backend.searches import region_graph, region_module
from weft.regions import insertion
from weft.regions.extraction import extracted
from weft.regions.regions import regions_of

MODULE = """
import torch

calls = []
_weft_aten_mul_Tensor = torch.mul

def _weft_sg_a(x0):
    calls.append("a")
    y0 = torch.empty_strided((8, 4), (4, 1))
    y0.copy_(torch.softmax(x0, -1))
    return y0

def _weft_sg_b(x0, x1):
    calls.append("b")
    return x0 + x1, torch.relu(x0)

class ModelNew:
    def forward(self, region_0_0):
        with torch.no_grad():
            _t_a = _weft_sg_a(region_0_0)
            _t_mul = _weft_aten_mul_Tensor(_t_a, 3.0)
            (_t_add, _t_relu,) = _weft_sg_b(_t_mul, region_0_0)
            _t_exp = torch.exp(_t_relu)
            return (_t_exp, _t_add,)
"""
ROW = {"dtype": "float32", "shape": [8, 4], "stride": [4, 1]}
FACTS = [
    {
        "id": "sg_a",
        "source": {"code": "def reference(x0):\n    return torch.softmax(x0, -1)\n"},
        "input_types": [ROW],
        "output_types": [ROW],
    },
    {
        "id": "sg_b",
        "source": {
            "code": "def reference(x0, x1):\n    return torch.add(x0, x1), torch.relu(x0)\n"
        },
        "input_types": [ROW, ROW],
        "output_types": [ROW, ROW],
    },
]


def program(x):
    y = torch.softmax(x, -1) * 3.0
    return torch.exp(torch.relu(y)), y + x


class RegionGraph(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.failures = []
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.write(FACTS)
        self.module = graph_of(program, torch.randn(8, 4))
        (self.region,) = regions_of(self.module.graph)
        self.own = extracted(self.region)
        # In the order of the region's own results.
        self.x = torch.randn(8, 4)
        expected = program(self.x)
        order = [
            next(i for i, one in enumerate(expected) if torch.allclose(one, value, atol=1e-5))
            for value in self.own.module(self.x)
        ]
        self.names = {}
        exec(MODULE, self.names)
        loaded = type("Loaded", (), {})()
        loaded.__dict__.update(self.names)
        self.part = region_module.RegionModule(
            self.folder, loaded, MODULE + self.id(), ["region_0_0"], order
        )

    def write(self, facts):
        with open(os.path.join(self.folder, "subgraphs.json"), "w", encoding="utf-8") as file:
            json.dump(facts, file)

    def kernels(self, owner="1.0"):
        facts = region_graph.facts_of(self.folder, torch.device("cpu"))
        return region_graph.SubgraphKernels(owner, self.part, facts, None, self.failures.append)

    def inserted(self, graph):
        return insertion.with_inserted(
            self.module, [insertion.Replacement(self.region, self.own, graph)]
        )

    def targets(self, graph):
        return [str(one.target) for one in graph.nodes if one.op == "call_function"]

    def run_compiled(self, module):
        """What Inductor's code for the graph gives."""
        fakes = [one.meta["val"] for one in module.graph.find_nodes(op="placeholder")]
        with torch.no_grad():
            return compile_fx_inner(module, fakes)([self.x])

    def test_each_kernel_is_an_operator(self):
        kernels = self.kernels()
        made = self.inserted(kernels.graph(self.own))
        targets = self.targets(made.graph)
        self.assertEqual(sum("weft_region" in one for one in targets), 2)
        for rest in ("mul", "exp"):  # Inductor computes these
            self.assertTrue(any(rest in one for one in targets), targets)
        self.assertFalse(any("amax" in one or "relu" in one for one in targets), targets)
        torch.testing.assert_close(list(made(self.x)), list(program(self.x)))
        del self.names["calls"][:]
        torch.testing.assert_close(list(self.run_compiled(made)), list(program(self.x)))
        self.assertEqual(self.names["calls"], ["a", "b"])
        self.assertEqual(len(kernels.inserted(None)), 2)
        self.assertEqual(self.failures, [])

    def test_operators_stand_for_kernels_that_are_not_used(self):
        kernels = self.kernels()
        made = self.inserted(kernels.graph(self.own, {"sg_b"}))
        self.assertEqual(sum("weft_region" in one for one in self.targets(made.graph)), 1)
        torch.testing.assert_close(list(self.run_compiled(made)), list(program(self.x)))
        self.assertEqual(self.names["calls"], ["b"])
        self.assertEqual(len(kernels.inserted({"sg_b"})), 1)

    def test_a_kernel_that_fails_is_computed_by_its_operators(self):
        def fail(*_):
            raise RuntimeError("no memory")

        self.part._slice.names["_weft_sg_b"] = fail
        made = self.inserted(self.kernels().graph(self.own))
        found = self.run_compiled(made)
        torch.testing.assert_close(list(found), list(program(self.x)))
        self.assertEqual(len(self.failures), 1)
        self.assertIn("no memory", self.failures[0])

    def test_a_kernel_is_compared_with_its_operators(self):
        self.part._slice.names["_weft_sg_b"] = lambda x, y: (x + y, x * 0)
        kernels = self.kernels()
        made = self.inserted(kernels.graph(self.own))
        wrong = []
        for kernel in kernels.inserted(None):
            kernel.check = wrong
        self.run_compiled(made)
        self.assertEqual(len(wrong), 1)
        self.assertIn("something else", wrong[0])

    def test_each_owner_has_operators_of_its_own(self):
        """Else the checks of one region would look at the kernels of another."""
        first = self.kernels("1.0")
        made = self.inserted(first.graph(self.own))
        second = self.kernels("1.1")
        other = self.inserted(second.graph(self.own))
        wrong = []
        for kernel in first.inserted(None):
            kernel.check = wrong
        self.part._slice.names["_weft_sg_b"] = None
        for kernel in second.inserted(None):
            kernel.settle("", "given up")
        made(self.x)
        self.assertEqual(wrong, [])
        self.assertTrue(
            set(self.targets(made.graph)).isdisjoint(
                one for one in self.targets(other.graph) if "weft_region" in one
            )
        )

    def test_a_failure_in_a_trial_is_the_trial_s_alone(self):
        def fail(*_):
            raise RuntimeError("no memory")

        self.part._slice.names["_weft_sg_b"] = fail
        kernels = self.kernels("2.0")
        made = self.inserted(kernels.graph(self.own))
        for kernel in kernels.inserted(None):
            kernel.check = []
        made(self.x)
        self.assertEqual(self.failures, [])
        self.assertEqual(sum(bool(one.failure) for one in kernels.inserted(None)), 1)

    def test_a_subgraph_that_is_not_described(self):
        for text in ([FACTS[0]], {}, [{"id": "sg_a"}]):
            self.write(text)
            with self.assertRaisesRegex(region_graph.NoGraph, "does not describe"):
                self.kernels().graph(self.own)

    def test_results_of_another_layout(self):
        turned = {**ROW, "stride": [1, 8]}
        self.write([FACTS[0], {**FACTS[1], "output_types": [turned, ROW]}])
        with self.assertRaisesRegex(region_graph.NoGraph, "a result is"):
            self.kernels().graph(self.own)

    def test_a_tensor_of_the_module_s_own(self):
        scale = torch.full((8, 4), 3.0)
        self.part._slice.names["_weft_aten_mul_Tensor"] = lambda one, _: one * scale
        with self.assertRaises(region_graph.NoGraph):
            self.kernels().graph(self.own)


if __name__ == "__main__":
    unittest.main()
