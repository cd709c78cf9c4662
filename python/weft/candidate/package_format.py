"""Reads a GPU kernel package (docs/reference/gpu-package.md) that anybody may have written.

A package comes from a build, a node, the kernel library or somebody's folder. Its numbers
reach the driver through ctypes, which cuts them to the parameter's width without an error:
a grid of 2**32 + 1 blocks would run as one block, and a fourth grid number would move all
later parameters by one. Therefore each field is checked before the first driver call.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FORMAT = 1
#: Limits of a package. The largest of the tests have 40 launches.
MODULES_MAX = 256
LAUNCHES_MAX = 4096
SCRATCH_MAX = 1024
ARGUMENTS_MAX = 1024
TEXT_MAX = 4096
#: Limit of a scratch buffer: more than any device has.
SCRATCH_BYTES_MAX = 1 << 40
#: CUDA C++ Programming Guide, "Compute Capabilities", the largest of all devices.
GRID_MAX = (2**31 - 1, 65_535, 65_535)
THREADS_MAX = 1024
SHARED_BYTES_MAX = 1 << 20
CLUSTER_MAX = 16


class BadPackage(Exception):
    """The file is no package that can run here; the text says why."""


@dataclass(frozen=True)
class Launch:
    module: int
    function: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    cluster: int
    cooperative: bool
    arguments: tuple[int | str, ...]


@dataclass(frozen=True)
class Package:
    is_interpreted: bool
    modules: tuple[bytes, ...] = ()
    scratch: tuple[int, ...] = ()
    launches: tuple[Launch, ...] = ()


def read(path: str, sizes: Sequence[int] | None = None) -> Package:
    """The package in that file, for those sizes of a batch."""
    try:
        with open(path, encoding="utf-8") as file:
            package = json.load(file)
    except (ValueError, RecursionError) as error:
        raise BadPackage(f"the kernel package is no JSON: {error}") from None
    return parse(package, sizes)


def parse(package: object, sizes: Sequence[int] | None = None) -> Package:
    told = _dict(package, "the kernel package")
    if type(told.get("format")) is not int or told["format"] != FORMAT:
        raise BadPackage(f"kernel package of format {told.get('format')!r:.100}, not {FORMAT}")
    if told.get("interpret", False):
        return Package(is_interpreted=True)
    modules = tuple(
        _bytes(_dict(one, "a module").get("cubin"))
        for one in _list(told.get("modules"), "modules", MODULES_MAX)
    )
    told = _at_sizes(told, sizes)
    scratch = tuple(
        _number(one, "scratch", 0, SCRATCH_BYTES_MAX)
        for one in _list(told.get("scratch", []), "scratch", SCRATCH_MAX)
    )
    launches = tuple(
        _launch(_dict(one, "a launch"), len(modules))
        for one in _list(told.get("launches"), "launches", LAUNCHES_MAX)
    )
    return Package(False, modules, scratch, launches)


def _at_sizes(package: dict[str, Any], sizes: Sequence[int] | None) -> dict[str, Any]:
    """Launches and scratch: the package's, or its own for that batch."""
    if "batches" not in package:
        return package
    batches = _dict(package["batches"], "batches")
    batch = ",".join(map(str, sizes)) if sizes else "none"
    if batch not in batches:
        raise BadPackage(f"a package for the batches {', '.join(batches):.200}, not for {batch}")
    return _dict(batches[batch], "a batch")


def _launch(one: dict[str, Any], modules: int) -> Launch:
    grid = _list(one.get("grid"), "grid", 3)
    if len(grid) != 3:
        raise _bad("grid", grid, "three numbers")
    x, y, z = (_number(n, "grid", 1, most) for n, most in zip(grid, GRID_MAX))
    cooperative = one.get("cooperative", False)
    if not isinstance(cooperative, bool):
        raise _bad("cooperative", cooperative, "true or false")
    arguments = _list(one.get("arguments"), "arguments", ARGUMENTS_MAX)
    return Launch(
        module=_number(one.get("module"), "module", 0, modules - 1),
        function=_text(one.get("function"), "function"),
        grid=(x, y, z),
        threads=_number(one.get("threads"), "threads", 1, THREADS_MAX),
        shared_bytes=_number(one.get("shared_bytes", 0), "shared_bytes", 0, SHARED_BYTES_MAX),
        cluster=_number(one.get("cluster", 1), "cluster", 1, CLUSTER_MAX),
        cooperative=cooperative,
        arguments=tuple(
            _text(a, "arguments")
            if isinstance(a, str)
            else _number(a, "arguments", -(2**63), 2**64 - 1)
            for a in arguments
        ),
    )


def _bad(field: str, value: object, expected: str) -> BadPackage:
    try:
        shown = ascii(value)
    except ValueError:  # an integer with too many digits
        shown = "a number"
    if len(shown) > 80:
        shown = shown[:80] + "…"
    return BadPackage(f"the kernel package has {field} {shown}; expected {expected}")


def _number(value: object, field: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _bad(field, value, f"a whole number from {least} to {most}")
    return value


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= TEXT_MAX:
        raise _bad(field, value, "a printable text")
    return value


def _bytes(value: object) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except ValueError:
        pass
    raise _bad("cubin", value, "base64")


def _list(value: object, field: str, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise _bad(field, value, f"a list of at most {most}")
    return value


def _dict(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadPackage(f"{what} is no JSON object")
    return value
