"""Where the tensors of a check live: host memory, or one CUDA device."""

from __future__ import annotations

import ctypes
import os
import resource
from typing import TYPE_CHECKING, Any

import torch

from weft.device import gpu_lock

if TYPE_CHECKING:
    from weft.device.cuda_driver import Driver

#: Share of the host's memory that kept expectations may take …
HOST_EXPECTED_SHARE = 1 / 16
#: … and of a device's, where several oracles may sit beside each other.
DEVICE_EXPECTED_SHARE = 1 / 32
#: One subgraph's cases that take more of a device than this are made when asked.
DEVICE_CASES_SHARE = 1 / 8
#: What a process may keep of it without use.
DEVICE_UNUSED_SHARE = 1 / 256
#: Less than this is left, or this share of a small device: a library that would
#: work in more takes another algorithm, which rounds otherwise.
SHORT_BYTES = 4 << 30
SHORT_SHARE = 1 / 16
#: Buffers of one call above this: fewer cases, nothing kept between requests.
LARGE_BYTES = 2 << 30


class Device:
    """The host, or a GPU that is opened when this is made."""

    def __init__(self, name: str = "cpu") -> None:
        self.torch = parse(name)
        self.is_cuda = self.torch.type == "cuda"
        self.driver: Driver | None = None
        #: Whether what is left of it is all that can be had.
        self.may_be_short = False
        #: Held while it is used, by who shares it with others (gpu_lock.py).
        self.lock: gpu_lock.DeviceLock | gpu_lock.NoLock = gpu_lock.NoLock()
        if self.is_cuda:
            from weft.device.cuda_driver import open_driver

            self.driver = open_driver(self.torch.index)
            torch.cuda.set_device(self.torch)
            torch.cuda.init()

    @property
    def name(self) -> str:
        """As the framework spells it: "cpu", "cuda:0"."""
        return str(self.torch)

    @property
    def _gpu(self) -> Driver:
        assert self.driver is not None, f"{self.name} is no GPU"
        return self.driver

    def generator(self, seed: int) -> torch.Generator:
        return torch.Generator(self.torch).manual_seed(seed)

    def works(self) -> bool:
        """False after an error in work of this process' own on the device,
        such as an index out of range, which nothing but its end repairs."""
        try:
            self.synchronize()
        except RuntimeError:
            return False
        return True

    def make_way(self) -> None:
        """Here, between two pieces of work, others may be timed."""
        self.synchronize()
        self.lock.make_way()

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize(self.torch)

    def expected_bytes_max(self) -> int:
        """How much kept expectations may take."""
        if self.is_cuda:
            return int(self._gpu.memory_bytes() * DEVICE_EXPECTED_SHARE)
        pages = os.sysconf("SC_PHYS_PAGES")
        memory = os.sysconf("SC_PAGESIZE") * pages
        return int(memory * HOST_EXPECTED_SHARE)

    def holds_cases(self, size_bytes: int) -> bool:
        """Whether all of a subgraph's cases may be kept, if that is their size:
        of six runs beside each other each may."""
        return not self.is_cuda or size_bytes <= self._gpu.memory_bytes() * DEVICE_CASES_SHARE

    def is_large(self, size_bytes: int) -> bool:
        """Whether buffers of that size must not be kept in numbers."""
        return self.is_cuda and size_bytes > LARGE_BYTES

    def parts_for(self, size_bytes: int, copies: int = gpu_lock.ROOM_COPIES) -> int:
        """Of its memory, for who shares it (gpu_lock.py); 0 for small ones."""
        if not self.is_large(size_bytes):
            return 0
        return gpu_lock.parts_of(self._gpu.memory_bytes(), size_bytes, copies)

    def give_back(self) -> None:
        """Memory that the framework holds and does not use."""
        if self.is_cuda:
            torch.cuda.empty_cache()

    def give_back_much(self) -> None:
        """The same, if it is worth it: all processes of all devices wait for
        each other to ask for memory, and to free it."""
        if not self.is_cuda:
            return
        unused = torch.cuda.memory_reserved(self.torch) - torch.cuda.memory_allocated(self.torch)
        if unused > self._gpu.memory_bytes() * DEVICE_UNUSED_SHARE:
            self.give_back()

    def free_bytes(self) -> int:
        """What a computation here may still take."""
        return free_bytes(self.torch)

    def is_short(self) -> bool:
        """Whether others have left so little of it that the framework computes
        otherwise than alone."""
        if not self.is_cuda:
            return False
        most = self._gpu.memory_bytes() * SHORT_SHARE
        return self.free_bytes() < min(SHORT_BYTES, most)

    def is_half_free(self) -> bool:
        return self.free_bytes() >= self._gpu.memory_bytes() / 2

    def assert_not_short(self) -> None:
        """Before something is believed that it may only do for want of memory
        (a library's other algorithm may take many times its tensors):
        OutOfMemoryError."""
        if self.is_cuda and not self.may_be_short and not self.is_half_free():
            raise torch.OutOfMemoryError(
                "others have the device's memory: the framework's libraries "
                "would take other algorithms than alone"
            )

    def peak_bytes(self) -> int:
        """The most that was in use at once, so far."""
        if self.is_cuda:
            return torch.cuda.max_memory_allocated(self.torch)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def peak_held_bytes(self) -> int:
        """The most that the framework's allocator kept from others, so far."""
        if self.is_cuda:
            return torch.cuda.max_memory_reserved(self.torch)
        return self.peak_bytes()


def parse(name: str) -> torch.device:
    """The torch.device of "cpu" or "cuda:N"; ValueError for others."""
    if name == "cpu":
        return torch.device("cpu")
    kind, _, number = name.partition(":")
    if kind != "cuda" or not (number or "0").isdigit():
        raise ValueError(f"no device is called {name!r}: use cpu or cuda:0")
    return torch.device("cuda", int(number or "0"))


HOST = Device()


class _DLDevice(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _DLDevice),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("tensor", _DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_DL_KINDS = {"cpu": 1, "cuda": 2}
_DL_UNSIGNED = 1
#: The framework looks at these when a tensor dies: they outlive all.
_described: list[tuple[_DLManagedTensor, Any, Any]] = []


def bytes_at(address: int, size_bytes: int, device: torch.device) -> torch.Tensor:
    """A uint8 tensor over memory that is there already, and stays.

    By DLPack, because it believes what it is told of the device: other ways
    ask the CUDA runtime about the address.
    """
    shape = (ctypes.c_int64 * 1)(size_bytes)
    strides = (ctypes.c_int64 * 1)(1)
    made = _DLManagedTensor()
    made.tensor.data = address
    made.tensor.device = _DLDevice(_DL_KINDS[device.type], device.index or 0)
    made.tensor.dimensions = 1
    made.tensor.code, made.tensor.bits, made.tensor.lanes = _DL_UNSIGNED, 8, 1
    made.tensor.shape, made.tensor.strides = shape, strides
    _described.append((made, shape, strides))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    wrapped = capsule(ctypes.addressof(made), b"dltensor", None)
    return torch.utils.dlpack.from_dlpack(wrapped)


def free_bytes(device: torch.device) -> int:
    """The memory that a computation on that device may still take, in bytes."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_reserved(device)
        return free + held - torch.cuda.memory_allocated(device)
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0
