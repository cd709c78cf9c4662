"""Cases of tests of generated kernels, captured as graphs, and what the code
generators' programs (tests/compiler/tools) make of these.

A case is (name, function, inputs).
"""

import json
import os
import subprocess
import sys
import warnings

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from weft_case import IS_LONG  # noqa: E402
from weft.capture import (  # noqa: E402
    decompositions as capture_decompositions,
    graph as capture_graph,
)
from weft.capture.traced_operators import kept_in_traces  # noqa: E402


def program(name, variable):
    """The path of a test program, by that variable or in build/."""
    path = os.environ.get(variable) or os.path.join(ROOT, "build", name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: build {name}, or set {variable}")
    return path


def part(first, step):
    """The cases from `first` on, in steps of `step`: all of them, or a part, of
    which every third is enough where nobody asks for more (weft_case.long)."""
    return slice(first, None, step if step == 1 or IS_LONG else 3 * step)


#: Cases that are exported at once: each alone takes far longer, and of all together
#: the exporter compares each with each.
AT_ONCE = 200


def copy_of(tensor, device=None):
    """With the same strides, gaps between its elements included; on that device."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = tensor.as_strided((elements,), (1,), 0)
    copied = whole.to(device or tensor.device, copy=True)
    return copied.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


#: The ways in which a message says that weft or PyTorch, not the model, failed.
INTERNAL = ("internal error", "capture failed with")


def kind_of(message):
    """The outcome of a capture that ended with that message."""
    return "internal" if any(text in message for text in INTERNAL) else "refused"


class Batch(torch.nn.Module):
    """Several cases in one module."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *inputs):
        results = []
        rest = list(inputs)
        for _, function, own in self.cases:
            results.append(as_list(function(*rest[: len(own)])))
            rest = rest[len(own) :]
        return results


def graphs_of(cases):
    """The captured graph of each case, with every placeholder an input."""
    return [
        graph
        for first in range(0, len(cases), AT_ONCE)
        for graph in graphs_of_some(cases[first : first + AT_ONCE])
    ]


def graphs_of_some(cases):
    model = Batch(cases)
    # A tensor object of its own for each: the exporter joins equal objects.
    inputs = [tensor.detach() for _, _, own in cases for tensor in own]
    with warnings.catch_warnings(), kept_in_traces():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, tuple(inputs), strict=False)
        program = program.run_decompositions(capture_decompositions.decomposition_table())
    graph = capture_graph.graph_of(program, model, inputs, __file__)
    placeholders = [node for node in graph["nodes"] if node["kind"] == "input"]
    outputs = iter(graph["outputs"])
    graphs = []
    for _, function, own in cases:
        mine, placeholders = placeholders[: len(own)], placeholders[len(own) :]
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
    return {
        **graph,
        "nodes": inputs + nodes[::-1],
        "outputs": outputs,
        "mutations": [],
        "output_template": output_template(len(outputs)),
    }


def output_template(count: int) -> str:
    """The expression of what the graph returns: one value, or a tuple of all."""
    if count == 1:
        return "{0}"
    return "(" + ", ".join("{%d}" % i for i in range(count)) + ")"


def references(arg):
    if isinstance(arg, dict) and set(arg) == {"node"}:
        return {arg["node"]}
    parts = arg.values() if isinstance(arg, dict) else arg
    if isinstance(arg, (dict, list, tuple)):
        return {name for part in parts for name in references(part)}
    return set()


def generate(graphs, command):
    """For each graph {"variants": [...], ...} or {"error": ...}."""
    lines = "".join(json.dumps(graph) + "\n" for graph in graphs)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]
