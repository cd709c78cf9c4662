"""A captured graph in the user's process. The fallback computes it until verified
kernels are ready, and whenever kernels are not available.

No exception of weft leaves a call: weft.explain() reports failures, and the call
returns the fallback's results.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from weft.backend.graphs import symbolic_graph
from weft.backend.graphs.problem_source import Unsupported, refuse_nested, source_of
from weft.backend.graphs.random_state import (
    random_states,
    set_random_states,
    uses_rng,
)
from weft.backend.graphs.recurring_sizes import RecurringSizes
from weft.capture.tracer_lock import traced, tracing
from weft.backend.implementations import (
    composed_module,
    first_result_check,
    select_implementation,
    timing_rounds,
)
from weft.backend.implementations.cuda_graph import Replayed
from weft.backend.implementations.inductor_fallback import InductorFallback
from weft.backend.options import CUDA_GRAPHS, is_disabled, log, told
from weft.backend.searches import own_capture, search
from weft.backend.searches.background_verification import rechecks
from weft.backend.searches.search_queue import Searches
from weft.backend.searches.search_state import Kernels
from weft.problem.problem import internal_error

DECLINED_MAX = 16
#: In the place of sizes: kernels for every batch.
ANY = "any batch"

_compiled_graphs: weakref.WeakSet[CompiledGraph] = weakref.WeakSet()
_number = 0


def all_compiled_graphs() -> list[Any]:
    """Of this process that still can be called, in the order they were made."""
    return sorted(_compiled_graphs, key=lambda compiled_graph: compiled_graph.number)


class CompiledGraph:
    """A flat function on tensors that computes one ATen graph without
    gradients. It is called with the list of its arguments, as AOTAutograd's
    compiled functions are."""

    def __init__(
        self, graph_module: Any, options: Any, role: Any, state: Any = None, batches: Any = None
    ) -> None:
        """role: "inference", "forward" or "backward", for people; state: for
        positions of arguments "parameter" or a buffer's name; batches: of a
        graph that is wanted for any sizes, those that it is for and what
        symbolic_graph.source_for_any() takes."""
        global _number
        self.graph_module = graph_module
        self.options = options
        self.role = role
        self.state = dict(state or {})
        self.kernels: dict[Any, Any] = {}  # sizes, or ANY → Kernels
        self.calls = 0
        self.fallback_reason = ""
        self._lock = threading.Lock()
        self._sizes = _symbolic_positions(graph_module)
        self._other_sizes = RecurringSizes()
        self._batches = batches
        self.draws = uses_rng(graph_module)
        #: time.monotonic() when the budget of the first search began, if not with the
        #: first call: what captured the graph says so.
        self.begun_s: float | None = None
        self._symbolic = symbolic_graph.Symbolic(graph_module) if self._sizes else None
        self.framework = _framework_of(self)
        _number += 1
        self.number = _number
        _compiled_graphs.add(self)

    def __call__(self, arguments: Any) -> Any:
        self.calls += 1
        kernels = self._known(arguments)
        if (
            kernels is None or kernels.state in ("loaded", "forked")
        ) and select_implementation.is_recording(arguments):
            return self.framework(arguments)  # no call to look at anything
        if kernels is None:
            kernels = self._begin(arguments)
        elif kernels.state == "forked":
            self._begin_again(kernels)
        if kernels is None or kernels.state in ("searching", "forked"):
            return self.framework(arguments)
        if kernels.state == "pytorch":
            return self._by_framework(kernels, arguments)
        if kernels.state == "loaded":
            return self._try(kernels, arguments)
        return self.run(kernels, arguments)

    def begin(self, arguments: Sequence[Any]) -> None:
        """Its search for such arguments, which is over where calls wait for it.
        Draws no random number."""
        if self._known(arguments) is None and not select_implementation.is_recording(arguments):
            self._begin(arguments)

    def _key(self, arguments: Sequence[Any]) -> Any:
        """Of the kernels that a call wants: those for every batch, while these
        are not known to be impossible."""
        for_all = self.kernels.get(ANY)
        has_batch = self._batches is not None or (
            self._symbolic is not None and bool(self._symbolic.symbols)
        )
        if has_batch and (for_all is None or not for_all.is_refused):
            return ANY
        return tuple(arguments[i] for i in self._sizes)

    def _known(self, arguments: Sequence[Any]) -> Any:
        return self.kernels.get(self._key(arguments))

    def for_any(self) -> Any:
        """Its kernels for every batch, where the search has found some."""
        kernels = self.kernels.get(ANY)
        is_there = kernels is not None and kernels.state in ("loaded", "ready")
        return kernels if is_there else None

    def run(self, kernels: Any, arguments: Any) -> Any:
        """By the kernels, or by the framework if they fail."""
        composed = kernels.composed
        if composed is None:  # another thread's call has given them up
            return self.framework(arguments)
        try:
            results = composed(arguments)
            kernels.calls += 1
            return results
        except composed_module.GuardFailed as error:
            kernels.declined += 1
            if kernels.declined >= DECLINED_MAX:
                kernels.settle("pytorch", str(error))
        except composed_module.Revoked as error:
            kernels.settle("pytorch", str(error))
        except Exception as error:
            # It raises, too, where the call was wrong: an index outside.
            results = self.framework(arguments)
            kernels.settle("pytorch", f"a call failed with {told(error)}")
            return results
        return self.framework(arguments)

    def _by_framework(self, kernels: Kernels, arguments: Sequence[Any]) -> Any:
        """The results, where there are no kernels."""
        chosen = kernels.framework
        if chosen is None and not select_implementation.is_recording(arguments):
            return self._look_for_replay(kernels, arguments)
        chosen = chosen or self.framework
        try:
            return chosen(arguments)
        except Exception as error:
            if chosen is self.framework:
                raise
            kernels.replay = "not replayed: " + told(error)
            kernels.framework = self.framework
        return self.framework(arguments)

    def _look_for_replay(self, kernels: Kernels, arguments: Sequence[Any]) -> Any:
        """The results, after a look whether a CUDA graph is faster; once."""
        with self._lock:
            is_first = kernels.framework is None
            kernels.framework = self.framework
        expected = self.framework(arguments)  # now all is built
        if (
            is_first
            and self.role != "optimize"
            and not self.has_own_graphs()
            and select_implementation.is_on_gpu(arguments)
        ):
            try:
                kernels.framework, _ = select_implementation.select(self, kernels, None, arguments)
            except Exception as error:
                log.info("a CUDA graph was not tried: %s", told(error))
        return expected

    def is_for_one_size(self) -> bool:
        return not self._sizes and self._batches is None

    def has_own_graphs(self) -> Any:
        """Whether the framework's calls are PyTorch's CUDA graphs, which may write
        a next call's results where these are."""
        return self.options.fallback == "inductor" and self.options.mode in CUDA_GRAPHS

    def _begin(self, arguments: Sequence[Any]) -> Any:
        """The Kernels that this call wants, whose search is begun; None where no
        more sizes get any."""
        if is_disabled():
            return None
        with self._lock:
            key = self._key(arguments)
            if key in self.kernels:
                return self.kernels[key]
            counted = [kernel for kernel in self.kernels.values() if not kernel.is_refused]
            if counted and not self._other_sizes.recurs(key):
                return None  # a length that may never come again
            if len(counted) >= self.options.shapes_max:
                self.fallback_reason = (
                    f"it was called with more than {self.options.shapes_max} "
                    "sizes: raise the option shapes_max"
                )
                return None
            kernels = self.kernels[key] = Kernels()
            kernels.begun_s = self.begun_s or kernels.begun_s
            self.begun_s = None
        refuse = kernels.refuse if key == ANY else lambda reason: kernels.settle("pytorch", reason)
        try:
            with tracing:
                kernels.source = self._source(key, arguments)
        except Unsupported as error:
            refuse(str(error))
        except Exception as error:
            refuse(internal_error(f"the graph could not be written down ({told(error)})"))
        else:
            if not self._adopt(kernels, arguments):
                kernels.graph = own_capture.captured(kernels.source, self.options, arguments)
                self._search(kernels)
        return self._begin(arguments) if kernels.is_refused else kernels

    def _begin_again(self, kernels: Kernels) -> None:
        """Looks for the result of the search that the parent process had under
        way."""
        with self._lock:
            if kernels.state != "forked" or is_disabled():
                return
            kernels.state, kernels.reason = "searching", ""
            kernels.begun_s = time.monotonic()
        self._search(kernels)

    def _search(self, kernels: Kernels) -> None:
        kernels.spent_s = time.monotonic() - kernels.begun_s
        before = _searches.add(self, kernels)
        if not self.options.wait:
            return
        if before:
            log.warning(
                "weft waits for earlier searches of this process: %d; one runs at a time",
                before,
            )
        budget_s = self.options.budget_s + search.late_s(self.options) + search.END_S
        if not kernels.settled.wait(max(0.0, kernels.begun_s + budget_s - time.monotonic())):
            kernels.reason = (
                f"its budget_s of {self.options.budget_s:g} is over, and "
                "the search has not ended: its kernels are taken later"
            )

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        for kernels in self.kernels.values():
            kernels.after_fork()

    def _source(self, key: Any, arguments: Any) -> Any:
        refuse_nested(self.graph_module)
        if key != ANY:
            return source_of(
                _at_these_sizes(self.graph_module, arguments, self._sizes), arguments, self.state
            )
        if self._batches:
            sizes, graphs = self._batches
        else:
            assert self._symbolic is not None  # else no key is ANY
            sizes = self._symbolic.sizes_of(arguments)
            if sizes is None:
                raise Unsupported("no argument is a size that is a symbol")
            graphs = self._symbolic.samples_and(sizes)
        return symbolic_graph.source_for_any(graphs, sizes, arguments, self.state, self._symbolic)

    def _adopt(self, kernels: Any, arguments: Any) -> bool:
        """Takes the kernels of another graph of the same model, which Dynamo
        made for every size but 1, where this one is that for 1 alone."""
        if self._sizes or self._batches is not None:
            return False
        for other in all_compiled_graphs():
            theirs = other.for_any() if other._symbolic is not None else None
            if theirs is None:
                continue
            try:
                source = symbolic_graph.adopted(
                    kernels.source,
                    theirs.source,
                    symbolic_graph.source_like(
                        other._symbolic.at((1,) * len(other._symbolic.symbols)),
                        arguments,
                        kernels.source,
                        theirs.source,
                    ),
                )
                if source is None:
                    continue
                kernels.composed = composed_module.ComposedModule(source, theirs.path)
            except Exception as error:
                log.info("kernels for any batch are not those of a batch of 1: %s", told(error))
                continue
            kernels.source, kernels.path = source, theirs.path
            kernels.summary, kernels.from_store = theirs.summary, True
            kernels.precision = theirs.precision
            kernels.needs_verdict = theirs.needs_verdict
            kernels.settle("loaded")
            return True
        return False

    def _try(self, kernels: Kernels, arguments: Sequence[Any]) -> Any:
        """The framework's results, after a look whether ours are the same."""
        with self._lock:
            if kernels.state != "loaded":
                return self.framework(arguments)
            kernels.state = "searching"  # no second thread tries
        composed = kernels.composed
        random = random_states(arguments) if self.draws else None
        try:
            got = self._computed_without_draws(kernels, arguments)
        except composed_module.Revoked as error:
            kernels.settle("pytorch", str(error))
            return self.framework(arguments)
        except Exception as error:
            kernels.settle("pytorch", "its first call failed with " + told(error))
            return self.framework(arguments)
        expected, failure = self._beside(arguments)
        if failure:  # the kernels' results took the room that it needs
            del got
            kernels.settle(
                "pytorch", f"when the kernels' results were compared, PyTorch failed with {failure}"
            )
            return self.framework(arguments)
        try:
            why = self._why_not(kernels, arguments, list(expected), got, random)
        except Exception as error:
            why = told(error)
        if why:
            kernels.settle("pytorch", why)
        else:
            kernels.settle("ready")
            if kernels.needs_verdict:
                rechecks.begin(kernels, composed, self.options)
        return expected

    def _why_wrong(
        self, kernels: Kernels, arguments: Sequence[Any], expected: Any, got: Any, random: Any
    ) -> Any:
        """ "" if the kernels' results `got` pass the last check. `expected`: the
        fallback's; `random`: what the generators were before."""
        eager = expected
        if self.options.fallback != "eager":
            # Near to Inductor's own results, which have been checked, is enough.
            why = first_result_check.difference(expected, got, kernels.precision)
            if not why or self.draws:  # Inductor draws other numbers than eager
                return why
            eager = list(self.graph_module(*arguments))
        return first_result_check.Check(
            self.graph_module, arguments, kernels.precision, self.state, random
        ).why_not(eager, got)

    def _why_not(
        self, kernels: Kernels, arguments: Sequence[Any], expected: Any, got: Any, random: Any
    ) -> Any:
        """ "" where what the kernels came to is right, and as fast to have."""
        why = self._why_wrong(kernels, arguments, expected, got, random)
        if why:
            why = (
                "internal disagreement: the search verified the kernels, but on "
                f"the program's own data they came to something else: {why}"
            )
            log.warning("%s; this graph stays with the fallback", why)
            return why
        if self.draws:
            return ""
        try:
            chosen, factor = select_implementation.select(
                self, kernels, kernels.composed, arguments
            )
        except Exception as error:  # it says nothing of the kernels
            log.info("the kernels were not tried: %s", told(error))
            return ""
        if not factor:
            kernels.composed = chosen
            return ""
        kernels.framework = chosen
        other = "eager" if self.options.fallback == "eager" else "Inductor's code"
        return (
            f"in this program the kernels take {factor:.2f} times as long as {other}"
            + " as a CUDA graph" * isinstance(chosen, Replayed)
            + ": no clear gain" * (factor <= timing_rounds.SLOWER)
        )

    def _beside(self, arguments: Sequence[Any]) -> Any:
        """(the framework's results, what it failed with)"""
        random = random_states(arguments) if self.draws else None
        try:
            found = self.framework(list(arguments))
            if self.has_own_graphs():
                found = [one.clone() if isinstance(one, torch.Tensor) else one for one in found]
            return found, ""
        except Exception as error:
            failure = told(error)
        if random:
            set_random_states(random)
        return None, failure

    def _computed_without_draws(self, kernels: Any, arguments: Any) -> Any:
        """The kernels' results; the framework then draws the same numbers.
        Generators are touched only for graphs that draw: another thread may
        be drawing from them."""
        if not self.draws:
            return kernels.composed(list(arguments))
        random = random_states(arguments)
        try:
            return kernels.composed(list(arguments))
        finally:
            set_random_states(random)


def _calls_by_now() -> Any:
    return sum(compiled_graph.calls for compiled_graph in all_compiled_graphs())


_searches = Searches(_calls_by_now)


def _after_fork() -> None:
    """In a child process: a queue and a thread of its own, once a call needs
    them. Most children (who load data, say) call no graph, and search for none."""
    global _searches
    _searches = Searches(_calls_by_now)
    for compiled_graph in all_compiled_graphs():
        compiled_graph.after_fork()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(lambda: _searches.end())
atexit.register(rechecks.end)  # before it: the last that is registered is first


def _symbolic_positions(graph_module: torch.fx.GraphModule) -> list[Any]:
    """Of arguments that are sizes (dynamic shapes)."""
    placeholders = graph_module.graph.find_nodes(op="placeholder")
    return [
        i
        for i, node in enumerate(placeholders)
        if isinstance(node.meta.get("val"), (int, torch.SymInt))
    ]


def _at_these_sizes(
    graph_module: torch.fx.GraphModule, arguments: Sequence[Any], sizes: Any
) -> Any:
    """The same graph for the sizes of these arguments alone."""
    if not sizes:
        return graph_module
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [
            mode.from_tensor(argument, static_shapes=True)
            if isinstance(argument, torch.Tensor)
            else argument
            for argument in arguments
        ]
        return traced(graph_module, fakes)


def _framework_of(compiled_graph: Any) -> Any:
    """What computes the graph where no kernel does, called with a list."""
    graph_module = compiled_graph.graph_module

    def eager(arguments: Sequence[Any]) -> Any:
        return graph_module(*arguments)

    if compiled_graph.options.fallback != "inductor":
        return eager
    return InductorFallback(compiled_graph, eager)
