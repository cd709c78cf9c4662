"""ctc_loss for the exporter, which follows it into an operator whose second result
has a shape that depends on values. The shape of the loss does not."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import _reduction
from torch.nn import functional as nn_functional
from torch.overrides import TorchFunctionMode

from weft.capture import decompositions


@functools.cache
def _kept(overload: str) -> Any:
    """The operator that stands for a call of that overload of aten.ctc_loss."""
    original = getattr(torch.ops.aten.ctc_loss, overload)
    _, opening, rest = str(original._schema).partition("(")
    return decompositions.define_kept(original, opening + rest, _loss_like, ())


def _loss_like(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> torch.Tensor:
    # Arguments that equal the schema's defaults are not passed on.
    is_batch = log_probs.dim() == 3
    is_each = reduction == _reduction.get_enum("none")
    return log_probs.new_empty(log_probs.shape[1:2] if is_batch and is_each else ())


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Any:
    """One call; None unless the lengths are two tensors or two lists."""
    given = (input_lengths, target_lengths)
    if all(isinstance(one, torch.Tensor) for one in given):
        kept = _kept("Tensor")
    elif all(isinstance(length, int) for one in given for length in one):
        kept = _kept("IntList")
    else:
        return None
    if isinstance(reduction, str):
        reduction = _reduction.get_enum(reduction)
    return kept(log_probs, targets, *given, blank, reduction, zero_infinity)


class CtcLosses(TorchFunctionMode):
    """Within it, ctc_loss is one call in the graph."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (nn_functional.ctc_loss, torch.ctc_loss):
            loss = ctc_loss(*args, **kwargs)
            if loss is not None:
                return loss
        return function(*args, **kwargs)
