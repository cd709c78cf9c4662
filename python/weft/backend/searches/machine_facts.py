"""Measures a machine's GPUs, once for each machine and version of PyTorch.

The measurement runs while Inductor compiles. Otherwise the first search does it, which
took 18 s of its budget (H200, 2026-11-30)."""

import glob
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch

from weft.backend.options import Options, log, told
from weft.backend.searches import module_store, search_ownership, weft_process

LIMIT_S = 120.0
#: Version of what is measured: kProbe of runtime/ports/gpu_probe.cpp.
PROBE = 2

_lock = threading.Lock()
_done: threading.Event | None = None  # of this process's measurement
os.register_at_fork(after_in_child=lambda: _forget())


def begin(example_inputs: Sequence[Any], options: Options) -> None:
    """Measures in the background, once in a process: if the inputs are on a GPU, and
    this machine was not measured with this PyTorch."""
    global _done
    if (
        options.head
        or not search_ownership.may_search(options)
        or not any(isinstance(one, torch.Tensor) and one.is_cuda for one in example_inputs)
    ):
        return
    with _lock:
        if _done is not None or _is_known():
            return
        _done = threading.Event()
        threading.Thread(target=_measure, args=(_done,), name="weft-machine", daemon=True).start()


def wait(limit_s: float) -> None:
    """Blocks until a measurement that has begun is over, of the first GPU at least. A
    search would repeat the measurement concurrently."""
    done, until = _done, time.monotonic() + limit_s
    while done is not None and not done.wait(0.2):
        if _is_known() or time.monotonic() > until:
            return


def _measure(done: threading.Event) -> None:
    try:
        code, said = weft_process.run(["doctor", "--no-run"], LIMIT_S)
        if code != 0 and not _is_known():
            log.info("'weft doctor' ended with %s: %s", code, said)
    except Exception as error:  # no program weft, say: the search will report it
        log.info("this machine was not measured: %s", told(error))
    finally:
        done.set()


def _is_known() -> bool:
    """Whether a weft has measured a GPU here with this PyTorch."""
    return bool(
        glob.glob(
            os.path.join(
                glob.escape(module_store.user_cache()),
                f"gpu-*-torch{torch.__version__}-probe{PROBE}.json",
            )
        )
    )


def _forget() -> None:
    """In a child process, which has no such thread."""
    global _lock, _done
    _lock, _done = threading.Lock(), None
