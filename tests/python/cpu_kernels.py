"""Builds generated CPU kernels and runs them on tensors, for tests.

A case is (name, function, inputs). All cases' kernels of one variant go into one
source behind one prelude, as starting the C++ compiler for each would take
most of the time.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))

from weft_worker import capture_decompositions, capture_graph  # noqa: E402

ENTRY = 'extern "C" void kernel_function('


class Batch(torch.nn.Module):
    """All cases in one module: exporting each alone takes far longer."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *inputs):
        results = []
        rest = list(inputs)
        for _, function, own in self.cases:
            results.append(as_list(function(*rest[:len(own)])))
            rest = rest[len(own):]
        return results


def graphs_of(cases):
    """The captured graph of each case, with every placeholder an input."""
    model = Batch(cases)
    # A tensor object of its own for each: the exporter joins equal objects.
    inputs = [tensor.detach() for _, _, own in cases for tensor in own]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, tuple(inputs), strict=False)
        program = program.run_decompositions(
            capture_decompositions.decomposition_table())
    graph = capture_graph.graph_of(program, model, inputs, __file__)
    placeholders = [node for node in graph["nodes"] if node["kind"] == "input"]
    outputs = iter(graph["outputs"])
    graphs = []
    for _, function, own in cases:
        mine, placeholders = placeholders[:len(own)], placeholders[len(own):]
        count = len(as_list(function(*own)))
        graphs.append(cut(graph, mine, [next(outputs) for _ in range(count)]))
    return graphs


def cut(graph, inputs, outputs):
    """What computes those outputs, as a graph of its own."""
    wanted = set(outputs)
    nodes = []
    for node in reversed(graph["nodes"]):
        if node["kind"] == "call" and node["name"] in wanted:
            nodes.append(node)
            wanted.update(references([node["args"], node["kwargs"]]))
    return {**graph, "nodes": inputs + nodes[::-1], "outputs": outputs,
            "mutations": [],
            "output_template": ", ".join("{%d}" % i
                                         for i in range(len(outputs)))}


def references(arg):
    if isinstance(arg, dict) and set(arg) == {"node"}:
        return {arg["node"]}
    parts = arg.values() if isinstance(arg, dict) else arg
    if isinstance(arg, (dict, list, tuple)):
        return {name for part in parts for name in references(part)}
    return set()


def generate(graphs, cli, cores=2, vector_bytes=64, variants_max=16,
             options=()):
    """For each graph {"variants": [...], ...} or {"error": ...}."""
    lines = "".join(json.dumps(graph) + "\n" for graph in graphs)
    done = subprocess.run(
        [cli, str(cores), str(vector_bytes), str(variants_max), *options],
        input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def build(texts, flags, folder, name):
    """One library with kernel_function_0, kernel_function_1, … ."""
    path = os.path.join(folder, name)
    prelude = texts[0].split(ENTRY)[0]
    with open(path + ".cpp", "w", encoding="utf-8") as out:
        out.write(prelude)
        for i, text in enumerate(texts):
            body = text.split(ENTRY, 1)[1]
            out.write(ENTRY.replace("function(", f"function_{i}(") + body)
    command = ["g++", *flags, path + ".cpp", "-o", path + ".so"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True), \
        path + ".so"


def empty_output(value):
    return torch.empty_strided(value["shape"], value["stride"],
                               dtype=getattr(torch, value["dtype"]))


def run(function, graph, inputs):
    """What the kernel leaves in outputs that held NaN (or -7) before."""
    nodes = {node["name"]: node for node in graph["nodes"]}
    outputs = []
    for name in graph["outputs"]:
        out = empty_output(nodes[name]["values"][0])
        if out.dtype.is_floating_point:
            out.fill_(float("nan"))
        elif out.dtype != torch.bool:
            out.fill_(-7)
        outputs.append(out)
    tensors = [*inputs, *outputs]
    function(*[ctypes.c_void_p(t.data_ptr()) for t in tensors])
    return outputs


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]
