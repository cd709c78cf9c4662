"""The limits of a candidate's calls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.candidate import harness

if TYPE_CHECKING:
    from weft.device.device import Device

#: The first call in a process pays page faults and thread start-up.
LOAD_ALLOWANCE_MS = 5000
#: … and on a device makes its context and loads its modules.
DEVICE_LOAD_ALLOWANCE_MS = 60_000
#: … and a Python file, or a composed module, builds what it is made of.
BUILD_ALLOWANCE_MS = 300_000


@dataclass
class Limits:
    """Limits of one call of the candidate."""

    wall_ms: int = 10_000
    memory_bytes: int = 4 << 30
    limit_address_space: bool = True

    @staticmethod
    def from_request(request: dict[str, Any]) -> Limits:
        given = request.get("limits") or {}
        limits = Limits()
        limits.wall_ms = int(given.get("wall_ms", limits.wall_ms))
        most = given.get("memory_bytes", limits.memory_bytes)
        limits.memory_bytes = int(most)
        return limits

    def for_loading(self, device: Device, allowance_ms: int = LOAD_ALLOWANCE_MS) -> Limits:
        """The same for the call that loads the candidate."""
        if device.is_cuda:
            allowance_ms += DEVICE_LOAD_ALLOWANCE_MS
        # A context reserves more address space than any limit allows.
        limits_space = self.limit_address_space and not device.is_cuda
        return replace(self, wall_ms=self.wall_ms + allowance_ms, limit_address_space=limits_space)

    def for_job(self, job: dict[str, Any], device: Device) -> Limits:
        """The same for loading that job's candidate."""
        if job.get("kind") in harness.BUILDS_WHEN_LOADED:
            return self.for_loading(device, BUILD_ALLOWANCE_MS)
        return self.for_loading(device)
