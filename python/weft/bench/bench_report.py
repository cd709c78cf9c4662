"""report.md of a bench: what a person wants to know first stands first."""

from __future__ import annotations

from urllib.parse import quote

from weft.bench import score
from weft.bench.bench_row import Row
from weft.bench.bench_settings import BenchSettings
from weft.bench.progress import are_left, duration
from weft.bench.records import NO_NETWORK
from weft.shown_text import table_cell

_BASES = (
    ("over_eager", "eager"),
    ("over_compile", "torch.compile"),
    ("over_autotune", "its max-autotune"),
)


def markdown(
    settings: BenchSettings,
    rows: list[Row],
    rates: dict[str, float],
    sessions: list[list[float]],
) -> str:
    parts = [_head(settings, rows, rates, sessions)]
    own = [row for row in rows if not row.group]
    other = [row for row in rows if row.group]
    parts += _sections(own)
    if other:
        parts.append(_beside(settings, own, other))
        parts += _sections(other, f"In {settings.beside}: ")
    parts += [_apart(rows), _failures(rows), _compile_failures(rows), _every(rows)]
    return "\n".join(part for part in parts if part)


def _sections(rows: list[Row], before: str = "") -> list[str]:
    levels = sorted({row.level for row in rows})
    parts = []
    if len(levels) > 1:
        parts += [
            _section(f"{before}Level {level}", [r for r in rows if r.level == level])
            for level in levels
        ]
    whole = "All problems" if len(levels) > 1 else "Scores"
    return [*parts, _section(before + whole, rows)]


def _beside(settings: BenchSettings, own: list[Row], other: list[Row]) -> str:
    """The scores of both folders: a claim is the lower one."""
    lines = [
        "## Beside each other",
        "",
        f"| geometric mean of verified problems | {settings.folder} | {settings.beside} |",
        "|---|---|---|",
    ]
    levels = sorted({row.level for row in own + other})
    chosen: list[tuple[str, int | None]] = [(f"level {level}", level) for level in levels]
    if len(levels) != 1:
        chosen.append(("all", None))
    for words, level in chosen:
        for name, base in _BASES:
            cells = [_mean_of(rows, level, name) for rows in (own, other)]
            if any(cell != "–" for cell in cells):
                lines.append(f"| {words}, over {base} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _mean_of(rows: list[Row], level: int | None, name: str) -> str:
    told = [r for r in score.run_ones(rows) if level is None or r.level == level]
    ratios = score.ratios(told, name)
    if not ratios:
        return "–"
    return f"{score.geometric_mean(ratios):.3f}× ({len(ratios)} of {len(told)})"


def _near(rows: list[Row]) -> str | None:
    """The scores by KernelBench's own rule."""
    near = score.by_near_rule(rows)
    if not near:
        return None
    accepted = [row for row in near if row.verified]
    beside = sum(1 for row in accepted if row.kernelbench_module == score.NEAR_MODULE)
    compiled = [row for row in near if row.compile_kernelbench == "within"]
    both = sum(1 for row in compiled if row.verified)
    lines = [
        f"* KernelBench's tolerance: {len(accepted)} of "
        f"{len(near)} modules within it, {beside} of them another module than "
        f"weft's rule accepts; torch.compile's within it in {len(compiled)} "
        f"problems, in {both} of these weft's too"
    ]
    for name, words in _BASES[:2]:
        ratios = score.ratios(near, name)
        if ratios:
            spread = " / ".join(map(str, score.beyond_spread(near, name)))
            lines.append(
                f"* Within KernelBench's tolerance, over {words}: geometric mean "
                f"{score.geometric_mean(ratios):.3f}×, faster / slower "
                f"/ no difference {spread}"
            )
    return "\n".join(lines)


def _tf32(rows: list[Row]) -> str | None:
    """Whose results are less exact than the framework's: none, by the rule."""
    told = [row for row in rows if row.verified and row.shown_precision]
    if not told:
        return None
    ours = sum(1 for row in told if row.shown_precision == "tf32")
    theirs = sum(1 for row in told if row.framework_precision == "tf32")
    return (
        f"* Precision: TF32 shows in {ours} of weft's modules, and in {theirs} "
        f"of PyTorch's, of {len(told)}"
    )


def _head(
    settings: BenchSettings,
    rows: list[Row],
    rates: dict[str, float],
    sessions: list[list[float]],
) -> str:
    verified = sum(1 for row in rows if row.verified)
    left = sum(1 for row in rows if row.state == "stopped")
    run = len(score.run_ones(rows))
    lines = ["# weft bench", "", f"{verified} of {run} problems verified."]
    if run < len(rows):
        lines += [
            "",
            f"{len(rows) - run} more were not run, for they want a "
            "network: they count in no score, and the same command tries "
            "them again.",
        ]
    if left:
        lines += [
            "",
            f"**Not all is done: {are_left(left)}.** The same "
            "command goes on. Below what is left counts as not verified.",
        ]
    if not settings.timed:
        lines += ["", "Nothing was timed: there is no GPU here, and the kernels were interpreted."]
    machine = next((r.machine for r in rows if r.machine), None)
    beside = f" and {settings.beside}" if settings.beside else ""
    lines += ["", f"* Problems: {settings.folder}{beside}"]
    if machine:
        gpu = f"{machine['gpu']}, " if machine["gpu"] else ""
        torch = f", PyTorch {machine['torch']}" if machine["torch"] else ""
        lines.append(f"* Machine: {gpu}{machine['processor']}{torch}")
    precision = next((r.precision for r in rows if r.precision), "")
    lines.append(
        f"* weft {settings.version}, target {settings.target}, "
        f"precision {precision or 'framework'}"
        + (f", flags {' '.join(settings.run_flags)}" if settings.run_flags else "")
    )
    if rates:
        lines.append(
            "* Measured: "
            + ", ".join(f"{name} {value:.5g}" for name, value in sorted(rates.items()))
        )
    lines.append(_time_spent(settings, rows, sessions))
    if any(row.floor_share for row in rows):
        lines += ["", "![speedups, sorted](speedups.svg)", "![time against floor](floor.svg)"]
    elif any(row.over_eager for row in rows):
        lines += ["", "![speedups, sorted](speedups.svg)"]
    return "\n".join(lines) + "\n"


def _time_spent(settings: BenchSettings, rows: list[Row], sessions: list[list[float]]) -> str:
    walls = [row.wall_s for row in rows if row.wall_s]
    whole = sum(end - begin for begin, end in sessions)
    text = f"* Time: {duration(whole)} in {len(sessions)} call"
    text += "s" if len(sessions) > 1 else ""
    if walls:
        text += (
            f", {settings.jobs} problems at a time; a problem took "
            f"{duration(score.median(walls) or 0.0)} (median), "
            f"{duration(max(walls))} at most, "
            f"{duration(sum(walls))} in all"
        )
    return text


def _section(title: str, rows: list[Row]) -> str:
    rows = score.run_ones(rows)
    if not rows:
        return f"## {title}\n\n* No problem was run\n"
    bases = [(name, words) for name, words in _BASES if score.ratios(rows, name)]
    lines: list[str | None] = [f"## {title}", ""]
    if bases:
        lines += _both_columns(rows)
    if not bases:
        verified = score.fast_p(rows, "over_eager", 0)
        return (
            "\n".join(
                [
                    f"## {title}",
                    "",
                    f"* fast_0 (verified): {verified:.2f} of {len(rows)} problems",
                    _kernels(rows),
                    *filter(None, (_near(rows), _tf32(rows))),
                ]
            )
            + "\n"
        )
    lines += [
        "| | " + " | ".join(f"over {words}" for _, words in bases) + " |",
        "|---|" + "---|" * len(bases),
    ]
    for threshold in score.THRESHOLDS:
        lines.append(
            f"| fast_{threshold:g} | "
            + " | ".join(
                _number(score.fast_p(rows, name, threshold), "{:.2f}") for name, _ in bases
            )
            + " |"
        )
    for words, of in (("geometric mean", score.geometric_mean), ("median", score.median)):
        lines.append(
            f"| {words} | "
            + " | ".join(_number(of(score.ratios(rows, name)), "{:.3f}×") for name, _ in bases)
            + " |"
        )
    lines.append(
        "| faster / slower / no difference | "
        + " | ".join(" / ".join(map(str, score.beyond_spread(rows, name))) for name, _ in bases)
        + " |"
    )
    told = [row for row in rows if row.discriminating is not False]
    if len(told) < len(rows):
        lines.append(
            "| geometric mean of those that discriminate | "
            + " | ".join(
                _number(score.geometric_mean(score.ratios(told, name)), "{:.3f}×")
                for name, _ in bases
            )
            + " |"
        )
    lines += [
        "",
        f"fast_p is the share of all {len(rows)} problems that are "
        "verified and more than p times as fast; means and medians are "
        "of verified ones. Faster and slower: the 95 % interval of the "
        "ratio does not hold 1.",
        "",
        _floors(rows),
        _kernels(rows),
        _near(rows),
        _tf32(rows),
        _against_itself(rows),
        _clocks(rows),
    ]
    return "\n".join(line for line in lines if line is not None) + "\n"


def _both_columns(rows: list[Row]) -> list[str]:
    """Generated kernels only, and the best of all implementations."""
    columns = [
        [found for row in rows if (found := function(row))]
        for function in (score.generated, score.best)
    ]
    lines = [
        "| | generated kernels only | best of all |",
        "|---|---|---|",
        "| results | " + " | ".join(f"{len(found)} of {len(rows)}" for found in columns) + " |",
    ]
    for words, name in (("eager", "over_eager"), ("torch.compile", "over_compile")):
        lines.append(
            f"| geometric mean over {words} | "
            + " | ".join(
                _number(
                    score.geometric_mean([ratio for one in found if (ratio := getattr(one, name))]),
                    "{:.3f}×",
                )
                for found in columns
            )
            + " |"
        )
    chosen = [one.by for one in columns[1]]
    counts = ", ".join(
        f"{name} {chosen.count(name)}" for name in (score.WEFT, score.COMPILE, score.EAGER)
    )
    return [
        *lines,
        "",
        "A module that is slower than eager, beyond the spread, is "
        "not a result. Generated kernels: without Inductor's code. Best of all: "
        "the fastest of weft's module, torch.compile and eager, as they were "
        f"timed beside each other ({counts}).",
        "",
    ]


def _floors(rows: list[Row]) -> str | None:
    lines = []
    for kind, words in (
        ("bytes", "bound by memory: bytes that must move over the measured copy bandwidth"),
        ("operations", "bound by arithmetic: operations over the measured peak"),
    ):
        shares = [
            row.floor_share
            for row in rows
            if row.verified and row.floor_share is not None and row.floor_by == kind
        ]
        if shares:
            near = sum(1 for share in shares if share >= 0.9)
            lines.append(
                f"* Share of the floor, {words}: median "
                f"{100 * (score.median(shares) or 0.0):.0f} %, "
                f"{near} of {len(shares)} at 90 % or more"
            )
    return "\n".join(lines) or None


def _kernels(rows: list[Row]) -> str:
    ours = sum(row.kernels_ours or 0 for row in rows)
    extern = sum(row.kernels_extern or 0 for row in rows)
    with_ours = sum(1 for row in rows if row.kernels_ours)
    return f"* Kernels: {ours} generated, in {with_ours} problems; {extern} calls left to PyTorch"


def _against_itself(rows: list[Row]) -> str | None:
    """How far the same code in two processes lies apart here."""
    same = sorted(score.ratios(filter(score.is_eager, rows), "over_eager"))
    if not same:
        return None
    return (
        f"* Where no generated kernel won ({len(same)} problems), ModelNew is "
        "PyTorch's own code, which in its process was "
        f"{score.median(same):.3f} times as fast as in eager's (median; "
        f"{same[0]:.2f} to {same[-1]:.2f}): there is no difference; means "
        "and fast_p count what was measured"
    )


def _clocks(rows: list[Row]) -> str | None:
    """What the device ran at while both sides were timed."""
    both = [(row.ours_mhz, row.eager_mhz) for row in rows if row.ours_mhz and row.eager_mhz]
    if not both:
        return None
    apart = sum(1 for ours, eager in both if abs(ours - eager) > 0.02 * eager)
    lowered = sum(1 for row in rows if row.throttled)
    return (
        "* Clocks after calls, medians: weft's module "
        f"{score.median([ours for ours, _ in both]):.0f} MHz, eager "
        f"{score.median([eager for _, eager in both]):.0f} MHz; more than "
        f"2 % apart in {apart} problems, lowered (by power, heat) in "
        f"{lowered}"
    )


def _apart(rows: list[Row]) -> str:
    apart = [row for row in rows if row.discriminating is False]
    if not apart:
        return ""
    return (
        "\n".join(
            [
                "## Problems that do not discriminate",
                "",
                "Some wrong output passes their check too, whoever checks; a verdict "
                "of theirs says little.",
                "",
            ]
            + [f"* {table_cell(row.label)}: passes with {_passed(row)}" for row in apart]
        )
        + "\n"
    )


def _passed(row: Row) -> str:
    assert row.result is not None  # its verdict was read
    controls = row.result["verdict"]["controls"]
    passed = [name for name, rejected in sorted(controls.items()) if not rejected]
    return ", ".join(passed) or "a wrong output"


def _failures(rows: list[Row]) -> str:
    failed = [row for row in score.run_ones(rows) if not row.verified and row.state != "stopped"]
    rest = [row for row in rows if row.state == NO_NETWORK]
    return "\n".join(filter(None, (_reasons("Not verified", failed), _reasons("Not run", rest))))


def _reasons(title: str, failed: list[Row]) -> str:
    if not failed:
        return ""
    return (
        "\n".join(
            [f"## {title}", "", "| problem | verdict | why |", "|---|---|---|"]
            + [
                f"| {table_cell(row.label)} | {row.verdict} | {table_cell(row.reason)} |"
                for row in failed
            ]
        )
        + "\n"
    )


def _compile_failures(rows: list[Row]) -> str:
    failed = [row for row in rows if row.compile_error]
    if not failed:
        return ""
    return (
        "\n".join(
            ["## Where torch.compile failed", ""]
            + [f"* {table_cell(row.label)}: {table_cell(row.compile_error)}" for row in failed]
        )
        + "\n"
    )


def _every(rows: list[Row]) -> str:
    lines = [
        "## Every problem",
        "",
        "| problem | verdict | error (tolerance) | weft ms | eager ms | "
        "compile ms | over eager | over compile | KernelBench's tolerance | floor | kernels "
        "| s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        verdict = row.verdict
        if row.discriminating is False:
            verdict += ", not discriminating"
        if row.verified and score.slower_than_eager(row):
            verdict += ", slower than eager: no result"
        is_known = row.max_error is not None and row.tolerance is not None
        error = f"{row.max_error:.1e} ({row.tolerance:.1e})" if is_known else "–"
        kernels = "–" if row.kernels_ours is None else f"{row.kernels_ours} + {row.kernels_extern}"
        lines.append(
            " | ".join(
                [
                    f"| [{table_cell(row.label)}](runs/{quote(row.key)}/report.md)",
                    verdict,
                    error,
                    _ms(row, "ours"),
                    _ms(row, "eager"),
                    _ms(row, "compile"),
                    _over(row, "over_eager"),
                    _over(row, "over_compile"),
                    _nearness(row),
                    _number(row.floor_share, "{:.0%}"),
                    kernels,
                    f"{row.wall_s:.0f} |",
                ]
            )
        )
    lines += [
        "",
        "Times are medians (10th to 90th percentile); speedups have "
        "their 95 % intervals. Kernels: generated + calls left to "
        "PyTorch.",
    ]
    return "\n".join(lines) + "\n"


def _nearness(row: Row) -> str:
    """ "yes", or what the module that is gains over torch.compile."""
    if not row.kernelbench:
        return "–"
    if row.kernelbench_module != score.NEAR_MODULE:
        return {"within": "yes", "outside": "no"}.get(row.kernelbench, row.kernelbench)
    return f"another: {_over(row, 'kernelbench_over_compile')}"


def _ms(row: Row, side: str) -> str:
    if getattr(row, side + "_us") is None:
        return "–"
    return (
        f"{getattr(row, side + '_us') / 1e3:.3f} "
        f"({getattr(row, side + '_p10_us') / 1e3:.3f}–"
        f"{getattr(row, side + '_p90_us') / 1e3:.3f})"
    )


def _over(row: Row, name: str) -> str:
    if getattr(row, name) is None:
        return "–"
    return f"{getattr(row, name):.2f} ({getattr(row, name + '_low'):.2f}–{getattr(row, name + '_high'):.2f})"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
