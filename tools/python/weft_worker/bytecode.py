"""Fills weft's own folder of Python's bytecode (runtime/bytecode.hpp).

    PYTHONPYCACHEPREFIX=FOLDER python -P -m weft_worker.bytecode

Loads PyTorch, its compiler and Triton, so that Python writes what it compiles
into FOLDER, and compiles what they load only when they are used. Loads nothing
of the user's. One line on standard output when FOLDER has everything.
"""

import compileall
import contextlib
import fcntl
import importlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path

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
KEPT_MAX = 4  # folders, about 80 MB each; the newest stay
DONE = "complete"


def main():
    folder = Path(sys.pycache_prefix)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / DONE).exists():
            fill()
            show(folder)
            forget(folder.parent, keep=KEPT_MAX - 1)
            (folder / DONE).touch()
    print("done", flush=True)


def fill():
    for name in LOADED:
        # Not every PyTorch has Triton; setuptools may lack as well.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in COMPILED:
        about = importlib.util.find_spec(name)
        for place in about.submodule_search_locations if about else ():
            compileall.compile_dir(place, quiet=2, workers=0)


def show(folder):
    """To everybody: the sandbox reads it as a user of its own."""
    for place, _, files in os.walk(folder):
        os.chmod(place, 0o755)
        for name in files:
            os.chmod(os.path.join(place, name), 0o644)


def forget(place, keep):
    """Removes the oldest of the complete folders but `keep`."""
    complete = sorted(place.glob(f"*/{DONE}"), key=lambda it: it.stat().st_mtime)
    for marker in complete[: max(0, len(complete) - keep)]:
        shutil.rmtree(marker.parent, ignore_errors=True)
        marker.parent.with_suffix(".lock").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
