"""The memory that the oracle and a candidate share, and what lies where in it.

On the host one memfd, sealed against resizing, because a candidate that
truncated it would kill the oracle with SIGBUS. A memfd instead of a file: no
write-back disturbs timing, no other user's process can open it, and it is gone
with its last holder. On a device (device_arena.py) likewise a descriptor.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from weft.device import shared_memory

if TYPE_CHECKING:
    from weft.device.device import Device
    from weft.device.device_arena import DeviceArena
    from weft.expect.reference import TensorSpec

PAGE = 4096
#: Between buffers lie this many bytes of a pattern, checked after each call.
GUARD_BYTES = 256
GUARD_VALUE = 0xA7
#: Outputs hold this byte before a call: a NaN in every floating type, no
#: valid boolean, an unlikely integer.
SENTINEL = 0xFF
INTEGER_SENTINEL = 0x5B
SMALLEST_BYTES = 1 << 20
#: Of every buffer, as the CUDA runtime promises it to kernels.
ALIGNMENT = 256


def new_arena(size_bytes: int, device: Device) -> Arena | DeviceArena:
    """An arena of at least that size in the memory of that device."""
    if not device.is_cuda:
        return Arena(size_bytes)
    from weft.device.device_arena import DeviceArena

    return DeviceArena(size_bytes, device)


class Arena:
    """A shared mapping of `bytes` bytes. Not thread-safe."""

    #: How the harness maps it: nothing to say of a memfd.
    described: dict[str, Any] = {}

    def __init__(self, size_bytes: int) -> None:
        size = max(SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
        if size_bytes > (1 << 30):  # doubling would waste too much
            size = -(-size_bytes // PAGE) * PAGE
        self.bytes = size
        self.fd = shared_memory.make(size)
        self._map = mmap.mmap(self.fd, size)
        self._all = torch.frombuffer(self._map, dtype=torch.uint8)

    def clear(self) -> None:
        """Gives the pages back; they read as zeros afterwards."""
        self._map.madvise(mmap.MADV_REMOVE)

    def settle(self) -> None:
        """Returns when all writes are done: here they are."""

    def raw(self, offset: int, size_bytes: int) -> torch.Tensor:
        """That stretch as a uint8 tensor over the shared memory."""
        return self._all[offset : offset + size_bytes]

    def close(self) -> None:
        """The mapping itself goes when the last tensor over it does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass(frozen=True)
class Place:
    """Where one tensor's storage lies in the arena."""

    offset: int
    spec: TensorSpec

    def storage(self, arena: Arena | DeviceArena) -> torch.Tensor:
        """The flat storage as a tensor of the spec's dtype."""
        size = self.spec.storage_bytes
        return arena.raw(self.offset, size).view(self.spec.dtype)

    def view(self, arena: Arena | DeviceArena) -> torch.Tensor:
        return self.spec.view(self.storage(arena))

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, **self.spec.to_json()}


class BufferSet:
    """Inputs and outputs of one call, with guards between them."""

    def __init__(
        self, base: int, inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]
    ) -> None:
        self.base = base
        cursor = base + GUARD_BYTES
        self.inputs: list[Place] = []
        self.outputs: list[Place] = []
        self._guards = [(base, GUARD_BYTES)]
        for specs, places in ((inputs, self.inputs), (outputs, self.outputs)):
            for spec in specs:
                places.append(Place(cursor, spec))
                end = cursor + spec.storage_bytes
                cursor = -(-end // ALIGNMENT) * ALIGNMENT + GUARD_BYTES
                # From the very last byte: padding is nobody's to write.
                self._guards.append((end, cursor - end))
        self.end = -(-cursor // PAGE) * PAGE

    @staticmethod
    def bytes_needed(inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec]) -> int:
        return BufferSet(0, inputs, outputs).end

    def bind(self, arena: Arena | DeviceArena) -> BufferSet:
        """Makes the tensors once: each call after costs no Python for it."""
        self._arena = arena
        self.input_storages = [p.storage(arena) for p in self.inputs]
        self.output_storages = [p.storage(arena) for p in self.outputs]
        self.output_views = [p.spec.view(s) for p, s in zip(self.outputs, self.output_storages)]
        self._output_raw = [
            (_sentinel(p.spec.dtype), s.view(torch.uint8))
            for p, s in zip(self.outputs, self.output_storages)
        ]
        self._guard_raw = [arena.raw(*guard) for guard in self._guards]
        for guard in self._guard_raw:
            fill_bytes(guard, GUARD_VALUE)
        return self

    def fill_outputs(self) -> None:
        """The last thing before a call: what is written here is there then."""
        for value, raw in self._output_raw:
            fill_bytes(raw, value)
        self._arena.settle()

    def write_inputs(self, storages: Iterable[torch.Tensor]) -> None:
        for target, source in zip(self.input_storages, storages):
            copy_bytes(target, source)

    def out_of_bounds_write(self, storages: Iterable[torch.Tensor]) -> str:
        """Empty, or what the candidate wrote besides its outputs."""
        if not all_hold(self._guard_raw, GUARD_VALUE):
            return "wrote outside its buffers"
        for place, held, kept in zip(self.inputs, self.input_storages, storages):
            if not same_bytes(held, kept):
                return f"wrote to its input {place.spec.name}"
        return ""

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [p.to_json() for p in self.inputs],
            "outputs": [p.to_json() for p in self.outputs],
        }


def _sentinel(dtype: torch.dtype) -> int:
    if dtype.is_floating_point or dtype == torch.bool:
        return SENTINEL
    return INTEGER_SENTINEL


#: The longest guard: the padding and GUARD_BYTES.
_GUARD = torch.full((ALIGNMENT + GUARD_BYTES,), GUARD_VALUE, dtype=torch.uint8)

# The framework's own fill and copy wake all its threads from 32 KiB on, which
# costs a small check more than the kernel does.
_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_libc.memmove.argtypes = _libc.memcmp.argtypes
_libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
_SERIAL_BYTES_MAX = 1 << 20
#: Compared at once on a device: the result takes a byte for each element.
_COMPARED_BYTES = 1 << 28


def all_hold(guards: list[torch.Tensor], value: int) -> bool:
    """Whether every byte of the flat uint8 tensors has that value."""
    if not guards[0].is_cuda:
        return all(same_bytes(guard, _GUARD[: guard.nbytes]) for guard in guards)
    return bool((torch.cat(guards) == value).all())


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two flat tensors hold the same bits (nan equals itself)."""
    if a.nbytes != b.nbytes:
        return False
    if a.is_cuda:
        return _same_on_device(a, b)
    return _libc.memcmp(a.data_ptr(), b.data_ptr(), a.nbytes) == 0


def _same_on_device(a: torch.Tensor, b: torch.Tensor) -> bool:
    pairs = zip(
        a.view(torch.uint8).split(_COMPARED_BYTES), b.view(torch.uint8).split(_COMPARED_BYTES)
    )
    return all(torch.equal(_as_words(x), _as_words(y)) for x, y in pairs)


def _as_words(raw: torch.Tensor) -> torch.Tensor:
    """The same bytes in the widest integers that divide them."""
    for dtype in (torch.int64, torch.int32, torch.int16):
        if (raw.nbytes | int(raw.storage_offset())) % dtype.itemsize == 0:
            return raw.view(dtype)
    return raw


def copy_bytes(target: torch.Tensor, source: torch.Tensor) -> None:
    """target.copy_(source) for flat tensors of one dtype and length."""
    if (target.dtype, target.numel()) != (source.dtype, source.numel()):
        raise ValueError(
            f"{source.numel()} elements of {source.dtype} do not "
            f"fill {target.numel()} of {target.dtype}"
        )
    if target.is_cuda or source.nbytes > _SERIAL_BYTES_MAX:
        target.copy_(source)
    else:
        _libc.memmove(target.data_ptr(), source.data_ptr(), source.nbytes)


def fill_bytes(target: torch.Tensor, value: int) -> None:
    """target.fill_(value) for a flat uint8 tensor."""
    if target.is_cuda or target.nbytes > _SERIAL_BYTES_MAX:
        target.fill_(value)
    else:
        _libc.memset(target.data_ptr(), value, target.nbytes)
