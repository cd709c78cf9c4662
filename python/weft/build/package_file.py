"""The end of a build of a GPU kernel package: its file, or why there is none."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any


class BuildError(Exception):
    """The source is at fault: for the verdict's reason."""


def write(
    path: str,
    build: Callable[[], dict[str, Any]],
    failures: tuple[type[Exception], ...] = (BuildError,),
) -> int:
    """Writes the package that `build` makes; the exit code. `failures`: exceptions whose
    text is for the user."""
    try:
        package = build()
    except failures as error:
        print(error, file=sys.stderr)
        return 1
    with open(path, "w", encoding="utf-8") as file:
        json.dump(package, file)
    return 0
