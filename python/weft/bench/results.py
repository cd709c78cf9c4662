"""One flat row a problem, and everything that is written of all of them."""

from __future__ import annotations

import csv
import io
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.bench import bench_report, kernelbench, plots, score
from weft.bench.bench_row import COLUMNS, Row
from weft.bench.records import (
    DIED,
    FINISHED,
    MISSING,
    NO_NETWORK,
    REFUSED,
    STOPPED,
    TIMED_OUT,
    Record,
    Records,
    is_number,
    write_atomically,
)
from weft.shown_text import csv_cell

if TYPE_CHECKING:
    from weft.bench.bench_settings import BenchSettings
    from weft.bench.problems import Problem

_SIDES = (
    ("ours", "candidate"),
    ("eager", "eager"),
    ("compile", "compile"),
    ("autotune", "compile_autotune"),
)
#: Fields of a time and of a speedup, and the ends of the columns' names.
_TIMES = {"median_us": "_us", "p10_us": "_p10_us", "p90_us": "_p90_us"}
_SPEEDUP = {"ratio": "", "low": "_low", "high": "_high"}
_OVERS = (
    ("over_eager", "over_eager"),
    ("over_compile", "over_compile"),
    ("over_autotune", "over_compile_autotune"),
)
#: How a run's reason begins whose budget ended before a module was checked.
OUT_OF_BUDGET = "the budget of "
_WORDS = {
    TIMED_OUT: "timed out",
    DIED: "died",
    MISSING: "machine lacks something",
    NO_NETWORK: "no network",
    REFUSED: "wrong input",
    STOPPED: "not done",
}


def row(problem: Problem, record: Record, result: dict[str, Any] | None) -> Row:
    """`result`: the run's result.json, or None. The floor is worked out later, with what
    all runs measured."""
    made = Row(
        label=problem.label,
        key=problem.key,
        level=problem.level,
        number=problem.number,
        name=problem.name,
        state=record.state,
        reason=record.reason,
        verdict=_WORDS.get(record.state, _unverified(record.reason)),
        verified=False,
        discriminating=None,
        wall_s=round(record.wall_s, 3),
        path=problem.path,
        result=None,
        group=problem.group,
    )
    if record.state != FINISHED or not result:
        return made
    try:
        return _filled(replace(made), result)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        made.verdict = "result.json damaged"
        made.reason = "its result.json is not what weft writes: run it again with --rerun"
        return made


def _filled(made: Row, result: dict[str, Any]) -> Row:
    """With all that the result tells. An error: it is not what weft writes."""
    verdict, timing = result["verdict"], result["timing"]
    made.verified = verdict["correct"]
    made.discriminating = verdict["kind"] != "not_discriminating"
    made.reason = verdict["reason"] or made.reason
    made.verdict = "verified" if verdict["correct"] else _unverified(made.reason)
    if verdict["correct"]:
        made.reason = verdict["reason"]
    for name in ("max_error", "framework_error", "tolerance", "cases"):
        setattr(made, name, verdict[name])
    made.machine, made.precision = result["machine"], result["precision"]
    made.result = result
    _add_times(made, timing)
    _add_nearness(made, result)
    _add_kernels(made, result)
    _add_best(made)
    made.check_types()
    lacked_memory(made)
    add_floors([replace(made)])
    return made


def _unverified(reason: str) -> str:
    """The verdict of a run that ended without a verified module, for that reason."""
    return _WORDS[TIMED_OUT] if reason.startswith(OUT_OF_BUDGET) else "not verified"


def lacked_memory(made: Row) -> bool:
    """Whether the run, a subgraph of it or the second rule, ended for want of
    memory."""
    parts = made.result["subgraphs"] if made.result else []
    reasons = [
        made.reason,
        made.compile_error or "",
        made.kernelbench_reason or "",
        *(made.result or {}).get("notes", ()),
        *(part.get("reason", "") for part in parts),
    ]
    return any(
        words in reason
        for reason in reasons
        for words in ("out_of_memory", "out of memory", "STATUS_ALLOC_FAILED")
    )


def _add_times(made: Row, timing: dict[str, Any]) -> None:
    for name, side in _SIDES:
        for key, value in (timing[side] or {}).items():
            if not is_number(value):  # KernelBench's files have them all
                raise TypeError(key)
        _add_numbers(made, timing[side], name, _TIMES)
    for name, over in _OVERS:
        _add_speedup(made, name, timing[over])
    for name, side in _SIDES[:2]:
        setattr(made, name + "_mhz", timing.get("sm_mhz", {}).get(side))
    made.throttled = "; ".join(timing.get("throttled", ()))
    made.bytes_floor = timing["bytes_floor"] or None
    made.compile_error = timing["compile_error"]


def _add_nearness(made: Row, result: dict[str, Any]) -> None:
    """By KernelBench's own rule. Older results have none of this."""
    verdict = result["verdict"]
    made.shown_precision = verdict.get("precision")
    made.framework_precision = verdict.get("framework_precision")
    found = verdict.get("kernelbench")
    if not found:
        return
    made.kernelbench = found["outcome"]
    made.compile_kernelbench = found["compiled"]
    made.kernelbench_reason = found["reason"]
    beside = result.get("kernelbench_module")
    if made.verified and found["outcome"] == "within":
        made.kernelbench_module, timing = score.OWN_MODULE, result["timing"]
    elif beside:
        made.kernelbench_module, timing = score.NEAR_MODULE, beside["timing"]
    else:
        return
    if timing["candidate"]:
        made.kernelbench_us = timing["candidate"]["median_us"]
    for name in ("over_eager", "over_compile"):
        _add_speedup(made, "kernelbench_" + name, timing[name])


def _add_speedup(made: Row, name: str, told: dict[str, float] | None) -> None:
    """`told`: replies.Speedup, or None."""
    _add_numbers(made, told, name, _SPEEDUP)


def _add_numbers(
    made: Row, told: dict[str, float] | None, name: str, suffixes: dict[str, str]
) -> None:
    """All of them, or none: the report shows an interval with each."""
    if not told:
        return
    for key, suffix in suffixes.items():
        if not is_number(told[key]):
            raise TypeError(name + suffix)
        setattr(made, name + suffix, told[key])


def _add_best(made: Row) -> None:
    """Which implementation is the fastest, and generated kernels alone."""
    if own := score.generated(made):
        made.generated_over_eager = own.over_eager
    if found := score.best(made):
        made.best = found.by
        made.best_over_eager = found.over_eager
        made.best_over_compile = found.over_compile


def _add_kernels(made: Row, result: dict[str, Any]) -> None:
    ours = [s for s in result["subgraphs"] if s["ours"]]
    rest = sum(s["count"] for s in result["subgraphs"] if not s["ours"])
    made.kernels_ours = sum(s["count"] for s in ours)
    made.kernels_extern = rest + sum(result["externs"].values())
    made.variants = "; ".join(s["variant"] for s in ours)
    made.operations = (
        result["matrix_operations"]
        + result["convolution_operations"]
        + result.get("half_operations", 0)
    )


def add_floors(rows: list[Row]) -> dict[str, float]:
    """The least time that the machine allows: bytes that must move over what
    a copy reaches, or operations over the peak of their precision, whichever
    is more. Rates are the best that any run measured: one that ran beside
    others measures less."""
    rates = best_rates(rows)
    for made in rows:
        if not made.machine:
            continue
        by_bytes = _us(made.bytes_floor, rates.get("copy_gbps"), 1e9)
        by_operations = _operations_us(made, rates)
        floor = max(by_bytes, by_operations)
        if not floor or not made.ours_us:
            continue
        made.floor_us = floor
        made.floor_by = "bytes" if by_bytes >= by_operations else "operations"
        made.floor_share = floor / made.ours_us
    return rates


def best_rates(rows: list[Row]) -> dict[str, float]:
    """Name: the most that any run measured, of the device that was timed."""
    best: dict[str, float] = {}
    for made in rows:
        machine = made.machine
        if not machine:
            continue
        measured = (
            machine["gpu_measured"] if machine["gpu"] else {"copy_gbps": machine["copy_gbps"]}
        )
        for name, value in measured.items():
            if value > 0:
                best[name] = max(best.get(name, 0.0), value)
    return best


def _operations_us(made: Row, rates: dict[str, float]) -> float:
    """As the precision's policy has it: the framework's own flags allow TF32
    in convolutions, and not in products. What may not use TF32 can still be
    made of three products in it, with float32's accuracy."""
    short = rates.get("tf32_tflops", 0.0)
    full = max(rates.get("fp32_tflops", 0.0), short / 3)
    policy = made.precision
    products = short if policy == "tf32" else full
    convolutions = full if policy == "strict" else short
    result = made.result
    assert result is not None  # it tells the machine
    return (
        _us(result["matrix_operations"], products, 1e12)
        + _us(result["convolution_operations"], convolutions, 1e12)
        + _us(
            result.get("half_operations", 0),  # older runs have none
            rates.get("half_tflops"),
            1e12,
        )
    )


def _us(amount: float | None, rate: float | None, unit: float) -> float:
    return amount / (rate * unit) * 1e6 if amount and rate else 0.0


def results_csv(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for made in rows:
        writer.writerow([_cell(getattr(made, name)) for name in COLUMNS])
    return text.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return csv_cell(value) if isinstance(value, str) else value


def write(
    settings: BenchSettings,
    rows: list[Row],
    records: Records,
    sessions: list[list[float]],
) -> None:
    """All files of --out that are worked out from the runs."""
    out = settings.out
    rates = add_floors(rows)
    write_atomically(os.path.join(out, "results.csv"), results_csv(rows))
    write_atomically(
        os.path.join(out, "report.md"), bench_report.markdown(settings, rows, rates, sessions)
    )
    for name, text in plots.all_plots(rows).items():
        write_atomically(os.path.join(out, name), text)
    for name, text in kernelbench.files(settings, rows).items():
        path = os.path.join(out, "kernelbench", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, text)
    for made in rows:
        _copy_kernel(settings, made, records)


def _copy_kernel(settings: BenchSettings, made: Row, records: Records) -> None:
    if not made.verified or made.group:
        return
    inner = ["kernelbench"] if made.kernelbench_module == score.NEAR_MODULE else []
    source = os.path.join(settings.out, "runs", made.key, "composed", *inner, "model_new.py")
    if not os.path.exists(source):
        return
    target = os.path.join(settings.out, "kernelbench", kernelbench.kernel_path(made))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
