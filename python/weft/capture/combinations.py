"""torch.combinations for the exporter, which finds its shape from the values of a
mask. The length alone decides which elements are combined."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

#: The graph's constants are small (graph.CONSTANT_ELEMENTS_MAX).
INDICES_MAX = 4096


def combinations(
    input: torch.Tensor, r: int = 2, with_replacement: bool = False
) -> torch.Tensor | None:
    """torch.combinations' rows by constant indices. None if these are too many, or if
    it is no vector that is combined."""
    if input.dim() != 1 or r < 0:
        return None
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = range(input.shape[0])
    rows = list(itertools.islice(choose(places, r), INDICES_MAX // max(r, 1) + 1))
    if len(rows) * r > INDICES_MAX:
        return None
    if r == 0 or not rows:
        return input.new_empty((0, r) if r else 0)
    indices = torch.tensor(rows, device=input.device)
    return input.index_select(0, indices.reshape(-1)).reshape(len(rows), r)


class Combinations(TorchFunctionMode):
    """Within it, combinations of a vector are the calls above."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is torch.combinations:
            result = combinations(*args, **kwargs)
            if result is not None:
                return result
        return function(*args, **kwargs)
