"""Errors, and lack of memory, in replies of the oracle."""

import os
import traceback
from typing import Any

from weft.candidate.slot import SlotBroken
from weft.device.cuda_driver import NoDriver
from weft.expect import expected
from weft.expect.reference import BadGraph
from weft.problem.problem import ProblemError
from weft.timing import timing


def lacked_memory(reply: dict[str, Any]) -> bool:
    """Whether what was judged ended for want of memory: its own, or of float64,
    without which the tolerance is narrower."""
    verdict, timed = reply.get("verdict") or {}, reply.get("timing") or {}
    rejected = timed.get("rejected", "")
    return (
        verdict.get("kind") == "out_of_memory"
        or (verdict.get("kind") == "wrong" and verdict["lacks_float64"])
        or rejected.startswith("out_of_memory")
        or (rejected.startswith("wrong") and bool(timed.get("lacks_float64")))
    )


def explain(error: BaseException) -> dict[str, str]:
    """The `error` object of a reply."""
    if isinstance(error, ProblemError):
        return {"code": error.code, "message": error.message}
    if isinstance(error, (FileNotFoundError, SlotBroken, NoDriver)):
        return {"code": "missing", "message": str(error)}
    if isinstance(error, KeyError):
        return {"code": "wrong_input", "message": f"request lacks {error}"}
    bad = (ValueError, TypeError, BadGraph, expected.BadSubgraph)
    if isinstance(error, bad):
        return {"code": "wrong_input", "message": str(error)}
    if isinstance(error, timing.TimingFailed):
        return {"code": "failed", "message": str(error)}
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(where.filename)}:{where.lineno}"
    text = f"{type(error).__name__}: {error} ({place})"
    return {"code": "failed", "message": text}
