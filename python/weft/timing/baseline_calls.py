"""Calls of the baseline's process that are not timed."""

from __future__ import annotations

from typing import Any

from weft.candidate.slot import CandidateFailed, Slot

BASELINE_WALL_MS = 300_000
#: To start and to compile, which may have to wait for the device.
BASELINE_START_MS = 900_000


class BaselineLost(Exception):
    """The trusted side of the comparison died, or has no inputs."""


def ask_baseline(baseline: Slot, **fields: Any) -> tuple[dict[str, Any], float]:
    """The answer, and the seconds that it took."""
    try:
        return baseline.call(BASELINE_WALL_MS, **fields)
    except CandidateFailed as ended:
        raise BaselineLost(ended.reason) from None
