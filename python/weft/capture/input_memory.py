"""The memory of a model's inputs: which share it, and whether a call wrote into it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: Bytes of an input that are compared, to see whether it was written.
SAMPLE_BYTES_MAX = 64 << 20


class Written:
    """Whether somebody has written into input tensors since. Not by their
    versions alone: a batch norm that is given running statistics as arguments
    writes them and counts nothing."""

    def __init__(self, inputs: list[Any]) -> None:
        self._before = list(map(self._look, self._tensors(inputs)))

    def into(self, inputs: list[Any]) -> bool:
        return any(
            version != leaf._version or not self._same(sample, leaf)
            for (version, sample), leaf in zip(self._before, self._tensors(inputs), strict=True)
        )

    @staticmethod
    def _tensors(inputs: list[Any]) -> list[torch.Tensor]:
        import torch
        from torch.utils import _pytree as pytree

        return [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]

    def _look(self, leaf: torch.Tensor) -> tuple[int, torch.Tensor]:
        return leaf._version, self._sample(leaf).clone()

    @staticmethod
    def _sample(leaf: torch.Tensor) -> torch.Tensor:
        """All of a small one, and of a large one some rows."""
        import torch

        if leaf.layout != torch.strided:  # refused later, with its line
            return torch.empty(0)
        rows = leaf.detach()
        while rows.dim() and rows.nbytes > SAMPLE_BYTES_MAX:
            step = -(-rows.nbytes // SAMPLE_BYTES_MAX)
            rows = rows[::step] if rows.shape[0] > 1 else rows[0]
        return rows

    def _same(self, sample: torch.Tensor, leaf: torch.Tensor) -> bool:
        from weft.problem.attribute_state import same_values

        return same_values(self._sample(leaf), sample)


def storage(tensor: torch.Tensor) -> int:
    """What two tensors over the same memory have in common."""
    import torch

    if tensor.layout != torch.strided:  # refused later, with its line
        return id(tensor)
    return tensor.untyped_storage().data_ptr()


def input_leaves(model: torch.nn.Module, inputs: list[Any]) -> Iterator[tuple[str, Any]]:
    """(expression over forward()'s arguments, leaf) of each input."""
    from torch.utils import _pytree as pytree

    bound = inspect.signature(model.forward).bind(*inputs)
    for name, value in bound.arguments.items():
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            yield name + pytree.keystr(path), leaf
