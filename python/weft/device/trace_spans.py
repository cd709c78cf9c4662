"""Where a request's time goes, for the oracle's log.

Times of a GPU's work count where it is waited for. `room`, `share` and `alone`
are what was waited for others, and may be part of what they interrupt.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

_seconds: dict[str, float] = {}


@contextlib.contextmanager
def lap(name: str) -> Iterator[None]:
    """Adds what happens within to that name's time."""
    start = time.perf_counter()
    try:
        yield
    finally:
        passed = time.perf_counter() - start
        _seconds[name] = _seconds.get(name, 0.0) + passed


def take() -> str:
    """ "load 310, calls 12": milliseconds since the last such question."""
    text = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in _seconds.items())
    _seconds.clear()
    return text
