"""The search for one program: profile, regions, kernels, insertions. It runs in another
thread. Steps that need a call's arguments are done by calls (whole_program.py)."""

import atexit
import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from weft.backend.implementations import select_implementation
from weft.backend.implementations.incumbent import Compiled, Request
from weft.backend.implementations.program_timing import Arguments, compared
from weft.backend.options import Options, log, told
from weft.backend.searches import machine_facts, program_forms, program_replays, region_search
from weft.backend.searches.program_forms import Form, NoForm
from weft.backend.searches.program_trials import ProgramTrials, Trial
from weft.backend.searches.region_module import Combined
from weft.backend.searches.region_search import Candidate
from weft.backend.searches.search_turns import turns
from weft.backend.searches.whole_program import INDUCTOR_GRAPHS, Step, WholeProgram
from weft.regions import attribution, insertion, labels
from weft.regions.extraction import KeptValues
from weft.regions.regions import groups_of, regions_of
from weft.regions.roofline import roofline_s

#: Trials in the program that the budget has time for after the search, and the parts of
#: the budget that are kept for them, at least and at most.
TRIALS, TRIALS_SHARE_MIN, TRIALS_SHARE_MAX = 2, 0.1, 0.25
_ends = threading.Event()
_SLOWER = "the program is not faster with it"


class Stopped(Exception):
    """The program is gone or has a kernel that failed, or the process ends."""


def adopt(request: Request, compiled: Any, options: Options) -> Compiled:
    """The function that computes the calls of a graph that Inductor compiled."""
    kernels = labels.nodes_of_kernels(compiled)
    return WholeProgram(
        request, compiled.current_callable, options, lambda program: _begin(program, kernels)
    )


def _begin(program: WholeProgram, kernels: dict[str, list[int]]) -> threading.Event:
    improvement = Improvement(program, kernels)
    threading.Thread(target=improvement.run, name="weft-improvement", daemon=True).start()
    return improvement.ended


class Improvement:
    """The search for one program; it does not keep the program alive."""

    #: When the search's time is over (time.monotonic()).
    _until = float("inf")
    #: Whether weft replays what computes now as a CUDA graph.
    _is_replayed = False

    def __init__(self, program: WholeProgram, kernels: dict[str, list[int]]) -> None:
        self._program = weakref.ref(program)
        self._request = program.request
        self._options = program.options
        self._budget_s = program.options.budget_s
        self._incumbent = program.incumbent
        self._kernels = kernels
        self._trials = ProgramTrials(program.request, program.options.trial_s)
        self._accepted: list[Candidate] = []
        #: The form in which variants are compiled; None: as PyTorch gives the program.
        self._form: Form | None = None
        #: The form of the last variant, and of what computes now.
        self._form_made: Form | None = None
        self._form_used: Form | None = None
        #: The incumbent and what computes now, launched: those that are timed.
        self._raw: Compiled = program.incumbent
        self._current: Compiled = program.incumbent
        #: One problem file for several regions, if there is one, and these.
        self._combined: Combined | None = None
        self._together: list[Candidate] = []
        self._kind = "cpu"  # of the device; known from the first call's arguments
        self.ended = threading.Event()

    def run(self) -> None:
        """Until nothing more is worth a search."""
        try:
            self._run()
        except Stopped:
            pass
        except Exception as error:
            self._settle(f"the search failed with {told(error)}")
        finally:
            self.ended.set()
            program = self._program()
            if program is not None:
                program.notify()

    def _run(self) -> None:
        if self._request.uses_cuda_graphs():
            made: Any = self._request.compiled()
            self._raw = self._current = made
            self._kernels = labels.nodes_of_kernels(made) or self._kernels
        begin = time.monotonic()
        self._replay_current()
        self._budget_s -= time.monotonic() - begin
        groups = groups_of(regions_of(self._request.module.graph))
        if not groups or not _is_closed(self._request.module):
            self._settle("no region of it can be searched")
            return
        self._wait_for_machine_facts()
        self._on_call(lambda arguments: self._observe(groups, arguments))
        self._try_known_code()
        left = self._for_search()
        self._on_call(lambda arguments: self._write_sources(left, arguments))
        self._search([candidate for candidate in left if candidate.source is not None])
        self._settle()

    def _try_known_code(self) -> None:
        """Tries other forms of the program and the vendor's products, which need no search.
        Takes the part of the budget that trials may take."""
        limit_s = TRIALS_SHARE_MAX * self._budget_s
        self._until = time.monotonic() + limit_s
        if self._kind in program_forms.DEVICES and self._request.role == "inference":
            self._form = program_forms.chosen_form(self._is_faster_in)
        self._insert([one for one in self._live().candidates if one.state == "verified"])
        self._budget_s -= limit_s - (self._until - time.monotonic())

    def _is_faster_in(self, form: Form) -> bool:
        """Tries the program in this form, and uses it if it is faster."""
        if time.monotonic() > self._until:
            return False
        before, self._form = self._form, form
        trial = self._trial_of([])
        is_faster = not trial.why_not and self._is_faster(trial)
        if is_faster:
            self._accept([], trial)
        else:
            log.info("%s: %s", form.words, trial.why_not or _SLOWER)
            self._form = before
        return is_faster

    def _for_search(self) -> list[Candidate]:
        """Candidates that are still to be searched, without those that overlap what is in
        use."""
        left = []
        for one in self._live().candidates:
            if one.state == "generated":
                continue
            one.found, one.used, one.gain, one.state, one.reason = None, None, 0.0, "waiting", ""
            if not self._is_taken(one):
                left.append(one)
        return left

    def _is_taken(self, candidate: Candidate) -> bool:
        """Whether operators of it are in a region that is in use; it is "slower" then."""
        other = next((one for one in self._accepted if _overlap(candidate, one)), None)
        if other is not None:
            candidate.state = "slower"
            candidate.reason = (
                "another region with some of its operators is in use: "
                + other.group.first.operators()
            )
        return other is not None

    def _wait_for_machine_facts(self) -> None:
        """A measurement that uses the GPU would disturb the profile and the rooflines.
        The time counts as part of the budget."""
        begin = time.monotonic()
        machine_facts.wait(self._options.budget_s / 2)
        self._budget_s -= time.monotonic() - begin

    # Work that calls do.

    def _observe(self, groups: Sequence[Any], given: list[Any]) -> None:
        """The profile of the incumbent, and the regions that are worth a search."""
        program = self._live()
        arguments = Arguments(self._request, given)
        self._kind = arguments.device().type
        nodes = list(self._request.module.graph.nodes)
        with self._trials.same_numbers(given):
            profiles = self._profiles(arguments)
        weights = attribution.kernel_weights(self._kernels, nodes)
        times = attribution.node_times(
            self._kernels, attribution.kernel_times(profiles, self._kernels, weights), nodes
        )
        if profiles:
            program.incumbent_s = sorted(profile.seconds for profile in profiles)[
                len(profiles) // 2
            ]
        candidates = region_search.chosen(
            attribution.region_times(groups, times, roofline_s), sum(times.values())
        )
        for number, one in enumerate(candidates):
            one.owner = f"{program.number}.{number}"
        self._check_incumbent(arguments)
        if self._kind == "cuda":
            region_search.take_vendor_products(candidates, arguments.device(), self._on_failure)
        program.candidates = candidates

    def _profiles(self, arguments: Arguments) -> list[attribution.Profile]:
        self._raw(arguments.fresh())
        try:
            found = attribution.profiled(arguments.fresh, self._raw, arguments.device())
            if any(one.seconds for one in found):
                return found
        except Exception as error:  # the program has a profiler running, say
            log.info("the incumbent was not profiled: %s", told(error))
        # By the whole call alone: each kernel has its share of the bytes.
        whole = compared([self._raw], arguments, 0.0, False)
        return [attribution.Profile((), whole.median_s(0))]

    def _write_sources(self, candidates: list[Candidate], given_values: list[Any]) -> None:
        """The regions' problem files, by the values of a call."""
        arguments = Arguments(self._request, given_values)
        wanted = {node for candidate in candidates for node in candidate.extracted[0].inputs}
        values = KeptValues(self._request.module, wanted)
        with self._trials.same_numbers(given_values):
            values.run(*arguments.fresh())
        given = {
            id(candidate): [values.kept[node] for node in candidate.extracted[0].inputs]
            for candidate in candidates
        }
        for candidate in candidates:
            region_search.write_source(candidate, given[id(candidate)], arguments.static)
        self._together = region_search.searched_together(
            [candidate for candidate in candidates if candidate.source is not None],
            self._search_s(),
            self._kind,
        )
        if len(self._together) > 1:
            self._combined = region_search.combined_of(
                self._together, [given[id(one)] for one in self._together]
            )

    def _trials_s(self) -> float:
        """Seconds of the budget for trials in the program."""
        wanted_s = TRIALS * (self._request.compile_s + self._options.trial_s)
        return min(
            max(wanted_s, TRIALS_SHARE_MIN * self._budget_s), TRIALS_SHARE_MAX * self._budget_s
        )

    def _search_s(self) -> float:
        """Seconds of the budget for the search."""
        return self._budget_s - self._trials_s()

    def _check_incumbent(self, arguments: Arguments) -> None:
        """Where Inductor's code comes to something else than the operators do, these
        compute. Of gradients many are 0 but for rounding, so nothing is said of them;
        and what a backward graph expects of a forward graph is Inductor's alone."""
        if self._trials.draws or self._request.role != "inference":
            return
        expected = list(self._request.module(*arguments.fresh()))
        why = self._trials.against_eager(arguments, expected, list(self._raw(arguments.fresh())))
        if why:
            module = self._request.module
            self._live().use(lambda given: module(*given))
            raise RuntimeError(
                f"Inductor's code comes to something else than eager, which computes instead: {why}"
            )

    def _uses_graphs(self) -> bool:
        """Whether calls are replayed, as far as timing goes."""
        return not self._trials.draws and (self._request.uses_cuda_graphs() or self._is_replayed)

    # Work that the thread does.

    def _on_call(self, work: Any) -> None:
        """Blocks until a call has done it; raises what it raised. The budget does not
        pay for the time until there is a call."""
        step, asked = Step(work), time.monotonic()
        self._live().ask(step)
        while not step.done.wait(0.5):
            self._live()
        self._until += step.begun_s - asked
        if step.error is not None:
            raise step.error

    def _live(self) -> WholeProgram:
        program = self._program()
        if program is None or program.has_failed or _ends.is_set():
            raise Stopped
        return program

    def _search(self, candidates: list[Candidate]) -> None:
        """One search for all; one for each that it could not give an answer for, if
        time is left."""
        self._until = time.monotonic() + self._budget_s
        if self._combined is not None:
            candidates = self._search_together(self._combined, self._together)
        self._search_each(candidates)

    @contextlib.contextmanager
    def _turn(self, budget_s: float) -> Iterator[None]:
        """A search of `budget_s`. The budget does not pay for the time until it is this
        search's turn; trials follow it."""
        with turns.turn():
            self._until = max(self._until, time.monotonic() + budget_s + self._trials_s())
            yield

    def _search_together(self, problem: Combined, candidates: list[Candidate]) -> list[Candidate]:
        """Those that are still without an answer."""
        budget_s = self._search_s()
        with self._turn(budget_s):
            self._live()
            for one in candidates:
                one.state = "searching"
            try:
                found = region_search.search_together(
                    candidates, problem, self._options, budget_s, _ends, self._on_failure
                )
            except Exception as error:
                log.info("the search of all regions failed: %s", told(error))
                return candidates
        for one, its in zip(candidates, found, strict=True):
            if its is not None:
                one.found, one.reason = its, its.reason
                one.state = "none" if its.reason else "verified"
        self._insert_verified(candidates)
        return [one for one, its in zip(candidates, found) if its is None]

    def _search_each(self, candidates: list[Candidate]) -> None:
        """In threads that end with the process, as an executor's would not."""
        budgets = region_search.budgets_s(
            len(candidates),
            max(0.0, self._until - self._trials_s() - time.monotonic()),
            turns.at_once,
            region_search.BUDGET_MIN_S[self._kind],
        )
        for one in candidates[len(budgets) :]:
            one.state, one.reason = "none", "there is no time for it (budget_s)"
        waiting = queue.SimpleQueue[tuple[Candidate, float]]()
        done = queue.SimpleQueue[Candidate]()
        for pair in zip(candidates, budgets):
            waiting.put(pair)

        def work() -> None:
            with contextlib.suppress(queue.Empty):
                while True:
                    one, budget_s = waiting.get_nowait()
                    try:
                        self._search_one(one, budget_s)
                    finally:
                        done.put(one)

        for _ in range(min(turns.at_once, len(budgets))):
            threading.Thread(target=work, name="weft-region", daemon=True).start()
        left = len(budgets)
        while left:
            with contextlib.suppress(queue.Empty):
                ready = [done.get(timeout=0.5)]
                while not done.empty():
                    ready.append(done.get_nowait())
                left -= len(ready)
                self._insert_verified(ready)
            self._live()

    def _search_one(self, candidate: Candidate, budget_s: float) -> None:
        with self._turn(budget_s):
            if _ends.is_set() or self._program() is None:
                return
            candidate.state = "searching"
            begin = time.monotonic()
            found = region_search.search_one(
                candidate, self._options, budget_s, _ends, self._on_failure
            )
            log.info(
                "region %s: %.1f s, %s",
                candidate.group.first.operators(),
                time.monotonic() - begin,
                found.reason or found.summary,
            )
        candidate.found, candidate.reason = found, found.reason
        candidate.state = "none" if found.reason else "verified"

    def _on_failure(self, reason: str) -> None:
        program = self._program()
        if program is not None and self._accepted:
            program.give_up(reason)

    def _insert_verified(self, candidates: Sequence[Candidate]) -> None:
        """Tries the verified candidates, first those with an expected gain. A GPU's
        profile has each kernel's time, so that clearly slower ones are left out there."""
        verified = [one for one in candidates if one.state == "verified"]
        for one in verified:
            why = one.why_not_tried() if self._kind == "cuda" else ""
            if why:
                one.state, one.reason = "slower", why
        verified = sorted(
            (one for one in verified if one.state == "verified"),
            key=lambda one: -one.expected_gain_s(),
        )
        self._insert([one for one in verified if one.expected_gain_s() > 0])
        self._insert([one for one in verified if one.expected_gain_s() <= 0])

    def _insert(self, candidates: list[Candidate]) -> None:
        """Tries these beside those that are in use; halves of them, where all
        together are not faster."""
        free: list[Candidate] = []
        later: list[Candidate] = []
        for candidate in candidates:
            if self._is_taken(candidate):
                continue
            if any(_overlap(candidate, other) for other in free):
                later.append(candidate)
            else:
                free.append(candidate)
        if not free:
            return
        if time.monotonic() > self._until:
            for candidate in free + later:
                candidate.reason = "there was no time to try it in the program (budget_s)"
            return
        trial = self._trial_of(free)
        if not trial.why_not and self._is_faster(trial):
            self._accept(free, trial)
        elif len(free) == 1:
            free[0].state = "slower"
            free[0].reason = trial.why_not or _SLOWER
            if trial.comparison:
                free[0].gain = trial.comparison.ratio(1, 2)
            self._insert_part(free[0])
        else:
            self._insert(free[: len(free) // 2])
            self._insert(free[len(free) // 2 :])
        self._insert(later)

    def _insert_part(self, candidate: Candidate) -> None:
        """Uses the half of a candidate's kernels with which the program is faster, if there
        is one."""
        for half in candidate.halves():
            if time.monotonic() > self._until:
                return
            candidate.used = half
            trial = self._trial_of([candidate])
            if not trial.why_not and self._is_faster(trial):
                candidate.reason = f"half of its kernels; with all of them: {candidate.reason}"
                self._accept([candidate], trial)
                return
        candidate.used = None

    def _is_faster(self, trial: Trial) -> bool:
        return trial.comparison is None or (
            trial.comparison.is_faster(2, 1) and trial.comparison.is_faster(2, 0)
        )

    def _variant(self, candidates: list[Candidate]) -> fx.GraphModule:
        made = insertion.with_inserted(
            self._request.module,
            [
                one
                for candidate in [*self._accepted, *candidates]
                for one in candidate.replacements()
            ],
        )
        self._form_made = None
        if self._form is None:
            return made
        try:
            formed = self._form.of(made, self._request.compiled_part)
        except NoForm:
            if not (candidates or self._accepted):  # it is the form that is tried
                raise
            return made
        self._form_made = self._form
        return formed

    def _trial_of(self, candidates: list[Candidate]) -> Trial:
        found: list[Trial] = []
        begin = time.monotonic()
        try:
            self._made = self._request.compiled(self._variant(candidates))
            compiled = time.monotonic()
            functions = self._raw, self._current, self._made
            kernels = [kernel for one in candidates for kernel in one.kernels()]
            self._on_call(
                lambda arguments: found.append(
                    self._trials.run(functions, kernels, arguments, self._uses_graphs())
                )
            )
            log.info(
                "%d regions: compiled in %.1f s, tried in %.1f s",
                len(candidates),
                compiled - begin,
                time.monotonic() - compiled,
            )
        except Stopped:
            raise
        except Exception as error:
            return Trial(f"with it the program failed with {told(error)}")
        return found[0]

    def _accept(self, candidates: list[Candidate], trial: Trial) -> None:
        self._current, self._form_used = self._made, self._form_made
        self._accepted += candidates
        for candidate in candidates:
            candidate.state = "generated"
            if trial.comparison:
                candidate.gain = trial.comparison.ratio(1, 2)
        program = self._live()
        if trial.comparison:
            program.speedup = trial.comparison.ratio(0, 2)
        was_replayed, self._is_replayed = self._is_replayed, False
        if was_replayed or not self._request.uses_cuda_graphs():
            self._replay_current()
        if self._is_replayed:
            return
        function = self._current
        if self._request.uses_cuda_graphs():
            function = self._request.compiled(self._variant([]), True)
            program.replay = INDUCTOR_GRAPHS
        program.use(function, bool(self._accepted))

    def _replay_current(self) -> None:
        """Has a call try whether a CUDA graph of weft's is faster, where the program allows
        them."""
        if program_replays.may_replay(self._request, self._options) and not self._trials.draws:
            try:
                self._on_call(self._use_replays)
            except Stopped:
                raise
            except Exception as error:  # no memory for the other's results, say
                log.info("calls are not replayed by weft: %s", told(error))

    def _use_replays(self, given: list[Any]) -> None:
        program, has_graphs = self._live(), self._request.uses_cuda_graphs()
        if not select_implementation.is_on_gpu(given):
            return
        incumbent = self._incumbent if has_graphs else None
        found = program_replays.replays_of(
            self._current, incumbent, self._raw, self._request, self._options, given
        )
        if found.replayed is not None:
            self._is_replayed = True
            if has_graphs:
                program.speedup = found.speedup
            program.use(found.replayed, bool(self._accepted))
            program.replay = found.words
        elif has_graphs:
            program.replay = f"{INDUCTOR_GRAPHS}; not replayed by weft: {found.words}"
        else:
            program.replay = "not replayed: " + found.words

    def _settle(self, reason: str = "") -> None:
        program = self._program()
        if program is None or program.has_failed:  # give_up() has said why
            return
        count = len(self._accepted)
        program.state = "ready" if count or self._form_used else "pytorch"
        if program.state == "pytorch" and not reason:
            reasons = [candidate.reason for candidate in program.candidates if candidate.reason]
            reason = "Inductor's code is the fastest" + (
                f"; {program.candidates[0].group.first.operators()}: {reasons[0]}"
                if reasons
                else ""
            )
        program.reason = reason
        program.summary = (
            f"{count} of {len(program.candidates)} regions generated; "
            f"{self._form_used.words + '; ' if self._form_used else ''}"
            f"{program.speedup:.2f}× over torch.compile for this call"
        )


def _overlap(one: Candidate, other: Candidate) -> bool:
    """Whether a node is in regions of both."""
    nodes = {node for region in other.group.regions for node in region.nodes}
    return any(node in nodes for region in one.group.regions for node in region.nodes)


def _is_closed(module: fx.GraphModule) -> bool:
    """Whether the graph has no graphs within it, of which copies would share."""
    return not any(
        isinstance(node.target, torch._ops.HigherOrderOperator)
        for node in module.graph.nodes
        if node.op == "call_function"
    )


atexit.register(_ends.set)
