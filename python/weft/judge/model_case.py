"""One run of a problem's Model: its inputs and state, and what it should leave behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from weft.expect.compare import Expected

#: The groups of tensors that a run leaves behind.
KEYS = ("outputs", "inputs_after", "state_after")
#: If a model draws and errs by more than this, float64 has drawn other numbers.
SAME_DRAWS_MAX = 1e-2

#: A seed, or the states of the random generators.
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
        """The fields that `WholeModel.expect_near` reads of another case."""
        return replace(
            self,
            leaves=[],
            state=[],
            outputs=_without_tensors(self.outputs),
            inputs_after=_without_tensors(self.inputs_after),
            state_after=_without_tensors(self.state_after),
        )


def _without_tensors(expectations: list[Expected]) -> list[Expected]:
    return [one.without_tensors() for one in expectations]


def are_parted(made: Iterable[list[Expected]]) -> bool:
    """Whether float64 has drawn other numbers than eager."""
    errors = [one.framework_error for group in made for one in group]
    return max(errors, default=0.0) > SAME_DRAWS_MAX
