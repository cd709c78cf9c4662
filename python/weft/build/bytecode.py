"""Reads the bytecode that weft keeps (runtime/bytecode.hpp)."""

import os
from importlib import _bootstrap_external


def read_kept(folder):
    """From now on modules that have no bytecode beside them load it from
    `folder`. (PYTHONPYCACHEPREFIX would hide what lies beside the others.)"""
    beside = _bootstrap_external.cache_from_source

    def found(path, *args, **kwargs):
        own = beside(path, *args, **kwargs)
        if os.path.exists(own):
            return own
        where, _ = os.path.split(os.path.abspath(path))
        return os.path.join(folder, where.lstrip(os.sep), os.path.basename(own))

    _bootstrap_external.cache_from_source = found
