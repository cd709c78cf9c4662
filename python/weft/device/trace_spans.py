"""Where a request's time goes, for the oracle's log.

Times of a GPU's work count where it is waited for. `room`, `share` and `alone`
are what was waited for others, and may be part of what they interrupt.
"""

import contextlib
import time

_seconds = {}


@contextlib.contextmanager
def lap(name):
    """Adds what happens within to that name's time."""
    start = time.perf_counter()
    try:
        yield
    finally:
        passed = time.perf_counter() - start
        _seconds[name] = _seconds.get(name, 0.0) + passed


def take():
    """"load 310, calls 12": milliseconds since the last such question."""
    text = ", ".join(f"{name} {seconds * 1000:.0f}"
                     for name, seconds in _seconds.items())
    _seconds.clear()
    return text
