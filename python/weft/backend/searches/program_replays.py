"""CUDA graphs of weft's for the calls of a program. A program whose mode asks for CUDA graphs
has PyTorch's; weft's need less time of the host, and fewer copies."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from weft.backend.implementations import cuda_graph
from weft.backend.implementations.incumbent import Compiled, Request
from weft.backend.implementations.program_timing import Arguments, compared
from weft.backend.options import Options, log, told

#: Calls of a trial at least, and how many times as long as trial_s they may take.
CALLS_MIN, LONGEST = 24, 3
#: Copies of the written arguments that exist at the same time, at most.
COPIES = 3


@dataclasses.dataclass(frozen=True)
class Found:
    """The decision that the timing of calls led to."""

    #: None: weft's graphs do not compute calls.
    replayed: cuda_graph.Replayed | None
    #: How many times as long a call of the other implementation takes.
    speedup: float
    #: Why not, or what explain() says of the graph.
    words: str


def may_replay(request: Request, options: Options) -> bool:
    """Whether the program allows CUDA graphs of weft's, if it draws no random numbers."""
    return (
        options.graph_bytes() > 0
        and options.trial_s > 0
        and request.role == "inference"
        and not any(map(_is_host_s, request.module.graph.nodes))
    )


def _is_host_s(node: fx.Node) -> bool:
    """Whether the host has a part in what it computes, which a graph would not repeat."""
    tag = getattr(torch.Tag, "cudagraph_unsafe", None)  # from torch 2.9 on
    if tag is not None and tag in getattr(node.target, "tags", ()):
        return True
    found = node.meta.get("val")
    return any(
        isinstance(one, torch.Tensor) and one.device.type == "cpu"
        for one in (found if isinstance(found, (list, tuple)) else [found])
    )


def replays_of(
    current: Compiled,
    incumbent: Compiled | None,
    launched: Compiled,
    request: Request,
    options: Options,
    given: Sequence[Any],
) -> Found:
    """Records `current` as CUDA graphs, and times calls with these arguments.

    Three functions are compared: the incumbent (None: `current`, launched), a graph that copies
    its arguments, and a graph that reads all of them in place. The program's later arguments may
    lie elsewhere. So the third one decides only if the second is not slower. Arguments that a
    call writes to cannot be copied. For a program with such arguments there is no second one.

    The incumbent computes later calls that are not replayed. If it is None and the program
    writes, `launched` does: Inductor's code without changes. Raises what a call does."""
    written = request.written_inputs()
    device = Arguments(request, given).device()
    why = _why_no_trial(current, incumbent, request, options, given, device)
    if why:
        return Found(None, 1.0, why)
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
    del in_place, functions
    if written:
        made, why = recorded(given, static)
        if made is None:
            return Found(None, 1.0, why)
    if made.kept() > options.graph_bytes():
        return Found(None, 1.0, f"CUDA graphs would keep {made.kept() >> 20} MiB (replay_mb)")
    made.otherwise = incumbent or (launched if written else current)
    made.read_in_place()
    size = max(1, made.nbytes >> 20)
    words = f"replayed as a CUDA graph, which keeps {size} MiB"
    if written.difference(static):
        words = "replayed as a CUDA graph while what it writes to lies in the same memory"
    return Found(made, calls.ratio(0, 1), words)


def _why_no_trial(
    current: Compiled,
    incumbent: Compiled | None,
    request: Request,
    options: Options,
    given: Sequence[Any],
    device: torch.device,
) -> str:
    """ "" if the trial holds up a call for a few seconds at most, has room for its copies,
    and does not disturb PyTorch's graphs."""
    written = request.written_inputs()
    if incumbent is not None:
        if written:  # its graphs know the memory that they write to
            return "it writes to its inputs"
        if _are_others_results_alive(device):
            return "results of another graph of the program are alive"
    room, copies = _free_bytes(device), sum(given[i].nbytes for i in written)
    if COPIES * copies > room:
        return f"there is no room for copies of {copies >> 20} MiB that it writes to"
    arguments = Arguments(request, given).fresh()
    current(list(arguments))
    _settle(device)
    begin = time.monotonic()
    current(arguments)
    _settle(device)
    call_s = time.monotonic() - begin
    if call_s * CALLS_MIN > LONGEST * options.trial_s:
        return f"a call takes {call_s:.2g} s, too long for a trial (trial_s)"
    return ""


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free_bytes(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 1 << 62


def _are_others_results_alive(device: torch.device) -> bool:
    """Whether PyTorch's graphs continue one another now: graphs of this call were replayed,
    and the program has their results. PyTorch would record another call of such a graph again."""
    if device.type != "cuda":
        return False
    try:
        from torch._inductor import cudagraph_trees

        index = device.index if device.index is not None else torch.cuda.current_device()
        manager = cudagraph_trees.get_manager(index, create_if_none_exists=False)
        if manager is None or manager.current_node is None or manager.can_start_new_generation():
            return False
        return not manager.current_node.all_outputs_are_dead()
    except Exception as error:  # another PyTorch has other names for them
        log.info("PyTorch's CUDA graphs are not known: %s", told(error))
        return True
