"""The graph of a problem file that this process has written, captured by this process.

Another process would have to load PyTorch and its exporter: 2.7 s, more than half of a
short budget. Here they are loaded, and a small graph takes 0.2 to 0.5 s (two cores,
2026-11-30). The graph is trusted as far as the problem file is. The search verifies the
module that it makes of the graph against the problem file.
"""

import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from weft.backend.graphs import special_calls
from weft.backend.graphs.problem_source import Source
from weft.backend.graphs.random_state import kept
from weft.capture.tracer_lock import tracing
from weft.backend.options import Options, log, told
from weft.backend.searches import search
from weft.problem.problem import MODULE_NAME

#: With a larger budget nothing is risked in the user's process for these seconds.
BUDGET_S_MAX = 60.0
#: No larger graph and no larger tensors: nothing stops this capture when the budget is
#: over, and it holds copies of all tensors.
OPERATORS_MAX = 400
BYTES_MAX = 64 << 20


def captured(source: Source, options: Options, arguments: Sequence[Any]) -> str:
    """The graph's text (docs/reference/graph.md), or "" if the search is to capture it.
    Only for a caller that waits: another call may draw random numbers meanwhile.
    Raises nothing."""
    try:
        # AOTAutograd's call is made in a mode of its own.
        with _disable_current_modes():
            if not _is_possible(source, options, arguments) or search.known(source, options):
                return ""
            with tempfile.TemporaryDirectory(prefix="weft-capture-") as folder:
                return _captured_in(folder, source.text)
    except Exception as error:
        log.info("the graph was not captured in this process: %s", told(error))
        return ""


def _is_possible(source: Source, options: Options, arguments: Sequence[Any]) -> bool:
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    return (
        options.wait
        and not options.head
        and options.budget_s <= BUDGET_S_MAX
        and not source.any_size
        and source.count <= OPERATORS_MAX
        and all(one.device.type == "cpu" for one in tensors)
        and sum(one.nbytes for one in tensors) <= BYTES_MAX
        # The capture seeds all devices' generators.
        and not torch.cuda.is_available()
        # In its own process the capture has PyTorch's usual settings.
        and not special_calls.is_special()
        and not torch.is_inference_mode_enabled()
        and torch.get_default_dtype() == torch.float32
        and not torch.are_deterministic_algorithms_enabled()
    )


def _captured_in(folder: str, text: str) -> str:
    from weft.capture import capture

    problem, graph = os.path.join(folder, "problem.py"), os.path.join(folder, "graph.json")
    with open(problem, "w", encoding="utf-8") as file:
        file.write(text)
    with tracing, kept((), True), _as_before():
        reply = capture.reply_of(problem, graph)
    if not reply["ok"]:  # its own process says why, as ever
        log.info("the graph was not captured in this process: %s", reply["error"])
        return ""
    with open(graph, encoding="utf-8") as file:
        return file.read()


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Leaves the logger of torch and the table of modules as they were."""
    logger = logging.getLogger("torch")
    level, module = logger.level, sys.modules.get(MODULE_NAME)
    try:
        yield
    finally:
        logger.setLevel(level)
        sys.modules.pop(MODULE_NAME, None)
        if module is not None:
            sys.modules[MODULE_NAME] = module
