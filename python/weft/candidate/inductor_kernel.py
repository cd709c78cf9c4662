"""Runs a file of TorchInductor's (weft.inductor.stand_alone). It allocates its results,
and copying them to where they are compared would count as its time: so the
allocations that become results are given those places."""

from functools import partial

import torch

from weft.candidate.harness import MAPPED_BYTES, touch
from weft.candidate.python_kernel import PythonKernel


class InductorKernel(PythonKernel):
    """As a module calls it: what is allocated is paid for."""

    def __init__(self, job, memory):
        super().__init__(job, memory)
        self._allocations = Allocations(self._module)

    def run(self, call):
        self._allocations.pays = call.get("allocates", False)
        return super().run(call)

    def look_at(self, inputs, outputs):
        """Operators of the framework may be part of Inductor's code."""

    def _called(self, inputs, outputs):
        self._allocations.begin(outputs)
        results = super()._called(inputs, outputs)
        self._allocations.learn(results)
        return results


class Allocations:
    """Those that a call of the file makes, which are the same in every call."""

    def __init__(self, module):
        self.pays = False
        #: {number of an allocation: of the result that it becomes}, from the
        #: first call on.
        self._results = None
        for name, function in list(vars(module).items()):
            if name.startswith("empty_strided_"):
                setattr(module, name, partial(self._allocate, function))

    def begin(self, outputs):
        self._outputs, self._count, self._made = outputs, 0, []

    def _allocate(self, function, shape, stride, dtype):
        number, self._count = self._count, self._count + 1
        made = function(shape, stride, dtype)
        if self._results is None:
            self._made.append(made)
        elif number in self._results:
            # What it takes is taken, and let go of.
            if self.pays and made.nbytes > MAPPED_BYTES:
                touch(made)
            return self._outputs[self._results[number]].as_strided(shape, stride)
        return made

    def learn(self, results):
        """Of the first call, all of whose allocations are still there."""
        if self._results is None:
            self._results = {
                place: number
                for number, (result, output) in enumerate(zip(results, self._outputs))
                for place, made in enumerate(self._made)
                if are_one(made, result, output)}
            self._made = []


def are_one(made, result, output):
    """Whether a result is all of that allocation, and looks as the place where
    it is compared does: only then is the allocation's shape one of that place,
    however it differs from the result's, and the result lies where it should."""
    return (type(result) is torch.Tensor and look(result) == look(output)
            and made.dtype == result.dtype and made.data_ptr() == result.data_ptr()
            and made.untyped_storage().nbytes() == span(made) == span(result))


def look(tensor):
    """What of one is the same wherever it lies."""
    return tensor.dtype, tensor.shape, tensor.stride()


def span(tensor):
    """Bytes from its first element to behind its last one."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * step
               for size, step in zip(tensor.shape, tensor.stride()))
    return (1 + last) * tensor.itemsize
