"""Random calls of operators that are other forms of those in random_calls.py and
random_networks.py, such as a view by another name."""

from __future__ import annotations

import math
from typing import Any

import torch

from random_graphs import DTYPES, ELEMENTS_MAX, RandomGraph, Skip, maker

aten = torch.ops.aten
META = torch.device("meta")


def add_forms() -> None:
    add_pointwise_forms()
    add_views()
    add_networks()
    add_products()


def add_pointwise_forms() -> None:
    for name in ("clamp_min", "clamp_max"):

        def clamp(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            if g.flag():
                return getattr(aten, name).default, [first, g.number()]
            return getattr(aten, name).Tensor, [first, g.tensor_beside(first.tensor)]

        maker(name)(clamp)

    @maker("round_decimals")
    def _(g: RandomGraph) -> Any:
        return aten.round.decimals, [g.pick()], {"decimals": g.random.choice((-2, -1, 0, 1, 3))}

    @maker("where_scalar")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        flag = g.input_of(list(first.tensor.shape), torch.bool)
        if g.flag():
            return aten.where.ScalarOther, [flag, first, g.number()]
        return aten.where.ScalarSelf, [flag, g.number(), first]


def add_views() -> None:
    for name in ("_unsafe_view", "reshape", "view_copy", "_reshape_alias"):

        def shaped(g: RandomGraph, name: str = name) -> Any:
            first = g.pick(lambda t: t.is_contiguous() or name == "reshape")
            count = first.tensor.numel()
            shape = g.random.choice(([count], [1, count], [count, 1, 1]))
            if count % 2 == 0 and g.flag():
                shape = [2, count // 2]
            if count == 1 and g.flag():
                shape = []
            if name == "_reshape_alias":
                stride = list(torch.empty(shape, device="meta").stride())
                return aten._reshape_alias.default, [first, shape, stride]
            return getattr(aten, name).default, [first, shape]

        maker(name)(shaped)

    @maker("flatten")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        dims = sorted(d % max(1, first.tensor.dim()) for d in (g.dim(first.tensor) for _ in "ab"))
        return aten.flatten.using_ints, [first, *dims]

    @maker("unflatten")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(1)
        dim = g.dim(first.tensor)
        size = first.tensor.shape[dim]
        part = g.random.choice([n for n in range(1, size + 1) if size % n == 0] or [1])
        return aten.unflatten.int, [first, dim, [part, size // part]]

    for name in ("contiguous", "lift_fresh_copy", "empty_like"):

        def same(g: RandomGraph, name: str = name) -> Any:
            return getattr(aten, name).default, [g.pick()]

        maker(name)(same)

    @maker("to")
    def _(g: RandomGraph) -> Any:
        return aten.to.dtype, [g.pick(), g.random.choice(DTYPES)]

    @maker("view_dtype")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        same = [d for d in set(DTYPES) if d.itemsize == first.tensor.dtype.itemsize]
        return aten.view.dtype, [first, g.random.choice(sorted(same, key=str))]

    for name in ("empty", "ones", "zeros"):

        def made(g: RandomGraph, name: str = name) -> Any:
            call = aten.empty.memory_format if name == "empty" else getattr(aten, name).default
            options = {"dtype": g.random.choice(DTYPES), "device": META}
            return call, [list(g.pick().tensor.shape)], options

        maker(name)(made)

    @maker("empty_permuted")
    def _(g: RandomGraph) -> Any:
        shape = list(g.pick().tensor.shape)
        order = g.random.sample(range(len(shape)), len(shape))
        options = {"dtype": g.random.choice(DTYPES), "device": META}
        return aten.empty_permuted.default, [shape, order], options

    @maker("new_empty_strided")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        stride = list(torch.empty_like(first.tensor).stride())
        return aten.new_empty_strided.default, [first, list(first.tensor.shape), stride]


def add_networks() -> None:
    @maker("rms_norm")
    def _(g: RandomGraph) -> Any:
        first = g.floating(1)
        shape = list(first.tensor.shape[-g.random.randint(1, first.tensor.dim()) :])
        weight = g.input_of(shape, first.tensor.dtype) if g.flag() else None
        return aten.rms_norm.default, [first, shape, weight, g.random.choice((None, 1e-5))]

    @maker("native_batch_norm")
    def _(g: RandomGraph) -> Any:
        first = g.floating(2)
        state = [
            g.input_of([first.tensor.shape[1]], first.tensor.dtype) if g.chance(0.8) else None
            for _ in range(2)
        ]
        # In training mode it writes into them.
        statistics = [g.input_of([first.tensor.shape[1]], first.tensor.dtype) for _ in range(2)]
        return aten.native_batch_norm.default, [first, *state, *statistics, False, 0.1, 1e-5]

    @maker("max_pool1d")
    def _(g: RandomGraph) -> Any:
        taps = g.random.choice((1, 2, 3))
        return aten.max_pool1d.default, [
            g.floating(2),
            [taps],
            [g.random.choice((1, 2))],
            [g.random.randint(0, taps // 2)],
            [g.random.choice((1, 2))],
            g.flag(),
        ]

    @maker("_unsafe_index_put")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(1)
        index = g.index_input(g.random.choice(([], [1], [4])))
        shape = [*index.tensor.shape, *first.tensor.shape[1:]]
        values = g.input_of(shape, first.tensor.dtype)
        return aten._unsafe_index_put.default, [first, [index], values, g.flag()]

    @maker("pad3d_backward")
    def _(g: RandomGraph) -> Any:
        first = g.floating(4)
        kind = g.random.choice(("reflection", "replication"))
        pads = [g.random.choice((0, 0, 1, 2)) for _ in range(6)]
        out = getattr(aten, f"{kind}_pad3d").default(first.tensor, pads)
        gradient = g.input_of(list(out.shape), out.dtype)
        return getattr(aten, f"{kind}_pad3d_backward").default, [gradient, first, pads]


def add_products() -> None:
    @maker("mv")
    def _(g: RandomGraph) -> Any:
        first = g.pick(lambda t: t.is_floating_point() and t.dim() == 2)
        rows, width = first.tensor.shape
        vector = g.input_of([width], first.tensor.dtype)
        if g.flag():
            return aten.mv.default, [first, vector]
        added = g.input_of(g.random.choice(([rows], [1], [])), first.tensor.dtype)
        scales = {"beta": g.random.choice((0, 1, 0.5)), "alpha": g.random.choice((1, -2))}
        return aten.addmv.default, [added, first, vector], scales

    @maker("dot")
    def _(g: RandomGraph) -> Any:
        first = g.pick(lambda t: t.is_floating_point() and t.dim() == 1)
        return aten.dot.default, [first, g.input_of(list(first.tensor.shape), first.tensor.dtype)]

    @maker("baddbmm")
    def _(g: RandomGraph) -> Any:
        first = g.pick(lambda t: t.is_floating_point() and t.dim() == 3)
        batch, rows, width = first.tensor.shape
        out = g.random.choice((1, 3, 16, 65))
        other = g.input_of([batch, width, out], first.tensor.dtype)
        shape = g.random.choice(([batch, rows, out], [rows, out], [batch, 1, out], [out], []))
        scales = {"beta": g.random.choice((0, 1, 0.5)), "alpha": g.random.choice((1, -2))}
        return aten.baddbmm.default, [g.input_of(shape, first.tensor.dtype), first, other], scales

    @maker("einsum")
    def _(g: RandomGraph) -> Any:
        """Letters of some tensors; the result keeps some of them."""
        first = g.pick(lambda t: t.is_floating_point() and 1 <= t.dim() <= 4)
        size_of = dict(zip("abcd", first.tensor.shape))
        terms, operands = ["".join(size_of)], [first]
        for _ in range(g.random.randint(0, 2)):
            letters = g.random.sample(sorted(size_of), g.random.randint(0, len(size_of)))
            if g.flag():
                new = "efgh"[len(terms)]
                size_of[new] = g.random.choice((1, 3, 16))
                letters.insert(g.random.randint(0, len(letters)), new)
            terms.append("".join(letters))
            operands.append(g.input_of([size_of[x] for x in letters], first.tensor.dtype))
        kept = [letter for letter in sorted(size_of) if g.chance(0.6)]
        g.random.shuffle(kept)
        if math.prod(size_of.values()) > ELEMENTS_MAX:
            raise Skip
        return aten.einsum.default, [",".join(terms) + "->" + "".join(kept), operands]
