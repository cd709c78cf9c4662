"""Messages between a program and the head that searches for it, as JSON.

    program                                   head (weft.head.service)
    {"ask": DIGEST, "classes", "budget_s"} →
                                            ← {"digest", "state": "send"}
    {"ask", …, "problem": TEXT, "options"} →
                                            ← {"digest", "state": "waits", "why"}
    {"ask": DIGEST, …}, every 2 s          →
                                            ← {"digest", "state": "done", "code",
                                               "told", "files": {NAME: TEXT}}

The head keeps nothing of a program: an answer that is lost is asked for again, and a head
that is started again says "send". The digest is of the problem file and the options, so
programs with equal graphs share one search. The head computes the digest itself, so that
no program can store a result for another program's graph.

Both sides distrust what they read: texts have limits, names of files a fixed form.
This module imports no PyTorch: a head may have none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import Any

from weft.backend.options import FALLBACKS, SEEDS
from weft.backend.searches import module_store

PROBLEM_BYTES_MAX = 4 << 20
#: All files of an answer together.
FILES_BYTES_MAX = 48 << 20
FILES_MAX = 256
TOLD_CHARS_MAX = 2_000
BUILT = re.compile(r"build/[0-9a-f]{32}\.json")
DIGEST = re.compile(r"[0-9a-f]{64}")
ANY_SIZE = re.compile(r"(\d{1,3}:\d{1,2}(,\d{1,3}:\d{1,2})?)?")
STATES = ("send", "waits", "done", "refused")


class Malformed(Exception):
    """A message does not have its form; the text says where."""


@dataclasses.dataclass(frozen=True)
class Request:
    """A search that a program asks for."""

    problem: str
    fallback: str
    seeds: tuple[str, ...]
    variants: int
    any_size: str
    times_module: bool

    def digest(self) -> str:
        from weft import __version__

        text = json.dumps([__version__, *dataclasses.astuple(self)])
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()

    def message(self) -> dict[str, object]:
        options = dataclasses.asdict(self)
        return {"problem": options.pop("problem"), "options": options}


@dataclasses.dataclass(frozen=True)
class Ask:
    """One message of a program. `request`: None if it hopes that the head knows it."""

    digest: str
    classes: tuple[str, ...]
    budget_s: float
    request: Request | None


@dataclasses.dataclass(frozen=True)
class Answer:
    digest: str
    state: str
    why: str = ""
    code: int = 0
    told: str = ""
    files: dict[str, str] = dataclasses.field(default_factory=dict)


def read_ask(text: str) -> Ask:
    """Malformed."""
    told = _object(text)
    digest = _text(told, "ask", 64)
    if not DIGEST.fullmatch(digest):
        raise Malformed("ask is no digest")
    classes = told.get("classes")
    if not isinstance(classes, list) or len(classes) > 64:
        raise Malformed("classes is no list")
    names = tuple(one[:500] for one in classes if isinstance(one, str))
    budget_s = _number(told, "budget_s", 1, 86_400)
    request = _request(told) if "problem" in told else None
    if request and request.digest() != digest:
        raise Malformed("the digest is not the request's: both sides need the same weft")
    return Ask(digest, names, budget_s, request)


def _request(told: dict[str, Any]) -> Request:
    options = told.get("options")
    if not isinstance(options, dict):
        raise Malformed("there are no options")
    seeds = options.get("seeds")
    if not isinstance(seeds, list) or not seeds or len(seeds) > len(SEEDS):
        raise Malformed("seeds is no list")
    request = Request(
        _text(told, "problem", PROBLEM_BYTES_MAX),
        _text(options, "fallback", 20),
        tuple(_text({"seeds": one}, "seeds", 20) for one in seeds),
        int(_number(options, "variants", 1, 64)),
        _text(options, "any_size", 20),
        options.get("times_module") is True,
    )
    if request.fallback not in FALLBACKS or set(request.seeds) - set(SEEDS):
        raise Malformed("an option is unknown")
    if not ANY_SIZE.fullmatch(request.any_size):
        raise Malformed("any_size is no dimension")
    return request


def read_answer(text: str) -> Answer:
    """Malformed."""
    told = _object(text)
    state = _text(told, "state", 20)
    if state not in STATES:
        raise Malformed("state is unknown")
    files = told.get("files", {})
    if not isinstance(files, dict) or len(files) > FILES_MAX:
        raise Malformed("files is no table, or has too many")
    size = 0
    for name, content in files.items():
        if name not in module_store.FILES and not BUILT.fullmatch(name):
            raise Malformed("a file has a name that no result has")
        if not isinstance(content, str):
            raise Malformed("a file is no text")
        size += len(content.encode(errors="replace"))
    if size > FILES_BYTES_MAX:
        raise Malformed(f"its files have {size >> 20} MiB; at most {FILES_BYTES_MAX >> 20}")
    return Answer(
        _text(told, "digest", 64),
        state,
        _text(told, "why", TOLD_CHARS_MAX, ""),
        int(_number(told, "code", 0, 255)) if state == "done" else 0,
        _text(told, "told", TOLD_CHARS_MAX, ""),
        files,
    )


def _object(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("it is no JSON") from None
    if not isinstance(told, dict):
        raise Malformed("it is no JSON object")
    return told


def _text(told: dict[str, Any], name: str, bytes_max: int, default: str | None = None) -> str:
    value = told.get(name, default)
    if not isinstance(value, str):
        raise Malformed(f"{name} is no text")
    if len(value.encode(errors="replace")) > bytes_max:
        raise Malformed(f"{name} is longer than {bytes_max} bytes")
    return value


def _number(told: dict[str, Any], name: str, low: float, high: float) -> float:
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Malformed(f"{name} is no number from {low:g} to {high:g}")
    return float(value)
