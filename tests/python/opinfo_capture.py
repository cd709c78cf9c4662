"""OpInfo's cases through the whole capture, as `weft run` captures a problem file:
export, decomposition, and the comparison of the graph's run with eager.

    captured   A graph was captured, and its run agrees with eager.
    refused    There is no graph. The message is a sentence about the model.
    internal   There is no graph. The message is an error of Python or of weft, or it
               blames an operator whose calls agree with each other.
"""

import contextlib
import os
import sys
import tempfile
import types
import warnings

import torch

import captured_cases  # noqa: F401  (the path of weft's package)
from weft.capture import capture
from weft.device.gpu_lock import NoLock
from weft.problem.problem import ProblemError

MODULE = "opinfo_current_case"
PROBLEM = f"""import torch

import {MODULE} as current


class Model(torch.nn.Module):
    def forward(self, *inputs):
        return current.case.function(*inputs)


def get_inputs():
    return current.inputs(current.case)


def get_init_inputs():
    return []
"""
#: The ways in which a message says that weft or PyTorch, not the model, failed.
INTERNAL = ("internal error", "capture failed with")


def outcomes(cases, copy_of):
    """(name, outcome, reason) of each. `copy_of`: of a tensor, with its strides."""
    current = types.ModuleType(MODULE)
    current.inputs = lambda case: [copy_of(tensor) for tensor in case.inputs]
    sys.modules[MODULE] = current
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROBLEM)
        for case in cases:
            current.case = case
            found.append((case.name, *outcome(path)))
    return found


def outcome(path):
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            graph = capture.capture_steps(path, capture.Stopwatch(),
                                          torch.device("cpu"), NoLock())
    except ProblemError as error:
        is_internal = any(text in error.message for text in INTERNAL)
        return ("internal" if is_internal else "refused",
                f"{error.kind}: {error.message}")
    except Exception as error:
        return "internal", f"{type(error).__name__}: {error}"
    return "captured", ", ".join(
        f"{one['operator']} {one['reason']}" for one in graph["kept"])
