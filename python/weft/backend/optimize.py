"""`weft.optimize(module, inputs)`: a module with verified kernels, without
Dynamo. What it may be called with is looked at by guards of our own.
"""

import dataclasses
import os
import threading
import time

import torch
from torch.utils import _pytree as pytree

from weft.backend import (
    any_batch,
    captured as captures,
    composed_module,
    parts,
    store,
    twin,
)
from weft.backend.graph_source import Unsupported
from weft.backend.options import is_disabled, log, options_from
from weft.backend.piece import (
    ANY,
    Piece,
    graph_draws,
    random_states,
    set_random_states,
)
from weft.backend.recheck import rechecks
from weft.backend.tracing import tracing
from weft.backend.watch import Watch

ENTRIES_MAX = 16
#: Hooks of every module. (torch 2.6 has no function that looks at them all.)
_HOOKS_OF_ALL = ("_global_forward_hooks", "_global_forward_pre_hooks",
                 "_global_backward_hooks", "_global_backward_pre_hooks")


@dataclasses.dataclass
class Report:
    """What became of one call of optimize()."""

    ready: bool  # kernels compute this module's calls with such inputs
    summary: str  # of the search: what is ours, and how fast
    reason: str  # why there are no kernels; "" if there are
    seconds: float
    from_store: bool  # an earlier process had found them
    path: str  # of problem.py, model_new.py and report.md; "" if there are none
    one_size: str = ""  # why they are not for any size, where that was asked for

    def __str__(self):
        state = "ready" if self.ready else "the framework's: " + self.reason
        where = f" ({self.path})" if self.path else ""
        sizes = self.one_size and f"; for these sizes alone: {self.one_size}"
        return f"{state}; {self.summary or 'no search'}{sizes}{where}"


def optimize(module, inputs, target="auto", budget_s=300.0, *, kwargs=None,
             variants=0, cache=True, shapes_max=4, dynamic_batch=False,
             dynamic_dim=None, seeds="auto", replay_mb=0):
    """(module, Report). The module returned is of the class of `module`, and
    has the very same parameters, buffers and parts; its forward() takes the
    kernels for inputs of the shapes, strides, dtypes and devices of `inputs`
    (forward()'s arguments) without gradients, while the model's parts, modes and
    settings are what they are now, and is the module's own else. Given a module
    that optimize() has made, it learns these inputs, too.

    Inputs of other shapes, strides or dtypes that it is called with get kernels
    of their own: captured at their first call, searched for in the background,
    and so for `shapes_max` kinds of inputs at most, these ones included.

    With dynamic_batch there is one search for kernels of any batch: the first
    dimension of the first tensor, and of each that has it as its first. With
    dynamic_dim=1 (a sequence, say), or where torch._dynamo.mark_dynamic(x, 1) was
    said of an input, it is another dimension; with dynamic_dim=(0, 1), or two
    that are marked, kernels are for any two sizes. Where that cannot be, they are
    for these sizes, and the report says why.

    On a GPU, calls by kernels are one CUDA graph's, where that is faster and such
    graphs keep no more than replay_mb MiB of its memory.

    Blocks until the search is over. Nothing that goes wrong here is raised but
    wrong arguments; the report says it."""
    module = getattr(module, "_orig_mod", module)
    if not isinstance(module, torch.nn.Module):
        raise TypeError("weft.optimize takes a torch.nn.Module, and got a "
                        f"{type(module).__name__}")
    options = options_from({"budget_s": budget_s, "target": target,
                            "variants": variants, "cache": cache,
                            "shapes_max": shapes_max, "seeds": seeds,
                            "replay_mb": replay_mb, "wait": True})
    args = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    if unfit := _unfit(module):
        return module, Report(False, "", unfit, 0.0, False, "")
    made = module if _dispatch_of(module) else _optimized(module)
    kwargs = captures.in_order(module.forward, dict(kwargs or {}))
    places = any_batch.asked_places(dynamic_batch, dynamic_dim)
    return made, _learn(made, args, kwargs, options,
                        places or any_batch.marked_places(args, kwargs))


def _unfit(module):
    """Why no other object can stand for the module, if none can."""
    if isinstance(module, torch.jit.ScriptModule):
        return "it is a module of TorchScript"
    if any(map(torch.nn.parameter.is_lazy, (
            *module.parameters(), *module.buffers()))):
        return ("it has parameters that are not made yet: call it once before "
                "weft.optimize")
    return ""


def _learn(module, args, kwargs, options, places):
    begin, entry, reason = time.monotonic(), None, ""
    dispatch = _dispatch_of(module)
    dispatch.begin(_kind_of(args, kwargs))
    try:
        if is_disabled():
            raise Unsupported("WEFT_DISABLE is set")
        if _is_special():
            raise Unsupported("it was called under autocast, a trace, a mode that "
                              "changes operators, or hooks of all modules")
        entry = _search(module, args, kwargs, options, places)
    except Unsupported as error:
        reason = str(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    dispatch.options = dataclasses.replace(options, wait=False)
    if entry is not None and entry.composed is not None:
        dispatch.add(entry)
    report = _report_of(entry, reason, time.monotonic() - begin)
    dispatch.reports.append(report)
    log.info("optimize: %s", report)
    return report


def _report_of(entry, reason="", seconds=0.0):
    return Report(
        ready=entry is not None and entry.composed is not None,
        summary=entry.summary if entry else "",
        reason=entry.reason if entry else reason,
        seconds=round(seconds, 1),
        from_store=bool(entry and entry.from_store),
        path=entry.path if entry else "",
        one_size=entry.captured.one_size if entry else "")


def _search(module, args, kwargs, options, places):
    """The _Entry of a search that is over."""
    pending, arguments = _begin(module, args, kwargs, options, places)
    piece = pending.composed
    states = random_states(arguments) if piece.draws else None
    with torch.no_grad():
        piece(arguments)  # its look at the kernels' results
    if states:
        set_random_states(states)
    return pending.entry()


@torch.no_grad()
def _begin(module, args, kwargs, options, places):
    """(_Pending, arguments): what was captured, whose search is under way, and
    the arguments of the graph of this call."""
    with tracing:
        captured, bound, arguments, graph, sizes = _captured(
            module, args, kwargs, places)
    state = {i: "parameter" if one.kind == "parameter" else one.name
             for i, one in enumerate(captured.arguments)
             if one.kind in ("parameter", "buffer")}
    piece = Piece(graph, options, "optimize", state, sizes)
    arguments = [one.detach() if isinstance(one, torch.Tensor) else one
                 for one in arguments]
    piece.begin(arguments)
    return _Pending(captured, bound, piece), arguments


def _captured(module, args, kwargs, places):
    """(Captured, Bound, the graph's arguments of this call, the graph, what it is
    at other sizes or None); Unsupported says why not. Leaves nothing of what
    forward() changes but tensors."""
    plain = _plain(module)
    its_parts = parts.parts_of(module)
    its_parts[0].kind = type(plain)  # which others know, too
    watch = Watch(module, its_parts)
    watched = twin.Watched(plain, module, watch)
    try:
        captured, graph = captures.capture(plain, args, kwargs, its_parts)
    except Unsupported:
        watched.check()  # it knows better why
        raise
    watched.check()
    if graph_draws(graph):
        watch.check_draws()
    captured.surroundings = watch.surroundings()
    bound = captures.Bound(captured, module)
    arguments, _ = bound.gathered(pytree.tree_leaves((args, kwargs)))
    if arguments is None or not bound.parts_fit():
        raise Unsupported("the call changes the module itself, or writes to an "
                          "argument that shares its memory with another")
    if watch.asks_of_gradients():
        captured.wants = captures.wants_of(arguments)
    sizes = None
    try:
        if places:
            sizes = captures.capture_sizes(plain, args, kwargs, captured, places)
            watched.check()
    except Unsupported as error:
        captured.one_size = str(error)
    return captured, bound, arguments, graph, sizes


class _Pending:
    """One kind of inputs whose search is not over."""

    def __init__(self, captured, bound, piece):
        self.captured = captured
        self.bound = bound
        self.composed = piece  # what is called when the search is over
        self.kernels = list(piece.kernels.values())[-1]

    def entry(self):
        kernels = self.kernels
        if kernels.source is None or not kernels.source.any_size:
            for one in self.captured.arguments:
                one.grows = ()
            if ANY in self.composed.kernels:
                self.captured.one_size = self.composed.kernels[ANY].reason
        return _Entry(self.captured, kernels.source, kernels.composed,
                      kernels.summary, kernels.reason, kernels.from_store,
                      kernels.path)


@dataclasses.dataclass
class _Entry:
    """One kind of inputs, and what computes them."""

    captured: object
    source: object
    composed: object
    summary: str
    reason: str
    from_store: bool
    path: str
    #: It was loaded: what its kernels were judged with is not known here.
    needs_verdict: bool = False

    def settle(self, _, reason):
        """By a full verdict that withdraws its kernels."""
        self.reason = reason

    def have_judged(self, options):
        """The full verdict on what a file brought, in the background; once.
        Raises nothing."""
        self.needs_verdict = False
        try:
            rechecks.begin(self, self.composed, options or options_from({}))
        except Exception as error:  # no thread, no memory
            log.info("a loaded module is not judged: %s", error)

    def __getstate__(self):
        """With the texts of its files: they are built again where it is
        loaded."""
        state = dict(vars(self))
        state["composed"] = None
        state["files"] = store.texts_of(self.path)
        return state

    def __setstate__(self, state):
        files = state.pop("files")
        self.__dict__.update(state)
        try:
            self.path = store.keep_files(files)
            self.composed = composed_module.ComposedModule(
                self.source, self.path)
            self.needs_verdict = True
        except Exception as error:
            self.reason = f"{type(error).__name__}: {error}"
            log.warning("a saved module's kernels cannot be built here: %s",
                        self.reason)


class _Dispatch:
    """Which entry computes a call, of one module."""

    _lock = threading.Lock()  # one for all modules: it is held for a moment

    def __init__(self):
        self.entries = []
        self.reports = []
        self.calls = 0
        self.declined = 0
        self.reason = ""
        self.options = None  # of what is learned in the background
        #: (module, entries, (a Bound, its entry) of each with kernels): one
        #: object, since others add entries while a call goes through them.
        self._bound = (None, None, [])
        #: Kinds of inputs without an entry yet: one search at a time is under
        #: way, the others are over and wait for a call with their own inputs.
        self._pending = ()
        self._seen = set()  # kinds of inputs that were begun, in either way

    def begin(self, kind):
        """No call with such inputs begins a search any more."""
        self._seen.add(kind)

    def add(self, entry):
        with self._lock:
            self.entries = (self.entries + [entry])[-ENTRIES_MAX:]

    def __getstate__(self):
        return {"entries": self.entries, "reports": self.reports,
                "options": self.options, "_seen": set(self._seen)}

    def __setstate__(self, state):
        self.__init__()
        self.__dict__.update(state)

    def __deepcopy__(self, memo):
        """Kernels are shared: they have no tensors of their own."""
        twin = _Dispatch()
        twin.entries, twin.reports = list(self.entries), list(self.reports)
        twin.options, twin._seen = self.options, set(self._seen)
        return twin

    def compute(self, module, args, kwargs):
        """(whether an entry computed it, the result, [(entry, error) of each that
        failed]). Nothing of ours is raised: what goes wrong is told by explain(),
        and the call is the module's own."""
        failed = []
        try:
            if _is_special():
                return False, None, failed
            bounds = self._bounds(module)
        except Exception as error:
            self.reason = ("calls cannot be looked at: "
                           f"{type(error).__name__}: {error}")
            return False, None, failed
        for bound, entry in bounds:
            try:
                done, result = _compute(bound, entry, args, kwargs)
            except composed_module.Declined:
                done = False
            except Exception as error:
                failed.append((entry, error))
                done = False
            if done:
                self.calls += 1
                if entry.needs_verdict:
                    entry.have_judged(self.options)
                return True, result, failed
        self.declined += 1
        return *self._compute_other(module, args, kwargs), failed

    def _compute_other(self, module, args, kwargs):
        """The same for inputs that no entry knows: those of a search that is
        over are tried, and new ones begun. What goes wrong is told by
        explain(), and the call is the module's own."""
        try:
            for pending in self._pending:
                done, result = self._compute_pending(pending, args, kwargs)
                if done:
                    return True, result
            return self._begin_other(module, args, kwargs)
        except Exception as error:
            self.reason = ("other inputs cannot have kernels: "
                           f"{type(error).__name__}: {error}")
            log.info("%s", self.reason)
            return False, None

    def _compute_pending(self, pending, args, kwargs):
        state = pending.kernels.state
        if state == "searching":
            return False, None
        done, result = False, None
        # The piece looks at the kernels' results beside its own, or begins a
        # search that was the parent process's.
        if state in ("loaded", "forked"):
            done, result = _compute(pending.bound, pending, args, kwargs)
            state = pending.kernels.state
        if state in ("ready", "framework"):
            self._settle(pending)
        return done, result

    def _settle(self, pending):
        with self._lock:
            if pending not in self._pending:
                return  # another thread was as quick
            self._pending = tuple(
                one for one in self._pending if one is not pending)
        entry = pending.entry()
        self.reports.append(_report_of(entry))
        if entry.composed is not None:
            self.add(entry)

    def _begin_other(self, module, args, kwargs):
        if self._is_searching() or not tracing.acquire(blocking=False):
            return False, None  # a later call begins it
        try:
            if self._is_searching() or not self._is_worth_more(
                    module, args, kwargs):
                return False, None
            pending, arguments = _begin(module, args, kwargs, self.options,
                                        any_batch.marked_places(args, kwargs))
            with self._lock:
                self._pending += (pending,)
        except KeyboardInterrupt:
            self._seen.discard(_kind_of(args, kwargs))  # a later call begins it
            raise
        finally:
            tracing.release()
        leaves = pytree.tree_leaves((args, kwargs))
        with torch.no_grad():
            results = pending.composed(arguments)
        return True, _finish(pending.bound, results, leaves)

    def _is_searching(self):
        return any(pending.kernels.state == "searching"
                   for pending in self._pending)

    def _is_worth_more(self, module, args, kwargs):
        """Whether these inputs are of another kind than all before, where
        another kind is still allowed, and all else is as it was."""
        bounds = self._bounds(module)
        if (self.options is None or not bounds
                or len(self._seen) >= self.options.shapes_max):
            return False
        leaves = pytree.tree_leaves((args, kwargs))
        if torch.is_grad_enabled() and any(
                one.requires_grad for one in (*leaves, *module.parameters())
                if isinstance(one, torch.Tensor)):
            return False
        kind = _kind_of(args, kwargs)
        if kind in self._seen or not all(
                bound.parts_fit() for bound, _ in bounds):
            return False
        self._seen.add(kind)
        return True

    def _bounds(self, module):
        of, entries, bounds = self._bound
        if of is not module or entries is not self.entries:
            entries = self.entries  # a list of its own at every change
            bounds = [(captures.Bound(entry.captured, module), entry)
                      for entry in entries if entry.composed is not None]
            self._bound = (module, entries, bounds)
        return bounds

    def drop(self, entry, error):
        """No call is this entry's any more."""
        self.reason = (
            str(error) if isinstance(error, composed_module.Withdrawn) else
            f"a call failed with {type(error).__name__}: {error}")
        log.warning("%s; the module's own forward() takes over", self.reason)
        with self._lock:
            self.entries = [one for one in self.entries if one is not entry]


def _renew_lock():
    """In a child process, which has no thread that would release it."""
    _Dispatch._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _kind_of(args, kwargs):
    """What makes two calls' inputs of one kind."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    return (str(structure), captures.same_as(leaves), *(
        captures.look_of(leaf) if isinstance(leaf, torch.Tensor)
        else repr(leaf) for leaf in leaves))


def _compute(bound, entry, args, kwargs):
    captured = bound.captured
    if captured.is_flat:
        if kwargs or len(args) != captured.structure.num_leaves:
            return False, None
        leaves = args
    else:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if structure != captured.structure or any(
                not parts.is_equal(leaves[i], value)
                for i, value in captured.numbers.items()):
            return False, None
    if not bound.parts_fit() or not bound.are_the_same(leaves):
        return False, None
    arguments, wants_gradient = bound.gathered(leaves)
    if arguments is None or (torch.is_grad_enabled() and (
            wants_gradient or captured.wants is not None)):
        return False, None
    results = entry.composed(arguments)
    return True, _finish(bound, results, leaves)


@torch.no_grad()
def _finish(bound, results, leaves):
    """Writes what forward() writes; the result as forward() gives it."""
    outputs = []
    for (kind, place), value in zip(bound.captured.results, results):
        if kind == "output":
            outputs.append(value)
        elif kind == "buffer":
            bound.modules[place[0]]._buffers[place[1]].copy_(value)
        else:
            leaves[place].copy_(value)
    if bound.captured.result.is_leaf():
        return outputs[0]
    return pytree.tree_unflatten(outputs, bound.captured.result)


def _is_special():
    """Whether this call is watched, traced, or under a mode that changes what
    operators do: then it is the module's own."""
    return (is_disabled()
            or torch.is_autocast_enabled("cpu")
            or torch.is_autocast_enabled("cuda")
            or torch.compiler.is_compiling()
            or torch.jit.is_tracing()
            or torch._C._len_torch_dispatch_stack() > 0
            or torch._C._len_torch_function_stack() > 0
            or torch._C._functorch.peek_interpreter_stack() is not None
            or any(getattr(torch.nn.modules.module, name)
                   for name in _HOOKS_OF_ALL))


class _WithKernels:
    """What is put before a module's own class."""

    def forward(self, *args, **kwargs):
        dispatch = self.__dict__.get("_weft")
        if dispatch is not None:
            if len(kwargs) > 1:
                kwargs = captures.in_order(super().forward, kwargs)
            done, result, failed = dispatch.compute(self, args, kwargs)
            if done:
                return result
            # It raises, too, where the call was wrong: an index outside.
            result = super().forward(*args, **kwargs)
            for entry, error in failed:
                dispatch.drop(entry, error)
            return result
        return super().forward(*args, **kwargs)

    def __reduce_ex__(self, protocol):
        return _again, (type(self).__mro__[2],), self.__getstate__()

    def __getstate__(self):
        above = getattr(super(), "__getstate__", None)
        state = above() if above else None
        return state if isinstance(state, dict) else self.__dict__.copy()


_classes = {}


def _class_of(base):
    if base not in _classes:
        _classes[base] = type(base.__name__, (_WithKernels, base), {
            "__module__": base.__module__, "__qualname__": base.__qualname__,
            "__doc__": base.__doc__})
    return _classes[base]


def _again(base):
    """An object of that class without its state, for pickle and copy."""
    return object.__new__(_class_of(base))


def _optimized(module):
    """Another object with the same state: tensors, parts and settings."""
    made = _again(type(module))
    made.__dict__.update(module.__dict__)
    made.__dict__["_weft"] = _Dispatch()
    return made


def _plain(module):
    """The same module with its own forward(), which nobody else calls."""
    made = twin.twin_of(module, type(module).__mro__[2])
    del made.__dict__["_weft"]
    return made


def _dispatch_of(module):
    found = module.__dict__.get("_weft")
    return found if isinstance(found, _Dispatch) else None


def is_optimized(module):
    """Whether optimize() made it, or a part of it. What torch.compile gave has its
    kernels outside the module."""
    return (isinstance(module, torch.nn.Module)
            and not hasattr(module, "_orig_mod")
            and any(_dispatch_of(part) for part in module.modules()))
