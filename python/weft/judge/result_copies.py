"""Copies the results of a run of Model into memory that the next run does not write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from weft.device.arena import same_bytes
from weft.expect.reference import TensorSpec

#: A result of so many is not copied where nothing else lies in its memory.
LARGE_ELEMENTS = 1 << 26


def of_its_own(
    results: Iterable[torch.Tensor], others: Iterable[torch.Tensor]
) -> list[torch.Tensor]:
    """Copies of the results; not of the large ones that share their memory
    with nothing, as two of them may be one too many."""
    taken = {t.untyped_storage().data_ptr() for t in others}
    made = []
    for t in results:
        place = t.untyped_storage().data_ptr()
        is_free = t.numel() >= LARGE_ELEMENTS and place not in taken and _is_dense(t)
        made.append(t if is_free else t.clone())
        taken.add(place)
    return made


def unless_changed(after: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """`before` itself if forward() left it alone: one copy less is held, and
    nothing has to be worked out of what a candidate should leave there."""
    if after.dtype != before.dtype:
        return after
    flat = after.contiguous().reshape(-1)
    return before if same_bytes(flat, before.reshape(-1)) else after


def copied_if_changed(after: list[torch.Tensor], before: list[torch.Tensor]) -> list[torch.Tensor]:
    """That of each tensor, or a copy of it."""
    made = map(unless_changed, after, before)
    return [found if found is was else found.clone() for found, was in zip(made, before)]


def attributes(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Tensors that its modules hold without having registered them."""
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor):
                yield value


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill its storage, in whatever order."""
    spec = TensorSpec("", tensor.dtype, tuple(tensor.shape), tensor.stride())
    return spec.storage_elements == tensor.numel()
