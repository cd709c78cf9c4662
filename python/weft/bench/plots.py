"""Two pictures of a bench, as SVG: each mark has a title that a browser shows,
so that every problem can be found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from xml.sax.saxutils import escape

from weft.bench.bench_row import Row
from weft.shown_text import terminal_line

_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_COLOURS = {
    "over_eager": "#4c78a8",
    "over_compile": "#e45756",
    "bytes": "#4c78a8",
    "operations": "#f58518",
}


def all_plots(rows: list[Row]) -> dict[str, str]:
    """{file name: text}; no picture where there is nothing to show."""
    made = {}
    timed = [row for row in rows if row.verified and row.over_eager]
    if timed:
        made["speedups.svg"] = speedups(timed)
    floored = [row for row in rows if row.verified and row.floor_us]
    if floored:
        made["floor.svg"] = floors(floored)
    return made


class Axis:
    """A logarithmic scale from values to pixels."""

    def __init__(
        self, values: Iterable[float], begin: float, end: float, always: Iterable[float] = ()
    ) -> None:
        exponents = [math.log10(v) for v in [*values, *always] if v > 0]
        low, high = min(exponents), max(exponents)
        room = max(0.05 * (high - low), 0.05)
        self._low, self._high = low - room, high + room
        self._begin, self._end = begin, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        # The end of a wide interval stops at the picture's edge.
        share = min(max(share, 0.0), 1.0)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """1, 2 and 5 of each decade; single decades where there are many."""
        steps = (1, 2, 5) if self._high - self._low < 3 else (1,)
        decades = range(math.floor(self._low), math.ceil(self._high) + 1)
        values = [step * 10.0**decade for decade in decades for step in steps]
        return [v for v in values if self._low <= math.log10(v) <= self._high]


def speedups(rows: list[Row]) -> str:
    """From the slowest to the fastest, for each baseline its own order."""
    series = [
        (
            name,
            words,
            sorted((row for row in rows if getattr(row, name)), key=lambda row: getattr(row, name)),
        )
        for name, words in (("over_eager", "over eager"), ("over_compile", "over torch.compile"))
    ]
    values = [getattr(row, name) for name, _, own in series for row in own]
    y = Axis(values, _HEIGHT - _BOTTOM, _TOP, always=(1,))
    parts = [_text(_LEFT, 22, "Speedup of each verified problem, sorted")]
    parts += _grid_y(y, "×")
    parts.append(_line(_LEFT, y.at(1), _WIDTH - _RIGHT, y.at(1), "#000"))
    room = _WIDTH - _LEFT - _RIGHT
    for number, (name, words, own) in enumerate(series):
        for i, row in enumerate(own):
            x = _LEFT + room * (i + 0.5) / len(own)
            parts.append(
                _line(
                    x,
                    y.at(getattr(row, name + "_low") or getattr(row, name)),
                    x,
                    y.at(getattr(row, name + "_high") or getattr(row, name)),
                    _COLOURS[name],
                )
            )
            parts.append(
                _dot(
                    x,
                    y.at(getattr(row, name)),
                    _COLOURS[name],
                    f"{row.label}: {getattr(row, name):.2f}× {words}",
                )
            )
        if own:
            parts += _key(number, words, _COLOURS[name])
    return _svg(parts)


def floors(rows: list[Row]) -> str:
    """Below the diagonal nothing can be."""
    timed = [(row, row.floor_us, row.ours_us) for row in rows if row.floor_us and row.ours_us]
    both = [time_us for _, *times in timed for time_us in times]
    x = Axis(both, _LEFT, _WIDTH - _RIGHT)
    y = Axis(both, _HEIGHT - _BOTTOM, _TOP)
    parts = [_text(_LEFT, 22, "Time of the module against the machine's floor (microseconds)")]
    parts += _grid_y(y, "")
    for value in x.ticks():
        parts.append(_text(x.at(value), _HEIGHT - _BOTTOM + 18, f"{value:g}", "middle"))
    least, most = min(both), max(both)
    parts.append(_line(x.at(least), y.at(least), x.at(most), y.at(most), "#000"))
    for row, floor_us, ours_us in timed:
        parts.append(
            _dot(
                x.at(floor_us),
                y.at(ours_us),
                _COLOURS[row.floor_by or "bytes"],
                f"{row.label}: {ours_us:.1f} us, floor {floor_us:.1f} us ({row.floor_share:.0%})",
            )
        )
    for number, kind in enumerate(("bytes", "operations")):
        parts += _key(number, f"bound by {kind}", _COLOURS[kind])
    return _svg(parts)


def _grid_y(axis: Axis, unit: str) -> list[str]:
    parts = []
    for value in axis.ticks():
        height = axis.at(value)
        parts.append(_line(_LEFT, height, _WIDTH - _RIGHT, height, "#ddd"))
        parts.append(_text(_LEFT - 8, height + 4, f"{value:g}{unit}", "end"))
    return parts


def _key(number: int, words: str, colour: str) -> list[str]:
    x = _LEFT + 10 + 200 * number
    y = _HEIGHT - 12
    return [_dot(x, y - 4, colour, words), _text(x + 10, y, words)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _dot(x: float, y: float, colour: str, title: str) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
        f"<title>{escape(terminal_line(title))}</title></circle>"
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" '
        f'height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
