"""Products of few rows in half precision, split over the whole GPU.

Such a product takes the time of reading its weights. The vendor's library reads narrow ones
with too few programs, and then sums in a second launch. Here the terms are split, so that
about as many programs run as the GPU has processors. Their sums are float32 tensors, which
Inductor adds up in the kernel that reads the product. Products of the same rows are one
launch.

Measured on an H200 (2026-11-30), weights that are not in a cache, in a CUDA graph: with 8
rows, 1024 terms and 1024 columns 2.7 µs, the library 4.5; 4096 terms and 4096 columns 10.4
and 13.4; 4096 terms and 14336 columns 30.3 and 30.8."""

from __future__ import annotations

import dataclasses
import importlib.util
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from weft.regions import insertion
from weft.regions.regions import HALVES, Role, base_of, role_of

aten = torch.ops.aten
convert = torch.ops.prims.convert_element_type.default

#: The most rows of one matrix instruction's narrow side.
ROWS_MAX = 16
#: The smallest number of terms that is worth it.
TERMS_MIN = 256
#: The most weights that one launch multiplies.
WEIGHTS_MAX = 4
#: The most parts of a sum: Inductor writes sums of at most eight as additions.
PARTS_MAX = 8
#: A launch of this share of the GPU's processors is not split further. On an H200, which has
#: 132, 128 programs were as fast as 256 (12 shapes).
BUSY_SHARE = 0.9
#: Columns and terms of a program's step, the loads ahead of it, and warps: the fastest of 7
#: choices, or within 3 % of it, in 55 of 60 cases on an H200 (2026-11-30).
COLUMNS, TERMS, STAGES, WARPS = 64, 128, 4, 4


@dataclasses.dataclass(frozen=True)
class Launch:
    """Products of one matrix of few rows with several weights."""

    products: tuple[fx.Node, ...]
    parts: int

    @property
    def rows(self) -> fx.Node:
        return _factors(self.products[0])[0]

    @property
    def weights(self) -> tuple[fx.Node, ...]:
        return tuple(_factors(one)[1] for one in self.products)

    @property
    def biases(self) -> tuple[fx.Node, ...]:
        """One for each product, or none."""
        found = [_bias(one) for one in self.products]
        return tuple(one for one in found if one is not None)


def is_possible() -> bool:
    """Whether this Python has Triton."""
    return importlib.util.find_spec("triton") is not None


def launches_of(graph: fx.Graph, processors: int) -> list[Launch]:
    """All products of few rows that are worth it, on a GPU of so many processors."""
    groups: dict[object, list[fx.Node]] = {}
    for node in graph.nodes:
        if _is_candidate(node):
            groups.setdefault(_group_key(node), []).append(node)
    found = []
    for nodes in groups.values():
        for begin in range(0, len(nodes), WEIGHTS_MAX):
            found += _launches(tuple(nodes[begin : begin + WEIGHTS_MAX]), processors)
    return found


def _launches(products: tuple[fx.Node, ...], processors: int) -> list[Launch]:
    blocks = sum(-(-one.meta["val"].shape[1] // COLUMNS) for one in products)
    parts = parts_of(blocks, _factors(products[0])[0].meta["val"].shape[1], processors)
    if parts == 1:
        return [Launch(products, 1)]
    # A kernel of its own for the sum would cost more than the split gains.
    wanted = tuple(one for one in products if _has_fusible_reader(one))
    if len(wanted) == len(products):
        return [Launch(products, parts)]
    return _launches(wanted, processors) if wanted else []


def parts_of(blocks: int, terms: int, processors: int) -> int:
    """How many programs share the terms of a block of columns."""
    parts = 1
    while parts < PARTS_MAX and blocks * parts < BUSY_SHARE * processors:
        if terms < 2 * parts * TERMS:
            break
        parts *= 2
    return parts


def _is_candidate(node: fx.Node) -> bool:
    if node.op != "call_function" or node.kwargs:
        return False
    if node.target not in (aten.mm.default, aten.addmm.default):
        return False
    value, (x, weight) = node.meta["val"], (one.meta["val"] for one in _factors(node))
    if value.dtype not in HALVES:
        return False
    sizes = (*x.shape, *weight.shape, *x.stride(), *weight.stride())
    if not all(isinstance(one, int) for one in sizes):
        return False
    rows, terms = x.shape
    columns = weight.shape[1]
    if rows > ROWS_MAX or terms < TERMS_MIN or columns < COLUMNS or x.stride(1) != 1:
        return False
    if 1 not in weight.stride() or max(weight.stride()) * max(weight.shape) >= 1 << 31:
        return False
    if any(one.dtype != value.dtype or one.device != value.device for one in (x, weight)):
        return False
    bias = _bias(node)
    if bias is None:
        return node.target == aten.mm.default
    layout = bias.meta["val"]
    return (tuple(layout.shape), layout.dtype, layout.device, layout.is_contiguous()) == (
        (columns,),
        value.dtype,
        value.device,
        True,
    )


def _factors(product: fx.Node) -> tuple[fx.Node, fx.Node]:
    x, weight = product.args[-2:]
    assert isinstance(x, fx.Node) and isinstance(weight, fx.Node)
    return x, weight


def _bias(product: fx.Node) -> fx.Node | None:
    one = product.args[0] if len(product.args) == 3 else None
    return one if isinstance(one, fx.Node) else None


def _group_key(product: fx.Node) -> object:
    """Equal for products that one launch may compute: of the same rows, with weights alike,
    which exist when the graph is entered."""
    x, weight = _factors(product)
    bias = _bias(product)
    others = [weight] if bias is None else [weight, bias]
    if any(role_of(base_of(one)) is not Role.INPUT for one in others):
        return product
    strides = weight.meta["val"].stride()
    columns_apart, terms_apart = strides[1], strides[0]
    return x, columns_apart, terms_apart, bias is None


def _has_fusible_reader(node: fx.Node) -> bool:
    """Whether Inductor reads the value, or a view of it, in a kernel of its own making."""
    return any(
        role_of(user) is Role.FUSIBLE or role_of(user) is Role.VIEW and _has_fusible_reader(user)
        for user in node.users
    )


class FewRows:
    """A function of [rows, weights…, biases…] that gives for each weight the float32 sums of
    its parts, (parts, rows, columns), or, of one part, the product."""

    def __init__(self, parts: int, count: int, has_bias: bool) -> None:
        self._parts, self._count, self._has_bias = parts, count, has_bias

    def __call__(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        x, *others = arguments
        weights, biases = others[: self._count], others[self._count :]
        rows, terms = x.shape
        shape = (rows,) if self._parts == 1 else (self._parts, rows)
        dtype = x.dtype if self._parts == 1 else torch.float32
        made = [x.new_empty(*shape, one.shape[1], dtype=dtype) for one in weights]
        steps = -(-terms // (self._parts * TERMS))
        columns = [one.shape[1] for one in weights]
        _launch(
            (sum(-(-one // COLUMNS) for one in columns), self._parts),
            x,
            *_padded(weights),
            *_padded(biases or weights),
            *_padded(made),
            rows,
            terms,
            *_padded(columns),
            x.stride(0),
            weights[0].stride(1),
            weights[0].stride(0),
            STEPS=steps,
            COUNT=self._count,
            HAS_BIAS=self._has_bias,
            IS_WHOLE=steps * self._parts * TERMS == terms,
            ROWS=ROWS_MAX,
            COLUMNS=COLUMNS,
            TERMS=TERMS,
            STAGES=STAGES,
            num_warps=WARPS,
        )
        return made


def _padded(values: Sequence[Any]) -> list[Any]:
    """WEIGHTS_MAX arguments; the kernel does not use those that are added."""
    return [*values, *[values[0]] * (WEIGHTS_MAX - len(values))]


def _launch(grid: tuple[int, int], *arguments: Any, **constants: Any) -> None:
    from weft.regions.few_rows_kernel import few_rows_kernel

    few_rows_kernel[grid](*arguments, **constants)


def split(graph: fx.Graph, launches: Sequence[Launch]) -> None:
    """Has the graph compute these products by launches of the kernel."""
    for one in launches:
        _replace(graph, one)
    insertion.sort(graph)


def _replace(graph: fx.Graph, launch: Launch) -> None:
    # A sum that is split gets its bias afterwards.
    biases = launch.biases if launch.parts == 1 else ()
    inputs = [launch.rows, *launch.weights, *biases]
    values = [node.meta["val"] for node in launch.products]
    mode = values[0].fake_mode

    def call(target: Any, *args: Any) -> fx.Node:
        made = graph.call_function(target, args)
        with mode:
            made.meta["val"] = target(*fx.node.map_arg(args, lambda one: one.meta["val"]))
        made.meta["stack_trace"] = launch.products[0].meta.get("stack_trace", "")
        return made

    with mode:
        parts = (
            [torch.empty_like(one, memory_format=torch.contiguous_format) for one in values]
            if launch.parts == 1
            else [one.new_empty(launch.parts, *one.shape, dtype=torch.float32) for one in values]
        )
    target = insertion.operator_for(
        f"few rows {launch.parts} {len(values)}",
        f"{COLUMNS} {TERMS} {[insertion.layout_of(one.meta['val']) for one in inputs]}",
        FewRows(launch.parts, len(values), bool(biases)),
        [insertion.layout_of(one) for one in parts],
        len(inputs),
    )
    with graph.inserting_before(launch.products[0]):
        together = graph.call_function(target, insertion.arguments_of(inputs))
        together.meta["val"] = parts[0] if len(parts) == 1 else tuple(parts)
        eager = tuple(one.meta["val"] for one in inputs)
        together.meta["eager_input_vals"] = (eager, {})
        together.meta["stack_trace"] = launch.products[0].meta.get("stack_trace", "")
        for number, product in enumerate(launch.products):
            made = together if len(parts) == 1 else call(operator.getitem, together, number)
            if launch.parts > 1:
                made = call(aten.sum.dim_IntList, made, [0])
                if launch.biases:
                    wide = call(convert, launch.biases[number], torch.float32)
                    made = call(aten.add.Tensor, made, wide)
                made = call(convert, made, product.meta["val"].dtype)
            made.meta.update({**product.meta, "val": made.meta["val"]})
            product.replace_all_uses_with(made, propagate_meta=False)
    for product in launch.products:
        graph.erase_node(product)
