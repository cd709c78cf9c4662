"""Shortens texts of other programs without cutting a sentence."""

from __future__ import annotations

import re

#: After a full stop, before a capital letter; or at the end of a line.
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n+")


def whole_sentences(text: str, length_max: int) -> str:
    """The first sentences of `text`, as one line, of `length_max` characters in all;
    at least one, however long that is. Ends with " …" if some are left out."""
    sentences = [" ".join(one.split()) for one in _ENDS.split(text.strip())]
    sentences = [one for one in sentences if one]
    taken = ""
    for one in sentences:
        longer = f"{taken} {one}" if taken else one
        if taken and len(longer) > length_max:
            return taken + " …"
        taken = longer
    return taken


def first_sentence(error: BaseException) -> str:
    """The first sentence of an exception's message; its class's name if empty."""
    return (whole_sentences(str(error), 0).removesuffix(" …")
            or type(error).__name__)


def of_error(error: BaseException, length_max: int = 1000) -> str:
    """"ValueError: its message", whole sentences of it."""
    text = whole_sentences(str(error), length_max)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
