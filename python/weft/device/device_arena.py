"""The shared memory of a check on a GPU.

Made with the driver's virtual memory calls and passed on as a descriptor: that works
between PID namespaces, where the CUDA runtime's handles do not. Memory beyond it is not
mapped, so a kernel that strays far is an error.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import torch

from weft.device.device import Device, bytes_at


class DeviceArena:
    """Device memory that a candidate can map. Not thread-safe."""

    def __init__(self, size_bytes: int, device: Device) -> None:
        self._device = device
        driver = device.driver
        assert driver is not None
        self._driver = driver
        # Whatever the framework merely keeps is needed here.
        device.give_back()
        self.fd, self.bytes = driver.create_shared(size_bytes)
        try:
            self._address = driver.map_shared(self.fd, self.bytes)
        except Exception:
            os.close(self.fd)
            raise
        self._all: torch.Tensor | None = bytes_at(self._address, self.bytes, device.torch)
        self.described = {"device": device.name, "arena_bytes": self.bytes}

    def clear(self) -> None:
        """Zeros, so that nothing of an earlier job is left to be read."""
        assert self._all is not None, "the arena is closed"
        self._all.zero_()

    def settle(self) -> None:
        """Waits for this process' writes: the candidate's do not."""
        self._device.synchronize()

    def raw(self, offset: int, size_bytes: int) -> torch.Tensor:
        """That stretch as a uint8 tensor over the shared memory."""
        assert self._all is not None, "the arena is closed"
        return self._all[offset : offset + size_bytes]

    def close(self) -> None:
        """Unmaps it: tensors over it must not be used any more."""
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        self._all = None
        gc.collect()
        self._device.synchronize()
        self._driver.unmap_shared(self._address, self.bytes)


class SharedDeviceMemory:
    """The arena as a job's child sees it."""

    def __init__(self, fd: int, job: dict[str, Any]) -> None:
        from weft.device.device import parse
        from weft.device.cuda_driver import opened

        self.device = parse(job["device"])
        self.driver = opened(self.device.index)
        self.address = self.driver.map_shared(fd, job["arena_bytes"])
        self._bytes = job["arena_bytes"]

    def close(self) -> None:
        self.driver.unmap_shared(self.address, self._bytes)

    @property
    def all(self) -> torch.Tensor:
        """For the framework, which most candidates here do without."""
        torch.cuda.init()
        torch.cuda.set_device(self.device)
        return bytes_at(self.address, self._bytes, self.device)
