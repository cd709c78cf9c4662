"""A stand-in for torch while a generated source is built: tensors that have a
shape and no data.

Loading torch takes longer than compiling most kernels. The sources that weft
writes need of it what is here; one that needs more raises Beyond, and is built
again with torch itself.
"""

import contextlib
import math
import sys
import types

_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8,
    "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}


class Beyond(BaseException):  # no source is to catch it
    """The source asks for more of torch than is sketched here."""


class DType:
    def __init__(self, name):
        self.itemsize, self._name = _BYTES[name], name

    def __repr__(self):
        return "torch." + self._name


class Tensor:
    device = "meta"

    def __init__(self, shape, stride, dtype):
        self.shape, self._stride, self.dtype = tuple(shape), stride, dtype

    def stride(self):
        return self._stride

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.dtype.itemsize

    def __getattr__(self, name):
        raise Beyond(f"a tensor's {name}")


def empty_strided(shape, stride, *, dtype, device=None):
    del device
    return Tensor(shape, tuple(stride), dtype)


def empty(count, *, dtype, device=None):
    if not isinstance(count, int):
        raise Beyond("torch.empty of several dimensions")
    return empty_strided((count,), (1,), dtype=dtype, device=device)


class Module(types.ModuleType):
    def __getattr__(self, name):
        raise Beyond(f"torch.{name}")


@contextlib.contextmanager
def standing_in():
    """`import torch` gives the sketch; does nothing where torch is loaded."""
    if "torch" in sys.modules:
        raise Beyond("torch is there already")
    module = Module("torch")
    for name in _BYTES:
        setattr(module, name, DType(name))
    module.Tensor = Tensor
    module.empty, module.empty_strided = empty, empty_strided
    sys.modules["torch"] = module
    try:
        yield
    finally:
        del sys.modules["torch"]
