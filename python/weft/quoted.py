"""A text as a string in Python's source."""

from __future__ import annotations


def quoted(text: str) -> str:
    """As a string that a person can read; it ends with one newline."""
    if not text:
        return "''"
    safe = text.replace("\\", "\\\\").replace("'''", "\\'\\'\\'")
    return f"'''\\\n{safe.rstrip()}\n'''"
