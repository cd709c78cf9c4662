"""OpInfo's cases through the whole capture, as `weft run` captures a problem file:
export, decomposition, and the comparison of the graph's run with eager.

    captured   A graph was captured, and its run agrees with eager.
    refused    There is no graph. The message is a sentence about the model.
    internal   There is no graph. The message is an error of Python or of weft, or it
               blames an operator whose calls agree with each other.
"""

import contextlib
import functools
import json
import os
import sys
import tempfile
import types
import warnings

import torch

import captured_cases
from weft.capture import capture
from weft.device.gpu_lock import NoLock
from weft.problem.problem import ProblemError

MODULE = "weft_current_case"
PROBLEM = f"""import torch

import {MODULE} as current


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = current.make()

    def forward(self, *inputs):
        return current.call(self.part, inputs)


def get_inputs():
    return current.inputs()


def get_init_inputs():
    return []
"""


def outcomes(cases, device=torch.device("cpu")):
    """(name, outcome, reason) of each case (name, function, inputs), captured there."""
    functions = (
        (
            case.name,
            torch.nn.Identity,
            functools.partial(_call, case.function),
            functools.partial(_copies, case.inputs),
        )
        for case in cases
    )
    return list(module_outcomes(functions, device))


def _call(function, _, inputs):
    return function(*inputs)


def _copies(tensors):
    return [captured_cases.copy_of(tensor) for tensor in tensors]


def module_outcomes(cases, device=torch.device("cpu")):
    """(name, outcome, reason) of each (name, make, call, inputs): functions that make
    a module, call it with the inputs, and make the inputs."""
    current = types.ModuleType(MODULE)
    sys.modules[MODULE] = current
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROBLEM)
        for name, current.make, current.call, current.inputs in cases:
            yield name, *outcome(path, device)


def append(path, rows):
    """Appends a JSON line for each of these dictionaries."""
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def outcome(path, device):
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
            warnings.simplefilter("ignore")
            graph = capture.capture_steps(path, capture.Stopwatch(), device, NoLock())
    except ProblemError as error:
        return captured_cases.kind_of(error.message), f"{error.kind}: {error.message}"
    except Exception as error:
        return "internal", f"{type(error).__name__}: {error}"
    return "captured", ", ".join(f"{one['operator']} {one['reason']}" for one in graph["kept"])
