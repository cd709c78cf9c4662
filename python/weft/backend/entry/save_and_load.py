"""`weft.save(module, path)` and `weft.load(path)`: an optimised module with its tensors and
its kernels' sources, in one file.

It is a pickle, as torch.save makes them: load only what you trust. The module's class is
imported from its file. Kernels are built again for the machine, unless it has the kind of
GPU that they were built for.
"""

from __future__ import annotations

import os
import zipfile
from typing import IO

import torch

from weft.backend.entry.optimize import is_optimized

FORMAT = 2


def save(module: torch.nn.Module, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Writes a module of weft.optimize(), or one that contains it, to a file.

    Raises TypeError if there is no such module, OSError if the file cannot be
    written."""
    from weft import __version__

    if not is_optimized(module):
        raise TypeError(
            f"weft.save takes a module that weft.optimize returned, and got {_told(module)}, "
            "which has no kernels to save. If no kernel is faster, weft.optimize returns "
            "your own module: its report says so"
        )
    torch.save({"weft": FORMAT, "version": __version__, "module": module}, path)


def _told(module: torch.nn.Module) -> str:
    if hasattr(module, "_orig_mod"):
        return "what torch.compile gave"
    return f"a {type(module).__name__}"


def _how_to_import(error: Exception) -> str:
    """Says how to provide a class that a file needs and this program lacks."""
    if "__main__" in str(error):
        return (
            "the script that saved it defines this class itself: move the class to a file "
            "that both programs import, and save again"
        )
    return "make the file that defines it importable (sys.path)"


def load(path: str | os.PathLike[str] | IO[bytes]) -> torch.nn.Module:
    """Reads a module that weft.save() wrote. It is a pickle: load only what you trust.

    Its class must be importable. Raises ValueError if the file has another format or is
    incomplete."""
    if isinstance(path, (str, os.PathLike)):
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):  # the end is what tells
                raise ValueError(f"{path} was not written by weft.save(), or is not whole")
    try:
        kept = torch.load(path, weights_only=False)
    except (AttributeError, ModuleNotFoundError) as error:
        if "weft.backend" not in str(error):  # the module's own class is not there
            raise type(error)(
                f"{error}: {path} needs the class of its module; {_how_to_import(error)}"
            ) from None
        raise ValueError(
            f"{path} was written by another version of weft: call weft.optimize and weft.save again"
        ) from None
    if not isinstance(kept, dict) or kept.get("weft") != FORMAT:
        raise ValueError(f"{path} was not written by weft.save()")
    return kept["module"]
