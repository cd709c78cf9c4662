"""One run of a problem's Model: its inputs and state, and what it should leave behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from weft.expect.compare import Expected

#: What a run leaves behind.
KEYS = ("outputs", "inputs_after", "state_after")
#: Of a model that draws: above this, it has drawn others in float64.
SAME_DRAWS_MAX = 1e-2

#: What random numbers begin with: a seed, or the generators' states.
Seed = int | list[torch.Tensor]


@dataclass
class ModelCase:
    """Inputs and state of one run, and what it should leave behind."""

    distribution: str
    finite: bool
    seed: Seed
    leaves: list[torch.Tensor]  # tensors only, contiguous, of the values in memory
    state: list[torch.Tensor]
    described: dict[str, Any]
    outputs: list[Expected]
    inputs_after: list[Expected]
    state_after: list[Expected]

    @property
    def expectations(self) -> list[Expected]:
        return self.outputs + self.inputs_after + self.state_after

    def without_tensors(self) -> ModelCase:
        """What `WholeModel.expect_near` asks of another's."""
        return replace(self, leaves=[], state=[],
                       outputs=_without_tensors(self.outputs),
                       inputs_after=_without_tensors(self.inputs_after),
                       state_after=_without_tensors(self.state_after))


def _without_tensors(expectations: list[Expected]) -> list[Expected]:
    return [one.without_tensors() for one in expectations]


def are_parted(made: Iterable[list[Expected]]) -> bool:
    """Whether float64 has drawn other numbers than the framework."""
    errors = [one.framework_error for group in made for one in group]
    return max(errors, default=0.0) > SAME_DRAWS_MAX
