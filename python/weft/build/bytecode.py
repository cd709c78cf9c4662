"""Reads the bytecode that weft keeps (runtime/bytecode.hpp)."""

from __future__ import annotations

import os
from importlib import _bootstrap_external
from typing import Any


def read_kept(folder: str) -> None:
    """From now on modules that have no bytecode beside them load it from
    `folder`. (PYTHONPYCACHEPREFIX would hide what lies beside the others.)"""
    beside = _bootstrap_external.cache_from_source

    def found(path: str, *args: Any, **kwargs: Any) -> str:
        own = beside(path, *args, **kwargs)
        if os.path.exists(own):
            return own
        where, _ = os.path.split(os.path.abspath(path))
        return os.path.join(folder, where.lstrip(os.sep), os.path.basename(own))

    setattr(_bootstrap_external, "cache_from_source", found)
