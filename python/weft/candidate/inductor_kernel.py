"""Runs a file of TorchInductor's (weft.inductor.stand_alone)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.candidate.python_kernel import PythonKernel

if TYPE_CHECKING:
    import torch

    from weft.candidate.harness import SharedMemory
    from weft.device.device_arena import SharedDeviceMemory


class InductorKernel(PythonKernel):
    """As a module calls it: what is allocated is paid for."""

    def __init__(self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> None:
        super().__init__(job, memory)
        self._allocations.of_inductor(self._module)

    def look_at(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Operators of the framework may be part of Inductor's code."""
