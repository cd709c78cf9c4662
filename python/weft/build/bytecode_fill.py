"""Makes Python's bytecode for a PyTorch without it (runtime/bytecode.hpp).

    PYTHONPYCACHEPREFIX=FOLDER python -P -m weft.build.bytecode_fill

Loads PyTorch, its compiler and Triton, so that Python writes what it compiles
into FOLDER, and compiles what they load only when they are used. One line on
standard output when FOLDER has everything; what modules print goes to standard
error.
"""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import importlib
import importlib.util
import marshal
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

# Every process of a run needs the first; those of the baselines all.
LOADED = (
    "torch",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch.utils.cpp_extension",
    "triton",
)
# The compiler's parts that it loads while it compiles.
COMPILED = ("torch._inductor", "torch._dynamo", "torch.export", "torch._export")
KEPT_MAX = 4  # folders, about 80 MB each; those used last stay
DONE = "complete"
_HEADER_BYTES = 16  # of a .pyc; the rest is marshalled code


def main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    assert sys.pycache_prefix is not None
    folder = Path(sys.pycache_prefix)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / DONE).exists():
            fill()
            check(folder)
            show(folder)
            forget(folder.parent, keep=KEPT_MAX, of=folder)
            (folder / DONE).write_text("all of it\n")
    print("done", file=answer, flush=True)


def fill() -> None:
    for name in LOADED:
        # Not every PyTorch has Triton; setuptools may lack as well.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in COMPILED:
        about = importlib.util.find_spec(name)
        for place in (about and about.submodule_search_locations) or ():
            compileall.compile_dir(place, quiet=2, workers=0)


def check(folder: Path) -> None:
    """A full disk leaves pieces of files, which Python takes for whole."""
    for file in folder.rglob("*.pyc"):
        try:
            marshal.loads(file.read_bytes()[_HEADER_BYTES:])
        except (EOFError, ValueError, TypeError):
            file.unlink()
    lacking = [
        name for name in LOADED if name in sys.modules and not _has_bytecode(sys.modules[name])
    ]
    if lacking:
        raise SystemExit(
            f"no bytecode of {', '.join(lacking)} could be written to {folder}: is the disk full?"
        )


def _has_bytecode(module: ModuleType) -> bool:
    spec = module.__spec__
    return spec is not None and os.path.exists(spec.cached or "")


def show(folder: Path) -> None:
    """To everybody: the sandbox reads it as a user of its own."""
    for place, _, files in os.walk(folder):
        os.chmod(place, 0o755)
        for name in files:
            os.chmod(os.path.join(place, name), 0o644)


def forget(place: Path, keep: int, of: Path) -> None:
    """Removes all folders but `of` and those used last, `keep` together."""

    def used(folder: Path) -> float:
        marker = folder / DONE
        return (marker if marker.exists() else folder).stat().st_mtime

    others = [it for it in place.iterdir() if it.is_dir() and it != of]
    for folder in sorted(others, key=used, reverse=True)[keep - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
