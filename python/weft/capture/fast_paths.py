"""Whether PyTorch's fast path of Transformers computes something else than the model.

In eval mode without gradients, nn.TransformerEncoderLayer and nn.MultiheadAttention call
one operator for all of it. It takes a mask of numbers for booleans. The exporter follows
the model's own calls, which add the mask.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from weft.capture import check
from weft.problem.problem import ProblemError

if TYPE_CHECKING:
    from weft.capture.capture import State
    from weft.capture.matching import Runs

LAYERS = (torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)


def refuse_other_results(state: State, expected: Runs) -> None:
    """Raises ProblemError where the fast path explains that the captured graph's run
    differs from `expected`, eager's: without it, eager differs from that, too."""
    name = next(
        (name for name, part in state.model.named_modules() if isinstance(part, LAYERS)), None
    )
    if name is None or not torch.backends.mha.get_fastpath_enabled():
        return
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        outputs, after = state.swayed_run(False, False)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    drawn = expected[2]
    try:
        check.compare_runs(expected, (outputs, after, drawn), state.problem.path, False)
    except check.Mismatch:
        raise ProblemError(
            "unsupported",
            f"{name or 'Model'} cannot be captured: in eval mode, PyTorch's fast path of "
            f"nn.{type(state.model.get_submodule(name)).__name__} computes something else than "
            "its forward() (a mask of numbers is taken for one of booleans): give it a boolean "
            "mask, or call torch.backends.mha.set_fastpath_enabled(False)",
            file=os.path.basename(state.problem.path),
        ) from None
