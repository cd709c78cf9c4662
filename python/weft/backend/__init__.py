"""torch.compile(model, backend="weft"): the backend's entry point.

PyTorch finds it by the entry point `torch_dynamo_backends`, without an import
of weft, and loads it when a model is first compiled.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

#: (operators, why) of the graphs that AOTAutograd did not take, the newest.
not_taken: collections.deque[tuple[int, str]] = collections.deque(maxlen=256)


def compile(
    graph_module: Any, example_inputs: Sequence[Any], *, options: Any = None, mode: Any = None
) -> Any:
    """A Dynamo backend. ValueError for an option that it does not know;
    whatever else is wrong ends with the framework's own computation."""
    from weft.backend.options import is_disabled, log, options_from

    options = options_from(options, mode)
    if is_disabled():
        return graph_module.forward
    try:
        from weft.backend.entry.dynamo import compile_graph
        from weft.backend.entry.status import lines_if_asked

        lines_if_asked()

        return compile_graph(graph_module, example_inputs, options)
    except Exception as error:  # of a PyTorch that is made otherwise
        if type(error).__name__.endswith("RestartAnalysis"):
            raise  # Dynamo's own: it begins anew, and knows more then
        log.warning("%s: %s; PyTorch computes this graph", type(error).__name__, error)
        first, *_ = (*str(error).strip().splitlines(), "")
        not_taken.append(
            (
                sum(node.op.startswith("call_") for node in graph_module.graph.nodes),
                f"{type(error).__name__}: {first}",
            )
        )
        return graph_module.forward


def _check_options_early() -> None:
    from weft.backend.entry import early_options

    early_options.install()


_check_options_early()
