"""Selects the implementation of a compiled graph: the fallback or the generated
kernels, launched individually or as a CUDA graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from weft.backend.graphs.problem_source import Unsupported, check_call
from weft.backend.implementations import cuda_graph, first_result_check, timing_rounds
from weft.backend.options import told

#: So much of a call's time is the host's alone, where a user is told that a CUDA
#: graph may help.
HOST_SHARE = 0.7


def select(compiled_graph: Any, kernels: Any, composed: Any, arguments: Any) -> Any:
    """(the selected function, the kernels' time divided by its time if kernels are not
    selected). `composed`: the kernels' function, or None if there is none. Writes to
    `kernels` what explain() says about CUDA graphs."""
    refused: dict[Any, Any] = {}  # function → why it is not replayed
    replayed: dict[Any, Any] = {}  # replay → its function
    obstacle = why_no_replay(compiled_graph, arguments)
    bytes_max = compiled_graph.options.graph_bytes()
    may_replay = not obstacle and bytes_max > 0

    def record(function: Any) -> Any:
        made, refused[function] = _recorded(compiled_graph, kernels, function, arguments)
        replayed[made] = function
        return made

    chosen: Any  # a function, or the replay of one
    # PyTorch itself looks at each operator of a function's first call, by which it
    # takes up to twice as long.
    with _disable_current_modes():
        chosen, factor, times = timing_rounds.select_fastest(
            compiled_graph.framework,
            composed,
            arguments,
            compiled_graph.options.trial_s,
            record if may_replay else None,
        )
    function = replayed.get(chosen)
    if function is None and may_replay:
        refused[chosen] = _why_launched(chosen, refused, replayed, times)
    del times
    replayed.clear()  # the others' memory is free
    if function is not None and chosen.kept() > bytes_max:
        refused[function] = (
            f"CUDA graphs would keep {chosen.kept() >> 20} MiB, this one "
            f"{chosen.nbytes >> 20}, and may keep {bytes_max >> 20}"
        )
        chosen = function
    if isinstance(chosen, cuda_graph.Replayed):
        chosen.read_in_place()
        kernels.replay = f"replayed as a CUDA graph, which keeps {max(1, chosen.nbytes >> 20)} MiB"
    elif refused.get(chosen):
        kernels.replay = "not replayed: " + refused[chosen]
    elif not obstacle and bytes_max == 0:
        with _disable_current_modes():
            _tell_of_host(kernels, chosen, arguments)
    elif obstacle and bytes_max > 0 and is_on_gpu(arguments):
        kernels.replay = "not replayed: " + obstacle
    return chosen, factor


def _why_launched(function: Any, refused: Any, replayed: Any, times: Any) -> Any:
    """Why its calls are not replayed."""
    made = next((one for one, its in replayed.items() if its is function and one is not None), None)
    untried = "there was no time to try it (trial_s)"
    if made is None:
        return refused.get(function, untried)
    if made not in times:
        return untried
    graph, launched = (statistics.median(times[one]) * 1e3 for one in (made, function))
    return f"as a CUDA graph a call takes {graph:.3g} ms, launched {launched:.3g}: no clear gain"


def why_no_replay(compiled_graph: Any, arguments: Sequence[Any]) -> Any:
    """Why it is not looked for whether calls are faster as a CUDA graph; "" where it
    is: on a GPU, of one size, with nothing drawn and no gradients, by operators of
    PyTorch that look at no memory but their arguments' elements."""
    if not is_on_gpu(arguments):
        return "it is not on a GPU"
    if compiled_graph.options.trial_s <= 0:
        return "there are no trials (trial_s)"
    if compiled_graph.role not in ("inference", "optimize"):
        return "it is for gradients"
    if compiled_graph.draws:
        return "it draws random numbers"
    if not compiled_graph.is_for_one_size():
        return "it is for more than one size"
    return next(
        (why for node in compiled_graph.graph_module.graph.nodes if (why := _obstacle(node))), ""
    )


def _tell_of_host(kernels: Any, function: Any, arguments: Sequence[Any]) -> None:
    """Where the device waits for the host for most of a call, explain() says what
    may help."""
    launched, ended = _call_times(function, arguments)
    if launched >= HOST_SHARE * ended:
        kernels.replay = (
            f"the host takes {launched * 1e3:.3g} of a call's {ended * 1e3:.3g} ms "
            "to launch it: as a CUDA graph (replay_mb) it may be faster"
        )


def _call_times(function: Any, arguments: Sequence[Any]) -> tuple[Any, Any]:
    """(seconds until the call has launched all, until the device has done it)"""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    function(list(arguments))
    launched = time.perf_counter()
    torch.cuda.synchronize()
    return launched - begin, time.perf_counter() - begin


def is_on_gpu(arguments: Sequence[Any]) -> bool:
    return any(
        isinstance(argument, torch.Tensor) and argument.device.type == "cuda"
        for argument in arguments
    )


def is_recording(arguments: Sequence[Any]) -> Any:
    """Whether the program records this call in a CUDA graph of its own."""
    return is_on_gpu(arguments) and torch.cuda.is_current_stream_capturing()


def _obstacle(node: torch.fx.Node) -> str:
    """Why the graph of that node is not recorded."""
    if node.op != "call_function":
        return ""
    try:
        check_call(node)
    except Unsupported as error:
        return str(error)
    if "as_strided" in str(node.target) and not _is_within(node):
        return f"{node.target} may read memory beside its argument's elements"
    return ""


def _is_within(node: Any) -> Any:
    """Whether as_strided's result lies between the first element of its argument
    and the last: as where it gives a mean the strides of channels last."""
    if (
        node.target != torch.ops.aten.as_strided.default or node.kwargs or node.args[3:]
    ):  # where its memory begins, which a copy's does not
        return False
    given, made = node.args[0].meta.get("val"), node.meta.get("val")
    return (
        given is not None
        and made is not None
        and _has_numbers(given)
        and _has_numbers(made)
        and _span(made) <= _span(given)
    )


def _has_numbers(tensor: torch.Tensor) -> bool:
    """Whether no size of it hangs on data."""
    return all(type(one) is int for one in (*tensor.shape, *tensor.stride()))


def _span(tensor: torch.Tensor) -> Any:
    """Elements from the first to the last that it may have in memory."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _recorded(compiled_graph: Any, kernels: Any, function: Any, arguments: Sequence[Any]) -> Any:
    """(the function's replay or None, why there is none)"""
    if function is compiled_graph.framework and (
        compiled_graph.has_own_graphs() or compiled_graph.role == "optimize"
    ):
        return None, ""  # PyTorch's own; optimize() has the module's forward()
    module = compiled_graph.graph_module
    constants = [var for var in vars(module).values() if isinstance(var, torch.Tensor)]
    made, why = cuda_graph.recorded(
        getattr(function, "compiled", function),
        arguments,
        set(compiled_graph.state),
        [*constants, *module.buffers(), *module.parameters()],
        compiled_graph.options.graph_bytes(),
    )
    if made is None:
        return None, why
    try:
        why = _difference(made, arguments, kernels.precision)
    except Exception as error:
        return None, told(error)
    return (None, "it came to something else: " + why) if why else (made, "")


def _difference(made: Any, arguments: Sequence[Any], precision: str) -> Any:
    """Of a replay and its function, on other inputs than it was recorded with: of
    halves, since what is an index, or becomes one, is to stay one."""
    others = list(arguments)
    with torch.no_grad():
        for i in made.moving:
            if others[i].is_floating_point():
                others[i] = others[i] * 0.5
        expected = list(made.function(list(others)))
        return first_result_check.difference(expected, made(others), precision)
