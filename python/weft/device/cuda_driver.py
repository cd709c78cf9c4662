"""The CUDA driver, opened at run time: the few calls that weft needs.

Every call is checked; what the driver refuses is a CudaError that names the
call and the driver's own word for what happened. Nothing here is touched
before `open_driver`, so a machine without a GPU can import this module.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Iterable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
#: How long a device is waited for whose memory others fill.
FULL_WAIT_S = 30.0
FULL_POLL_S = 0.5

#: CUdevice_attribute, as far as it is asked for.
ATTRIBUTES = {
    "sms": 16,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "l2_bytes": 38,
    "compute_major": 75,
    "compute_minor": 76,
    "shared_bytes": 97,  # that one block can have, when it asks
    "sm_threads": 39,  # these four: of a multiprocessor
    "sm_blocks": 106,
    "sm_registers": 82,
    "sm_shared_bytes": 81,
}
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # CUfunction_attribute
_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14
#: Blocks in a cluster on every device that knows clusters.
CLUSTER_PORTABLE = 8
_COOPERATIVE, _CLUSTER_DIMENSION = 2, 4  # CUlaunchAttributeID
_MINIMUM_GRANULARITY = 0
_POSIX_FILE_DESCRIPTOR = 1
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3


class CudaError(Exception):
    """A driver call failed; `name` is the driver's, as CUDA_ERROR_..."""

    def __init__(self, call: str, name: str, text: str) -> None:
        super().__init__(f"{name} in {call}: {text}")
        self.name = name


class NoDriver(Exception):
    """There is no CUDA driver here, or it finds no device."""


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class AllocationFlags(ctypes.Structure):
    _fields_ = [
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("flags", AllocationFlags),
    ]


class AccessDescription(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", c_int)]


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute, whose value begins with up to three numbers."""

    _fields_ = [("id", c_int), ("pad", c_int), ("value", c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", c_uint),
    ]


def launch_config(
    grid: Sequence[int], threads: int, shared_bytes: int, cluster: int, cooperative: bool
) -> LaunchConfig:
    """What cuLaunchKernelEx wants to know, for the default stream."""
    attributes = (LaunchAttribute * 2)()
    count = 0
    if cluster > 1:
        attributes[count].id = _CLUSTER_DIMENSION
        attributes[count].value[:3] = (cluster, 1, 1)
        count += 1
    if cooperative:
        attributes[count].id = _COOPERATIVE
        attributes[count].value[0] = 1
        count += 1
    return LaunchConfig(
        (c_uint * 3)(*grid), (c_uint * 3)(threads, 1, 1), shared_bytes, None, attributes, count
    )


#: Arguments of each call in use. Without them a pointer would be cut to 32
#: bits without a word.
_SIGNATURES = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetUuid": (c_void_p, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuCtxResetPersistingL2Cache": (),
    "cuModuleLoadData": (c_void_p, c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (c_void_p, c_void_p, ctypes.c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": ((c_void_p,) + (c_uint,) * 7 + (c_void_p, c_void_p, c_void_p)),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuOccupancyMaxActiveClusters": (c_void_p, c_void_p, c_void_p),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_ulonglong,),
    "cuMemsetD32Async": (c_ulonglong, c_uint, c_size_t, c_void_p),
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p),
    "cuMemGetAllocationGranularity": (c_void_p, c_void_p, c_int),
    "cuMemCreate": (c_void_p, c_size_t, c_void_p, c_ulonglong),
    "cuMemExportToShareableHandle": (
        c_void_p,
        c_ulonglong,
        c_int,
        c_ulonglong,
    ),
    "cuMemImportFromShareableHandle": (c_void_p, c_void_p, c_int),
    "cuMemAddressReserve": (
        c_void_p,
        c_size_t,
        c_size_t,
        c_ulonglong,
        c_ulonglong,
    ),
    "cuMemMap": (c_ulonglong, c_size_t, c_size_t, c_ulonglong, c_ulonglong),
    "cuMemSetAccess": (c_ulonglong, c_size_t, c_void_p, c_size_t),
    "cuMemUnmap": (c_ulonglong, c_size_t),
    "cuMemAddressFree": (c_ulonglong, c_size_t),
    "cuMemRelease": (c_ulonglong,),
}


class Driver:
    """One device's primary context, current in the thread that made this.

    The primary context is the one that the framework uses too, so that both
    see each other's memory.
    """

    def __init__(self, library: ctypes.CDLL, ordinal: int) -> None:
        self._library = library
        for name, arguments in _SIGNATURES.items():
            # Drivers before 11.8 know no clusters, and lack a call for them.
            if hasattr(library, name):
                getattr(library, name).argtypes = arguments
        self.call("cuInit", 0)
        self.ordinal = ordinal
        device = c_int()
        self.call("cuDeviceGet", byref(device), ordinal)
        self.device = device.value
        self._context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(self._context), self.device)
        self.call("cuCtxSetCurrent", self._context)

    def call(self, name: str, *arguments: Any) -> None:
        """That call; CudaError if the driver refuses."""
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise CudaError(name, *self._words(code))

    def _words(self, code: int) -> list[str]:
        words = []
        for call in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            getattr(self._library, call)(code, byref(text))
            words.append((text.value or b"unknown").decode())
        return words

    def multiprocessor(self) -> dict[str, int]:
        """What one has for its blocks (weft.build.built_code)."""
        return {
            name: self.attribute("sm_" + name)
            for name in ("threads", "blocks", "registers", "shared_bytes")
        }

    def attribute(self, name: str) -> int:
        value = c_int()
        number = ATTRIBUTES[name]
        self.call("cuDeviceGetAttribute", byref(value), number, self.device)
        return value.value

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), self.device)
        return text.value.decode()

    def uuid(self) -> str:
        """As nvidia-smi prints it, without its prefix."""
        raw = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid", byref(raw), self.device)
        digits = bytes(raw).hex()
        cuts = (0, 8, 12, 16, 20, 32)
        return "-".join(digits[a:b] for a, b in zip(cuts, cuts[1:]))

    def memory_bytes(self) -> int:
        size = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(size), self.device)
        return size.value

    def version(self) -> str:
        """The newest CUDA that this driver serves, as "13.0"."""
        value = c_int()
        self.call("cuDriverGetVersion", byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def synchronize(self) -> None:
        """Waits for everything in the context; an error is the work's."""
        self.call("cuCtxSynchronize")

    def load_module(self, image: bytes) -> ctypes.c_void_p:
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), image)
        return module

    def unload_module(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def function(
        self, module: ctypes.c_void_p, name: str, shared_bytes: int, cluster: int = 1
    ) -> ctypes.c_void_p:
        """A kernel of the module, ready to use that much shared memory, and
        clusters of so many blocks."""
        found = c_void_p()
        encoded = name.encode()
        self.call("cuModuleGetFunction", byref(found), module, encoded)
        if shared_bytes > 0:  # what it has by itself counts, too
            asked = _MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", found, asked, shared_bytes)
        if cluster > CLUSTER_PORTABLE:
            asked = _NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            self.call("cuFuncSetAttribute", found, asked, 1)
        return found

    def clusters_at_once(
        self, function: ctypes.c_void_p, blocks: int, threads: int, shared_bytes: int
    ) -> int:
        """How many clusters of so many blocks the device runs at a time."""
        count = c_int()
        config = launch_config((blocks, 1, 1), threads, shared_bytes, blocks, False)
        self.call("cuOccupancyMaxActiveClusters", byref(count), function, byref(config))
        return count.value

    def launch(
        self,
        function: ctypes.c_void_p,
        blocks: int,
        threads: int,
        addresses: Iterable[int],
        stream: int,
    ) -> None:
        """On that stream, with these addresses as its arguments."""
        values = [c_void_p(address) for address in addresses]
        array = (c_void_p * len(values))(*map(ctypes.addressof, values))
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, array, None)

    def allocate(self, size_bytes: int) -> int:
        """The address of new device memory, full of NaN: whatever was there
        before, nobody reads it."""
        words = -(-max(1, size_bytes) // 4)
        address = c_ulonglong()
        self.call("cuMemAlloc_v2", byref(address), 4 * words)
        self.call("cuMemsetD32Async", address, 0xFFFFFFFF, words, None)
        return address.value

    def free(self, address: int) -> None:
        self.call("cuMemFree_v2", address)

    def event(self) -> ctypes.c_void_p:
        made = c_void_p()
        self.call("cuEventCreate", byref(made), 0)
        return made

    def record(self, event: ctypes.c_void_p) -> None:
        """On the default stream."""
        self.call("cuEventRecord", event, None)

    def elapsed_ns(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> int:
        """Between two events that are over."""
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), start, end)
        return int(milliseconds.value * 1e6)

    def _properties(self) -> AllocationProperties:
        allocation_properties = AllocationProperties(type=_PINNED)
        allocation_properties.handle_types = _POSIX_FILE_DESCRIPTOR
        allocation_properties.location = Location(_ON_DEVICE, self.device)
        return allocation_properties

    def create_shared(self, size_bytes: int) -> tuple[int, int]:
        """(descriptor, whole size) of new memory that processes can share."""
        properties = self._properties()
        grain = c_size_t()
        self.call(
            "cuMemGetAllocationGranularity", byref(grain), byref(properties), _MINIMUM_GRANULARITY
        )
        size = -(-size_bytes // grain.value) * grain.value
        handle = c_ulonglong()
        self.call("cuMemCreate", byref(handle), size, byref(properties), 0)
        descriptor = c_int(-1)
        try:
            self.call(
                "cuMemExportToShareableHandle", byref(descriptor), handle, _POSIX_FILE_DESCRIPTOR, 0
            )
        finally:  # the exported descriptor keeps the memory
            self.call("cuMemRelease", handle)
        return descriptor.value, size

    def map_shared(self, descriptor: int, size_bytes: int) -> int:
        """The address at which this process now sees that memory."""
        handle = c_ulonglong()
        self.call(
            "cuMemImportFromShareableHandle",
            byref(handle),
            c_void_p(descriptor),
            _POSIX_FILE_DESCRIPTOR,
        )
        address = c_ulonglong()
        self.call("cuMemAddressReserve", byref(address), size_bytes, 0, 0, 0)
        self.call("cuMemMap", address, size_bytes, 0, handle, 0)
        access = AccessDescription(Location(_ON_DEVICE, self.device), _READ_WRITE)
        self.call("cuMemSetAccess", address, size_bytes, byref(access), 1)
        # The mapping keeps the memory; the handle is not needed for it.
        self.call("cuMemRelease", handle)
        return address.value

    def unmap_shared(self, address: int, size_bytes: int) -> None:
        self.call("cuMemUnmap", address, size_bytes)
        self.call("cuMemAddressFree", address, size_bytes)


def is_in_use() -> bool:
    """Whether this process has used the driver: then its forks cannot."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    # The driver refuses every call before the first cuInit.
    return library.cuDeviceGetCount(byref(c_int())) == 0


@functools.cache
def opened(ordinal: int) -> Driver:
    """The same for all who ask in one process."""
    return open_driver(ordinal)


def open_driver(ordinal: int) -> Driver:
    """The Driver of that device; NoDriver says what is missing."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise NoDriver(
            f"no CUDA driver ({LIBRARY}): use --device cpu, or install NVIDIA's driver"
        ) from None
    until = time.monotonic() + FULL_WAIT_S
    while True:
        try:
            return Driver(library, ordinal)
        except CudaError as error:
            is_full = error.name == "CUDA_ERROR_OUT_OF_MEMORY"
            if is_full and time.monotonic() < until:
                time.sleep(FULL_POLL_S)
                continue
            advice = "others hold its memory: wait for them" if is_full else "use --device cpu"
            raise NoDriver(
                f"CUDA device {ordinal} cannot be used: {error}; {advice}, or choose another device"
            ) from None
