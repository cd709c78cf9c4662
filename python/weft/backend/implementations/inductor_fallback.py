"""A captured graph by torch.compile, called with a list: what computes graphs with
symbolic sizes until kernels are verified. Other graphs are compiled as
incumbent.py says, without a second look at their arguments.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.backend.implementations import first_result_check, select_implementation
from weft.backend.options import log, told
from weft.expect import tolerance
from weft.problem import sentences

#: Seconds that the reference of the first call's check may take.
SECONDS_MAX = 5.0


class InductorFallback:
    """Made at the first call. Where Inductor cannot compile the graph, its code
    fails, or comes to something else than eager at that call, the graph is run as it
    is, and the compiled graph's `fallback_reason` says so."""

    def __init__(self, graph: Any, eager: Any) -> None:
        self._graph = weakref.ref(graph)
        self._eager = eager
        self._compiled: Callable[..., Any] | None = None
        self._is_seen = False

    @property
    def compiled(self) -> Any:
        """What computes now, and raises what it fails with."""
        return self._compiled

    def __call__(self, arguments: Any) -> Any:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = self._by_torch_compile(arguments)
        try:
            results = compiled(arguments)
            return results if self._is_seen else self._seen(results, arguments)
        except Exception as error:
            if self._compiled is self._eager:
                raise
            self._give_up(f"Inductor failed with {type(error).__name__}: {error}")
        return self._eager(arguments)

    def _give_up(self, reason: Any) -> None:
        log.info("%s", reason)
        graph = self._graph()
        if graph is not None:
            graph.fallback_reason = sentences.whole_lines(reason, 1000)
        self._compiled = self._eager

    def _seen(self, results: Any, arguments: Any) -> Any:
        """The first call's results, or eager's, where these are something else. Of
        gradients many are 0 but for rounding, so nothing is said of them."""
        self._is_seen = True
        graph = self._graph()
        if (
            self._compiled is self._eager
            or graph is None
            or graph.draws
            or graph.role == "backward"
            or select_implementation.is_recording(arguments)
        ):
            return results
        try:
            expected = list(self._eager(arguments))
            why = first_result_check.Check(
                graph.graph_module,
                arguments,
                "tf32",
                graph.state,
                factor=tolerance.INDUCTOR_FACTOR,
                seconds_max=SECONDS_MAX,
            ).why_not(expected, list(results))
        except Exception as error:  # no room for both, say
            log.info("Inductor's results were not compared: %s", told(error))
            return results
        if not why:
            return results
        self._give_up(
            f"Inductor's code comes to something else than eager, which computes instead: {why}"
        )
        return expected

    def _by_torch_compile(self, arguments: Any) -> Any:
        graph = self._graph()
        assert graph is not None  # it is being called
        module, mode = graph.graph_module, graph.options.mode
        compiled = torch.compile(
            lambda *arguments: module(*arguments),
            backend="inductor",
            dynamic=None if _has_sizes(arguments) else False,
            mode=None if mode == "default" else mode,
        )
        return lambda arguments: compiled(*arguments)


def _has_sizes(arguments: Sequence[Any]) -> bool:
    return any(isinstance(argument, (int, torch.SymInt)) for argument in arguments)
