"""Rates that PyTorch reaches on this machine's processor: the reference for kernels."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def copy_gbps(size_bytes: int = 1 << 28, repeats: int = 5) -> float:
    """10^9 bytes read plus written each second by PyTorch's own copy: the reference
    for memory-bound kernels."""
    source = torch.zeros(size_bytes, dtype=torch.uint8)
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * size_bytes / best_s(lambda: target.copy_(source), repeats) / 1e9


def processor_rates(size: int = 1024, repeats: int = 5) -> dict[str, float]:
    """Further rates of PyTorch on this processor: 10^9 bytes read each second by a
    sum, and 10^9 operations each second of a float32 matrix product."""
    many = torch.zeros(1 << 26)
    factor = torch.rand(size, size)
    product = torch.empty_like(factor)
    torch.mm(factor, factor, out=product)  # starts its threads
    return {
        "read_gbps": many.nbytes / best_s(many.sum, repeats) / 1e9,
        "fp32_gflops": 2
        * size**3
        / best_s(lambda: torch.mm(factor, factor, out=product), repeats)
        / 1e9,
    }


def best_s(call: Callable[[], object], repeats: int) -> float:
    """Least seconds of several calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
