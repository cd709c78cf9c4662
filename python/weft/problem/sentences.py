"""Shortens texts of other programs without cutting a sentence."""

from __future__ import annotations

import re

#: After a full stop, before a capital letter; or at the end of a line.
_ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])|\n+")


def whole_sentences(text: str, length_max: int) -> str:
    """The first sentences of `text`, as one line, of `length_max` characters in all;
    at least one, however long that is. Ends with " …" if some are left out."""
    sentences = [" ".join(one.split()) for one in _ENDS.split(text.strip())]
    sentences = [sentence for sentence in sentences if sentence]
    taken = ""
    for sentence in sentences:
        longer = f"{taken} {sentence}" if taken else sentence
        if taken and len(longer) > length_max:
            return taken + " …"
        taken = longer
    return taken


def whole_lines(text: str, length_max: int) -> str:
    """The first lines of `text`, as many as `length_max` characters hold; of a first
    line that is longer, its first sentences. A sentence is cut only if it is longer
    than `length_max` itself, between words, and the text says so."""
    if len(text) <= length_max:
        return text
    lines = text.splitlines()
    taken = ""
    for line in lines:
        if len(taken) + len(line) >= length_max:
            break
        taken += line + "\n"
    if taken.strip():
        return taken + "…"
    first = next(line for line in lines if line.strip())
    taken = whole_sentences(first, length_max)
    if len(taken) <= length_max + 2:  # " …"
        return taken
    words = first[:length_max].rsplit(None, 1)[0]
    return f"{words} … ({len(text) - len(words)} characters are left out)"


def first_sentence(error: BaseException) -> str:
    """The first sentence of an exception's message; its class's name if empty."""
    return whole_sentences(str(error), 0).removesuffix(" …") or type(error).__name__


def of_error(error: BaseException, length_max: int = 1000) -> str:
    """ "ValueError: its message", whole sentences of it."""
    text = whole_sentences(str(error), length_max)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
