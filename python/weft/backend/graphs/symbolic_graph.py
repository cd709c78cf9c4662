"""One problem file for a graph at every batch, or at every batch and length.

The graph, and its problem file's text, is made at several sizes. The texts may differ only
in numbers that are polynomials of the sizes. Their terms are a constant, the sizes, their
product, the last size's square, and that times the first size. The common text then holds
for any size. compiler/graph/symbolic_shapes.hpp and
compiler/text/common_text.hpp do the same with kernels. Below, sizes are a tuple: one for
each symbol.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import math
import operator
import re
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from weft.backend.graphs.graph_arguments import _WeftSize
from weft.backend.graphs.problem_source import USER_LINE, Unsupported, source_of, view_chain
from weft.capture.tracer_lock import traced

#: By the number of symbols. All but the last tell what grows; the last one, of two
#: symbols one whose first is the larger, checks it. Primes alone would not do: their
#: squares are all 1 more than a multiple of 24, so that n * n // 8 * 8 were n * n - 1.
SAMPLES = {
    1: ((53,), (59,), (61,), (240,)),
    2: ((53, 67), (53, 71), (53, 72), (60, 67), (60, 71), (60, 72), (246, 240)),
}
#: What numbers are multiples of: how often each symbol is a factor.
TERMS = {1: ((1,), (2,)), 2: ((1, 0), (0, 1), (1, 1), (0, 2), (1, 2))}
SYMBOLS_MAX = len(SAMPLES)
NAMES = ("weft_batch", "weft_sequence")
_NUMBERS = re.compile(r"(?<![\w.])\d+(?![\w.])")
_FLOATS = re.compile(r"(?<![\w.])-?\d+\.\d*(?:e[+-]?\d+)?(?![\w.])")


class Symbolic:
    """A graph of AOTAutograd's of which one size is a symbol, or two, at any."""

    def __init__(self, graph_module: Any) -> None:
        #: Its last arguments are `numbers`, (node of the size, dtype of the tensor).
        self.graph_module, self.numbers = _with_numbers(graph_module)
        graph_module = self.graph_module
        self.values = [
            node.meta.get("val") for node in graph_module.graph.find_nodes(op="placeholder")
        ]
        sizes = [value for value in self.values if isinstance(value, torch.SymInt)]
        symbols = [
            symbol for value in sizes for symbol in sorted(value.node.expr.free_symbols, key=str)
        ]
        once = tuple(dict.fromkeys(symbols))  # in their order
        #: Empty: no size is a symbol, or more are than there is code for.
        self.symbols = once if len(once) <= SYMBOLS_MAX else ()

    def sizes_of(self, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """The symbols' values in a call; None where no argument says one."""
        known = {
            value.node.expr: given
            for value, given in zip(self.values, arguments)
            if isinstance(value, torch.SymInt)
        }
        if any(symbol not in known for symbol in self.symbols):
            return None
        return tuple(known[symbol] for symbol in self.symbols)

    def results_of_sizes(self, places: Any) -> Any:
        """{result: how it is had} of the results that are a size, or a view of an
        argument that takes one: what AOTAutograd's forward graph keeps for the
        backward one, too. `places`: for each symbol (argument, dimension) that
        is it, or one for their product, as the kernels' guards compare them at
        every call."""
        arguments = self.graph_module.graph.find_nodes(op="placeholder")
        positions = {node: i for i, node in enumerate(arguments)}
        (output,) = self.graph_module.graph.find_nodes(op="output")
        found = {}
        for k, node in enumerate(output.args[0]):
            if not isinstance(node, torch.fx.Node):
                continue
            if isinstance(node.meta.get("val"), torch.SymInt):
                found[k] = "size", self._size(node, places)
            elif node not in positions and (chain := view_chain(node, positions)):
                found[k] = (
                    *chain[:2],
                    torch.fx.node.map_arg(chain[2], lambda one: self._size(one, places)),
                )
        return found

    def _size(self, node: torch.fx.Node, places: list[Any]) -> Any:
        size = node.meta["val"].node.expr
        try:
            poly = sympy.Poly(size, *self.symbols, domain="ZZ")
        except sympy.polys.polyerrors.BasePolynomialError:
            raise Unsupported(
                f"a result has the size {size}, which is no number plus multiples of the symbols"
            ) from None
        if len(places) < len(self.symbols) and any(
            len(set(powers)) > 1 for powers, _ in poly.terms()
        ):
            raise Unsupported(
                f"a result has the size {size}, of which no input "
                "says more than the product of the symbols"
            )
        return _WeftSize(
            [
                (int(factor), [place for place, power in zip(places, powers) for _ in range(power)])
                for powers, factor in poly.terms()
            ]
        )

    def numbers_at(self, sizes: tuple[int, ...]) -> list[torch.Tensor]:
        """The graph's last arguments at these sizes."""
        return [
            torch.tensor(self._number(node.meta["val"], sizes), dtype=dtype)
            for node, dtype in self.numbers
        ]

    def sizes_of_numbers(
        self,
        places: list[tuple[int, int]],
    ) -> tuple[tuple[_WeftSize, torch.dtype], ...]:
        """The same, as a call computes them; `places` as in results_of_sizes()."""
        return tuple((self._size(node, places), dtype) for node, dtype in self.numbers)

    def at(self, sizes: Any) -> tuple[Any, Any]:
        """(graph module, {argument: Look}) at these sizes."""
        looks, given = {}, []
        with FakeTensorMode(allow_non_fake_inputs=True):
            for i, value in enumerate(self.values):
                if not isinstance(value, torch.Tensor):
                    given.append(self._number(value, sizes))
                    continue
                looks[i] = Look(
                    tuple(self._number(n, sizes) for n in value.shape),
                    tuple(self._number(n, sizes) for n in value.stride()),
                )
                given.append(
                    torch.empty_strided(
                        looks[i].shape, looks[i].stride, dtype=value.dtype, device=value.device
                    )
                )
            made = traced(self.graph_module, given)
        made.graph.eliminate_dead_code()  # parts of results that nobody reads
        return made, looks

    def _number(self, value: Any, sizes: Any) -> Any:
        if not isinstance(value, torch.SymInt):
            return value
        return int(value.node.expr.subs(dict(zip(self.symbols, sizes))))

    def samples_and(self, own: Any) -> dict[Any, Any]:
        return {sizes: self.at(sizes) for sizes in (*SAMPLES[len(self.symbols)], own)}


def _with_numbers(
    graph_module: torch.fx.GraphModule,
) -> tuple[torch.fx.GraphModule, list[tuple[torch.fx.Node, torch.dtype]]]:
    """The same graph, in which each tensor that is made of a size is an argument.
    (A kernel has sizes in its loops; as a value it takes them as an operand.)"""
    graph = copy.deepcopy(graph_module.graph)
    made = [
        node
        for node in graph.find_nodes(
            op="call_function", target=torch.ops.aten.scalar_tensor.default
        )
        if isinstance(node.args[0], torch.fx.Node)
        and isinstance(node.args[0].meta.get("val"), torch.SymInt)
    ]
    if not made:
        return graph_module, []
    numbers: list[Any] = []
    last = graph.find_nodes(op="placeholder")[-1]
    for node in made:
        with graph.inserting_after(last):
            last = graph.placeholder(f"number_{len(numbers)}")
        last.meta = dict(node.meta)
        node.replace_all_uses_with(last)
        numbers.append((node.args[0], node.meta["val"].dtype))
        graph.erase_node(node)
    return torch.fx.GraphModule(graph_module, graph), numbers


@dataclasses.dataclass(frozen=True)
class Look:
    """Of an argument at some sizes."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]


def source_for_any(
    graphs: Any, sizes: Any, arguments: Sequence[Any], state: Any, symbolic: Any = None
) -> Any:
    """The Source of a graph at any sizes. `graphs` has for each of SAMPLES, and for
    `sizes`, those of these arguments, (graph module, {argument: Look}); `symbolic`,
    if given, is the graph. Of one whose inputs tell but the product of two sizes
    that product is the size. Unsupported says why there is none."""
    if symbolic:
        arguments = [*arguments, *symbolic.numbers_at(sizes)]
    made = _sources(graphs, arguments, state)
    first = next(iter(made.values()))
    is_product = len(sizes) == 2 and _has_product_alone(graphs, first.inputs)
    if is_product:
        for graph, _ in graphs.values():
            _join_views(graph)
        made = _sources(graphs, arguments, state)
        first = next(iter(made.values()))
    places = _places_of_sizes(graphs, first.inputs, is_product)
    of_sizes = symbolic.results_of_sizes(places) if symbolic else {}
    numbers = symbolic.sizes_of_numbers(places) if symbolic else ()
    for one in made.values():
        for k, result in of_sizes.items():
            one.outputs[k] = result
        if repr(one.outputs) != repr(first.outputs):
            raise Unsupported("a result says a size itself")
    places = [(first.inputs.index(i), dim) for i, dim in places]
    text = common_text({at: one.text for at, one in made.items()}, is_product)
    own = (math.prod(sizes),) if is_product else tuple(sizes)
    text = _with_sizes(text, places, own)
    key = json.dumps(["any batch", *(made[at].key for at in SAMPLES[len(sizes)])])
    return dataclasses.replace(
        first,
        text=text,
        sizes=own,
        numbers=numbers,
        any_size=",".join(f"{position}:{dim}" for position, dim in places),
        key=hashlib.sha256(key.encode()).hexdigest()[:32],
    )


def _sources(graphs: Any, arguments: Sequence[Any], state: Any) -> Any:
    made = {at: source_of(graph, arguments, state, looks) for at, (graph, looks) in graphs.items()}
    first = next(iter(made.values()))
    for one in made.values():
        if (one.inputs, one.state, one.count) != (first.inputs, first.state, first.count):
            raise Unsupported("it is another graph at another size")
    return made


def _places_of_sizes(graphs: Any, inputs: Any, is_product: bool = False) -> list[Any]:
    """For each symbol (argument, dimension) of an input that is it; or one for
    their product."""
    all_looks = [(sizes, looks) for sizes, (_, looks) in graphs.items()]

    def place_of(size: Any) -> tuple[Any, Any]:
        for i in inputs:
            for dim in range(len(all_looks[0][1][i].shape)):
                if all(looks[i].shape[dim] == size(sizes) for sizes, looks in all_looks):
                    return i, dim
        raise Unsupported("no input has a size that is a symbol as a dimension")

    if is_product:
        return [place_of(math.prod)]
    return [place_of(operator.itemgetter(i)) for i in range(len(all_looks[0][0]))]


def _has_product_alone(graphs: Any, inputs: Any) -> bool:
    """Whether what grows of the inputs grows with the product of both sizes."""
    values = [
        {sizes: looks[i].shape[dim] for sizes, (_, looks) in graphs.items()}
        for i in inputs
        for dim in range(len(next(iter(graphs.values()))[1][i].shape))
    ]
    grown = [value for value in values if len(set(value.values())) > 1]
    return bool(grown) and all(_goes_by_product(_factors(one)) for one in grown)


def _join_views(graph: Any) -> None:
    """Views of views as views: between them both sizes may stand alone."""
    view = torch.ops.aten.view.default
    for node in graph.graph.find_nodes(op="call_function", target=view):
        inner = node.args[0]
        if inner.target is view and _can_be_viewed(inner.args[0], node):
            node.args = (inner.args[0], node.args[1])
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _can_be_viewed(node: Any, other: Any) -> Any:
    """As the other looks."""
    value, like = node.meta.get("val"), other.meta.get("val")
    try:
        return value.view(like.shape).stride() == like.stride()
    except (AttributeError, RuntimeError):  # unknown, or no view of it
        return False


def _with_sizes(text: Any, places: Any, sizes: Any) -> Any:
    """The text, in which forward() and get_inputs() know the sizes."""
    header = re.search(r"    def forward\(self, ([^)]*)\):\n", text)
    assert header is not None  # source_of() writes it so
    inputs = header[1].split(", ")
    lines = "".join(
        f"        {name} = {inputs[position]}.shape[{dim}]\n"
        for name, (position, dim) in zip(NAMES, places)
    )
    names = ", ".join(NAMES[: len(sizes)])
    numbers = ", ".join(map(str, sizes))
    text = text[: header.end()] + lines + text[header.end() :]
    return (
        text.replace("\ndef get_inputs():\n", f"\ndef get_inputs_at({names}):\n")
        + f"\n\ndef get_inputs():\n    return get_inputs_at({numbers})\n"
    )


def common_text(texts: Any, is_product: bool = False) -> str:
    """What texts by sizes, those of SAMPLES and others, have in common, with NAMES
    in it. `is_product`: their product is the one size that it has in it."""
    parts = {sizes: _NUMBERS.split(text) for sizes, text in texts.items()}
    numbers = [_NUMBERS.findall(text) for text in texts.values()]
    first, *others = parts.values()
    if any(other != first for other in others):
        raise Unsupported(_float_of_a_size(texts) or "it is another graph at another size")
    common = [first[0]]
    for at_each, after in zip(zip(*numbers), first[1:]):
        is_one = len(set(at_each)) == 1
        common += [
            at_each[0] if is_one else _expression(dict(zip(texts, map(int, at_each))), is_product),
            after,
        ]
    return "".join(common)


def _float_of_a_size(texts: Any) -> str:
    """The reason why a float in the first line that differs stands for no size; ""
    where something else differs."""
    for lines in zip(*(text.splitlines() for text in texts.values())):
        if len({_NUMBERS.sub("", line) for line in lines}) == 1:
            continue
        if len({_FLOATS.sub("", _NUMBERS.sub("", line)) for line in lines}) > 1:
            return ""
        call, _, user = lines[0].partition(USER_LINE)
        target = re.search(r"torch\.ops\.([\w.]+)", call)
        where = f" ({user})" if user else ""
        name = target[1] if target else "one of its operators"
        return (
            f"{name} takes a float that is computed from a size{where}: kernels for any "
            "size have such floats only as operands of add, sub, mul and div"
        )
    return ""


def _expression(values: Any, is_product: Any) -> Any:
    """The number at any sizes as text."""
    factors = _factors(values)
    if is_product and not _goes_by_product(factors):
        raise Unsupported("a number in it goes by a size that no input says")
    text = ""
    for term, number in factors.items():
        term = term[:1] if is_product else term
        if number:
            text += "" if not text else " + " if number > 0 else " - "
            much = number if text == "" else abs(number)
            name = " * ".join(name for name, power in zip(NAMES, term) for _ in range(power))
            text += str(much) if not name else name if much == 1 else f"{much} * {name}"
    return text if text in NAMES else f"({text})"


def _factors(values: Any) -> dict[Any, Any]:
    """{term: how often} of what a number is whose values are these: a sum of so
    many of each of TERMS, and a number."""
    symbols = len(next(iter(values)))
    terms = [*TERMS[symbols], (0,) * symbols]
    told = [values[sizes] for sizes in SAMPLES[symbols][:-1]]
    numbers = list(_solution(symbols) * sympy.Matrix(told))
    if not all(number.is_integer for number in numbers) or any(
        value != sum(number * _of(term, sizes) for number, term in zip(numbers, terms))
        for sizes, value in values.items()
    ):
        raise Unsupported("a number in it is no number plus a multiple of a size")
    return dict(zip(terms, map(int, numbers)))


def _goes_by_product(factors: Any) -> bool:
    return all(term in ((1, 1), (0, 0)) for term, number in factors.items() if number)


@functools.cache
def _solution(symbols: Any) -> Any:
    """By which the values at all samples but the last give the factors of TERMS,
    and the number beside them."""
    return sympy.Matrix(
        [[*(_of(term, sizes) for term in TERMS[symbols]), 1] for sizes in SAMPLES[symbols][:-1]]
    ).inv()


def _of(term: Any, sizes: Any) -> Any:
    """That product of sizes."""
    return math.prod(size**power for size, power in zip(sizes, term))


def source_like(
    graph_and_looks: Any, arguments: Sequence[Any], source: Any, any_source: Any
) -> Any:
    """The Source of a graph for any sizes at those of another's arguments."""
    graph, looks = graph_and_looks
    mine = [*source.inputs, *source.state]
    theirs = [*any_source.inputs, *any_source.state]
    given = [None] * len(graph.graph.find_nodes(op="placeholder"))
    for i, j in zip(theirs, mine, strict=True):
        if i < len(given):  # else a constant, which the graph has itself
            given[i] = arguments[j]
    state = {
        i: "parameter" if i in any_source.parameters else name
        for i, name in any_source.state.items()
        if i < len(given)
    }
    return source_of(graph, given, state, looks)


def adopted(source: Any, any_source: Any, any_at_that: Any) -> Any:
    """The Source of a graph of some sizes alone, whose kernels are those of
    `any_source`: if that is the same graph (`any_at_that`: its Source at those);
    else None. Dynamo makes a graph of its own for sizes of 1."""
    if source.shape != any_at_that.shape:
        return None
    state = dict(zip(source.state, any_source.state.values(), strict=True))
    return dataclasses.replace(
        source,
        text=any_source.text,
        state=state,
        any_size=any_source.any_size,
        sizes=any_source.sizes,
    )


def asked_places(dynamic_batch: Any, dynamic_dim: Any) -> list[Any]:
    """[(None, dimension)] of the first tensor; ValueError says what is wrong."""
    dims = (
        dynamic_dim
        if isinstance(dynamic_dim, (tuple, list))
        else ([] if dynamic_dim is None else [dynamic_dim])
    )
    dims = [0] * bool(dynamic_batch) + list(dims)
    if not all(type(dim) is int for dim in dims):
        raise ValueError(
            f"weft.optimize: dynamic_dim is a number, or two in a tuple, and not {dynamic_dim!r}"
        )
    if len(set(dims)) < len(dims):
        raise ValueError(
            f"weft.optimize: a dimension is there twice in {dims}, and is a symbol once"
        )
    if len(dims) > SYMBOLS_MAX:
        raise ValueError(
            f"weft.optimize: {len(dims)} dimensions are to be of any size, and {SYMBOLS_MAX} can be"
        )
    return [(None, dim) for dim in dims]


def marked_places(leaves: Any) -> Any:
    """[(leaf of the call, dimension)] that torch._dynamo.mark_dynamic() said are
    of any size: of those with the same size in the same dimension, the first."""
    places: dict[Any, Any] = {}
    for i, leaf in enumerate(leaves):
        for dim in sorted(getattr(leaf, "_dynamo_dynamic_indices", ())):
            places.setdefault((dim, leaf.shape[dim]), (i, dim))
    return list(places.values())
