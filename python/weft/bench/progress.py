"""Prints a bench's progress: a line for each problem that is done, and on a terminal a last
line for the whole."""

from __future__ import annotations

import json
import shutil
import sys
import time

from weft.bench import score
from weft.bench.bench_row import Row
from weft.bench.bench_settings import BenchSettings
from weft.problem import sentences
from weft.shown_text import terminal_line

_REDRAW_EVERY_S = 1.0


class Progress:
    def __init__(self, settings: BenchSettings, total: int, due: int) -> None:
        self._settings = settings
        self._total, self._due = total, due
        self._rows: list[Row] = []
        self._begin = time.monotonic()
        self._places: dict[str, list[str]] = {}  # nodes of a problem, by its label
        self._done = 0  # by this call
        self._drawn_at = 0.0
        self._live = sys.stdout.isatty() and not settings.json and not settings.quiet

    def begin(self, how_many: str) -> None:
        kept = self._total - self._due
        text = f"{self._total} problems, {how_many}"
        if kept:
            text += f"; {kept} are done already"
        self._say(text)
        self._say(f"results: {self._settings.out}")

    def add(self, row: Row) -> None:
        """Counts it."""
        self._rows.append(row)

    def tell(self, row: Row) -> None:
        """Says that it is done now."""
        self._done += 1
        if self._settings.json:
            print(json.dumps(row.told()), flush=True)
            return
        self._wipe()
        self._say(f"{self._state()}  {terminal_line(row.label)}: {terminal_line(sentence(row))}")

    def place(self, label: str, nodes: list[str]) -> None:
        """Says which nodes work for the problem, whenever that changes."""
        before = self._places.get(label, [])
        if nodes == before:
            return
        self._places[label] = nodes
        self._wipe()
        where = "on " + ", ".join(nodes) if nodes else "waits for a node"
        self._say(f"{terminal_line(label)}: {terminal_line(where)}")

    def tick(self, running: int) -> None:
        now = time.monotonic()
        if not self._live or now - self._drawn_at < _REDRAW_EVERY_S:
            return
        self._drawn_at = now
        width = shutil.get_terminal_size().columns
        text = f"{self._state()}, {running} running"
        print("\r\033[2K" + text[: width - 1], end="", flush=True)

    def end(self, rows: list[Row], stopping: str) -> None:
        left = sum(1 for row in rows if row.state in ("stopped", "died", "missing"))
        verified = sum(1 for row in rows if row.verified)
        if self._settings.json:
            print(
                json.dumps(
                    {
                        "problems": len(rows),
                        "verified": verified,
                        "kernelbench": near_count(rows),
                        "left": left,
                        "stopped_by": stopping,
                        "out": self._settings.out,
                    }
                ),
                flush=True,
            )
            return
        self._wipe()
        run = len(score.run_ones(rows))
        not_run = f", {len(rows) - run} not run: they want a network" if run < len(rows) else ""
        self._say(
            f"{verified} of {run} verified{not_run}" + geometric_means(rows) + near_words(rows)
        )
        if stopping or left:
            why = {
                "limit": "the time is up: ",
                "interrupted": "interrupted: ",
                "suspended": "the language model answers later: ",
            }
            print(
                f"weft: {why.get(stopping, '')}{are_left(left)}; the same command goes on",
                file=sys.stderr,
            )
        self._say(f"report: {self._settings.out}/report.md")

    def _state(self) -> str:
        verified = sum(1 for row in self._rows if row.verified)
        text = f"{len(self._rows)}/{self._total}, {verified} verified" + geometric_means(self._rows)
        return f"[{text}, {self._time_left()}]"

    def _time_left(self) -> str:
        left = self._total - len(self._rows)
        if not left:
            return "done"
        if not self._done:
            return "time left unknown"
        spent = time.monotonic() - self._begin
        return f"{duration(spent / self._done * left)} left"

    def _wipe(self) -> None:
        if self._live:
            print("\r\033[2K", end="")

    def _say(self, text: str) -> None:
        if not self._settings.json and not self._settings.quiet:
            print(text, flush=True)


def are_left(count: int) -> str:
    """Of problems, in words."""
    return "1 problem is left" if count == 1 else f"{count} problems are left"


def geometric_means(rows: list[Row]) -> str:
    text = ""
    for name, words in (("over_eager", "eager"), ("over_compile", "compile")):
        ratios = score.ratios(rows, name)
        if ratios:
            text += f", {score.geometric_mean(ratios):.2f}x {words}"
    return text


def near_count(rows: list[Row]) -> int | None:
    """How many KernelBench's own rule accepts; None: it was asked of none."""
    near = score.by_near_rule(rows)
    return sum(1 for row in near if row.verified) if near else None


def near_words(rows: list[Row]) -> str:
    near = score.by_near_rule(rows)
    if not near:
        return ""
    return f"; {near_count(rows)} of {len(near)} within KernelBench's tolerance" + geometric_means(
        near
    )


def sentence(row: Row) -> str:
    """ "verified, 2.31x over eager, 21 s" """
    text = row.verdict
    for name, words in (("over_eager", "eager"), ("over_compile", "compile")):
        if getattr(row, name):
            text += f", {getattr(row, name):.2f}x over {words}"
    if row.kernelbench:
        outcomes = {"own": "within", "other": "another module within"}
        outcome = outcomes.get(row.kernelbench_module or "", "outside")
        text += f", {outcome} KernelBench's tolerance"
    if not row.verified and row.reason:
        text += f" ({sentences.whole_sentences(row.reason, 200)})"
    return f"{text}, {row.wall_s:.0f} s"


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
