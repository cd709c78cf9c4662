"""The memory that a process and its candidates share, kept from job to job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.device.arena import Arena, new_arena
from weft.device.device import HOST, Device

if TYPE_CHECKING:
    from weft.device.device_arena import DeviceArena


class ArenaKeeper:
    """Keeps one arena and replaces it only when it does not fit."""

    def __init__(self, device: Device = HOST) -> None:
        self.device = device
        self._arena: Arena | DeviceArena | None = None

    def of(self, size_bytes: int) -> Arena | DeviceArena:
        held = self._arena
        if (
            held is None
            or size_bytes > held.bytes
            or (held.bytes > 4 * size_bytes and held.bytes > 1 << 28)
        ):
            self.close()
            held = self._arena = new_arena(size_bytes, self.device)
        return held

    @property
    def is_large(self) -> bool:
        """Whether others on the device need a share of this."""
        held = self._arena
        return held is not None and self.device.is_large(held.bytes)

    def close(self) -> None:
        if self._arena is not None:
            self._arena.close()
            self._arena = None
