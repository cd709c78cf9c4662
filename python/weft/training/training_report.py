"""The report.md of a run that was trained."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from weft.shown_text import table_cell

if TYPE_CHECKING:
    from weft.training.gradients import GradCheck


@dataclasses.dataclass(frozen=True)
class Pass:
    """One of the two graphs, and what its run found."""

    name: str
    summary: str
    reason: str  #: why it is PyTorch's
    operators: int


@dataclasses.dataclass(frozen=True)
class Tried:
    """A ModelNew that was judged: a training_verdict.Trial without its text."""

    kernels: list[str]  #: names of the passes that are by kernels
    verdict: dict[str, Any] | None
    timing: dict[str, Any] | None
    descent: dict[str, Any] | None


@dataclasses.dataclass(frozen=True)
class Result:
    """result.json of the whole."""

    summary: str
    verified: bool
    kernels: list[str]
    timing: dict[str, Any] | None
    gradcheck: GradCheck
    passes: list[Pass]
    tried: list[Tried]


def joined(names: list[str]) -> str:
    return " and ".join(names) + " pass" + ("es" if len(names) > 1 else "")


def speed(timing: dict[str, Any] | None) -> str:
    """How many times faster, with intervals."""
    told = [
        f"{_over(timing, party)} over {name}"
        for party, name in (("eager", "eager"), ("compile", "torch.compile"))
        if _over(timing, party)
    ]
    return ", ".join(told) or "not timed"


def text(name: str, result: Result) -> str:
    lines = [
        f"# {name}, trained",
        "",
        result.summary,
        "",
        "| kernels for | verdict | kernels ms | eager ms | torch.compile ms "
        "| over eager | over torch.compile |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(one) for one in result.tried]
    lines += [
        "",
        "Times are medians of a forward and a backward pass, all in "
        "turns, in one run; in brackets the 95 % interval.",
        "",
        _gradcheck(result.gradcheck),
    ]
    lines += [
        f"* the {one.name} pass, {one.operators} operators: "
        f"{one.summary or one.reason} "
        f"([report]({one.name}/report.md))"
        for one in result.passes
    ]
    return "\n".join(lines) + "\n"


def _row(one: Tried) -> str:
    assert one.verdict is not None
    timing = one.timing or {}
    verdict = "right" if one.verdict["correct"] else one.verdict["reason"]
    if one.descent:
        verdict += (
            "; losses follow eager's"
            if one.descent["correct"]
            else f"; in gradient descent: {one.descent['reason']}"
        )
    times = [
        f"{timing[side]['median_us'] / 1e3:.3f}" if timing.get(side) else ""
        for side in ("candidate", "eager", "compile")
    ]
    return (
        "| "
        + " | ".join(
            [
                joined(one.kernels),
                table_cell(verdict),
                *times,
                _over(timing, "eager"),
                _over(timing, "compile"),
            ]
        )
        + " |"
    )


def _over(timing: dict[str, Any] | None, party: str) -> str:
    found = (timing or {}).get(f"over_{party}")
    if not found:
        return ""
    return f"{found['ratio']:.2f}× ({found['low']:.2f}–{found['high']:.2f})"


def _gradcheck(checked: GradCheck) -> str:
    line = f"* gradcheck of both graphs, in float64: {checked.outcome}"
    line += "".join(f", {part}" for part in (checked.how, checked.reason) if part)
    if checked.lost_in_rounding:
        line += (
            "\n* gradients that rounding alone decides, held against "
            f"another's size: {', '.join(checked.lost_in_rounding)}"
        )
    return line
