"""The stored modules of earlier searches: `weft.cache.info()`, `weft.cache.clear()`."""

from __future__ import annotations

import os
import shutil
from typing import Any

from weft.backend.searches import module_store


def info() -> dict[str, Any]:
    """Returns {"path", "entries", "bytes"} of the stored modules."""
    size = sum(
        os.path.getsize(os.path.join(folder, name))
        for path in module_store.entries()
        for folder, _, names in os.walk(path)
        for name in names
    )
    return {"path": module_store.folder(), "entries": len(module_store.entries()), "bytes": size}


def clear() -> int:
    """Removes the stored modules and returns their number. Modules that this process has
    loaded stay. So does the program's kernel library."""
    paths = module_store.entries()
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
    return len(paths)
