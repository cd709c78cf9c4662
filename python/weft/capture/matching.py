"""Makes the captured graph that computes what eager computes.

The graph is decomposed, written, run and compared with eager's call. If it
differs, the calls that cause it are found one by one, kept undecomposed, and the
graph is made again. Outputs with other strides get a copy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from weft.capture import (
    check,
    export,
    fast_paths,
    graph as graphs,
    operator_differences,
    output_layouts,
    undecomposed_calls,
)
from weft.capture.undecomposed_calls import KeptCall
from weft.expect import tf32
from weft.problem import problem as problems
from weft.problem.problem import ProblemError

if TYPE_CHECKING:
    from weft.capture.capture import State, Stopwatch

Runs = tuple[list[torch.Tensor], dict[str, Any], list[torch.Tensor]]
#: More cannot be needed: each round looks closer than the one before.
ROUNDS_MAX = 4


def matching_graph(
    state: State,
    program: ExportedProgram,
    expected: Runs,
    watch: Stopwatch,
    device: Callable[[], contextlib.AbstractContextManager[None]],
) -> dict[str, Any]:
    """The graph of `program`, whose run agrees with `expected`, eager's.

    `state`: capture.State, of the model that was exported. `watch`: gets the
    seconds of the steps. `device()`: a context in which the device may be used.
    Raises ProblemError: the model differs from itself, or no call explains the
    difference.
    """
    matching = _Matching(state, program, expected, watch, device)
    for round_ in range(ROUNDS_MAX):
        graph, difference = matching.attempt()
        if difference is None:
            graph["kept"] = [one.to_json() for one in matching.kept]
            return graph
        if not matching.keep_more(exactly=round_ > 0):
            break
    assert difference is not None
    if isinstance(difference, check.Mismatch):
        with device():
            fast_paths.refuse_other_results(state, expected)
    raise difference


class _Matching:
    def __init__(
        self,
        state: State,
        program: ExportedProgram,
        expected: Runs,
        watch: Stopwatch,
        device: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self.state = state
        self.program = program
        self.expected = expected
        self.watch = watch
        self.device = device
        self.kept: list[KeptCall] = []

    def attempt(self) -> tuple[dict[str, Any], ProblemError | None]:
        """(the graph with what is kept by now, how it differs from eager)"""
        state = self.state
        problem, model = state.problem, state.model
        try:
            with self.watch.step("export"):
                program = export.decompose(problem, model, state.inputs, self.program)
            with self.watch.step("write"):
                graph = graphs.graph_of(program, model, state.inputs, problem.path)
        except graphs.NoAtenOperator as error:
            return {}, error
        graph["parts"] = state.parts
        graph["training"] = model.training
        with self.watch.step("check"), self.device():
            try:
                self._check(graph)
            except check.Unsteady:
                raise
            except (check.Mismatch, check.GraphFailed) as error:
                error.file = os.path.basename(problem.path)
                return graph, error
        return graph, None

    def _check(self, graph: dict[str, Any]) -> None:
        """Raises ProblemError if the graph's run is not as eager's. Adds copies
        to the graph where only the strides of outputs differ."""
        got = self._compared_run(graph)
        if not output_layouts.differing(self.expected[0], got[0]):
            return
        given = [
            *self.state.model.parameters(),
            *self.state.buffers.values(),
            *pytree.tree_leaves(self.state.inputs),
        ]
        left = output_layouts.add_copies(graph, self.expected[0], got[0], given)
        got = self._compared_run(graph)
        differing = output_layouts.differing(self.expected[0], got[0])
        if not set(differing) <= set(left):
            raise check.Mismatch(f"output {differing[0]} has other strides")

    def _compared_run(self, graph: dict[str, Any]) -> Runs:
        state = self.state
        got = state.graph_run(graph)
        has_tf32 = tf32.is_allowed(torch.device(state.place)) and tf32.convolves(
            node["target"] or "" for node in graph["nodes"]
        )
        check.compare_runs(
            self.expected,
            got,
            state.problem.path,
            has_tf32,
            lambda is_off: state.swayed_run(is_off, has_tf32),
        )
        return got

    def keep_more(self, *, exactly: bool) -> bool:
        """Keeps the calls that differ from eager's; whether there are any."""
        state = self.state
        problem = state.problem
        inputs = problems.make_inputs(problem, device=state.place)
        writer = graphs.Lines(problem.path)
        state.restore()
        with self.watch.step("operators"), self.device():
            found = operator_differences.find(
                self.program,
                state.model,
                pytree.tree_leaves(inputs),
                writer.line_of,
                exactly=exactly,
            )
        state.restore()
        undecomposed_calls.keep(self.program.graph, found)
        self.kept += found
        return bool(found)
