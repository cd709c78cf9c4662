"""Malicious graphs, from a kernel library or a journal. A graph is written as Python
source, so each of its texts may only be a name."""

import json
import os
import unittest

from weft.candidate import gpu_package
from weft.expect.reference import BadGraph, Reference, load_graph
from weft_case import WeftCase

VALUES = [{"dtype": "float32", "shape": [2], "stride": [1]}]


def graph(**changes):
    call = {
        "name": "y",
        "kind": "call",
        "target": "aten.relu.default",
        "args": [{"node": "x"}],
        "kwargs": {},
        "values": VALUES,
    }
    return {
        "version": 1,
        "outputs": ["y"],
        "nodes": [
            {
                "name": "x",
                "kind": "input",
                "target": "x",
                "args": [],
                "kwargs": {},
                "values": VALUES,
            },
            call | changes,
        ],
    }


class ForeignGraphs(WeftCase):
    def refused(self, value):
        mark = self.path("escaped")
        path = self.write("graph.json", json.dumps(value).replace("MARK", mark))
        with self.assertRaises(BadGraph):
            Reference(load_graph(path)).function()
        self.assertFalse(os.path.exists(mark))

    def test_a_sound_one_is_taken(self):
        path = self.write(
            "graph.json",
            json.dumps(
                graph(
                    target="aten.full_like.default",
                    args=[{"node": "x"}, {"float": "inf"}],
                    kwargs={"dtype": {"dtype": "float64"}, "layout": {"layout": "strided"}},
                )
            ),
        )
        self.assertTrue(callable(Reference(load_graph(path)).function()))

    def test_no_field_becomes_code(self):
        attack = "open('MARK', 'w')"
        for changes in (
            {"name": f"y = {attack}; z"},
            {"name": "torch"},
            {"name": "lambda"},
            {"args": [{"node": attack}]},
            {"args": [[{"node": f"x, {attack}"}]]},
            {"args": [{"node": "x"}, {"float": attack}]},
            {"kwargs": {f"x={attack}, y": 1}},
            {"kwargs": {"dtype": {"dtype": f"float32, {attack}"}}},
            {"kwargs": {"dtype": {"dtype": "hub.load"}}},
            {"kwargs": {"layout": {"layout": f"strided, {attack}"}}},
            {"kwargs": {"memory_format": {"memory_format": "os"}}},
            {"target": "getitem", "args": [{"node": "x"}, [attack]]},
        ):
            with self.subTest(changes):
                self.refused(graph(**changes))
        self.refused(graph() | {"outputs": [attack]})

    def test_no_target_is_more_than_an_operator(self):
        for target, args in (
            ("load_library.__call__.__call__", ["MARK"]),
            ("import_module.__call__.__call__", ["antigravity"]),
            ("aten.from_file.default", ["MARK", True, 8]),
            ("__class__.__init__.__globals__", []),
            ("aten.__class__.__init__", []),
        ):
            with self.subTest(target):
                self.refused(graph(target=target, args=args))


class ForeignPackages(unittest.TestCase):
    def test_a_package_without_a_text_is_a_candidate_s_fault(self):
        for content in (
            b'{"interpret": true}',
            b'{"interpret": true, "source": 5}',
            b"[]",
            b"{",
            b"[" * 100_000,
            b"\xff",
        ):
            with self.assertRaises(ValueError):
                gpu_package.interpreted_source(content)


if __name__ == "__main__":
    unittest.main()
