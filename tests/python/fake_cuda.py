"""A CUDA driver that hands out numbers and remembers its calls, for tests without a GPU."""

import ctypes
import types

import torch

from weft.device import cuda_driver


class FakeFunction:
    """A driver call that is recorded and succeeds, or does not."""

    def __init__(self, library, name):
        self._library, self._name = library, name

    def __call__(self, *arguments):
        return self._library.called(self._name, arguments)


class FakeLibrary:
    """Stands for libcuda.so.1: hands out numbers, remembers all."""

    def __init__(self, fails=None):
        self.calls = []
        self.fails = fails or {}
        self._next = 0x1000

    def __getattr__(self, name):
        made = FakeFunction(self, name)
        setattr(self, name, made)
        return made

    def called(self, name, arguments):
        if name in ("cuGetErrorName", "cuGetErrorString"):
            arguments[1]._obj.value = b"CUDA_ERROR_SAMPLE"
            return 0
        self.calls.append((name, arguments))
        if name in self.fails:
            return self.fails[name]
        if arguments and hasattr(arguments[0], "_obj"):
            self._hand_out(name, arguments[0]._obj)
        return 0

    def _hand_out(self, name, place):
        if isinstance(place, ctypes.Array):
            return
        self._next += 0x1000
        place.value = 2 << 20 if name.endswith("Granularity") else self._next

    def names(self):
        return [name for name, _ in self.calls]

    def of(self, name):
        return [arguments for called, arguments in self.calls if called == name]


def fake_memory(library):
    made = cuda_driver.Driver(library, 0)
    return types.SimpleNamespace(driver=made, address=0x700000000000, device=torch.device("cpu"))
