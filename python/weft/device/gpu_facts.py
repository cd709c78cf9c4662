"""A GPU's properties and measured rates, and its clocks by NVML."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from weft.device.cuda_driver import CudaError, Driver

if TYPE_CHECKING:
    from weft.device.device import Device

_COPY_BYTES = 1 << 30
_PRODUCT_SIZE = 4096
_REPEATS = 5
_measured: dict[str, float] = {}
#: Clusters are of as many blocks; the largest is not for every device.
_CLUSTER_BLOCKS = (2, 4, 8, 16)
_CLUSTER_THREADS = 1024
#: From sm_90 on.
_CLUSTER_MAJOR = 9
_EMPTY_KERNEL = b""".version 7.8
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""


def probe(device: Device) -> dict[str, Any]:
    """docs/reference/worker-protocol.md's `gpu`."""
    driver = device.driver
    assert driver is not None
    return {
        "name": driver.name(),
        "uuid": driver.uuid(),
        "arch": arch(driver),
        "sms": driver.attribute("sms"),
        "memory_bytes": driver.memory_bytes(),
        "l2_bytes": driver.attribute("l2_bytes"),
        "shared_bytes": driver.attribute("shared_bytes"),
        "driver": driver.version(),
        "copy_gbps": copy_gbps(device),
        "fp32_tflops": product_tflops(device, torch.float32, False),
        "tf32_tflops": product_tflops(device, torch.float32, True),
        "half_tflops": product_tflops(device, torch.bfloat16, False),
        "clocks": Nvml(driver.uuid()).clocks(),
        **clusters(driver),
    }


def arch(driver: Driver) -> str:
    """As compilers call it: "sm_90"."""
    major = driver.attribute("compute_major")
    return f"sm_{major}{driver.attribute('compute_minor')}"


def clusters(driver: Driver) -> dict[str, int]:
    """ "clusters_of_8": how many run at a time of blocks that have a whole
    multiprocessor's shared memory each. They lie within a group of
    multiprocessors, and not every group is whole: the driver alone knows.
    Empty where it does not tell."""
    if driver.attribute("compute_major") < _CLUSTER_MAJOR:
        return {}
    shared_bytes = driver.attribute("shared_bytes")
    found: dict[str, int] = {}
    try:
        module = driver.load_module(_EMPTY_KERNEL)
    except CudaError:
        return found
    for blocks in _CLUSTER_BLOCKS:
        try:
            kernel = driver.function(module, "nothing", shared_bytes, blocks)
            found[f"clusters_of_{blocks}"] = driver.clusters_at_once(
                kernel, blocks, _CLUSTER_THREADS, shared_bytes
            )
        except (CudaError, AttributeError):  # a driver from before clusters
            break
    driver.unload_module(module)
    return found


def copy_gbps(device: Device) -> float:
    """Bytes read plus written each second by a copy, in 10^9; measured once."""
    if "copy" not in _measured:
        source = torch.zeros(_COPY_BYTES, dtype=torch.uint8, device=device.torch)
        target = torch.empty_like(source)
        best = best_s(lambda: target.copy_(source))
        _measured["copy"] = 2 * _COPY_BYTES / best / 1e9
    return _measured["copy"]


def product_tflops(device: Device, dtype: torch.dtype, allows_tf32: bool) -> float:
    """10^12 operations each second of a large matrix product."""
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, allows_tf32
    try:
        size = (_PRODUCT_SIZE, _PRODUCT_SIZE)
        a, b = torch.randn(2, *size, device=device.torch, dtype=dtype)
        out = torch.empty_like(a)
        best = best_s(lambda: torch.mm(a, b, out=out))
    finally:
        matmul.allow_tf32 = before
    return 2 * _PRODUCT_SIZE**3 / best / 1e12


def best_s(call: Callable[[], object], repeats: int = _REPEATS) -> float:
    """Least seconds of several runs, by events, after two that warm up."""
    times = []
    for number in range(-2, repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        if number >= 0:
            times.append(start.elapsed_time(end) / 1e3)
    return min(times)


class Nvml:
    """The driver's management library, if it is there: `clocks` is empty
    where it is not, because nothing but a report depends on it."""

    #: Bits of nvmlClocksEventReasons*.
    REASONS = {
        0x4: "power cap",
        0x8: "hardware slowdown",
        0x10: "sync boost",
        0x20: "software thermal",
        0x40: "hardware thermal",
        0x80: "power brake",
    }

    def __init__(self, uuid: str) -> None:
        self._handle = None
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        handle = ctypes.c_void_p()
        name = f"GPU-{uuid}".encode()
        if self._library.nvmlInit_v2() != 0:
            return
        found = self._library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(handle))
        if found == 0:
            self._handle = handle

    def clocks(self) -> dict[str, Any]:
        """MHz now, and why they are lower than they could be."""
        if self._handle is None:
            return {}
        told: dict[str, Any] = {}
        for name, number in (("sm_mhz", 1), ("memory_mhz", 2)):
            value = ctypes.c_uint()
            code = self._library.nvmlDeviceGetClockInfo(self._handle, number, ctypes.byref(value))
            if code == 0:
                told[name] = value.value
        bits = ctypes.c_ulonglong()
        code = self._library.nvmlDeviceGetCurrentClocksThrottleReasons(
            self._handle, ctypes.byref(bits)
        )
        if code == 0:
            told["throttled"] = [why for bit, why in self.REASONS.items() if bits.value & bit]
        return told
