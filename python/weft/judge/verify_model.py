"""Checks a composed module against the problem's Model (docs/explanation/verification.md).

verify_subgraph.py says what is different for a kernel.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from weft.expect import compare, scalar_variation
from weft.expect.controls import Controls
from weft.expect.inputs import DISTRIBUTIONS, FEW_DISTRIBUTIONS, FLAGS, TOUCHES
from weft.device.trace_spans import lap
from weft.problem.problem import SEED, init_arguments
from weft.problem.result_form import ResultForm
from weft.candidate.slot import CandidateFailed, Slot
from weft.device.arena_keeper import ArenaKeeper
from weft.judge.limits import BUILD_ALLOWANCE_MS, Limits
from weft.judge.verdict import Verdict, judging

if TYPE_CHECKING:
    from weft.device.arena import Arena
    from weft.device.device_arena import DeviceArena
    from weft.judge.job_folders import JobFolders
    from weft.judge.model_case import ModelCase
    from weft.judge.whole_model import WholeModel
    from weft.oracle.warden_client import OutsideFolders

#: A composed module may build Triton's kernels when it is first called, one after
#: the other.
FIRST_CALL_ALLOWANCE_MS = 60_000
#: No further case is begun after this much time in the reference.
REFERENCE_BUDGET_S = 60.0
#: … but of these.
ALWAYS_MIN = 5
#: So many elements or rows are tried, until a change shows in the answer.
TOUCHED_MAX = 4
#: Larger results are not held while others are made.
HELD_BYTES_MAX = 256 << 20
_STEPS = ["load", "run", "ran", "export"]


def stage_model(
    content: bytes,
    whole: WholeModel,
    folders: JobFolders | OutsideFolders,
    function_of: bytes | None = None,
) -> dict[str, Any]:
    """Copies the module, whose text is `content`, to where the sandbox can read it;
    its job. function_of: the reference's text, if the module has a kernel_function."""
    init = _pickled_arguments(whole)
    job = {
        "kind": "model",
        "module": folders.place("model_new.py", content),
        "init": None if init is None else folders.place("init.pickle", init),
        "seed": SEED,
        "kernel_cache": folders.build_folder(content),
        **whole.job(),
    }
    if function_of is not None:
        job["function_of"] = folders.place("reference.py", function_of)
    return job


def _pickled_arguments(whole: WholeModel) -> bytes | None:
    """What get_init_inputs() gives, or None if that cannot be pickled."""
    torch.manual_seed(SEED)
    given = whole.problem.module.get_init_inputs()
    try:
        data = pickle.dumps(init_arguments(whole.problem.module.Model, given))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"weft_problem" in data else data  # a class of the problem's own


def check_model(
    slot: Slot, keeper: ArenaKeeper, whole: WholeModel, job: dict[str, Any], limits: Limits
) -> Verdict:
    """Construction, then every case; the verdict."""
    verdict = Verdict()
    controls = Controls()
    with judging(verdict, slot):
        arena = keeper.of(whole.buffers.end)
        arena.clear()
        whole.buffers.bind(arena)
        begin_anew = partial(begin, slot, whole, job, arena, limits)
        begin_anew()
        check = _ModuleCheck(slot, whole, limits, verdict)
        check.run_cases(controls, builds=whole.device.is_cuda and builds_when_called(job))
        check.run_numbers(begin_anew)  # last: a candidate's process may end by it
    verdict.conclude(controls.rejected)
    return verdict


def builds_when_called(job: dict[str, Any]) -> bool:
    """Whether the module is one that weft composed of Triton's kernels. One that
    tries variants of them keeps the device for that."""
    with open(job["module"], encoding="utf-8", errors="replace") as file:
        text = file.read()
    return "_weft_open_triton(" in text and "autotune" not in text


def begin(
    slot: Slot,
    whole: WholeModel,
    job: dict[str, Any],
    arena: Arena | DeviceArena,
    limits: Limits,
) -> None:
    """Builds ModelNew in a child and compares it, as built, with Model. CandidateFailed:
    they differ."""
    whole.buffers.fill_outputs()
    loading = limits.for_loading(whole.device, BUILD_ALLOWANCE_MS)
    answer = slot.begin(job, arena, loading)
    wanted, got = job["state"], answer.get("state")
    if got != wanted:
        raise CandidateFailed("wrong", _state_difference(got, wanted))
    for place, value in zip(whole.places["state_after"], whole.initial):
        held = place.view(arena)
        if not _same_values(held, value):
            name = place.spec.name
            raise CandidateFailed("wrong", f"constructor gives {name} other values")
    if answer.get("rng") != whole.rng:
        raise CandidateFailed("wrong", "constructor draws other random numbers than Model's")
    if answer.get("training") is None:
        raise CandidateFailed("cheated", "no answer about its modules")


def _state_difference(got: object, wanted: list[Any]) -> str:
    if not isinstance(got, list):
        return "no list of parameters and buffers"
    for mine, theirs in zip(wanted, got):
        if mine != theirs:
            return (
                f"constructor makes {_described(theirs)} where Model has "
                f"{_described(mine)}: names, types and order are Model's"
            )
    return f"constructor makes {len(got)} parameters and buffers, Model {len(wanted)}"


def _described(entry: Any) -> str:
    """A parameter or buffer, by the candidate's own account perhaps: anything."""
    try:
        kind = "the parameter" if entry["parameter"] else "the buffer"
        text = f"{kind} {entry['name']}, {entry['dtype']} {entry['shape']},"
    except (TypeError, KeyError):
        text = str(entry)
    return text[:200]


def _same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _cases(whole: WholeModel) -> Iterator[ModelCase]:
    """As get_inputs() gives them, then every distribution that Model takes."""
    generator = whole.device.generator(whole.seed)
    lock = whole.device.lock  # waiting for others is no work of the reference
    until = time.monotonic() - lock.waited_s + REFERENCE_BUDGET_S

    def is_over() -> bool:
        return time.monotonic() - lock.waited_s > until

    has_flags = any(t.dtype == torch.bool for t in whole.tensors)
    names = [
        "given",
        "altered",
        *TOUCHES,
        *(FLAGS if has_flags else ()),
        *DISTRIBUTIONS,
    ]
    if not whole.tells_ties:
        names.remove("grid")
    if not any(t.is_floating_point() for t in whole.tensors):
        names.remove("nan")
    if whole.has_alike:  # in any order they are the same
        names.insert(ALWAYS_MIN - 1, "varied")
    if whole.is_large:  # what would need the first case kept is left out
        names = ["given", *FEW_DISTRIBUTIONS]
    if not whole.takes_any_values:
        names = [name for name in names if name in ("given", "uniform")]
    given: ModelCase | None = None
    for number, name in enumerate(names):
        if number >= ALWAYS_MIN and is_over():
            return
        whole.device.give_back_much()
        try:
            if name == "altered":
                assert given is not None
                case = whole.altered(given, generator)
            elif name in TOUCHES:  # of the case before, each
                assert given is not None
                case = _touched(whole, given, name, generator, is_over)
            else:
                case = whole.case(name, generator)
        except torch.OutOfMemoryError:
            raise
        except Exception:
            # Outside Model's domain (a probability, an index): no case, but
            # the problem's own inputs must run.
            if name == "given":
                raise
            continue
        if name in FLAGS and not whole.has_room_for(case.form):
            continue  # of what flags select there is more or less, then
        if name in ("given", "altered", *TOUCHES) and not whole.is_large:
            given = case
        if whole.is_large:  # the candidate needs what making it took
            whole.device.give_back()
        yield case
        del case


def _touched(
    whole: WholeModel,
    before: ModelCase,
    how: str,
    generator: torch.Generator,
    is_over: Callable[[], bool],
) -> ModelCase:
    """That case, but for one element or row of each input: another one, where
    Model's answer stays what it was (a relu's, of what is below zero), as long
    as Model takes it and there is time."""
    found = None
    for attempt in range(TOUCHED_MAX):
        try:
            case = whole.touched(before, how, generator, attempt)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # outside Model's domain
            if found is None:
                raise
            break
        found = case
        pairs = zip(case.outputs, before.outputs)
        if is_over() or any(
            not torch.equal(one.framework, other.framework) for one, other in pairs
        ):
            break
    assert found is not None
    return found


def _following(
    whole: WholeModel, case: ModelCase
) -> tuple[ModelCase, list[bool], str | None] | None:
    """WholeModel.following, if Model takes other inputs."""
    for continues in (True, False):
        generator = whole.device.generator(whole.seed + 1)
        try:
            return whole.following(case, generator, continues)
        except torch.OutOfMemoryError:
            raise
        except Exception:  # Model takes no other inputs, or counts no further
            continue
    return None


@dataclass
class _ModuleCheck:
    """A module in its process, whose calls are compared with Model's. Each method raises
    CandidateFailed where the module differs."""

    slot: Slot
    whole: WholeModel
    limits: Limits
    verdict: Verdict
    #: The first case; none of a large model's, as it takes the room that others need.
    first: ModelCase | None = None

    def run_cases(self, controls: Controls, builds: bool) -> None:
        """Every case, and the first one again. `builds`: _run_case's, of the first call."""
        whole = self.whole
        for case in _cases(whole):
            is_second = self.verdict.cases == 1 and self._holds_results()
            steps = {"steps": ["hold", *_STEPS]} if is_second else {}
            self._run_case(case, **steps, builds=builds and self.verdict.cases == 0)
            with lap("controls"):
                controls.hold(case.data.leaves, case.outputs, case.finite)
            if self.first is None and not whole.is_large:
                self.first = case
            del case  # before the next is made: it may fill half a device
        # The first again: a race, or hidden state.
        self._run_again(self.first or whole.case("given", whole.device.generator(whole.seed)))

    def _holds_results(self) -> bool:
        """Whether a candidate has room for one more result all the time."""
        size = sum(place.spec.storage_bytes for place in self.whole.places["outputs"])
        return not self.whole.is_large and size <= HELD_BYTES_MAX

    def _run_again(self, case: ModelCase) -> None:
        """Runs that case once more, and a call after it. Tensors used in turn, as many as
        there were calls or a part of that, would hold the first call's results anew."""
        following = None if self.whole.is_large else _following(self.whole, case)
        if following is not None and self._holds_results() and self.verdict.cases >= 2:
            self._assert_first_stays(case, following[1])
        self._run_case(case)
        if following is not None:
            self._run_next(case, *following)

    def _run_next(
        self, case: ModelCase, later: ModelCase, stay: list[bool], undrawn: str | None
    ) -> None:
        """Runs the call after that case's. It continues to draw where that case ended.
        It leaves the results of that case as they are, where Model's call does, and the
        results of the first call (three tensors used in turn outlast one call)."""
        self._run_case(later, steps=["hold", *_STEPS], seed=None, reuse=True)
        answer, _ = self.slot.call(self.limits.wall_ms, steps=["drawn"])
        if undrawn is not None and answer.get("drawn") != undrawn:
            raise CandidateFailed(
                "wrong",
                "a call draws random numbers, which Model's does not: "
                "what is drawn after it is other than after Model's",
            )
        changed = self._changed(case, stay, -1)
        if changed is not None:
            raise CandidateFailed(
                "wrong",
                f"the next call changes output {changed} of the "
                "call before, which Model leaves as it is",
            )
        self._assert_first_stays(case, stay)

    def _assert_first_stays(self, case: ModelCase, stay: list[bool]) -> None:
        """Compares the results of the first call, as they are by now."""
        changed = self._changed(case, stay, 0)
        if changed is not None:
            raise CandidateFailed(
                "wrong",
                f"a later call changes output {changed} of the first, which Model leaves as it is",
            )

    def _changed(self, case: ModelCase, stay: list[bool], held: int) -> int | None:
        """The first of the `held`th results (0: of its first run, -1: of its last)
        that should have stayed and did not."""
        self.whole.buffers.fill_outputs()
        self.slot.call(self.limits.wall_ms, steps=["recall"], held=held)
        pairs = zip(self.whole.buffers.output_views, case.outputs)
        return next(
            (
                number
                for number, (view, made) in enumerate(pairs)
                if stay[number] and compare.compare(view, made).reason
            ),
            None,
        )

    def run_numbers(self, begin_anew: Callable[[], object]) -> None:
        """Other numbers among the arguments. A candidate may refuse one, by an
        exception; it may not give the answer to another."""
        has_refused = False
        for number, value, case in scalar_variation.cases(self.whole, self.first):
            if has_refused:  # that was its process' end, and says nothing of this
                begin_anew()
            has_refused = self._refuses(case, {"leaf": number.leaf, "value": value})
            del case  # before the next is made: it may fill half a device

    def _refuses(self, case: ModelCase, number: dict[str, Any]) -> bool:
        """Whether the candidate raises an exception in that case."""
        try:
            self._run_case(case, reuse=False, number=number)
        except CandidateFailed as ended:
            if ended.raised:
                return True
            if case.distribution not in ended.reason:
                ended.reason = f"{case.distribution}: {ended.reason}"
            raise
        return False

    def _run_case(self, case: ModelCase, builds: bool = False, **how: Any) -> None:
        """`builds`: the call compiles kernels, for a minute or more, and others have
        the device meanwhile: what it runs there at last is short."""
        whole, verdict = self.whole, self.verdict
        number = verdict.cases
        with lap("write"):
            whole.write(case.data)
        within = self.limits
        apart: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if builds:
            within = within.for_loading(whole.device, FIRST_CALL_ALLOWANCE_MS)
            apart = whole.device.lock.released()
        asked = {
            "steps": _STEPS,
            "seed": case.data.seed,
            "parameters": True,
            # Every other case lies where the one before did.
            "reuse": number % 2 == 1,
            **how,
        }
        with lap("calls"), apart:
            answer, _ = self.slot.call(within.wall_ms, **asked)
        verdict.cases += 1
        where = f"case {number} ({case.distribution})"
        if "number" not in how:
            hold_kernels(answer, where)
        reason = layout_difference(answer, case.form)
        with lap("guards"):
            wrong = whole.buffers.out_of_bounds_write(case.data.flat)
        if wrong:
            raise CandidateFailed("cheated", f"{where}: {wrong}")
        if reason:
            raise CandidateFailed("wrong", f"{where}: {reason}")
        verdict.show_framework(
            [output.framework.dtype for output in case.outputs], whole.framework_used_tf32
        )
        errors = [m.framework_error for m in case.expectations]
        verdict.framework_error = max([verdict.framework_error, *errors])
        views = whole.buffers.output_views
        reason = verdict.compare(views, case, whole, redraws="number" not in how)
        if reason:
            reason += verdict.remark_on_tf32(views, case, whole)
            raise CandidateFailed("wrong", f"{where}: {reason}")


def hold_kernels(answer: dict[str, Any], where: str) -> None:
    """A verdict on a composed module is one on its kernels: they must have run.
    (Other numbers among the arguments rightly go to the original.)"""
    why = answer.get("passed_on")
    if why:
        raise CandidateFailed("not_used", f"{where}: none of its kernels ran: {why}")


def layout_difference(answer: dict[str, Any], wanted: ResultForm) -> str:
    """Empty, or how the results look other than Model's."""
    if answer.get("structure") != wanted.structure:
        return "the result is nested otherwise than Model's"
    if answer.get("others") != wanted.others:
        others = str(answer.get("others"))[:300]
        return f"results that are no tensors differ: {others}"
    outputs = answer.get("outputs")
    if not isinstance(outputs, list) or len(outputs) != len(wanted.outputs):
        return "another number of tensors than Model returns"
    if not all(isinstance(output, dict) for output in outputs):
        return "tensors that are not described"
    for number, (mine, theirs) in enumerate(zip(wanted.outputs, outputs)):
        for key in ("type", "dtype", "shape", "stride"):
            if theirs.get(key) != getattr(mine, key):
                return (
                    f"output {number}: {key} is {str(theirs.get(key))[:100]}, "
                    f"Model's is {getattr(mine, key)}"
                )
        aliases = theirs.get("aliases")
        if not isinstance(aliases, list):
            return f"output {number} is not described"
        if any(owner not in mine.aliases for owner in aliases):
            return f"output {number} shares memory with an input, the state or another output"
    moved = answer.get("moved")
    if not isinstance(moved, list):
        return "where its arguments lie is not described"
    for number in moved:
        if number not in wanted.moved:
            return (
                f"argument {str(number)[:20]} lies elsewhere after the "
                "call, or otherwise, which Model leaves where it is"
            )
    kept = answer.get("kept")
    if not isinstance(kept, list):
        return "what it keeps is not described"
    if any(number not in wanted.kept for number in kept):
        return "it keeps one of its inputs as it is, which Model copies"
    return ""
