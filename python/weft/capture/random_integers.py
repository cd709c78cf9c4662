"""random_(from, to) for the exporter, which writes Python code of operators' names:
"from" is a keyword there."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def drawn(tensor: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """tensor.random_(low, high) by an operator that draws the same numbers."""
    return tensor.copy_(torch.randint_like(tensor, low, high))


class RandomIntegers(TorchFunctionMode):
    """Within it, tensors are filled by the calls above."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.Tensor.random_:
            given = [*args, *(kwargs[name] for name in ("from", "to") if name in kwargs)]
            if len(given) == 3 and None not in given[1:] and kwargs.get("generator") is None:
                return drawn(*given)
        return function(*args, **kwargs)
