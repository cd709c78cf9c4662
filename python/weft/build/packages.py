"""A run's builds of a module's kernels for a GPU (docs/reference/gpu-package.md). Without
them the next process compiles the kernels again.

A composed module looks for a package in the folder WEFT_BUILT_KERNELS (in the oracle's
sandbox, the run's), and in `build` in its own folder, or one or two folders above. Such a
`build` counts only if no other user can write there than in the module's folder. The file's
name is the first 32 hex digits of a SHA-256 of the text, a NUL and the architecture. For
CUDA, the text is without its launches, and a NUL and the launches as JSON follow it. The
text is compiled again if a package does not fit or load, and for other arguments, sizes
beyond 32 bits or unaligned tensors. A language model's candidate is always built from its
text, because its build could write any package.
"""

from __future__ import annotations

import ast
import glob
import hashlib
import json
import os
import shutil

#: What opens a kernel in a composed module, and how many of its arguments, which
#: are texts, name what was built of it (compiler/compose/python/built.py).
OPENERS = {"_weft_open_triton": 1, "_weft_open_cuda": 2}


def hand_on(run: str, text: str, folder: str) -> None:
    """Copies the packages that a module of that text opens from a run's
    directory to `folder`, which is made if there are any. OSError if it cannot."""
    packages = glob.glob(os.path.join(run, "build", "*.json"))
    opened = _opened(text) if packages else ()
    if not opened:
        return
    for path in packages:
        name, arch = os.path.basename(path), _arch_of(path)
        if name in {_name(one, arch) for one in opened}:
            os.makedirs(folder, exist_ok=True)
            shutil.copyfile(path, os.path.join(folder, name))


def _arch_of(path: str) -> str:
    """The GPU that a package is for; "" of another file."""
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file).get("arch", "")
        except (ValueError, AttributeError, RecursionError):
            return ""


def _name(text: str, arch: str) -> str:
    key = hashlib.sha256(f"{text}\0{arch}".encode()).hexdigest()
    return key[:32] + ".json"


def _opened(text: str) -> set[str]:
    """The texts of its kernels for a GPU."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            number = OPENERS.get(node.func.id, 0)
            texts = [
                argument.value
                for argument in node.args[:number]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
            if number and len(texts) == number:
                found.add("\0".join(texts))
    return found
