"""Random calls of layers: norms, pools, losses, convolutions (random_calls.py)."""

from __future__ import annotations

import math
from typing import Any

import torch

from random_graphs import RandomGraph, Skip, Value, maker

aten = torch.ops.aten


def add_networks() -> None:
    def vector(g: RandomGraph, of: Value, size: int) -> Value | None:
        return g.input_of([size], of.tensor.dtype) if g.chance(0.7) else None

    @maker("layer_norm")
    def _(g: RandomGraph) -> Any:
        first = g.floating(1)
        count = g.random.randint(1, first.tensor.dim())
        shape = list(first.tensor.shape[-count:])
        weight, bias = (
            g.input_of(shape, first.tensor.dtype) if g.flag() else None for _ in range(2)
        )
        if g.chance(0.3):
            return aten._fused_rms_norm.default, [first, shape, weight, None]
        return aten.native_layer_norm.default, [first, shape, weight, bias, 1e-5]

    @maker("group_norm")
    def _(g: RandomGraph) -> Any:
        first = g.floating(3)
        batch, channels = first.tensor.shape[:2]
        if not channels:
            raise Skip
        groups = g.random.choice([n for n in range(1, channels + 1) if channels % n == 0])
        return aten.native_group_norm.default, [
            first,
            vector(g, first, channels),
            vector(g, first, channels),
            batch,
            channels,
            math.prod(first.tensor.shape[2:]),
            groups,
            1e-5,
        ]

    @maker("batch_norm")
    def _(g: RandomGraph) -> Any:
        first = g.floating(2)
        channels = first.tensor.shape[1]
        weight, bias = vector(g, first, channels), vector(g, first, channels)
        if g.chance(0.3):
            return aten._native_batch_norm_legit.no_stats, [first, weight, bias, True, 0.1, 1e-5]
        mean, variance = (g.input_of([channels], first.tensor.dtype) for _ in range(2))
        if g.flag():
            return aten._native_batch_norm_legit_no_training.default, [
                first,
                weight,
                bias,
                mean,
                variance,
                0.1,
                1e-5,
            ]
        return aten._native_batch_norm_legit_functional.default, [
            first,
            weight,
            bias,
            mean,
            variance,
            g.flag(),
            0.1,
            1e-5,
        ]

    @maker("max_pool")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((2, 2, 3))
        first = g.floating(rank)
        taps = [g.random.choice((1, 2, 3)) for _ in range(rank)]
        call = getattr(aten, f"max_pool{rank}d_with_indices").default
        return call, [
            first,
            taps,
            [g.random.choice((1, 2, 3)) for _ in range(rank)],
            [g.random.randint(0, k // 2) for k in taps],
            [g.random.choice((1, 1, 2))] * rank,
            g.flag(),
        ]

    @maker("avg_pool")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((1, 2, 2, 3))
        first = g.floating(rank)
        taps = [g.random.choice((1, 2, 3)) for _ in range(rank)]
        call = getattr(aten, f"avg_pool{rank}d").default
        return call, [
            first,
            taps,
            [g.random.choice((1, 2, 3)) for _ in range(rank)],
            [g.random.randint(0, k // 2) for k in taps],
            g.flag(),
            g.flag(),
        ]

    @maker("pool_backward")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((2, 2, 3))
        first = g.floating(rank + 1)
        taps = [g.random.choice((1, 2, 3)) for _ in range(rank)]
        steps = [g.random.choice((1, 2)) for _ in range(rank)]
        zeros, ones = [0] * rank, [1] * rank
        if g.flag():
            out = getattr(aten, f"avg_pool{rank}d").default(first.tensor, taps, steps, zeros)
            return getattr(aten, f"avg_pool{rank}d_backward").default, [
                g.input_of(list(out.shape), out.dtype),
                first,
                taps,
                steps,
                zeros,
                False,
                g.flag(),
                None,
            ]
        out, _ = getattr(aten, f"max_pool{rank}d_with_indices").default(first.tensor, taps, steps)
        return getattr(aten, f"max_pool{rank}d_with_indices_backward").default, [
            g.input_of(list(out.shape), out.dtype),
            first,
            taps,
            steps,
            zeros,
            ones,
            False,
            g.index_input(list(out.shape)),
        ]

    @maker("adaptive_pool")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((2, 2, 3))
        first = g.floating(rank + 1)
        counts = [g.random.randint(1, 5) for _ in range(rank)]
        if g.flag():
            call = getattr(aten, f"adaptive_max_pool{rank}d").default
            if g.flag():
                return call, [first, counts]
            out, _ = call(first.tensor, counts)
            return getattr(aten, f"adaptive_max_pool{rank}d_backward").default, [
                g.input_of(list(out.shape), out.dtype),
                first,
                g.index_input(list(out.shape)),
            ]
        if g.flag():
            out = getattr(aten, f"_adaptive_avg_pool{rank}d").default(first.tensor, counts)
            return getattr(aten, f"_adaptive_avg_pool{rank}d_backward").default, [
                g.input_of(list(out.shape), out.dtype),
                first,
            ]
        return getattr(aten, f"_adaptive_avg_pool{rank}d").default, [first, counts]

    @maker("pad_backward")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((1, 2))
        first = g.floating(rank + 1)
        kind = g.random.choice(("reflection", "replication"))
        pads = [g.random.choice((0, 1, 2, -1)) for _ in range(2 * rank)]
        out = getattr(aten, f"{kind}_pad{rank}d").default(first.tensor, pads)
        return getattr(aten, f"{kind}_pad{rank}d_backward").default, [
            g.input_of(list(out.shape), out.dtype),
            first,
            pads,
        ]

    @maker("upsample_backward")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((1, 2, 2, 3))
        first = g.pick(lambda t: t.is_floating_point() and t.dim() == rank + 2)
        out = [g.random.randint(1, 12) for _ in range(rank)]
        shape = list(first.tensor.shape)
        gradient = g.input_of([*shape[:2], *out], first.tensor.dtype)
        linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[rank]
        kind = g.random.choice((linear, "nearest", "_nearest_exact"))
        name = f"upsample_{kind}{rank}d_backward".replace("upsample__nearest", "_upsample_nearest")
        align = [g.flag()] if kind == linear else []
        return getattr(aten, name).default, [gradient, out, shape, *align, *[None] * rank]

    @maker("nll_loss")
    def _(g: RandomGraph) -> Any:
        first = g.floating(1)
        shape = list(first.tensor.shape)
        classes = shape.pop(1 if len(shape) > 1 else 0)
        call = aten.nll_loss_forward if len(shape) < 2 else aten.nll_loss2d_forward
        return call.default, [
            first,
            g.index_input(shape),
            vector(g, first, classes),
            g.random.choice((0, 1, 2)),
            -100,
        ]

    @maker("mm")
    def _(g: RandomGraph) -> Any:
        first = g.floating(2)
        width = first.tensor.shape[-1]
        out = g.random.choice((1, 3, 16, 65))
        if first.tensor.dim() == 2:
            other = g.input_of([width, out], first.tensor.dtype)
            if g.flag():
                return aten.addmm.default, [g.input_of([out], first.tensor.dtype), first, other]
            return aten.mm.default, [first, other]
        if first.tensor.dim() == 3:
            return aten.bmm.default, [
                first,
                g.input_of([first.tensor.shape[0], width, out], first.tensor.dtype),
            ]
        return aten.matmul.default, [first, g.input_of([width, out], first.tensor.dtype)]

    @maker("linear")
    def _(g: RandomGraph) -> Any:
        first = g.floating(1)
        width, out = first.tensor.shape[-1], g.random.choice((1, 3, 16, 65))
        return aten.linear.default, [
            first,
            g.input_of([out, width], first.tensor.dtype),
            vector(g, first, out),
        ]

    @maker("attention")
    def _(g: RandomGraph) -> Any:
        first = g.pick(lambda t: t.is_floating_point() and t.dim() == 4)
        batch, heads, _, width = first.tensor.shape
        length = g.random.choice((1, 5, 32))
        key, value = (
            g.input_of([batch, heads, length, width], first.tensor.dtype) for _ in range(2)
        )
        return aten.scaled_dot_product_attention.default, [first, key, value, None, 0.0, g.flag()]

    @maker("convolution")
    def _(g: RandomGraph) -> Any:
        rank = g.random.choice((1, 2, 2, 3))
        first = g.pick(lambda t: t.is_floating_point() and t.dim() == rank + 2)
        channels = first.tensor.shape[1]
        groups = g.random.choice((1, 1, channels))
        out = groups * g.random.choice((1, 2, 3))
        taps = [g.random.choice((1, 2, 3)) for _ in range(rank)]
        is_turned = g.chance(0.25)
        shape = [channels, out // groups] if is_turned else [out, channels // groups]
        return aten.convolution.default, [
            first,
            g.input_of([*shape, *taps], first.tensor.dtype),
            vector(g, first, out),
            [g.random.choice((1, 2))] * rank,
            [g.random.choice((0, 1))] * rank,
            [g.random.choice((1, 1, 2))] * rank,
            is_turned,
            [0] * rank,
            groups,
        ]
