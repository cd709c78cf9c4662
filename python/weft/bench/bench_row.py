"""One flat row a problem: what its run found."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from weft.bench.records import is_number

#: Fields of a row that are no columns of results.csv.
_NO_COLUMNS = ("label", "key", "state", "path", "result", "machine", "precision")
_FIRST = ("level", "number", "name", "verdict", "verified", "discriminating", "reason")
_LATE = ("wall_s", "group")


@dataclass
class Row:
    """A value that was not measured is None. Times are in microseconds."""

    label: str
    key: str
    level: int
    number: int
    name: str
    state: str
    reason: str
    verdict: str
    verified: bool
    discriminating: bool | None
    wall_s: float
    path: str
    result: dict[str, Any] | None  #: the run's result.json
    group: str
    max_error: float | None = None
    framework_error: float | None = None
    tolerance: float | None = None
    cases: int | None = None
    ours_us: float | None = None
    ours_p10_us: float | None = None
    ours_p90_us: float | None = None
    eager_us: float | None = None
    eager_p10_us: float | None = None
    eager_p90_us: float | None = None
    compile_us: float | None = None
    compile_p10_us: float | None = None
    compile_p90_us: float | None = None
    autotune_us: float | None = None
    autotune_p10_us: float | None = None
    autotune_p90_us: float | None = None
    over_eager: float | None = None
    over_eager_low: float | None = None
    over_eager_high: float | None = None
    over_compile: float | None = None
    over_compile_low: float | None = None
    over_compile_high: float | None = None
    over_autotune: float | None = None
    over_autotune_low: float | None = None
    over_autotune_high: float | None = None
    bytes_floor: int | None = None
    operations: int | None = None
    floor_us: float | None = None
    floor_by: str | None = None
    floor_share: float | None = None
    ours_mhz: float | None = None
    eager_mhz: float | None = None
    throttled: str | None = None
    kernels_ours: int | None = None
    kernels_extern: int | None = None
    variants: str | None = None
    compile_error: str | None = None
    shown_precision: str | None = None
    framework_precision: str | None = None
    kernelbench: str | None = None
    compile_kernelbench: str | None = None
    kernelbench_reason: str | None = None
    kernelbench_module: str | None = None
    kernelbench_us: float | None = None
    kernelbench_over_eager: float | None = None
    kernelbench_over_eager_low: float | None = None
    kernelbench_over_eager_high: float | None = None
    kernelbench_over_compile: float | None = None
    kernelbench_over_compile_low: float | None = None
    kernelbench_over_compile_high: float | None = None
    generated_over_eager: float | None = None
    best: str | None = None
    best_over_eager: float | None = None
    best_over_compile: float | None = None
    machine: dict[str, Any] | None = None
    precision: str | None = None

    def check_types(self) -> None:
        """An error if a value is not of its column's type: the report and the plots compute
        with the numbers of all rows."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None or one.name in ("result", "machine"):
                continue
            is_text = str(one.type).startswith("str")
            if not (isinstance(value, str) if is_text else is_number(value) and value >= 0):
                raise TypeError(one.name)
            if "over_" in one.name and value == 0:
                raise ValueError(one.name)  # the report takes speedups' logarithms

    def told(self) -> dict[str, Any]:
        """As `weft bench --json` prints it."""
        left_out = {"result", "machine"} | ({"precision"} if self.precision is None else set())
        return {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out
        }


def _columns() -> tuple[str, ...]:
    names = [one.name for one in fields(Row)]
    measured = [name for name in names if name not in (*_FIRST, *_LATE, *_NO_COLUMNS)]
    place = measured.index("compile_error") + 1
    return (*_FIRST, *measured[:place], *_LATE, *measured[place:])


#: The columns of results.csv, in order.
COLUMNS = _columns()
