"""One run of a problem's Model: its inputs and state, and what it should leave behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from weft.problem.result_form import ResultForm
from weft.expect.case import Case
from weft.expect.compare import Expected

#: If a model draws and errs by more than this, float64 has drawn other numbers.
SAME_DRAWS_MAX = 1e-2

#: A seed, or the states of the random generators.
Seed = int | list[torch.Tensor]


@dataclass(frozen=True)
class RunData:
    """Inputs and state of one run."""

    seed: Seed
    leaves: list[torch.Tensor]  #: tensors only, contiguous, of the values in memory
    state: list[torch.Tensor]

    @property
    def flat(self) -> list[torch.Tensor]:
        """The tensors that are written to shared memory."""
        return [t.reshape(-1) for t in self.leaves + self.state]


@dataclass
class RunResults:
    """Copies of what one run leaves behind."""

    outputs: list[torch.Tensor]
    inputs_after: list[torch.Tensor]
    state_after: list[torch.Tensor]
    form: ResultForm
    drew: bool  #: random numbers
    memory_bytes: int = 0  #: that the run took on a device

    @property
    def tensors(self) -> list[torch.Tensor]:
        return self.outputs + self.inputs_after + self.state_after

    def take_tensors(self) -> deque[torch.Tensor]:
        """The tensors, which are no longer kept here."""
        taken = deque(self.tensors)
        self.outputs, self.inputs_after, self.state_after = [], [], []
        return taken


@dataclass
class ModelCase(Case[RunData]):
    """A case of a Model. `others` are its inputs, then its state, afterwards."""

    form: ResultForm = field(kw_only=True)

    @property
    def state_after(self) -> list[Expected]:
        return self.others[len(self.data.leaves) :]


def are_parted(expectations: Iterable[Expected]) -> bool:
    """Whether float64 has drawn other numbers than eager."""
    return max((one.framework_error for one in expectations), default=0.0) > SAME_DRAWS_MAX
