"""Which kernels compute a call of a module that weft.optimize() made, if any."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
import weakref
from typing import Any

import torch

from weft.backend.entry.compiled_graph import ANY, CompiledGraph
from weft.backend.entry.notebook import Shown
from weft.backend.graphs import (
    call_structure,
    exported_module as captures,
    module_guards,
    special_calls,
    symbolic_graph,
)
from weft.backend.graphs.call_guards import CallGuards
from weft.backend.graphs.call_structure import Flattened
from weft.backend.graphs.exported_module import Captured
from weft.backend.graphs.problem_source import Unsupported
from weft.backend.graphs.random_state import (
    random_states,
    set_random_states,
    uses_rng,
)
from weft.backend.graphs.recurring_sizes import RecurringSizes
from weft.backend.graphs.shallow_copy import shallow_copy
from weft.capture.tracer_lock import tracing
from weft.backend.implementations import call_trial, composed_module
from weft.backend.implementations.inductor_fallback import InductorFallback
from weft.backend.options import Options, is_disabled, log, options_from, told
from weft.backend.searches import module_store
from weft.backend.searches.background_verification import rechecks

ENTRIES_MAX = 16
#: Of modules that were returned as they are.
_reports: "weakref.WeakKeyDictionary[Any, list[Report]]" = weakref.WeakKeyDictionary()
OWN = "_weft"


@dataclasses.dataclass
class Report(Shown):
    """The outcome of one call of optimize()."""

    ready: bool  # kernels compute this module's calls with such inputs
    summary: str  # of the search: what is generated, and how fast
    reason: str  # why there are no kernels; "" if there are
    seconds: float
    from_store: bool  # an earlier process had found them
    path: str  # of problem.py, model_new.py and report.md; "" if there are none
    one_size: str = ""  # why they are not for any size, where that was asked for
    call_ratio: float = 0.0  # own time over optimised time of the call; 0: not timed

    def __str__(self) -> str:
        state = "ready" if self.ready else "PyTorch computes it: " + self.reason
        where = f" ({self.path})" if self.path else ""
        sizes = self.one_size and f"; for these sizes alone: {self.one_size}"
        call = f"; {self.call_ratio:.2f}× over eager for this call" if self.call_ratio else ""
        # A search that ends without a module has its summary as the reason.
        summary = "" if self.summary == self.reason else f"; {self.summary}"
        return f"{state}{summary if self.summary else '; no search'}{call}{sizes}{where}"


def has_incumbent(compiled_graph: CompiledGraph) -> bool:
    """True if Inductor's code computes the graph where no kernel does."""
    return isinstance(compiled_graph.framework, InductorFallback)


@dataclasses.dataclass
class Entry:
    """One kind of inputs, and what computes them."""

    captured: Captured
    source: Any
    composed: Any
    summary: str
    reason: str
    from_store: bool
    path: str
    #: It was loaded: what its kernels were judged with is not known here.
    needs_verdict: bool = False
    call_ratio: float = 0.0
    #: False: Inductor's code computes, since no generated kernel was faster.
    is_generated: bool = True

    def use_incumbent(self, compiled_graph: CompiledGraph) -> None:
        """Takes Inductor's code, if the compiled graph has it, instead of
        kernels."""
        if has_incumbent(compiled_graph):
            self.composed, self.is_generated = compiled_graph, False
            self.reason = f"Inductor's code computes calls; {self.reason}"

    def settle(self, _: str, reason: str) -> None:
        """By a full verdict that withdraws its kernels."""
        self.reason = reason

    def refuse(self, reason: str) -> None:
        """Calls stay the module's own."""
        self.reason, self.composed = reason, None

    def report(self, seconds: float = 0.0) -> Report:
        return Report(
            ready=self.composed is not None and self.is_generated,
            summary=self.summary,
            reason=self.reason,
            seconds=round(seconds, 1),
            from_store=self.from_store,
            path=self.path,
            one_size=self.captured.one_size,
            call_ratio=round(self.call_ratio, 3),
        )

    def have_judged(self, options: Options | None) -> None:
        """The full verdict on what a file brought, in the background; once.
        Raises nothing."""
        self.needs_verdict = False
        try:
            rechecks.begin(self, self.composed, options or options_from({}))
        except Exception as error:  # no thread, no memory
            log.info("a loaded module is not judged: %s", error)

    def __getstate__(self) -> dict[str, Any]:
        """With the texts of its files: they are built again where it is
        loaded."""
        state = dict(vars(self))
        state["composed"] = None
        state["files"] = module_store.texts_of(self.path)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("files")
        self.__dict__.update(state)
        try:
            self.path = module_store.keep_files(files)
            self.composed = composed_module.ComposedModule(self.source, self.path)
            self.needs_verdict = True
        except Exception as error:
            self.reason = told(error)
            log.warning("a saved module's kernels cannot be built here: %s", self.reason)


class Pending:
    """One kind of inputs whose search is not over."""

    def __init__(self, guards: CallGuards, compiled_graph: CompiledGraph) -> None:
        self.guards = guards
        self.composed = compiled_graph  # what is called when the search is over
        self.kernels = list(compiled_graph.kernels.values())[-1]

    def has_incumbent(self) -> bool:
        return has_incumbent(self.composed)

    def entry(self) -> Entry:
        kernels, captured = self.kernels, self.guards.captured
        if kernels.source is None or not kernels.source.any_size:
            for argument in captured.arguments:
                argument.grows = ()
            if ANY in self.composed.kernels:
                captured.one_size = self.composed.kernels[ANY].reason
        return Entry(
            captured,
            kernels.source,
            kernels.composed,
            kernels.summary,
            kernels.reason,
            kernels.from_store,
            kernels.path,
        )


@torch.no_grad()
def begin_search(
    module: torch.nn.Module, call: Flattened, options: Options, places: list[Any]
) -> tuple[Pending, list[Any]]:
    """(what was captured, whose search is under way; the graph's arguments of this
    call). Unsupported says why there is none."""
    begun_s = time.monotonic()  # the capture counts
    tensors = [leaf for leaf in call.leaves if isinstance(leaf, torch.Tensor)]
    states = random_states(tensors)
    with tracing:
        guards, arguments, graph, sizes = _captured(module, call, places)
    if uses_rng(graph):
        set_random_states(states)  # forward() may have seeded the generators
    state = {
        i: "parameter" if one.kind == "parameter" else one.name
        for i, one in enumerate(guards.captured.arguments)
        if one.kind in ("parameter", "buffer")
    }
    compiled_graph = CompiledGraph(graph, options, "optimize", state, sizes)
    compiled_graph.begun_s = begun_s
    arguments = [
        argument.detach() if isinstance(argument, torch.Tensor) else argument
        for argument in arguments
    ]
    compiled_graph.begin(arguments)
    return Pending(guards, compiled_graph), arguments


def _captured(
    module: torch.nn.Module, call: Flattened, places: list[Any]
) -> tuple[CallGuards, list[Any], torch.fx.GraphModule, Any]:
    """(the guards, the graph's arguments of this call, the graph, what it is at other
    sizes or None)"""
    plain = plain_copy(module)
    records = module_guards.records_of(module, type(plain))
    captured, graph = captures.capture(plain, call, records)
    guards = CallGuards(captured, module)
    arguments, _ = guards.arguments_of(call.leaves)
    if arguments is None or not guards.modules_fit():
        raise Unsupported(
            "the call changes the module itself, or writes to an "
            "argument that shares its memory with another"
        )
    sizes = None
    try:
        if places:
            sizes = captures.capture_sizes(plain, call, captured, places)
    except Unsupported as error:
        captured.one_size = str(error)
    return guards, arguments, graph, sizes


class Dispatch:
    """Which entry computes a call, of one module."""

    _lock = threading.Lock()  # one for all modules: it is held for a moment

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.reports: list[Report] = []
        self.calls = 0
        self.declined = 0
        self.reason = ""
        self.options: Options | None = None  # of what is learned in the background
        #: (module, entries, (guards, its entry) of each with kernels): one
        #: object, since others add entries while a call goes through them.
        self._bound: tuple[Any, Any, list[tuple[CallGuards, Entry]]] = (None, None, [])
        #: Kinds of inputs without an entry yet: one search at a time is under
        #: way, the others are over and wait for a call with their own inputs.
        self._pending: tuple[Pending, ...] = ()
        self._seen: set[Any] = set()  # kinds of inputs that were begun, in either way
        self._recurring = RecurringSizes()

    def begin(self, kind: Any) -> None:
        """No call with such inputs begins a search any more."""
        self._seen.add(kind)

    def add(self, entry: Entry) -> None:
        with self._lock:
            self.entries = (self.entries + [entry])[-ENTRIES_MAX:]

    def __getstate__(self) -> dict[str, Any]:
        # Inductor's code is not in a file.
        return {
            "entries": [entry for entry in self.entries if entry.is_generated],
            "reports": self.reports,
            "options": self.options,
            "_seen": set(self._seen),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Dispatch":
        """Kernels are shared: they have no tensors of their own."""
        dispatch = Dispatch()
        dispatch.entries, dispatch.reports = list(self.entries), list(self.reports)
        dispatch.options, dispatch._seen = self.options, set(self._seen)
        return dispatch

    def compute(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any, list[tuple[Entry, Exception]]]:
        """(whether an entry computed it, the result, [(entry, error) of each that
        failed]). Errors of weft are not raised: explain() reports them, and the call is
        the module's own."""
        failed: list[tuple[Entry, Exception]] = []
        try:
            if is_special():
                return False, None, failed
            bounds = self.bounds(module)
        except Exception as error:
            self.reason = f"calls cannot be looked at: {told(error)}"
            return False, None, failed
        for guards, entry in bounds:
            try:
                done, result = _compute(guards, entry.composed, args, kwargs)
            except composed_module.GuardFailed:
                done = False
            except Exception as error:
                failed.append((entry, error))
                done = False
            if done:
                self.calls += 1
                if entry.needs_verdict and entry.is_generated:
                    entry.have_judged(self.options)
                return True, result, failed
        self.declined += 1
        return *self._compute_other(module, args, kwargs), failed

    def _compute_other(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """The same for inputs that no entry knows: those of a search that is
        over are tried, and new ones begun. Errors are not raised: explain() reports
        them, and the call is the module's own."""
        try:
            for pending in self._pending:
                done, result = self._compute_pending(module, pending, args, kwargs)
                if done:
                    return True, result
            return self._begin_other(module, args, kwargs)
        except Exception as error:
            self.reason = f"other inputs cannot have kernels: {told(error)}"
            log.info("%s", self.reason)
            return False, None

    def _compute_pending(
        self,
        module: torch.nn.Module,
        pending: Pending,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[bool, Any]:
        state = pending.kernels.state
        if state == "searching":
            return False, None
        if state == "pytorch" and not pending.has_incumbent():
            self._settle(module, pending, None)
            return False, None
        call = call_structure.flatten((args, kwargs))  # forward() may change objects
        # The graph compares the kernels' results with its own, or begins a search that
        # the parent process had under way.
        done, result = _compute(pending.guards, pending.composed, args, kwargs)
        if done and pending.kernels.state in ("ready", "pytorch"):
            self._settle(module, pending, call)
        return done, result

    def _settle(self, module: torch.nn.Module, pending: Pending, call: Flattened | None) -> None:
        with self._lock:
            if pending not in self._pending:
                return  # another thread was as quick
            self._pending = tuple(one for one in self._pending if one is not pending)
        entry = pending.entry()
        if call is not None:
            if entry.composed is None:
                entry.use_incumbent(pending.composed)
            assert self.options is not None  # something was begun by them
            try_call(module, entry, pending, call, self.options)
        self.reports.append(entry.report())
        if entry.composed is not None:
            self.add(entry)

    def _begin_other(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        if not self._may_begin() or not tracing.acquire(blocking=False):
            return False, None  # a later call begins it
        kind = None
        try:
            call = call_structure.flatten((args, kwargs))
            kind = kind_of(call)
            places = symbolic_graph.marked_places(call.leaves)
            if not self._may_begin() or not self._is_worth_more(module, call, kind, bool(places)):
                return False, None
            assert self.options is not None  # by _may_begin()
            pending, arguments = begin_search(module, call, self.options, places)
            with self._lock:
                self._pending += (pending,)
        except KeyboardInterrupt:
            self._seen.discard(kind)  # a later call begins it
            raise
        finally:
            tracing.release()
        with torch.no_grad():
            results = pending.composed(arguments)
        return True, _finish(pending.guards, results, call.leaves, call.objects)

    def _may_begin(self) -> bool:
        """True if another kind of inputs is allowed, and no search is under way."""
        return (
            self.options is not None
            and len(self._seen) < self.options.shapes_max
            and not any(pending.kernels.state == "searching" for pending in self._pending)
        )

    def _is_worth_more(
        self, module: torch.nn.Module, call: Flattened, kind: Any, is_marked: bool
    ) -> bool:
        """Whether these inputs are of another kind than all before, come again, and
        all else is as it was."""
        bounds = self.bounds(module)
        if (
            not bounds
            or kind in self._seen
            or (
                torch.is_grad_enabled()
                and any(
                    one.requires_grad
                    for one in (*call.leaves, *module.parameters())
                    if isinstance(one, torch.Tensor)
                )
            )
        ):
            return False
        if not all(guards.modules_fit() for guards, _ in bounds):
            return False
        if not self._recurring.recurs(kind) and not is_marked:
            return False  # as of a key-value cache that grows
        self._seen.add(kind)
        return True

    def bounds(self, module: torch.nn.Module) -> list[tuple[CallGuards, Entry]]:
        of, entries, bounds = self._bound
        if of is not module or entries is not self.entries:
            entries = self.entries  # a list of its own at every change
            bounds = [
                (CallGuards(entry.captured, module), entry)
                for entry in entries
                if entry.composed is not None
            ]
            self._bound = (module, entries, bounds)
        return bounds

    def drop(self, entry: Entry, error: Exception) -> None:
        """No call is this entry's any more."""
        self.reason = (
            str(error)
            if isinstance(error, composed_module.Revoked)
            else f"a call failed with {told(error)}"
        )
        log.warning("%s; the module's own forward() takes over", self.reason)
        with self._lock:
            self.entries = [one for one in self.entries if one is not entry]


def _renew_lock() -> None:
    """In a child process, which has no thread that would release it."""
    Dispatch._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def kind_of(call: Flattened) -> Any:
    """A key that calls with inputs of one kind have in common."""
    return (
        call.structure.spec.num_leaves,
        captures.same_as(call.leaves),
        *(
            captures.look_of(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf)
            for leaf in call.leaves
        ),
    )


def _compute(
    guards: CallGuards, composed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, Any]:
    """(whether the guards hold, the result of forward())"""
    captured = guards.captured
    leaves: list[Any]
    objects: list[Any] = []
    if captured.is_flat:
        if kwargs or len(args) != len(captured.same):
            return False, None
        leaves = list(args)
    else:
        found = guards.matcher.match((args, kwargs))
        if found is None:
            return False, None
        leaves, objects = found
    if not guards.leaves_fit(leaves) or not guards.modules_fit():
        return False, None
    arguments, wants_gradient = guards.arguments_of(leaves)
    if arguments is None or (wants_gradient and torch.is_grad_enabled()):
        return False, None
    return True, _finish(guards, composed(arguments), leaves, objects)


def _finish(guards: CallGuards, results: list[Any], leaves: list[Any], objects: list[Any]) -> Any:
    """Writes what forward() writes; the result as forward() gives it."""
    captured = guards.captured
    if captured.is_one_result and len(results) == 1:
        return results[0]
    outputs = []
    with torch.no_grad():
        for (kind, place), value in zip(captured.results, results):
            if kind == "output":
                outputs.append(value)
            elif kind == "buffer":
                guards.modules[place[0]]._buffers[place[1]].copy_(value)
            else:
                leaves[place].copy_(value)
    for leaf, value in sorted(captured.result_constants.items()):
        outputs.insert(leaf, value)
    result, states = call_structure.restore(captured.result, outputs, objects)
    for number, state in zip(captured.changed_objects, states):
        attributes = vars(objects[number])
        attributes.clear()
        attributes.update(state)
    return result


def is_special() -> bool:
    """Whether this call is the module's own."""
    return is_disabled() or special_calls.is_special()


def try_call(
    module: torch.nn.Module, entry: Entry, pending: Pending, call: Flattened, options: Options
) -> None:
    """Refuses the entry if the user's call is not faster by it, or is another call
    than the module's own. Raises nothing."""
    if entry.composed is None:
        return
    try:
        own = plain_copy(module)
        probe = shallow_copy(module, type(module))
        probe.__dict__[OWN] = dispatch = Dispatch()
        dispatch.add(entry)
        written = [
            pending.guards.written_tensor(kind, place, call.leaves)
            for kind, place in entry.captured.results
            if kind != "output"
        ]
        of = call_trial.Trial(
            own.forward, probe.forward, call, written, uses_rng(pending.composed.graph_module)
        )
        reason, speed = call_trial.refusal(of, options.trial_s)
        entry.call_ratio = speed.ratio
    except Exception as error:  # says nothing of the kernels
        log.info("the optimised call was not tried: %s", told(error))
        return
    if reason:
        entry.refuse(reason)


def plain_copy(module: torch.nn.Module) -> torch.nn.Module:
    """A shallow copy with its own forward(), for the capture and the trial."""
    kind = type(module).__mro__[2] if dispatch_of(module) else type(module)
    made = shallow_copy(module, kind)
    made.__dict__.pop(OWN, None)
    return made


def note_report(module: torch.nn.Module, report: Report) -> None:
    """For explain(), of a module that was returned as it is."""
    with contextlib.suppress(TypeError):  # it takes no weak reference
        _reports.setdefault(module, []).append(report)


def reports_of(module: object) -> list[Report]:
    """The reports on a module, optimised or not."""
    of = dispatch_of(module) if isinstance(module, torch.nn.Module) else None
    if of is not None:
        return of.reports
    try:
        return _reports.get(module, [])
    except TypeError:
        return []


def dispatch_of(module: torch.nn.Module) -> Dispatch | None:
    found = module.__dict__.get(OWN)
    return found if isinstance(found, Dispatch) else None
