"""gradcheck: compares the derivatives of a step of training with differences of its
results, in float64.

Kernels are for one dtype, mostly float32, where differences say nothing, so no kernel runs
here. The two graphs that kernels are made for are checked. `weft eval` then compares
ModelNew's gradients with float64's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.gradcheck import GradcheckError
from torch.utils import _pytree as pytree

from weft.backend.graphs.problem_source import Unsupported
from weft.problem import sentences
from weft.problem.module_state import widened
from weft.problem.widen import WideCasts, wide_default, widen

if TYPE_CHECKING:
    from weft.backend.graphs.exported_module import Argument
    from weft.training.joint import Step

#: Of what is varied and what comes of it: up to so many, each element is varied
#: alone; of more, random directions are.
ELEMENTS_MAX = 512
#: It is left out where it would take longer.
SECONDS_MAX = 60.0
#: A gradient that its type misses by so much of it, and by so many units of the
#: type's roundoff, is what rounding left.
LOST = 1e-2
LOST_UNITS = 64
AGREES, DIFFERS, NOT_RUN = "agrees", "differs", "not run"


class _Pair(torch.autograd.Function):
    """Those results of the forward graph that have a gradient, and the
    backward graph for that."""

    @staticmethod
    def forward(ctx: Any, step: Step, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with WideCasts():
            results = step.forward(*arguments)
        ctx.step, ctx.kept = step, results[step.count :]
        ctx.count = len(arguments)
        return tuple(one for one, has in zip(results, step.differentiable) if has)

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        with WideCasts():
            found = iter(ctx.step.backward(*ctx.kept, *tangents))
        wanted = set(ctx.step.wanted)
        return (None, *(next(found) if i in wanted else None for i in range(ctx.count)))


@dataclasses.dataclass(frozen=True)
class GradCheck:
    """The result of gradcheck for both graphs of a step."""

    outcome: str = NOT_RUN
    how: str = ""  #: which elements were varied
    reason: str = ""
    lost_in_rounding: list[str] = dataclasses.field(default_factory=list)  #: Step.lost


def check(model: torch.nn.Module, step: Step) -> GradCheck:
    """The GradCheck of the step's graphs (joint.Step). They may differ where Model's own
    derivatives do, which leave a term out (detach). Unsupported: only the graphs differ."""
    if step.draws:
        return GradCheck(reason="it draws random numbers")
    values = [widen(argument.detach()).contiguous().clone() for argument in step.arguments]
    varied = [values[i].requires_grad_() for i in step.wanted]
    if not all(one.dtype is torch.float64 for one in varied):
        return GradCheck(reason="it trains tensors that are not real")
    elements = sum(one.numel() for one in varied) + sum(
        math.prod(shape) for shape, _ in step.tangents
    )
    is_small = elements <= ELEMENTS_MAX
    how = "every element" if is_small else "random directions"
    calls = 2 * elements if is_small else 2 * len(varied) + 10
    try:
        with _threads(1 if is_small else torch.get_num_threads()):
            seconds = calls * _seconds(step, values, varied)
            if seconds > SECONDS_MAX:
                return GradCheck(NOT_RUN, how, f"it would take {seconds:.0f} s")
            theirs = _differs(_of_graphs(step, values), varied, is_small)
            own = theirs and _differs(_of_model(model, step, values), varied, is_small)
    except Exception as error:  # an operator that has no float64
        why = f"it does not run in float64: {sentences.of_error(error)}"
        return GradCheck(NOT_RUN, how, why)
    if theirs and not own:
        raise Unsupported(
            f"the gradients that were captured are not the derivatives of its results: {theirs}"
        )
    if theirs:
        return GradCheck(DIFFERS, how, f"and so do Model's own derivatives: {theirs}")
    return GradCheck(AGREES, how)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Of the framework's: for small tensors more than one only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _seconds(step: Step, values: list[torch.Tensor], varied: Sequence[torch.Tensor]) -> float:
    """What a call takes, forward and backward."""
    for _ in range(2):  # the first takes longer
        begin = time.perf_counter()
        results = _of_graphs(step, values)(*varied)
        torch.autograd.grad(results, varied, list(map(torch.ones_like, results)), allow_unused=True)
        if varied[0].is_cuda:
            torch.cuda.synchronize(varied[0].device)
    return time.perf_counter() - begin


def _differs(function: Callable[..., Any], varied: Sequence[torch.Tensor], is_small: bool) -> str:
    """Where gradcheck finds a difference: the first line of it; else ""."""
    try:
        with torch.enable_grad(), wide_default():
            torch.autograd.gradcheck(
                function,
                varied,
                fast_mode=not is_small,
                nondet_tol=1e-8,
                check_undefined_grad=False,
            )
    except GradcheckError as error:
        return sentences.first_sentence(error)
    return ""


def _filled(
    step: Step, values: list[torch.Tensor], varied: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The graph's arguments, with these in the place of those that vary."""
    filled = list(values)
    for i, one in zip(step.wanted, varied):
        filled[i] = one
    return filled


def _of_graphs(step: Step, values: list[torch.Tensor]) -> Callable[..., Any]:
    def function(*varied: torch.Tensor) -> Any:
        return _Pair.apply(step, *_filled(step, values, varied))

    return function


def _of_model(model: torch.nn.Module, step: Step, values: list[torch.Tensor]) -> Callable[..., Any]:
    """The same of Model's forward(), by the framework's derivatives."""
    wide = widened(model)

    def function(*varied: torch.Tensor) -> Any:
        state, inputs = {}, {}
        arguments = step.captured.arguments
        call = step.captured.structure.spec
        for one, value in zip(arguments, _filled(step, values, varied)):
            if one.kind == "input":
                inputs[one.leaf] = value
            elif one.kind != "constant":  # buffers are written by the call
                state[_name(one)] = value if one.kind == "parameter" else value.clone()
        args, kwargs = pytree.tree_unflatten([inputs.get(i) for i in range(call.num_leaves)], call)
        with WideCasts():
            result = torch.func.functional_call(wide, state, args, kwargs)
        return tuple(
            leaf
            for leaf in pytree.tree_leaves(result)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        )

    return function


def lost(step: Step) -> tuple[list[str], str]:
    """(Names of the parameters and inputs whose gradient is what rounding left
    of values that cancelled, as a bias' is before a batch norm; the name whose
    gradient is largest.) By the framework's own error on the problem's data: of
    noise any order of operations makes another, and of another size."""
    if step.draws:  # float64 draws other numbers
        return [], ""
    torch.manual_seed(0)
    tangents = [
        torch.randn(shape, dtype=dtype, device=step.arguments[0].device)
        for shape, dtype in step.tangents
    ]
    narrow = [argument.detach() for argument in step.arguments]
    try:
        with torch.no_grad():
            found = _gradients(step, narrow, tangents)
            with wide_default(), WideCasts():
                truth = _gradients(step, list(map(widen, narrow)), list(map(widen, tangents)))
    except Exception:  # an operator that has no float64
        return [], ""
    sizes, names = {}, []
    for name, (one, wide) in _by_name(step, found, truth).items():
        size = float(wide.square().mean().sqrt())
        allowed = max(LOST, LOST_UNITS * torch.finfo(one.dtype).eps)
        if float((one - wide).square().mean().sqrt()) > allowed * size:
            names.append(name)
        else:
            sizes[name] = size
    return (names, max(sizes, key=lambda name: sizes[name])) if sizes else ([], "")


def _by_name(
    step: Step, found: Iterable[torch.Tensor | None], truth: Iterable[torch.Tensor]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """{name: (gradient, in float64)}"""
    return {
        _name(step.captured.arguments[i]): (one, wide)
        for i, one, wide in zip(step.wanted, found, truth)
        if one is not None and one.numel()
    }


def _gradients(
    step: Step, arguments: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
) -> Any:
    kept = step.forward(*arguments)[step.count :]
    return step.backward(*kept, *tangents)


def _name(one: Argument) -> str:
    """Of an argument, as step_part.py has it."""
    return f"input {one.leaf}" if one.kind == "input" else f"{one.owner}.{one.name}".lstrip(".")
