"""Products of few rows in half precision, split over the whole GPU.

Such a product takes the time of reading its weights. The vendor's library reads narrow ones
with too few programs, and sums in a second launch. Here the terms are split, so that about
as many programs run as the GPU has processors. Products of the same rows are one launch.

Usually Inductor adds the parts, in the kernel that reads the product. A kernel of many more
elements (one that appends to a cache, say) would load the parts for each of them. Then the
last program of a block of columns adds the parts, in their order.

Measured in docs/results/programs.md."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import logging
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from weft.regions import insertion
from weft.regions.regions import HALVES, Role, base_of, operator_name, role_of, tensors_of

aten = torch.ops.aten
convert = torch.ops.prims.convert_element_type.default
log = logging.getLogger("weft")

_Tensor = torch.Tensor
_Some = Sequence[torch.Tensor]

#: The version of the kernel and its arguments; part of the operators' names.
VERSION = 1

#: The most rows of one matrix instruction's narrow side.
ROWS_MAX = 16
#: The smallest number of terms that is worth it.
TERMS_MIN = 256
#: The most weights that one launch multiplies.
WEIGHTS_MAX = 4
#: The most parts of a sum, each of which a reader loads.
PARTS_MAX = 8
#: If a reader has more elements than this many times the product's, the kernel adds the parts.
#: On an H200 each of a cache's 4 million elements loaded four parts, which cost more than the
#: split gained.
READER_RATIO_MAX = 4
#: A launch of this share of the GPU's processors is not split further. On an H200, which has
#: 132, 128 programs were as fast as 256, or within 3 % (6 shapes).
BUSY_SHARE = 0.9
#: The least bytes of weights of a single product whose parts the kernel adds. With 8 and 16
#: rows, weights of 1.2 and 2 MB took 1.07 to 1.19 of the library's time (H200, 2026-11-30).
JOINED_NBYTES_MIN = 4 << 20
#: Counters of launches are this far apart, in numbers: each is aligned as a tensor.
COUNTERS_APART = 32
#: Columns and terms of a program's step, the loads ahead of it, and warps. They were the
#: fastest of 7 to 18 choices, or within 3 %, in 52 of 60 cases (H200, 2026-11-30).
COLUMNS, TERMS, STAGES, WARPS = 64, 128, 4, 4


@dataclasses.dataclass(frozen=True)
class Launch:
    """Products of one matrix of few rows with several weights."""

    products: tuple[fx.Node, ...]
    #: The number of blocks of columns, and of programs for each block.
    blocks: int
    parts: int
    #: Whether the kernel adds the parts.
    joins: bool

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
    """All products of few rows that are worth it, on a GPU with that number of processors."""
    groups: dict[object, list[fx.Node]] = {}
    candidates = [node for node in graph.nodes if _is_candidate(node)]
    if len({one.meta["val"].device for one in candidates}) > 1:
        return []  # their counters would be on one device
    for node in candidates:
        groups.setdefault(_group_key(node), []).append(node)
    found = []
    for nodes in groups.values():
        for begin in range(0, len(nodes), WEIGHTS_MAX):
            one = _launch_of(tuple(nodes[begin : begin + WEIGHTS_MAX]), processors)
            if (
                len(one.products) > 1
                or not one.joins
                or _nbytes(one.weights[0]) >= JOINED_NBYTES_MIN
            ):
                found.append(one)
    return found


def _nbytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return int(value.numel() * value.element_size())


def _launch_of(products: tuple[fx.Node, ...], processors: int) -> Launch:
    blocks = sum(_blocks(one.meta["val"].shape[1]) for one in products)
    terms = _factors(products[0])[0].meta["val"].shape[1]
    parts = parts_of(blocks, terms, processors)
    return Launch(products, blocks, parts, parts > 1 and not all(map(_has_small_readers, products)))


def _blocks(columns: int) -> int:
    return -(-columns // COLUMNS)


def parts_of(blocks: int, terms: int, processors: int) -> int:
    """How many programs share the terms of a block of columns."""
    wanted = min(PARTS_MAX, math.ceil(BUSY_SHARE * processors / blocks))
    steps = -(-terms // TERMS)
    return -(-steps // -(-steps // wanted))


def _is_candidate(node: fx.Node) -> bool:
    if node.op != "call_function" or node.kwargs:
        return False
    if node.target not in (aten.mm.default, aten.addmm.default):
        return False
    value, (x, weight) = node.meta["val"], (one.meta["val"] for one in _factors(node))
    if value.dtype not in HALVES:
        return False
    sizes = (*x.shape, *weight.shape, *x.stride(), *weight.stride(), x.storage_offset())
    if not all(isinstance(one, int) for one in sizes):
        return False
    rows, terms = x.shape
    columns = weight.shape[1]
    if not 1 <= rows <= ROWS_MAX or terms < TERMS_MIN or columns < COLUMNS:
        return False
    # Weights whose columns lie next to each other were read at half of the rate (H200).
    if not _is_by_rows(x) or not _is_by_rows(weight.t()):
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


def _is_by_rows(value: torch.Tensor) -> bool:
    """Whether the numbers of a row lie next to each other, and rows do not overlap; the kernel
    computes addresses in 32 bits."""
    rows, terms = value.shape
    if rows == 1:
        return value.stride(1) == 1
    return (
        value.stride(1) == 1
        and value.stride(0) >= terms
        and value.stride(0) * (rows + COLUMNS) < 1 << 31
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
    rows = x.meta["val"]
    layout = rows.dtype, tuple(rows.shape), tuple(rows.stride()), rows.storage_offset()
    return _base_of(x), layout, weight.meta["val"].stride(1), bias is None


def _base_of(node: fx.Node) -> fx.Node:
    """As base_of(), but a reshape() that copies is its own."""
    memory = node.meta["val"].untyped_storage()
    found = base_of(node)
    value = found.meta["val"]
    shares = isinstance(value, torch.Tensor) and value.untyped_storage()._cdata == memory._cdata
    return found if shares else node


def _has_small_readers(product: fx.Node) -> bool:
    """Whether Inductor's kernels alone read the product, and none of far more elements."""
    ahead, seen = [product], set[fx.Node]()
    elements_max = READER_RATIO_MAX * product.meta["val"].numel()
    while ahead:
        for user in ahead.pop().users:
            role = role_of(user)
            if role is not Role.VIEW and role is not Role.FUSIBLE:
                return False
            if any(one.numel() > elements_max for one in tensors_of(user)):
                return False
            # Inductor may compute a pointwise value again wherever it is read.
            if user not in seen and (role is Role.VIEW or operator_name(user) == "cat"):
                ahead.append(user)
            seen.add(user)
    return True


class FewRows:
    """A function of [rows, weights…, biases…] that gives the product for each weight. If it
    joins parts, the last argument has a zero for each block of columns; else it gives the
    parts, (parts, rows, columns) of float32, if there are several."""

    def __init__(self, parts: int, count: int, has_bias: bool, joins: bool) -> None:
        self._parts, self._count, self._has_bias = parts, count, has_bias
        self._joins = joins

    def __call__(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """PyTorch's operators compute it if the kernel cannot."""
        x, *others = arguments
        weights = others[: self._count]
        biases = others[self._count : 2 * self._count] if self._has_bias else []
        counters = others[-1] if self._joins else None
        shape: tuple[int, ...] = (x.shape[0],)
        dtype = x.dtype
        if self._parts > 1 and not self._joins:
            shape, dtype = (self._parts, *shape), torch.float32
        made = [x.new_empty(*shape, one.shape[1], dtype=dtype) for one in weights]
        try:
            alike = len({one.stride(1) for one in weights}) == 1
            if not alike or not all(map(_is_by_rows, (x, *(one.t() for one in weights)))):
                raise ValueError("other strides than the graph records")
            self._by_kernel(x, weights, biases, made, counters)
        except Exception as error:
            log.info("the kernel for few rows failed with %s: %s", type(error).__name__, error)
            self._by_library(x, weights, biases, made)
        return made

    def _by_library(self, x: _Tensor, weights: _Some, biases: _Some, made: _Some) -> None:
        for number, (weight, result) in enumerate(zip(weights, made, strict=True)):
            if result.dim() == 2:
                product = torch.addmm(biases[number], x, weight) if biases else x @ weight
                result.copy_(product)
            else:
                result.zero_()
                result[0] = x.float() @ weight.float()

    def _by_kernel(
        self, x: _Tensor, weights: _Some, biases: _Some, made: _Some, counters: _Tensor | None
    ) -> None:
        rows, terms = x.shape
        columns = [one.shape[1] for one in weights]
        blocks = sum(map(_blocks, columns))
        scratch = x
        if counters is not None:
            size = self._parts * blocks * COLUMNS * ROWS_MAX
            scratch = x.new_empty(size, dtype=torch.float32)
        steps = -(-terms // (self._parts * TERMS))
        _launch(
            (blocks, self._parts),
            x,
            *_padded(weights),
            *_padded(biases or weights),
            *_padded(made),
            scratch,
            x if counters is None else counters,
            rows,
            terms,
            *_padded(columns),
            x.stride(0),
            weights[0].stride(1),
            STEPS=steps,
            PARTS=self._parts,
            JOINS=self._joins,
            COUNT=self._count,
            HAS_BIAS=self._has_bias,
            IS_WHOLE=steps * self._parts * TERMS == terms,
            ROWS=ROWS_MAX,
            COLUMNS=COLUMNS,
            TERMS=TERMS,
            STAGES=STAGES,
            num_warps=WARPS,
        )


def _padded(values: Sequence[Any]) -> list[Any]:
    """WEIGHTS_MAX arguments; the kernel does not use those that are added."""
    return [*values, *[values[0]] * (WEIGHTS_MAX - len(values))]


def _launch(grid: tuple[int, int], *arguments: Any, **constants: Any) -> None:
    from weft.regions.few_rows_kernel import few_rows_kernel

    few_rows_kernel[grid](*arguments, **constants)


def split(graph: fx.Graph, launches: Sequence[Launch]) -> None:
    """Has the graph compute these products by launches of the kernel."""
    counters = _counters(graph, launches)
    for one in launches:
        _replace(graph, one, counters.get(one))
    insertion.sort(graph)


def _counters(graph: fx.Graph, launches: Sequence[Launch]) -> dict[Launch, fx.Node]:
    """Zeros for each launch that joins parts. A launch counts in its own, so that each call
    of the program needs new ones: calls may overlap."""
    split = [one for one in launches if one.joins]
    if not split:
        return {}
    value = split[0].products[0].meta["val"]
    device = value.device
    begins = [0]
    for one in split:
        begins.append(begins[-1] + -(-one.blocks // COUNTERS_APART) * COUNTERS_APART)
    size = begins[-1]
    with value.fake_mode:
        zeros = torch.empty(size, dtype=torch.int32, device=device)
    target = insertion.operator_for(
        "counters",
        "zeros",
        lambda _: [torch.zeros(size, dtype=torch.int32, device=device)],
        [insertion.layout_of(zeros)],
        0,
    )
    first = next(node for node in graph.nodes if role_of(node) is not Role.INPUT)
    found = {}
    with graph.inserting_before(first):
        made = insertion.add_call(graph, target, [], [zeros])
        for one, begin in zip(split, begins):
            end = begin + one.blocks
            part = graph.call_function(aten.slice.Tensor, (made, 0, begin, end))
            with value.fake_mode:
                part.meta["val"] = zeros[begin:end]
            found[one] = part
    return found


def _replace(graph: fx.Graph, launch: Launch, counters: fx.Node | None) -> None:
    is_sum = launch.parts > 1 and not launch.joins
    inputs = [launch.rows, *launch.weights]
    if not is_sum:
        inputs += launch.biases
    if counters is not None:
        inputs.append(counters)
    values = [node.meta["val"] for node in launch.products]
    results = []
    with values[0].fake_mode:
        for one in values:
            parts = one.new_empty(launch.parts, *one.shape, dtype=torch.float32)
            results.append(parts if is_sum else one.new_empty(one.shape))
    target = insertion.operator_for(
        f"few rows {launch.parts} {launch.joins} {len(values)}",
        f"{VERSION} {COLUMNS} {TERMS} {[insertion.layout_of(one.meta['val']) for one in inputs]}",
        FewRows(launch.parts, len(values), bool(launch.biases) and not is_sum, launch.joins),
        [insertion.layout_of(one) for one in results],
        len(inputs),
    )

    def call(target: Any, *args: Any) -> fx.Node:
        made = graph.call_function(target, args)
        with values[0].fake_mode:
            made.meta["val"] = target(*fx.node.map_arg(args, lambda one: one.meta["val"]))
        return made

    with graph.inserting_before(launch.products[0]):
        together = insertion.add_call(graph, target, inputs, results)
        for number, product in enumerate(launch.products):
            made = together
            if len(results) > 1:
                made = call(operator.getitem, together, number)
            if is_sum:
                # As additions: Inductor makes a separate kernel of a sum of eight.
                terms = [call(aten.select.int, made, 0, part) for part in range(launch.parts)]
                made = functools.reduce(lambda a, b: call(aten.add.Tensor, a, b), terms)
                if launch.biases:
                    made = call(
                        aten.add.Tensor, made, call(convert, launch.biases[number], torch.float32)
                    )
                made = call(convert, made, product.meta["val"].dtype)
            made.meta["stack_trace"] = product.meta.get("stack_trace", "")
            product.replace_all_uses_with(made, propagate_meta=False)
    for product in launch.products:
        graph.erase_node(product)
