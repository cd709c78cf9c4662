"""How records look in a notebook: a table of their fields, escaped."""

import dataclasses
from typing import Any

from weft.shown_text import html_text


class Shown:
    """A dataclass that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        """The fields that have a value, below the first line of the text."""
        first, *_ = str(self).splitlines() or [""]
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return _table(first, [(field.name, getattr(self, field.name)) for field in fields])


def _table(title: str, fields: list[tuple[str, Any]]) -> str:
    rows = "".join(
        f"<tr><th style='text-align:left'>{html_text(name)}</th>"
        f"<td style='text-align:left'>{_cell(value)}</td></tr>"
        for name, value in fields
        if value not in ("", None, [], ())
    )
    return f"<table><caption>{html_text(title)}</caption>{rows}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "<br>".join(map(_cell, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return html_text(str(value))
