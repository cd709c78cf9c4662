"""torch.cov and torch.corrcoef for the exporter. It cannot follow eager's own, which
compare a divisor with 0. Without weights the shape alone decides that comparison."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def cov(self: torch.Tensor, *, correction: int = 1) -> torch.Tensor:
    """The calls that torch.cov makes without weights."""
    rows = self.reshape(1, -1) if self.dim() < 2 else self
    count = rows.shape[1]
    rows = rows - (rows.sum(1) / count).unsqueeze(1)
    products = torch.mm(rows, rows.t())
    return torch.true_divide(products, max(count - correction, 0)).squeeze()


def corrcoef(self: torch.Tensor) -> torch.Tensor:
    """The calls that torch.corrcoef makes."""
    products = cov(self)
    if products.dim() == 0:
        return products / products
    deviation = products.diagonal().sqrt()
    products = products / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
    return products.clamp(-1, 1)


def _has_weights(kwargs: dict[str, Any]) -> bool:
    return any(kwargs.get(name) is not None for name in ("fweights", "aweights"))


class Covariances(TorchFunctionMode):
    """Within it, both are the calls above. Eager's own are used with weights, and for
    arguments other than matrices of real numbers."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = dict(kwargs or {})
        is_cov = function in (torch.cov, torch.Tensor.cov)
        if is_cov or function in (torch.corrcoef, torch.Tensor.corrcoef):
            given = (*args, kwargs.pop("input", None), kwargs.pop("self", None))
            tensor = next((one for one in given if isinstance(one, torch.Tensor)),
                          None)
            if tensor is not None and tensor.dim() <= 2 \
                    and tensor.is_floating_point() and not _has_weights(kwargs):
                if is_cov:
                    return cov(tensor, correction=kwargs.get("correction", 1))
                return corrcoef(tensor)
            return function(tensor, **kwargs)
        return function(*args, **kwargs)
