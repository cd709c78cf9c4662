"""Descriptors of memory that processes share: this process's own, or, in a sandbox,
which has no memfd_create, made by a process outside."""

import fcntl
import os
from typing import Callable

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def make_here(size_bytes: int) -> int:
    """A descriptor of zeros, sealed against resizing: who maps it and finds it
    truncated dies of SIGBUS. OSError: there is no such memory."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    descriptor = os.memfd_create("weft-arena", flags)
    try:
        os.ftruncate(descriptor, size_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


_make: Callable[[int], int] = make_here


def make(size_bytes: int) -> int:
    """As make_here, wherever this process has it made."""
    return _make(size_bytes)


def make_with(source: Callable[[int], int]) -> None:
    """From now on `make` is `source`."""
    global _make
    _make = source
