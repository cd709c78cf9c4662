"""The records in an oracle's replies (docs/reference/worker-protocol.md).

Written by tools/protocol from messages/oracle_replies.toml; do not edit.
"""

from __future__ import annotations

from typing import Any, TypedDict


class KernelBench(TypedDict):
    outcome: str
    reason: str
    draws: int
    max_difference: float
    tolerance: float
    compiled: str
    compiled_reason: str


class Mismatch(TypedDict):
    output: str
    index: list[int]
    expected: str
    got: str
    error: str


class VerdictReply(TypedDict):
    correct: bool
    reason: str
    kind: str
    cases: int
    max_error: float
    framework_error: float
    tolerance: float
    precision: str
    framework_precision: str
    kernelbench: dict[str, Any]
    beyond: float
    mismatches: list[Mismatch]
    lacks_float64: bool
    controls: dict[str, bool | None]
    wall_ms: float


class Times(TypedDict):
    median_us: float
    p10_us: float
    p90_us: float
    runs: int
    mean_us: float
    std_us: float
    min_us: float
    max_us: float


class Speedup(TypedDict):
    ratio: float
    low: float
    high: float


class BackToBack(TypedDict):
    calls: int
    us: dict[str, float]


class DeviceTiming(TypedDict):
    copy_gbps: float
    floor_us: float
    late_us: float
    sm_mhz: dict[str, int]
    throttled: list[str]


class _TimingReplyNeeded(TypedDict):
    candidate: Times | None
    eager: Times | None
    compile: Times | None
    compile_error: str
    outputs_checked: int
    outputs_wrong: int
    clock_ratio: float
    bytes_floor: int
    rejected: str


class TimingReply(_TimingReplyNeeded, total=False):
    compile_autotune: Times | None
    compile_autotune_error: str
    over_eager: Speedup | None
    over_compile: Speedup | None
    over_compile_autotune: Speedup | None
    off_clock_us: float
    overhead_us: float
    calls_per_run: int
    back_to_back: BackToBack | None
    not_back_to_back: str
    gpu: DeviceTiming
    built: dict[str, dict[str, int]]
    lacks_float64: bool
