"""Figures of a kernel's built code, without running it. On a GPU: registers, spills, shared
memory and occupancy. On a processor: vector instructions and spills. The toolchain's
disassemblers read them from the folder that a candidate built in. Without such a tool there
are no figures.

Each figure is a whole number, by kernel:
    {"square": {"registers": 32, "local_bytes": 0, "shared_bytes": 1024, ...}}
"""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.candidate.package_format import Launch

#: Told of one candidate at most; and what a name may be.
KERNELS_MAX = 8
NAME_MAX = 100
#: A disassembler's, which takes milliseconds.
TOOL_S = 20
#: Of one candidate's folder, and the largest that is looked at.
FILES_MAX = 32
BYTES_MAX = 16 << 20

WARP = 32
#: Registers are given to a warp in such pieces, on every device since 2014
#: (CUDA's occupancy calculator: "register allocation unit size").
_REGISTER_UNIT = 256


def of_folder(folder: str, limits: dict[str, int] | None = None) -> dict[str, dict[str, int]]:
    """The figures of what was built in there. limits: the device's, as
    `occupancy` takes them; None: it was built for this processor."""
    if limits is None:
        libraries = _files(folder, "*.so")
        return _largest(_merged(of_library(path) for path in libraries))
    cubins, libraries = _files(folder, "*.cubin"), _files(folder, "*.so")
    return _largest(
        _merged(
            [
                *(of_cubin(path, limits, _launch_of(path)) for path in cubins),
                *(of_cubin(path, limits, {}) for path in libraries),
            ]
        )
    )


def of_package(
    told: Iterable[Launch], cubins: Iterable[bytes], limits: dict[str, int]
) -> dict[str, dict[str, int]]:
    """The same of a kernel package (docs/reference/gpu-package.md) and its modules."""
    launches = {
        one.function: {"threads": one.threads, "dynamic_bytes": one.shared_bytes} for one in told
    }
    found = []
    for cubin in cubins:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            found.append(of_cubin(file.name, limits, launches))
    return _largest(_merged(found))


# --- a GPU's ------------------------------------------------------------------


def of_cubin(
    path: str, limits: dict[str, int], launches: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    """Of a cubin, or of a library that holds some. launches: by kernel, as far
    as they are known, "threads" of a block and "dynamic_bytes" of its shared
    memory."""
    text = _said_by("cuobjdump", "--dump-resource-usage", path)
    figures = {}
    for name, usage in re.findall(r"Function (\S+):\s+(REG:[^\n]*)", text):
        used = {key: int(number) for key, number in re.findall(r"([A-Z]+):(\d+)", usage)}
        launch = launches.get(name, {})
        one = {
            "registers": used.get("REG", 0),
            # Where spilled registers lie, and arrays that have none.
            "local_bytes": used.get("STACK", 0) + used.get("LOCAL", 0),
            "shared_bytes": (used.get("SHARED", 0) + launch.get("dynamic_bytes", 0)),
        }
        threads = launch.get("threads", 0)
        if threads:
            one["threads"] = threads
            one.update(occupancy(one, limits))
        figures[name] = one
    return figures


def occupancy(kernel: dict[str, int], limits: dict[str, int]) -> dict[str, int]:
    """How many of its blocks a multiprocessor can hold, by what each resource
    allows, and the share of its threads that they are. limits: "threads",
    "blocks", "registers", "shared_bytes" of a multiprocessor."""
    warps = -(-kernel["threads"] // WARP)
    per_warp = kernel["registers"] * WARP
    per_warp = -(-per_warp // _REGISTER_UNIT) * _REGISTER_UNIT
    by = {"blocks_by_threads": min(limits["blocks"], limits["threads"] // (warps * WARP))}
    if per_warp:
        by["blocks_by_registers"] = limits["registers"] // per_warp // warps
    if kernel["shared_bytes"]:
        by["blocks_by_shared_memory"] = limits["shared_bytes"] // kernel["shared_bytes"]
    blocks = min(by.values())
    share = blocks * warps * WARP / limits["threads"]
    return {**by, "blocks": blocks, "occupancy_percent": round(100 * share)}


def _launch_of(cubin: str) -> dict[str, dict[str, int]]:
    """What Triton wrote beside it of the launch."""
    try:
        with open(cubin.removesuffix(".cubin") + ".json", encoding="utf-8") as file:
            told = json.load(file)
        return {
            told["name"]: {
                "threads": WARP * int(told["num_warps"]),
                "dynamic_bytes": int(told["shared"]),
            }
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


# --- a processor's ------------------------------------------------------------

#: x86's, of one value in each lane (ps, pd) or of one alone (ss, sd); not those
#: on bits, which compilers take for single values, too.
_ARITHMETIC = re.compile(
    r"v?(?:add|sub|mul|div|sqrt|max|min|fn?m(?:add|sub)\d*|cmp\w*|u?comi)"
    r"(ps|pd|ss|sd)$"
)
_WIDTHS = {"z": 512, "y": 256, "x": 128}


def of_library(path: str) -> dict[str, dict[str, int]]:
    """Of a shared library's functions that compute with floating point."""
    text = _said_by("objdump", "--disassemble", "--no-show-raw-insn", path)
    figures = {}
    for name, body in re.findall(r"^[0-9a-f]+ <([^>]+)>:\n((?:.+\n)*)", text, re.MULTILINE):
        one = {
            "vector_bits": 0,
            "vector_instructions": 0,
            "scalar_instructions": 0,
            "vector_spills": 0,
        }
        for line in body.splitlines():
            _count(line.split("\t")[-1], one)
        if one["vector_instructions"] + one["scalar_instructions"]:
            figures[name] = one
    return figures


def _count(instruction: str, one: dict[str, int]) -> None:
    name, _, operands = instruction.partition(" ")
    arithmetic = _ARITHMETIC.match(name)
    if arithmetic and arithmetic[1] in ("ss", "sd"):
        one["scalar_instructions"] += 1
    elif arithmetic:
        one["vector_instructions"] += 1
        width = re.search(r"%([xyz])mm", operands)
        if width:
            one["vector_bits"] = max(one["vector_bits"], _WIDTHS[width[1]])
    elif re.match(r"\s*%[xyz]mm\d+,\S*\(%r[sb]p\)", operands):
        one["vector_spills"] += 1  # a vector register is stored on the stack


# --- what they share ----------------------------------------------------------


def believed(told: object) -> dict[str, dict[str, int]]:
    """What may be passed on of a candidate's answer: names and numbers, few."""
    if not isinstance(told, dict):
        return {}
    figures = {}
    for name, one in list(told.items())[:KERNELS_MAX]:
        if not isinstance(one, dict) or not name.isprintable():
            continue
        figures[name[:NAME_MAX]] = {
            key: value
            for key, value in list(one.items())[:16]
            if re.fullmatch(r"[a-z_]{1,32}", key) and type(value) is int and 0 <= value < 1 << 40
        }
    return figures


def _largest(figures: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Those with the most of what they are told for."""

    def weight(item: tuple[str, dict[str, int]]) -> int:
        one = item[1]
        return -(
            one.get("registers", 0)
            + one.get("vector_instructions", 0)
            + one.get("scalar_instructions", 0)
        )

    return dict(sorted(figures.items(), key=weight)[:KERNELS_MAX])


def _merged(all_figures: Iterable[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """A kernel that was built several times, as one that tunes itself is, is
    there as often as its builds differ: nobody knows which of them ran."""
    made: dict[str, dict[str, int]] = {}
    for figures in all_figures:
        for name, one in figures.items():
            number, key = 1, name
            while made.get(key, one) != one:
                number += 1
                key = f"{name} ({number})"
            made[key] = one
    return made


def _files(folder: str, pattern: str) -> list[str]:
    found = (
        path
        for path in glob.iglob(os.path.join(folder, "**", pattern), recursive=True)
        if os.path.isfile(path) and os.path.getsize(path) <= BYTES_MAX
    )
    return sorted(found, key=os.path.getmtime, reverse=True)[:FILES_MAX]


def _said_by(tool: str, *words: str) -> str:
    """What the tool prints of that file; empty: there is no such tool, or it
    makes nothing of it."""
    program = shutil.which(tool) or _of_cuda(tool)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOOL_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _of_cuda(tool: str) -> str | None:
    """Where the CUDA toolkit has it, or Triton, which brings some of that."""
    places = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin:
        places.append(os.path.join(os.path.dirname(triton.origin), "backends", "nvidia", "bin"))
    return shutil.which(tool, path=os.pathsep.join(places))
