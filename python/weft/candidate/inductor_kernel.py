"""Runs a file of TorchInductor's (weft.inductor.stand_alone)."""

from weft.candidate.python_kernel import PythonKernel


class InductorKernel(PythonKernel):
    """As a module calls it: what is allocated is paid for."""

    def __init__(self, job, memory):
        super().__init__(job, memory)
        self._allocations.of_inductor(self._module)

    def look_at(self, inputs, outputs):
        """Operators of the framework may be part of Inductor's code."""
