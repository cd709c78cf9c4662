"""torch.cov and torch.corrcoef for the exporter. It cannot follow eager's own, which
compare a sum of weights, and a divisor, with 0. The eager run has had the first
comparison. The second is a clamp here; without weights, the shape alone decides it."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


def cov(
    self: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """The calls that torch.cov makes, without its checks of the weights' values."""
    rows = self.reshape(1, -1) if self.dim() < 2 else self
    weights = fweights
    if aweights is not None:
        weights = aweights if weights is None else weights * aweights

    if weights is None:
        count = rows.shape[1]
        rows = rows - (rows.sum(1) / count).unsqueeze(1)
        products = torch.mm(rows, rows.t())
        return torch.true_divide(products, max(count - correction, 0)).squeeze()

    total = weights.sum()
    rows = rows - ((rows * weights).sum(1) / total).unsqueeze(1)
    divisor = total - correction
    if aweights is not None and correction != 0:
        divisor = total - correction * (weights * aweights).sum() / total
    products = torch.mm(rows, (rows * weights).t())
    return torch.true_divide(products, divisor.clamp(min=0)).squeeze()


def corrcoef(self: torch.Tensor) -> torch.Tensor:
    """The calls that torch.corrcoef makes."""
    products = cov(self)
    if products.dim() == 0:
        return products / products
    deviation = products.diagonal().sqrt()
    products = products / deviation.reshape(-1, 1) / deviation.reshape(1, -1)
    return products.clamp(-1, 1)


class Covariances(TorchFunctionMode):
    """Within it, both are the calls above. Eager's own are used for arguments other
    than matrices of real numbers."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        is_cov = function in (torch.cov, torch.Tensor.cov)
        if is_cov or function in (torch.corrcoef, torch.Tensor.corrcoef):
            given = (*args, kwargs.pop("input", None), kwargs.pop("self", None))
            tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
            if (
                tensor is not None
                and tensor.dim() <= 2
                and not (tensor.is_complex() or tensor.dtype == torch.bool)
            ):
                return (cov if is_cov else corrcoef)(tensor, **kwargs)
            return function(tensor, **kwargs)
        return function(*args, **kwargs)
