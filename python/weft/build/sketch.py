"""A stand-in for torch while a generated source is built: tensors that have a
shape and no data.

Loading torch takes longer than compiling most kernels. The sources that weft
writes need of it what is here; one that needs more raises Beyond, and is built
again with torch itself.
"""

from __future__ import annotations

import contextlib
import math
import sys
import types
from collections.abc import Iterator, Sequence
from typing import NoReturn

_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


class Beyond(BaseException):  # no source is to catch it
    """The source asks for more of torch than is sketched here."""


class DType:
    def __init__(self, name: str) -> None:
        self.itemsize, self._name = _BYTES[name], name

    def __repr__(self) -> str:
        return "torch." + self._name


class Tensor:
    device = "meta"

    def __init__(self, shape: Sequence[int], stride: tuple[int, ...], dtype: DType) -> None:
        self.shape, self._stride, self.dtype = tuple(shape), stride, dtype

    def stride(self) -> tuple[int, ...]:
        return self._stride

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        return self.dtype.itemsize

    def __getattr__(self, name: str) -> NoReturn:
        raise Beyond(f"a tensor's {name}")


def empty_strided(
    shape: Sequence[int], stride: Sequence[int], *, dtype: DType, device: object = None
) -> Tensor:
    del device
    return Tensor(shape, tuple(stride), dtype)


def empty(count: object, *, dtype: DType, device: object = None) -> Tensor:
    if not isinstance(count, int):
        raise Beyond("torch.empty of several dimensions")
    return empty_strided((count,), (1,), dtype=dtype, device=device)


class Module(types.ModuleType):
    def __getattr__(self, name: str) -> NoReturn:
        raise Beyond(f"torch.{name}")


@contextlib.contextmanager
def standing_in() -> Iterator[None]:
    """`import torch` gives the sketch; does nothing where torch is loaded."""
    if "torch" in sys.modules:
        raise Beyond("torch is there already")
    module = Module("torch")
    for name in _BYTES:
        setattr(module, name, DType(name))
    for name, sketched in (("Tensor", Tensor), ("empty", empty), ("empty_strided", empty_strided)):
        setattr(module, name, sketched)
    sys.modules["torch"] = module
    try:
        yield
    finally:
        del sys.modules["torch"]
