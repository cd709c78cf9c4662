"""CUDA graphs of weft's for the calls of a program. A program whose mode asks for CUDA graphs
has PyTorch's; weft's need less time of the host, and fewer copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from weft.backend.implementations import cuda_graph
from weft.backend.implementations.incumbent import Compiled, Request
from weft.backend.implementations.program_timing import Arguments, compared
from weft.backend.options import Options


@dataclasses.dataclass(frozen=True)
class Found:
    """What the timing of calls decided."""

    #: None: weft's graphs do not compute calls.
    replayed: cuda_graph.Replayed | None
    #: How many times as long a call of the other implementation takes.
    speedup: float
    #: Why not, or what explain() says of the graph.
    words: str


def may_replay(request: Request, options: Options) -> bool:
    """Whether the program allows CUDA graphs of weft's, if it draws no random numbers."""
    return options.graph_bytes() > 0 and request.role == "inference"


def replays_of(
    current: Compiled,
    incumbent: Compiled | None,
    launched: Compiled,
    request: Request,
    options: Options,
    given: Sequence[Any],
) -> Found:
    """Records launched code, and times calls with these arguments: of the incumbent (None: of
    the launched code), of a graph, and of a graph that reads all arguments where they lie.
    Nobody knows yet which arguments of the program's calls will lie in the same memory. So
    the last graph decides only where the other one is not slower, or where there is no other:
    what a call writes to has no copy. Where that moves, `launched` computes calls: Inductor's
    code without changes, as those have been compared as graphs. Raises what a call does."""
    written = request.written_inputs()
    if written and incumbent is not None:  # whose graphs know the memory that they write to
        return Found(None, 1.0, "it writes to its inputs")
    constants = [*request.module.buffers(), *request.module.parameters()]

    def recorded(arguments: Sequence[Any], still: set[int]) -> tuple[Any, str]:
        return cuda_graph.recorded(
            current, arguments, still, constants, options.graph_bytes(), written
        )

    static = set(request.static_inputs)
    copies = Arguments(request, given).fresh()
    in_place, why = recorded(copies, set(range(len(copies))))
    made, why = (in_place, why) if written else recorded(given, static)
    if made is None:
        return Found(None, 1.0, why)
    functions = [incumbent or current, made, in_place or made]
    calls = compared(functions, Arguments(request, copies, True), options.trial_s, False)
    if not (calls.is_faster(1, 0) or calls.is_faster(2, 0) and not calls.is_faster(0, 1)):
        return Found(None, 1.0, "no clear gain")
    if written:
        made, why = recorded(given, static)
        if made is None:
            return Found(None, 1.0, why)
        made.otherwise = launched
    made.read_in_place()
    size = max(1, made.nbytes >> 20)
    words = f"replayed as a CUDA graph, which keeps {size} MiB"
    if written.difference(static):
        words = "replayed as a CUDA graph while what it writes to lies in the same memory"
    return Found(made, calls.ratio(0, 1), words)
