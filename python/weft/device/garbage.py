"""Garbage collection in processes of weft's own. In a user's process nothing of it is
changed.

PyTorch's modules and those of its exporter are a million objects that stay. While they are
imported, Python looks at all of them again and again. That took 0.7 of the 3.1 s of
processor time of a small model's capture, and now takes 0.3 s (2026-12-01, AMD EPYC,
PyTorch 2.13).
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

#: New objects between two collections; Python's own number is 700.
NEW_OBJECTS = 50_000


def collect_rarely() -> None:
    """For a process that imports much while it works, and ends soon."""
    gc.set_threshold(NEW_OBJECTS)


@contextlib.contextmanager
def deferred_collection() -> Iterator[None]:
    """Nothing is collected within it, and later collections, forks' too, pass over what
    is alive at its end. For imports."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
