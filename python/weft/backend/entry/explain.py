"""`weft.explain()`: which implementation computes each graph, and why."""

from __future__ import annotations

import dataclasses
import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_leaves

from weft import backend
from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.entry.dispatch import dispatch_of, reports_of
from weft.backend.entry.notebook import Shown
from weft.backend.graphs import exported_module
from weft.backend.options import is_disabled
from weft.backend.searches import weft_process, whole_program
from weft.backend.searches.background_verification import rechecks

#: Of one function, by whomever it is compiled: more than anybody looks at.
LOOKS_MAX = 1000
#: {model: {its mode and how its inputs look: texts}}
_known_breaks: weakref.WeakKeyDictionary[Any, dict[Any, list[str]]] = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class RegionReport(Shown):
    """A region of a graph that Inductor compiles, with its repetitions."""

    operators: str
    kind: str
    count: int  # equal regions: repeated layers
    seconds: float  # of one call, in the incumbent's profile, all repetitions
    roofline_s: float
    state: str  # "waiting", "searching", "none", "verified", "slower", "generated"
    reason: str = ""
    gain: float = 0.0  # the call's time without it over that with it; 0: not timed
    verdict: str = ""

    def __str__(self) -> str:
        gain = f", gain {self.gain:.3f}×" if self.gain else ""
        text = (
            f"{self.seconds * 1e6:9.1f} µs, roofline {self.roofline_s * 1e6:.1f} µs, "
            f"{self.count} × {self.operators} ({self.kind}): {self.state}{gain}"
        )
        return "; ".join(filter(None, (text, self.reason, self.verdict)))


#: States whose name is not a word of the sentence.
_STATE_WORDS = {"pytorch": "computed by PyTorch"}


@dataclasses.dataclass
class GraphReport(Shown):
    """One graph of this process, for one set of sizes."""

    role: str  # "inference", "forward", "backward", "optimize"
    operators: int
    state: str  # "searching", "forked", "loaded", "ready", "pytorch"
    reason: str
    summary: str
    calls: int
    calls_with_kernels: int
    sizes: tuple[Any, ...] = ()
    path: str = ""
    verdict: str = ""  # the full one on kernels that an earlier process found
    replay: str = ""  # whether its calls are a CUDA graph's, or why not
    #: Regions of a graph that Inductor compiles whole, the largest hope first.
    regions: list[RegionReport] = dataclasses.field(default_factory=list)
    #: How many times as long the incumbent takes as what computes now.
    speedup: float = 1.0

    def __str__(self) -> str:
        sizes = f" sizes {self.sizes}" if self.sizes else ""
        text = (
            f"{self.role} graph of {self.operators} operators{sizes}: "
            f"{_STATE_WORDS.get(self.state, self.state)}, "
            f"{self.calls_with_kernels} of {self.calls} calls used generated kernels"
        )
        # A search that ends without a module has its summary as the reason.
        summary = "" if self.summary == self.reason else self.summary
        for line in (self.reason, summary, self.replay, self.verdict, self.path):
            text += f"\n    {line}" if line else ""
        return "\n".join([text, *(f"    {region}" for region in self.regions)])


@dataclasses.dataclass
class Explanation(Shown):
    """`breaks`: where Dynamo leaves the model for Python, and why."""

    graphs: list[Any]
    breaks: list[Any]
    notes: list[Any]

    def __str__(self) -> str:
        lines = [str(graph) for graph in self.graphs]
        lines += [f"graph break: {text}" for text in self.breaks]
        return "\n".join([*lines, *self.notes] or ["no graph yet"])


def explain(
    model: Callable[..., Any] | None = None,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Explanation:
    """Explains all graphs that were compiled in this process.

    With a model and its inputs or keyword arguments, also lists where Dynamo breaks its
    graph. For a module of weft.optimize, counts its calls. Never raises."""
    breaks, notes = [], []
    if is_disabled():
        notes.append("WEFT_DISABLE is set: PyTorch computes everything")
    try:
        weft_process.find()
    except weft_process.ProgramMissing as error:
        notes.append(str(error))
    notes += [
        f"a graph of {count} operators stays PyTorch's: {why}"
        for count, why in list(backend.not_taken)
    ]
    notes += _dispatch_notes(model)
    if model is not None and (inputs is not None or kwargs):
        breaks = _breaks(model, () if inputs is None else inputs, dict(kwargs or {}))
    return Explanation(_graphs(), breaks, notes)


def _graphs() -> Any:
    found = []
    for compiled_graph in compiled_graphs.all_compiled_graphs():
        count = sum(node.op == "call_function" for node in compiled_graph.graph_module.graph.nodes)
        for sizes, kernels in list(compiled_graph.kernels.items()):
            found.append(
                GraphReport(
                    compiled_graph.role,
                    count,
                    kernels.state,
                    kernels.reason,
                    kernels.summary,
                    compiled_graph.calls,
                    kernels.calls,
                    sizes,
                    kernels.path,
                    rechecks.told(kernels.composed),
                    kernels.replay,
                )
            )
        if not compiled_graph.kernels or compiled_graph.fallback_reason:
            found.append(
                GraphReport(
                    compiled_graph.role,
                    count,
                    "pytorch",
                    compiled_graph.fallback_reason or "it has not been called yet",
                    "",
                    compiled_graph.calls,
                    0,
                )
            )
    return found + [_whole(program) for program in whole_program.all_programs()]


def _whole(one: whole_program.WholeProgram) -> GraphReport:
    """The report on a graph that Inductor compiles whole."""
    regions = [
        RegionReport(
            candidate.group.first.operators(),
            candidate.group.first.kind.value,
            len(candidate.group.regions),
            candidate.time.seconds,
            candidate.time.roofline_s,
            candidate.state,
            candidate.reason,
            candidate.gain,
            rechecks.told(candidate.found.kernel.composed)
            if candidate.found and candidate.found.kernel
            else "",
        )
        for candidate in one.candidates
    ]
    count = sum(node.op == "call_function" for node in one.request.module.graph.nodes)
    # Until its first call it has no search, as a compiled graph has none.
    state = "pytorch" if one.state == "new" else one.state
    return GraphReport(
        one.role,
        count,
        state,
        one.reason or ("it has not been called yet" if one.state == "new" else ""),
        one.summary,
        one.calls,
        one.calls_with_kernels,
        replay=one.replay,
        regions=regions,
        speedup=one.speedup,
    )


def _dispatch_notes(model: Any) -> Any:
    notes = [f"optimised: {report}" for report in reports_of(model)]
    of = dispatch_of(model) if isinstance(model, torch.nn.Module) else None
    if of is None:
        return notes
    notes.append(
        f"{of.calls} calls used generated kernels, {of.declined} the module's own forward()"
    )
    notes += [told for entry in of.entries if (told := rechecks.told(entry.composed))]
    if of.reason:
        notes.append(of.reason)
    return notes


def _breaks(model: Callable[..., Any], inputs: Any, kwargs: Any) -> Any:
    """Texts, one for each graph break: the reason and the user's line. Looked
    for once: each look takes one of the few places that Dynamo has for what it
    compiles of a function."""
    model = getattr(model, "_orig_mod", model)
    args = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    try:
        key = (
            getattr(model, "training", None),
            *kwargs,
            *[exported_module.look_of(leaf) or repr(leaf) for leaf in tree_leaves((args, kwargs))],
        )
        known = _known_breaks.setdefault(model, {})
    except Exception:  # it cannot be remembered
        return _breaks_of(model, args, kwargs)
    if key not in known:
        known[key] = _breaks_of(model, args, kwargs)
    return known[key]


def _breaks_of(model: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    config = torch._dynamo.config
    limit = (
        "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    )  # as in 2.6
    try:
        # Dynamo would forget all that the program has compiled with it.
        with (
            mock.patch.object(torch._dynamo, "reset", lambda: None),
            config.patch({limit: LOOKS_MAX}),
        ):
            found = torch._dynamo.explain(model)(*args, **kwargs)
    except Exception as error:
        return [f"the model cannot be traced: {type(error).__name__}: {error}"]
    texts = [_break_text(break_reason) for break_reason in found.break_reasons]
    return texts if found.graph_count or texts else [_nothing_captured(model)]


def _nothing_captured(model: Callable[..., Any]) -> str:
    recurrent = [
        type(part).__name__
        for part in getattr(model, "modules", tuple)()
        if isinstance(part, torch.nn.RNNBase)
    ]
    if not recurrent:
        return "Dynamo captures nothing of the model"
    return (
        f"Dynamo captures nothing of a model with {recurrent[0]}, unless "
        "torch._dynamo.config.allow_rnn is set; weft.optimize takes it"
    )


def _break_text(found: Any) -> Any:
    lines = str(found.reason).strip().splitlines()
    # The innermost line that is not PyTorch's own.
    inner = os.path.dirname(torch.__file__) + os.sep
    stack = [
        frame
        for frame in getattr(found, "user_stack", None) or []
        if not frame.filename.startswith(inner)
    ]
    where = f"{stack[-1].filename}:{stack[-1].lineno}: " if stack else ""
    return where + (lines[0] if lines else "unknown")
