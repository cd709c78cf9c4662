"""The verb `eval`: a verdict on any file that claims to replace a Model.

The candidate defines ModelNew (KernelBench) or kernel_function (KernelAgent).
It is judged as a composed module is (verify_model.py), then timed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from weft.judge import verify_model
from weft.judge.job_folders import NotStaged
from weft.oracle import judge_kernelbench_tolerance
from weft.problem import operator_trace
from weft.timing.timing import NotTimed
from weft.problem.problem import ProblemError
from weft.candidate.slot import CandidateFailed
from weft.judge.limits import Limits
from weft.judge.verdict import Verdict

if TYPE_CHECKING:
    from weft.judge.whole_model import WholeModel
    from weft.oracle.oracle import Oracle
    from weft.oracle.replies import TimingReply

_IMPORTS_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.MULTILINE)
_DEFINES = "(?:class|def)\\s+{0}\\b|^\\s*{0}\\s*[:=]|import\\b.*\\b{0}\\b"


@dataclasses.dataclass
class Evaluation:
    """docs/reference/worker-protocol.md's `evaluation`."""

    contract: str  #: "ModelNew" or "kernel_function"
    device: str
    precision: str
    random_seed: int
    timing: TimingReply | None = None
    untimed: str = ""  #: why there is no timing
    operators: dict[str, int] | None = None
    remark: str = ""
    accepted: bool = False
    verdict: Verdict = dataclasses.field(default_factory=Verdict)


def evaluate(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    """The Evaluation of the request's candidate."""
    text = _read(request["candidate"])
    contract = contract_of(text, request["candidate"])
    whole = oracle.whole(request)
    if not whole.places["outputs"] and not _changes_anything(whole):
        raise ProblemError(
            "wrong_result",
            "the reference's forward() returns no tensor, and "
            "changes none: there is nothing to hold a candidate against",
        )
    limits = Limits.from_request(request)
    job: dict[str, Any] = {}
    try:
        job = stage(oracle, request, contract, whole)
    except NotStaged as why:
        verdict = Verdict(kind="crashed", reason=str(why))
    else:
        verdict = verify_model.check_model(oracle.slot, oracle.keeper, whole, job, limits)
    if verdict.reason.startswith("ModuleNotFoundError"):
        verdict.reason += (
            f"; it may import what this Python has: {sys.executable} (--python chooses another)"
        )
    found = Evaluation(contract, oracle.device.name, whole.precision, whole.seed, verdict=verdict)
    if verdict.correct:
        _trace(oracle, whole, job, limits, found)
    if verdict.correct:
        found.untimed = why_untimed(request, text)
        verdict.kernelbench = judge_kernelbench_tolerance.judge(oracle, whole, job, limits, request)
        if not found.untimed:
            _time(oracle, whole, job, request, limits, found)
    found.accepted = verdict.correct
    return {"evaluation": dataclasses.asdict(found)}


def _changes_anything(whole: WholeModel) -> bool:
    case = whole.case("given", whole.device.generator(whole.seed))
    return not all(one.is_untouched for one in case.others)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise ProblemError(
            "missing_file",
            f"cannot read {path}: {error.strerror}; check the path",
        ) from None


def contract_of(text: str, path: str) -> str:
    """Which of the two names the file defines: how it will be called."""
    for name in ("ModelNew", "kernel_function"):
        if re.search(_DEFINES.format(name), text, re.MULTILINE):
            return name
    raise ProblemError(
        "missing_name",
        f"{os.path.basename(path)} has neither ModelNew nor kernel_function: "
        "a candidate defines one of them",
    )


def why_untimed(request: dict[str, Any], text: str) -> str:
    """Empty, or why this candidate gets no times."""
    if not request.get("baselines"):
        return "not asked for"
    if request.get("interprets") and _IMPORTS_TRITON.search(text):
        return "Triton's interpreter ran its kernels, on the CPU"
    return ""


def stage(
    oracle: Oracle, request: dict[str, Any], contract: str, whole: WholeModel
) -> dict[str, Any]:
    """The candidate's job, in folders that no candidate wrote to before."""
    function_of = None
    if contract == "kernel_function":
        with open(request["problem"], "rb") as file:
            function_of = file.read()
    return oracle.stage_model(request["candidate"], whole, function_of)


def _trace(
    oracle: Oracle,
    whole: WholeModel,
    job: dict[str, Any],
    limits: Limits,
    found: Evaluation,
) -> None:
    """What the framework did for it, by the candidate's own account. Who hangs
    here would hang in each process that is still to come."""
    arena = oracle.keeper.of(whole.buffers.end)
    try:
        arena.clear()
        whole.buffers.bind(arena)
        try:
            verify_model.begin(oracle.slot, whole, job, arena, limits)
        except CandidateFailed as ended:  # what it does is listed all the same
            if ended.kind not in ("wrong", "cheated"):
                raise
        data = whole.data("given", whole.device.generator(whole.seed))
        whole.write(data)
        answer, _ = oracle.slot.call(
            limits.wall_ms,
            steps=["load", "trace"],
            seed=data.seed,
            parameters=True,
        )
        told = answer.get("operators")
    except CandidateFailed as ended:
        told = None
        if ended.kind == "timed_out":
            found.verdict.fail(ended.kind, ended.reason)
    finally:
        oracle.slot.dismiss()
    if not isinstance(told, dict):
        found.remark = "it did not run where its operators are listed"
        return
    called = {
        str(name)[:100]: count
        for name, count in list(told.items())[: operator_trace.NAMES_MAX]
        if type(count) is int
    }
    found.operators = called
    if whole.operators and set(whole.operators) <= set(called):
        found.remark = (
            "it calls every operator that the reference calls: no kernel of its own replaces one"
        )


def _time(
    oracle: Oracle,
    whole: WholeModel,
    job: dict[str, Any],
    request: dict[str, Any],
    limits: Limits,
    found: Evaluation,
) -> None:
    try:
        found.timing = oracle.timer.time(*oracle.model_bench(whole, request), job, request, limits)
    except NotTimed as busy:
        found.untimed = f"not timed: {busy}"
        found.verdict.fail("not_timed", found.untimed)
        return
    _hold_timing(found.timing, found.verdict)


def _hold_timing(timing: TimingReply, verdict: Verdict) -> None:
    """A candidate may fall while it is timed."""
    kind, _, reason = timing["rejected"].partition(": ")
    if kind:
        verdict.fail(kind, reason)
