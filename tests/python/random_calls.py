"""How a random call of each operator is made (random_graphs.py)."""

from __future__ import annotations

import math
from typing import Any

import torch

import random_graphs
from random_graphs import DTYPES, RandomGraph, Skip, Value, maker
from random_forms import add_forms
from random_networks import add_networks

aten = torch.ops.aten

POINTWISE = """
    neg abs relu sign square exp exp2 expm1 log log1p log2 log10 sqrt rsqrt sin cos tan
    asin acos atan sinh cosh tanh reciprocal sigmoid erf erfc floor ceil round trunc silu
    mish hardswish hardsigmoid selu log_sigmoid logical_not bitwise_not isnan isinf gelu
    hardtanh leaky_relu elu softplus softshrink hardshrink relu6 clone alias detach
    positive zeros_like ones_like t
""".split()
BINARY = """
    add sub mul div pow minimum maximum fmod remainder atan2 xlogy eq ne lt le gt ge
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor rsub
""".split()


def overload_of(name: str, second: Any) -> Any:
    """The overload for a tensor or number as second operand."""
    packet = getattr(aten, name)
    names = (
        ("Tensor", "Tensor_Tensor", "default")
        if isinstance(second, Value)
        else ("Tensor", "Scalar", "Tensor_Scalar", "Scalar_Other")
    )
    for one in names:
        if one in packet.overloads():
            return getattr(packet, one)
    raise Skip


def add_pointwise() -> None:
    for name in POINTWISE:

        def unary(g: RandomGraph, name: str = name) -> Any:
            return getattr(aten, name).default, [g.pick()]

        maker(name)(unary)
    for name in BINARY:

        def binary(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            second = g.beside(first.tensor)
            overload = overload_of(name, second)
            if (
                overload._overloadname == "Tensor"
                and not isinstance(second, Value)
                and g.chance(0.2)
            ):
                return overload, [second, first]
            return overload, [first, second]

        maker(name)(binary)

    @maker("add_alpha")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return (
            g.random.choice((aten.add.Tensor, aten.sub.Tensor)),
            [first, g.beside(first.tensor)],
            {"alpha": g.number()},
        )

    @maker("div_mode")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return (
            aten.div.Tensor_mode,
            [first, g.beside(first.tensor)],
            {"rounding_mode": g.random.choice(("floor", "trunc"))},
        )

    @maker("where")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        flag = g.pick(lambda t: t.dtype == torch.bool and random_graphs.fits(t, first.tensor))
        return aten.where.self, [flag, first, g.tensor_beside(first.tensor)]

    @maker("masked_fill")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return aten.masked_fill.Scalar, [
            first,
            g.input_of(list(first.tensor.shape), torch.bool),
            g.number(),
        ]

    @maker("clamp")
    def _(g: RandomGraph) -> Any:
        if g.flag():
            first = g.pick()
            return aten.clamp.Tensor, [
                first,
                g.tensor_beside(first.tensor),
                g.tensor_beside(first.tensor),
            ]
        return aten.clamp.default, [g.pick(), g.number(), g.number() if g.flag() else None]

    @maker("addcmul")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        name = g.random.choice(("addcmul", "addcdiv"))
        return (
            getattr(aten, name).default,
            [
                first,
                g.tensor_beside(first.tensor),
                g.tensor_beside(first.tensor),
            ],
            {"value": g.number()},
        )

    @maker("threshold")
    def _(g: RandomGraph) -> Any:
        return aten.threshold.default, [g.pick(), g.number(), g.number()]

    @maker("to_copy")
    def _(g: RandomGraph) -> Any:
        return aten._to_copy.default, [g.pick()], {"dtype": g.random.choice(DTYPES)}

    @maker("backward")
    def _(g: RandomGraph) -> Any:
        first = g.floating()
        name = g.random.choice(("silu_backward", "mish_backward"))
        return getattr(aten, name).default, [
            g.input_of(list(first.tensor.shape), first.tensor.dtype),
            first,
        ]


def add_reductions() -> None:
    for name in ("sum", "prod"):

        def total(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            dtype = {"dtype": g.random.choice(DTYPES)} if g.chance(0.2) else {}
            packet = getattr(aten, name)
            if g.chance(0.3):
                return packet.default, [first], dtype
            if name == "prod":
                return packet.dim_int, [first, g.dim(first.tensor), g.flag()]
            return packet.dim_IntList, [first, g.dims(first.tensor), g.flag()]

        maker(name)(total)
    for name in (
        "amax",
        "amin",
        "mean",
        "var",
        "std",
        "var_mean",
        "std_mean",
        "logsumexp",
        "any",
        "all",
    ):

        def some(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            dims = g.dims(first.tensor)
            if name == "mean":
                return aten.mean.dim, [first, dims, g.flag()]
            if name in ("any", "all"):
                return getattr(aten, name).dims, [first, dims, g.flag()]
            if name.startswith(("var", "std")):
                return (
                    getattr(aten, name).correction,
                    [first, dims],
                    {"correction": g.random.choice((0, 1, 1, 5)), "keepdim": g.flag()},
                )
            return getattr(aten, name).default, [first, dims, g.flag()]

        maker(name)(some)
    for name in ("max", "min"):

        def extreme(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            if g.chance(0.3):
                return getattr(aten, name).default, [first]
            return getattr(aten, name).dim, [first, g.dim(first.tensor), g.flag()]

        maker(name + "_dim")(extreme)
    for name in ("argmax", "argmin"):

        def place(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            dim = None if g.chance(0.3) else g.dim(first.tensor)
            return getattr(aten, name).default, [first, dim, g.flag()]

        maker(name)(place)
    for name in ("cumsum", "cumprod"):

        def scan(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            return getattr(aten, name).default, [first, g.dim(first.tensor)]

        maker(name)(scan)
    for name in ("_softmax", "_log_softmax"):

        def softmax(g: RandomGraph, name: str = name) -> Any:
            first = g.floating()
            return getattr(aten, name).default, [first, g.dim(first.tensor), False]

        maker(name)(softmax)

    @maker("norm")
    def _(g: RandomGraph) -> Any:
        first = g.floating()
        order = g.random.choice((2, 1, 0, math.inf, -math.inf, 3, 0.5))
        return aten.linalg_vector_norm.default, [first, order, g.dims(first.tensor), g.flag()]


def add_movement() -> None:
    @maker("view")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        sizes = list(first.tensor.shape)
        while len(sizes) > 1 and g.flag():
            at = g.random.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        for at in range(len(sizes)):
            if sizes[at] % 2 == 0 and sizes[at] and g.chance(0.3):
                sizes[at : at + 1] = [2, sizes[at] // 2]
        if g.chance(0.2):
            sizes.insert(g.random.randint(0, len(sizes)), 1)
        return aten.view.default, [first, sizes]

    @maker("permute")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        order = list(range(first.tensor.dim()))
        g.random.shuffle(order)
        return aten.permute.default, [first, order]

    @maker("transpose")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return aten.transpose.int, [first, g.dim(first.tensor), g.dim(first.tensor)]

    @maker("squeeze")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        if g.flag():
            return aten.squeeze.dims, [first, g.dims(first.tensor)]
        return aten.unsqueeze.default, [
            first,
            g.random.randint(-first.tensor.dim() - 1, first.tensor.dim()),
        ]

    @maker("expand")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        sizes = [
            g.random.choice((2, 3, 9)) if size == 1 and g.flag() else size
            for size in first.tensor.shape
        ]
        if g.chance(0.3):
            sizes.insert(0, g.random.choice((1, 2, 5)))
        return aten.expand.default, [first, sizes]

    @maker("repeat")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return aten.repeat.default, [
            first,
            [g.random.choice((1, 1, 2, 3)) for _ in range(first.tensor.dim() + g.chance(0.3))],
        ]

    @maker("slice")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(1)
        dim = g.dim(first.tensor)
        size = first.tensor.shape[dim]
        start, end = (
            g.random.choice((None, g.random.randint(-size - 2, size + 2))) for _ in range(2)
        )
        step = g.random.choice((1, 1, 2, 3))
        if g.chance(0.4):
            source = first.tensor.new_empty(first.tensor.shape)
            shape = list(aten.slice.Tensor(source, dim, start, end, step).shape)
            return aten.slice_scatter.default, [
                first,
                g.input_of(shape, first.tensor.dtype),
                dim,
                start,
                end,
                step,
            ]
        return aten.slice.Tensor, [first, dim, start, end, step]

    @maker("select")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(1)
        dim = g.dim(first.tensor)
        size = first.tensor.shape[dim]
        index = g.random.randrange(-size, size) if size else 0
        if g.chance(0.4):
            shape = list(first.tensor.select(dim, 0).shape)
            return aten.select_scatter.default, [
                first,
                g.input_of(shape, first.tensor.dtype),
                dim,
                index,
            ]
        return aten.select.int, [first, dim, index]

    @maker("split")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(1)
        dim = g.dim(first.tensor)
        size = first.tensor.shape[dim]
        at = g.random.randint(0, size)
        return aten.split_with_sizes.default, [first, [at, size - at], dim]

    @maker("flip")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return aten.flip.default, [first, g.dims(first.tensor)]

    @maker("roll")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        if g.chance(0.2):
            return aten.roll.default, [first, [g.random.randint(-9, 9)]]
        dims = g.dims(first.tensor)
        return aten.roll.default, [first, [g.random.randint(-9, 9) for _ in dims], dims]

    for name in ("cat", "stack"):

        def joined(g: RandomGraph, name: str = name) -> Any:
            first = g.pick()
            dim = g.dim(first.tensor)
            parts = [first]
            for _ in range(g.random.randint(0, 3)):
                shape = list(first.tensor.shape)
                if name == "cat" and shape:
                    shape[dim] = g.random.choice((1, 2, 5))
                parts.append(
                    first
                    if g.chance(0.2)
                    else g.input_of(
                        shape, first.tensor.dtype if g.chance(0.9) else g.random.choice(DTYPES)
                    )
                )
            return getattr(aten, name).default, [parts, dim]

        maker(name)(joined)

    @maker("pad")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        count = g.random.randint(0, first.tensor.dim())
        return aten.constant_pad_nd.default, [
            first,
            [g.random.choice((0, 0, 1, 2, -1)) for _ in range(2 * count)],
            g.number(),
        ]

    for name in ("tril", "triu"):

        def triangle(g: RandomGraph, name: str = name) -> Any:
            return getattr(aten, name).default, [g.of_rank(2), g.random.randint(-3, 3)]

        maker(name)(triangle)

    @maker("unfold")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        return aten.unfold.default, [
            first,
            g.dim(first.tensor),
            g.random.randint(1, 4),
            g.random.randint(1, 3),
        ]

    @maker("diagonal")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(2)
        return aten.diagonal.default, [
            first,
            g.random.randint(-2, 2),
            g.dim(first.tensor),
            g.dim(first.tensor),
        ]

    @maker("full")
    def _(g: RandomGraph) -> Any:
        shape = list(g.pick().tensor.shape)
        return (
            aten.full.default,
            [shape, g.number()],
            {"dtype": g.random.choice(DTYPES), "device": torch.device("meta")},
        )

    @maker("fill")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        how = g.random.randrange(4)
        if how == 0:
            return aten.full_like.default, [first, g.number()]
        if how == 1:
            return aten.fill.Scalar, [first, g.number()]
        if how == 2:
            return aten.copy.default, [first, g.broadcast_input(first.tensor)]
        return (
            aten.scalar_tensor.default,
            [g.number()],
            {"dtype": g.random.choice(DTYPES), "device": torch.device("meta")},
        )

    @maker("split_by_size")
    def _(g: RandomGraph) -> Any:
        first = g.of_rank(1)
        return aten.split.Tensor, [first, g.random.randint(1, 5), g.dim(first.tensor)]

    @maker("arange")
    def _(g: RandomGraph) -> Any:
        start, step = g.random.randint(-5, 5), g.random.choice((1, 2, -3))
        return (
            aten.arange.start_step,
            [start, start + step * g.random.randint(1, 40), step],
            {
                "dtype": g.random.choice((torch.int64, torch.int32, torch.float32)),
                "device": torch.device("meta"),
            },
        )


def add_lookups() -> None:
    @maker("index_select")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        count = g.random.choice(([], [1], [3], [40]))
        return aten.index_select.default, [first, g.dim(first.tensor), g.index_input(count)]

    @maker("gather")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        dim = g.dim(first.tensor)
        shape = list(first.tensor.shape)
        if shape:
            shape[dim] = g.random.choice((1, 3))
        return aten.gather.default, [first, dim, g.index_input(shape)]

    @maker("scatter")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        dim = g.dim(first.tensor)
        shape = list(first.tensor.shape)
        if shape:
            shape[dim] = 1
        index = g.index_input(shape)
        if g.flag():
            return aten.scatter.value, [first, dim, index, g.number()]
        return aten.scatter.src, [first, dim, index, g.input_of(shape, first.tensor.dtype)]

    @maker("scatter_add")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        dim = g.dim(first.tensor)
        shape = [g.random.randint(1, size) if size else 0 for size in first.tensor.shape]
        return aten.scatter_add.default, [
            first,
            dim,
            g.index_input(shape),
            g.input_of(list(first.tensor.shape), first.tensor.dtype),
        ]

    @maker("index_add")
    def _(g: RandomGraph) -> Any:
        first = g.pick()
        dim = g.dim(first.tensor)
        shape = list(first.tensor.shape)
        count = g.random.choice((1, 2, 7))
        if shape:
            shape[dim] = count
        index = g.index_input([] if count == 1 and g.flag() else [count])
        return (
            aten.index_add.default,
            [first, dim, index, g.input_of(shape, first.tensor.dtype)],
            {"alpha": g.random.choice((1, 2))},
        )

    @maker("embedding")
    def _(g: RandomGraph) -> Any:
        table = g.pick(lambda t: t.dim() == 2)
        shape = g.random.choice(([], [1], [7], [3, 5]))
        index = g.index_input(shape)
        if g.flag():
            return aten.embedding_dense_backward.default, [
                g.input_of([*shape, table.tensor.shape[1]], table.tensor.dtype),
                index,
                table.tensor.shape[0],
                g.random.choice((-1, 0, 1)),
                g.flag(),
            ]
        return aten.embedding.default, [table, index]

    for name in ("index", "index_put"):

        def indexed(g: RandomGraph, name: str = name) -> Any:
            first = g.of_rank(1)
            skip = g.random.randrange(first.tensor.dim())
            count = g.random.randint(1, first.tensor.dim() - skip)
            shapes = g.random.choice((([], [4]), ([5],), ([3, 1], [2])))
            index = [None] * skip + [
                g.index_input(list(g.random.choice(shapes))) for _ in range(count)
            ]
            if name == "index":
                return aten.index.Tensor, [first, index]
            values = aten.index.Tensor(first.tensor, random_graphs.plain(index))
            is_sum = g.flag()
            shape = list(values.shape) if is_sum else []
            return aten.index_put.default, [
                first,
                index,
                g.input_of(shape, first.tensor.dtype),
                is_sum,
            ]

        maker(name)(indexed)


def add_makers() -> None:
    add_pointwise()
    add_reductions()
    add_movement()
    add_lookups()
    add_networks()
    add_forms()
