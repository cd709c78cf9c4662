"""Labels by which Inductor says which nodes of a graph a kernel computes.

They are derived from the graph's structure alone: two equal graphs share Inductor's
cached code, and with it the labels of the first."""

import json
import re
from typing import Any

from torch import fx

try:
    from torch._inductor.custom_graph_pass import CustomGraphPass
except ImportError:  # an older PyTorch, which does not take labels either
    CustomGraphPass = object  # type: ignore[assignment,misc]

PREFIX = "weft:"
_LABEL = re.compile(re.escape(PREFIX) + r"(\d+)\b")


class _Mark(CustomGraphPass):
    """Changes nothing; its identifier is part of the cache key of labelled graphs."""

    def __call__(self, graph: fx.Graph) -> None:
        return None

    def uuid(self) -> Any:
        return "weft labels 1"


MARK = _Mark()


def label(module: fx.GraphModule) -> None:
    """Gives each node its position in the graph as a label."""
    for position, node in enumerate(module.graph.nodes):
        node.meta["stack_trace"] = f"{PREFIX}{position}"


def nodes_of_kernels(compiled: Any) -> dict[str, list[int]]:
    """{"kernel:handle": positions of the nodes that it computes}, in launch order, of
    what compile_fx_inner made; {} where this PyTorch does not say."""
    text = getattr(compiled, "inductor_provenance_stack_traces_str", None)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {
        kernel: sorted({int(number) for trace in traces for number in _LABEL.findall(trace)})
        for kernel, traces in found.items()
    }
