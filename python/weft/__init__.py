"""weft: verified kernels for PyTorch models, from a person's own code.

    torch.compile(model, backend="weft")
    module, report = weft.optimize(model, inputs)

The same package is the Python side of the weft program (capture, oracle, candidates). Its
processes need none of these functions, which are loaded on first use
(docs/reference/python.md).
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.1.0"

#: Name → the module that has it.
_API = {
    "optimize": "weft.backend.entry.optimize",
    "explain": "weft.backend.entry.explain",
    "status": "weft.backend.entry.status",
    "wait": "weft.backend.entry.status",
    "on_progress": "weft.backend.entry.status",
    "verify": "weft.backend.entry.verify_module",
    "save": "weft.backend.entry.save_and_load",
    "load": "weft.backend.entry.save_and_load",
    "cache": "weft.backend.entry.cache_api",
}

if os.environ.get("WEFT_BYTECODE"):
    from weft.build import bytecode

    bytecode.read_kept(os.environ["WEFT_BYTECODE"])


def __getattr__(name: str) -> Any:
    if name not in _API:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module = importlib.import_module(_API[name])
    value = module if name == "cache" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_API])
