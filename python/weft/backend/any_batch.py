"""One problem file for a graph at every batch.

The graph is had at three batches, and so is its problem file's text. What these
have in common is the text for any: where they differ, they differ in numbers
that are a multiple of the batch plus a number (compiler/text/common_text.hpp does
the same with kernels).
"""

import dataclasses
import hashlib
import json
import re

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from weft.backend.graph_source import Unsupported, source_of

#: Primes, so that no size of another kind is one of them by design.
SAMPLES = (53, 59, 61)
NAME = "weft_batch"
_NUMBERS = re.compile(r"(?<![\w.])\d+(?![\w.])")


class Symbolic:
    """A graph of AOTAutograd's of which one size is a symbol, at any."""

    def __init__(self, graph_module):
        self.graph_module = graph_module
        self.values = [node.meta.get("val") for node in
                       graph_module.graph.find_nodes(op="placeholder")]
        sizes = [value for value in self.values
                 if isinstance(value, torch.SymInt)]
        symbols = {symbol for value in sizes
                   for symbol in value.node.expr.free_symbols}
        #: None: no size is a symbol, or several are.
        self.symbol = symbols.pop() if len(symbols) == 1 else None

    def batch_of(self, arguments):
        """The symbol's value in a call; None where no argument says it."""
        for value, given in zip(self.values, arguments):
            if isinstance(value, torch.SymInt) and \
                    value.node.expr == self.symbol:
                return given
        return None

    def at(self, size):
        """(graph module, {argument: Look}) at that size."""
        looks, given = {}, []
        with FakeTensorMode(allow_non_fake_inputs=True):
            for i, value in enumerate(self.values):
                if not isinstance(value, torch.Tensor):
                    given.append(self._number(value, size))
                    continue
                looks[i] = Look(
                    tuple(self._number(n, size) for n in value.shape),
                    tuple(self._number(n, size) for n in value.stride()))
                given.append(torch.empty_strided(
                    looks[i].shape, looks[i].stride, dtype=value.dtype,
                    device=value.device))
            made = make_fx(self.graph_module)(*given)
        made.graph.eliminate_dead_code()  # parts of results that nobody reads
        return made, looks

    def _number(self, value, size):
        if not isinstance(value, torch.SymInt):
            return value
        return int(value.node.expr.subs({self.symbol: size}))

    def samples(self):
        return {size: self.at(size) for size in SAMPLES}


@dataclasses.dataclass(frozen=True)
class Look:
    """Of an argument at one batch."""

    shape: tuple
    stride: tuple


def source_for_any(graphs, batch, arguments, state):
    """The Source of a graph at any batch. `graphs` has for each of SAMPLES
    (graph module, {argument: Look}); `batch` is that of these arguments.
    Unsupported says why there is none."""
    made = {size: source_of(graph, arguments, state, looks)
            for size, (graph, looks) in graphs.items()}
    first = made[SAMPLES[0]]
    for one in made.values():
        if (one.inputs, one.state, one.count) != (
                first.inputs, first.state, first.count):
            raise Unsupported("it is another graph at another batch")
        if repr(one.outputs) != repr(first.outputs):
            raise Unsupported("a result says the batch itself")
    where, dim = _place_of_batch(graphs, first.inputs)
    text = common_text({size: one.text for size, one in made.items()})
    position = first.inputs.index(where)
    text = _with_batch(text, position, dim, batch)
    key = json.dumps(["any batch", *(made[size].key for size in SAMPLES)])
    return dataclasses.replace(
        first, text=text, any_size=f"{position}:{dim}", batch=batch,
        key=hashlib.sha256(key.encode()).hexdigest()[:32])


def _place_of_batch(graphs, inputs):
    """(argument, dimension) of an input that is the batch."""
    looks = [(size, looks) for size, (_, looks) in graphs.items()]
    for i in inputs:
        for dim in range(len(looks[0][1][i].shape)):
            if all(each[i].shape[dim] == size for size, each in looks):
                return i, dim
    raise Unsupported("no input has the batch as a dimension")


def _with_batch(text, position, dim, batch):
    """The text, in which forward() and get_inputs() know the batch."""
    header = re.search(r"    def forward\(self, ([^)]*)\):\n", text)
    name = header[1].split(", ")[position]
    text = (text[:header.end()]
            + f"        {NAME} = {name}.shape[{dim}]\n" + text[header.end():])
    return (text.replace("\ndef get_inputs():\n",
                         f"\ndef get_inputs_at({NAME}):\n")
            + f"\n\ndef get_inputs():\n    return get_inputs_at({batch})\n")


def common_text(texts):
    """What texts by batch have in common, with NAME in it."""
    low, high, *_ = sorted(texts)
    parts, numbers = {}, {}
    for size, text in texts.items():
        parts[size] = _NUMBERS.split(text)
        numbers[size] = _NUMBERS.findall(text)
    if any(one != parts[low] for one in parts.values()):
        raise Unsupported("it is another graph at another batch")
    common = [parts[low][0]]
    for i, after in enumerate(parts[low][1:]):
        values = {size: int(each[i]) for size, each in numbers.items()}
        per = (values[high] - values[low]) // (high - low)
        rest = values[low] - per * low
        if any(value != per * size + rest for size, value in values.items()):
            raise Unsupported("a number in it is no multiple of the batch plus "
                              "a number")
        common += [_expression(per, rest) if per else numbers[low][i], after]
    return "".join(common)


def _expression(per, rest):
    text = NAME if per == 1 else f"{per} * {NAME}"
    if rest:
        text += f" {'+' if rest > 0 else '-'} {abs(rest)}"
    return text if text == NAME else f"({text})"


def source_like(graph_and_looks, arguments, source, any_source):
    """The Source of a graph for any batch at that of another's arguments."""
    graph, looks = graph_and_looks
    mine = [*source.inputs, *source.state]
    theirs = [*any_source.inputs, *any_source.state]
    given = [None] * len(graph.graph.find_nodes(op="placeholder"))
    for i, j in zip(theirs, mine, strict=True):
        if i < len(given):  # else a constant, which the graph has itself
            given[i] = arguments[j]
    state = {i: "parameter" if i in any_source.parameters else name
             for i, name in any_source.state.items() if i < len(given)}
    return source_of(graph, given, state, looks)


def adopted(source, any_source, any_at_that):
    """The Source of a graph of one batch alone, whose kernels are those of
    `any_source`: if that is the same graph (`any_at_that`: its Source at that
    batch); else None. Dynamo makes a graph of its own for a batch of 1."""
    if source.shape != any_at_that.shape:
        return None
    state = dict(zip(source.state, any_source.state.values(), strict=True))
    return dataclasses.replace(source, text=any_source.text, state=state,
                               any_size=any_source.any_size, batch=any_source.batch)
