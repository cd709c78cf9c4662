"""KernelBench's own files, so that its scripts read what weft found.

Below kernelbench/: runs/weft_level<L>/eval_results.json and the kernels;
results/timing/<hardware>/<baseline>.json. Times in milliseconds. If a second module within
KernelBench's tolerance was composed, it is the one here: KernelBench's scripts judge by
that rule.
"""

from __future__ import annotations

import json
import re
from typing import Any

from weft.bench import score
from weft.bench.bench_row import Row
from weft.bench.bench_settings import BenchSettings
from weft.bench.records import NO_NETWORK, STOPPED

#: States of problems of which nothing is known.
_NOT_RUN = (STOPPED, NO_NETWORK)
_BASELINES = (
    ("baseline_time_torch.json", "eager"),
    ("baseline_time_torch_compile_inductor_default.json", "compile"),
    ("baseline_time_torch_compile_inductor_max-autotune.json", "compile_autotune"),
)


def run_folder(level: int) -> str:
    return f"runs/weft_level{level}"


def kernel_path(row: Row) -> str:
    return f"{run_folder(row.level)}/level_{row.level}_problem_{row.number}_sample_0_kernel.py"


def files(settings: BenchSettings, rows: list[Row]) -> dict[str, str]:
    """{path below kernelbench/: text}"""
    made = {}
    rows = [row for row in rows if not row.group]
    for level in sorted({row.level for row in rows}):
        own = [row for row in rows if row.level == level]
        made[f"{run_folder(level)}/eval_results.json"] = _json(
            {
                str(row.number): [evaluation(settings, row)]
                for row in own
                if row.state not in _NOT_RUN
            }
        )
    hardware = re.sub(r"[^A-Za-z0-9]+", "_", hardware_of(settings, rows))
    for name, side in _BASELINES:
        times = baseline(settings, rows, side)
        if times:
            made[f"results/timing/{hardware}/{name}"] = _json(times)
    return made


def evaluation(settings: BenchSettings, row: Row) -> dict[str, Any]:
    """One sample of eval_results.json."""
    result = row.result
    metadata: dict[str, Any] = {
        "hardware": hardware_of(settings, [row]),
        "device": device_of(settings),
    }
    is_correct = row.verified and (not row.kernelbench or bool(row.kernelbench_module))
    if is_correct:
        metadata["correctness_trials"] = f"({row.cases} / {row.cases})"
    else:
        issue = "correctness_issue" if result else "other_error"
        metadata[issue] = row.reason or row.kernelbench_reason or row.verdict
    if row.kernelbench:
        metadata["weft_kernelbench"] = row.kernelbench
    if row.max_error is not None:
        # Normalised, against float64: not KernelBench's absolute difference.
        metadata["weft_max_error"] = row.max_error
        metadata["weft_tolerance"] = row.tolerance
    if row.discriminating is False:
        metadata["weft_not_discriminating"] = True
    is_other = row.kernelbench_module == score.NEAR_MODULE
    timed = result["kernelbench_module"] if is_other and result else result
    times = timed["timing"]["candidate"] if timed else None
    stats = statistics_of(times, settings, row) if is_correct else {}
    return {
        "sample_id": 0,
        "compiled": bool(result),
        "correctness": is_correct,
        "metadata": metadata,
        # KernelBench's own mark for "not measured" is -1.
        "runtime": stats.get("mean", -1.0),
        "runtime_stats": stats,
    }


def baseline(settings: BenchSettings, rows: list[Row], side: str) -> dict[str, Any]:
    """{level: {file: statistics}}; {} when nothing was timed.

    Some versions of KernelBench's analysis pair the entries of both files by
    their position. So what has no kernel to be compared with has an entry
    here, too, whose mean of -1 says that nothing was measured.
    """
    made: dict[str, dict[str, Any]] = {}
    for row in rows:
        times = row.result["timing"][side] if row.result else None
        if row.state in _NOT_RUN or (row.verified and not times):
            continue
        made.setdefault(f"level{row.level}", {})[row.name] = (
            statistics_of(times, settings, row) if times else {"mean": -1.0, "num_trials": 0}
        )
    is_timed = any(times["num_trials"] for level in made.values() for times in level.values())
    return made if is_timed else {}


def statistics_of(
    times: dict[str, Any] | None, settings: BenchSettings, row: Row
) -> dict[str, Any]:
    """{} when nothing was timed."""
    if not times:
        return {}
    return {
        "mean": times["mean_us"] / 1e3,
        "std": times["std_us"] / 1e3,
        "min": times["min_us"] / 1e3,
        "max": times["max_us"] / 1e3,
        "num_trials": times["runs"],
        "hardware": hardware_of(settings, [row]),
        "device": device_of(settings),
    }


def hardware_of(settings: BenchSettings, rows: list[Row]) -> str:
    if settings.gpu:
        return settings.gpu
    for row in rows:
        if row.machine:
            return row.machine["processor"]
    return "unknown"


def device_of(settings: BenchSettings) -> str:
    if not settings.gpu:
        return "cpu"
    flags = settings.run_flags
    number = flags[flags.index("--device") + 1] if "--device" in flags else 0
    return f"cuda:{number}"


def _json(value: object) -> str:
    return json.dumps(value, indent=4) + "\n"
