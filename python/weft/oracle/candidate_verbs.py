"""The verbs `check`, `time`, `check_model` and `time_model` (oracle.py)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.expect import expected
from weft.judge import verify_model, verify_subgraph
from weft.judge.job_folders import NotStaged
from weft.judge.limits import Limits
from weft.judge.verdict import Verdict
from weft.oracle import judge_kernelbench_tolerance
from weft.timing import time_subgraph
from weft.timing.rounds import rejection

if TYPE_CHECKING:
    from weft.oracle.oracle import Oracle
    from weft.timing.bench import Bench
    from weft.timing.timing import Timer

#: The rules of a check_model request.
WEFT_RULE, NEAR_EAGER_RULE = "weft", "kernelbench"


def check(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    cases = oracle.known.cases(request["subgraph"], request.get("random_seed", 0))
    limits = Limits.from_request(request)
    return _verdict_reply(
        oracle,
        _staging(oracle, request["candidate"]),
        lambda job: verify_subgraph.check(oracle.slot, oracle.keeper, cases, job, limits),
    )


def time(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    stage = _staging(oracle, request["candidate"])
    path, seed = os.path.abspath(request["subgraph"]), request.get("random_seed", 0)
    like = oracle.known.like(path, seed)
    key = ("subgraph", *expected.key_of(path, seed))

    def make_bench() -> Bench:
        return time_subgraph.SubgraphBench(path, seed, oracle.device, like)

    return _timing_reply(oracle, stage, oracle.timer, make_bench, key, request)


def check_model(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    whole = oracle.whole(request)
    limits = Limits.from_request(request)
    rules = request.get("rules", [WEFT_RULE])

    def judge(job: dict[str, Any]) -> Verdict:
        verdict = Verdict(correct=True)
        if WEFT_RULE in rules:
            verdict = verify_model.check_model(oracle.slot, oracle.keeper, whole, job, limits)
        if NEAR_EAGER_RULE in rules and verdict.correct:
            verdict.kernelbench = judge_kernelbench_tolerance.judge(
                oracle, whole, job, limits, request
            )
        return verdict

    return _verdict_reply(oracle, lambda: oracle.stage_model(request["composed"], whole), judge)


def time_model(oracle: Oracle, request: dict[str, Any]) -> dict[str, Any]:
    whole = oracle.whole(request)
    return _timing_reply(
        oracle,
        lambda: oracle.stage_model(request["composed"], whole),
        oracle.model_timer,
        *oracle.model_bench(whole, request),
        request,
    )


def _verdict_reply(
    oracle: Oracle, stage: Callable[[], dict[str, Any]], judge: Callable[[dict[str, Any]], Verdict]
) -> dict[str, Any]:
    """The verdict on a candidate, whose job `stage` gives."""
    try:
        job = stage()
    except NotStaged as why:
        verdict = Verdict(kind="crashed", reason=str(why))
    else:
        verdict = judge(job)
        oracle.keep_build(verdict.correct)
    return {"verdict": dataclasses.asdict(verdict)}


def _timing_reply(
    oracle: Oracle,
    stage: Callable[[], dict[str, Any]],
    timer: Timer,
    make_bench: Callable[[], Bench],
    key: tuple[Any, ...],
    request: dict[str, Any],
) -> dict[str, Any]:
    """The timing of a candidate, whose job `stage` gives."""
    limits = Limits.from_request(request)
    try:
        job = stage()
    except NotStaged as why:
        return {"timing": rejection("crashed", str(why))}
    found = timer.time(make_bench, key, job, request, limits)
    oracle.keep_build(not found["rejected"])
    return {"timing": found}


def _staging(oracle: Oracle, candidate: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """A function that stages a subgraph's candidate. The candidate's bytes are read now."""
    content = verify_subgraph.read_candidate(candidate)

    def stage() -> dict[str, Any]:
        oracle.ready_to_stage()
        return verify_subgraph.stage(candidate, content, oracle.folders)

    return stage
