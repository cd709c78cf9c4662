"""Random numbers of input cases, which are the same on every device.

Generators of a GPU draw other numbers than the host's. So a case's numbers are drawn on the
host, and copied to the device. Many at a time are drawn on the device, where it is faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

#: More numbers at a time are drawn on the device: the host takes some 5 ns for each.
HOST_NUMBERS_MAX = 1 << 21


class CaseGenerator(torch.Generator):
    """A generator on the host, of numbers for tensors on `device`. Only the functions
    below draw with it."""

    _target: torch.device
    _on_target: torch.Generator | None = None

    def __new__(cls, device: torch.device | str) -> CaseGenerator:
        made = super().__new__(cls)
        made._target = torch.device(device)
        return made

    def __init__(self, device: torch.device | str) -> None:
        del device

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Of the tensors that the numbers are for."""
        return self._target

    def on_target(self) -> torch.Generator:
        """Another generator, on that device, with the same random seed."""
        if self._on_target is None:
            self._on_target = torch.Generator(self._target).manual_seed(self.initial_seed())
        return self._on_target


def like(generator: torch.Generator) -> torch.Generator:
    """A new generator of that kind and device, with its random seed."""
    kind = CaseGenerator if isinstance(generator, CaseGenerator) else torch.Generator
    return kind(generator.device).manual_seed(generator.initial_seed())


def rand(generator: torch.Generator, *shape: int, **options: Any) -> torch.Tensor:
    return _drawn(torch.rand, generator, shape, options)


def randn(generator: torch.Generator, *shape: int, **options: Any) -> torch.Tensor:
    return _drawn(torch.randn, generator, shape, options)


def randint(
    generator: torch.Generator, low: int, high: int, *shape: int, **options: Any
) -> torch.Tensor:
    return _drawn(partial(torch.randint, low, high), generator, shape, options)


def randperm(generator: torch.Generator, count: int) -> torch.Tensor:
    return _drawn(lambda shape, **given: torch.randperm(*shape, **given), generator, (count,), {})


def _drawn(
    make: Callable[..., torch.Tensor],
    generator: torch.Generator,
    shape: tuple[int, ...],
    options: dict[str, Any],
) -> torch.Tensor:
    """make(shape), drawn with the generator, on its device."""
    device = generator.device
    if isinstance(generator, CaseGenerator):
        if math.prod(shape) <= HOST_NUMBERS_MAX:
            return make(shape, generator=generator, device="cpu", **options).to(device)
        generator = generator.on_target()
    return make(shape, generator=generator, device=device, **options)
