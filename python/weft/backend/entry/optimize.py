"""`weft.optimize(module, inputs)`: a module with verified kernels, without
Dynamo. Like torch.export, it freezes the control flow of the call that it is given.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import torch

from weft.backend.entry import dispatch
from weft.backend.entry.dispatch import Dispatch, Entry, Report, dispatch_of
from weft.backend.graphs import (
    call_structure,
    exported_module as captures,
    symbolic_graph,
)
from weft.backend.graphs.call_structure import Flattened
from weft.backend.graphs.module_guards import has_global_hooks
from weft.backend.graphs.problem_source import Unsupported
from weft.backend.graphs.random_state import kept
from weft.backend.options import Options, is_disabled, log, options_from, told
from weft.problem import tensor_kinds
from weft.problem.problem import internal_error


def optimize(
    module: torch.nn.Module,
    inputs: Any,
    target: str = "auto",
    budget_s: float = 300.0,
    *,
    kwargs: Mapping[str, Any] | None = None,
    variants: int = 0,
    cache: bool = True,
    shapes_max: int = 4,
    dynamic_batch: bool = False,
    dynamic_dim: int | tuple[int, int] | None = None,
    seeds: str = "auto",
    replay_mb: int = 0,
    fallback: str = "auto",
    head: str = "",
    keys: str = "",
) -> tuple[torch.nn.Module, Report]:
    """Searches for kernels and returns (module, Report). Blocks until the search is over.

    The returned module has the class of `module` and the same parameters, buffers and
    parts. Its forward() uses the kernels for `inputs` (the arguments of forward()) of the
    same shapes, strides, dtypes and devices, without gradients. Every other call is the
    module's own. If calls are not faster, guards included, `module` itself is returned.
    Given a module that optimize() made, it learns these inputs as well.

    The module is frozen as torch.export freezes it: control flow, attributes, globals and
    Python's random numbers.

    Other shapes, strides or dtypes are captured at their second call and searched in
    the background, up to `shapes_max` kinds of inputs, including the first.

    dynamic_batch=True: one search for any batch. The batch is the first dimension of the
    first tensor, and of each tensor that has the same size there. dynamic_dim=1 or (0, 1)
    names other dimensions. If that is not possible, kernels are for these sizes, and the
    report says why.

    replay_mb: MiB that CUDA graphs may keep on a GPU; they are used if they are faster.

    fallback="inductor" is the default on a GPU: kernels must also be faster than
    Inductor's code for the graph. That code is used if it is faster than the module.

    head="tcp://HOST:PORT": a head (`weft head`) searches instead of this machine; `keys` is
    the folder with your keys for it.

    Raises only for wrong arguments. The report has every other failure."""
    module = getattr(module, "_orig_mod", module)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"weft.optimize takes a torch.nn.Module, and got a {type(module).__name__}")
    options = options_from(
        {
            "budget_s": budget_s,
            "target": target,
            "variants": variants,
            "cache": cache,
            "shapes_max": shapes_max,
            "seeds": seeds,
            "replay_mb": replay_mb,
            "fallback": fallback,
            "wait": True,
            **({"head": head} if head else {}),
            **({"keys": keys} if keys else {}),
        }
    )
    args = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    if unfit := _unfit(module):
        return module, Report(False, "", unfit, 0.0, False, "")
    made = module if dispatch_of(module) else _optimized(module)
    named = captures.in_order(module.forward, dict(kwargs or {}))
    places = symbolic_graph.asked_places(dynamic_batch, dynamic_dim)
    report = _learn(made, args, named, options, places)
    dispatched = dispatch_of(made)
    assert dispatched is not None
    if dispatched.entries:
        return made, report
    dispatch.note_report(module, report)
    return module, report  # a wrapper would cost time at each call


def _unfit(module: torch.nn.Module) -> str:
    """Why no other object can stand for the module, if none can."""
    if isinstance(module, torch.jit.ScriptModule):
        return "it is a module of TorchScript"
    if any(map(torch.nn.parameter.is_lazy, (*module.parameters(), *module.buffers()))):
        return "it has parameters that are not made yet: call it once before weft.optimize"
    return ""


def _learn(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    places: list[Any],
) -> Report:
    begin, entry, reason = time.monotonic(), None, ""
    dispatched = dispatch_of(module)
    assert dispatched is not None
    try:
        if special := tensor_kinds.first_special(
            module, {**{str(i): one for i, one in enumerate(args)}, **kwargs}
        ):
            raise Unsupported(f"{special}, and weft compiles dense tensors only")
        call = call_structure.flatten((args, kwargs))
        dispatched.begin(dispatch.kind_of(call))
        if is_disabled():
            raise Unsupported("WEFT_DISABLE is set")
        if dispatch.is_special() or has_global_hooks():
            raise Unsupported(
                "it was called under autocast, a trace, a mode that "
                "changes operators, or hooks of all modules"
            )
        entry = _search(module, call, options, places or symbolic_graph.marked_places(call.leaves))
    except Unsupported as error:
        reason = str(error)
    except Exception as error:
        reason = internal_error(f"weft.optimize failed with {told(error)}")
    dispatched.options = dataclasses.replace(options, wait=False)
    if entry is not None and entry.composed is not None:
        dispatched.add(entry)
    seconds = time.monotonic() - begin
    report = (
        entry.report(seconds)
        if entry is not None
        else Report(False, "", reason, round(seconds, 1), False, "")
    )
    dispatched.reports.append(report)
    log.info("optimize: %s", report)
    return report


def _search(module: torch.nn.Module, call: Flattened, options: Options, places: list[Any]) -> Entry:
    """The entry of a search that is over."""
    pending, arguments = dispatch.begin_search(module, call, options, places)
    graph = pending.composed
    with torch.no_grad(), kept(arguments, graph.draws):
        graph(arguments)  # its look at the kernels' results
    entry = pending.entry()
    if entry.composed is None:
        entry.use_incumbent(graph)
    dispatch.try_call(module, entry, pending, call, options)
    return entry


class _WithKernels:
    """A base class that comes before a module's own class."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own: Any = super()
        of = self.__dict__.get("_weft")
        if of is not None and of.entries:
            if len(kwargs) > 1:
                kwargs = captures.in_order(own.forward, kwargs)
            done, result, failed = of.compute(self, args, kwargs)
            if done:
                return result
            # It raises, too, where the call was wrong: an index outside.
            result = own.forward(*args, **kwargs)
            for entry, error in failed:
                of.drop(entry, error)
            return result
        return own.forward(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, Any, Any]:
        return _again, (type(self).__mro__[2],), self.__getstate__()

    def __getstate__(self) -> Any:
        above = getattr(super(), "__getstate__", None)
        state = above() if above else None
        return state if isinstance(state, dict) else self.__dict__.copy()


_classes: dict[Any, Any] = {}


def _class_of(base: Any) -> Any:
    if base not in _classes:
        _classes[base] = type(
            base.__name__,
            (_WithKernels, base),
            {
                "__module__": base.__module__,
                "__qualname__": base.__qualname__,
                "__doc__": base.__doc__,
            },
        )
    return _classes[base]


def _again(base: Any) -> Any:
    """An object of that class without its state, for pickle and copy."""
    return object.__new__(_class_of(base))


def _optimized(module: torch.nn.Module) -> torch.nn.Module:
    """Another object with the same state: tensors, parts and settings."""
    made = _again(type(module))
    made.__dict__.update(module.__dict__)
    made.__dict__[dispatch.OWN] = Dispatch()
    return made


def is_optimized(module: object) -> bool:
    """Whether optimize() made it, or a part of it. What torch.compile gave has its
    kernels outside the module."""
    return (
        isinstance(module, torch.nn.Module)
        and not hasattr(module, "_orig_mod")
        and any(dispatch_of(part) for part in module.modules())
    )
