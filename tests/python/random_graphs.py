"""Random graphs (docs/reference/graph.md) of the operators that lowering has rules for.

PyTorch's meta tensors decide which calls are valid and what their results look
like, so every graph is one that capture could give. Ranks are 0 to 5, with sizes of
one, all strides and data types, and chains of up to a dozen calls.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from typing import Any

import torch

from captured_cases import output_template

#: The last three have no kernels.
DTYPES = (
    (torch.float32,) * 18
    + (
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int64,
        torch.int64,
        torch.int32,
        torch.bool,
    )
    * 3
    + (torch.int8, torch.int16, torch.uint8)
)
SIZES = (1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 130)
ELEMENTS_MAX = 1 << 21
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    0.0,
    0.5,
    -0.1,
    1.0,
    2.5,
    1e30,
    True,
    False,
    math.inf,
    -math.inf,
    math.nan,
)

Arguments = list[Any]


@dataclasses.dataclass
class Value:
    """A node's tensor, as a meta tensor."""

    name: str
    tensor: torch.Tensor


class Skip(Exception):
    """No such call can be made of these values."""


class RandomGraph:
    """One graph, made call by call; the same for the same random seed."""

    def __init__(self, seed: int, makers: list[str] | None = None) -> None:
        """`makers`: the operators to choose from, all if None."""
        self.random = random.Random(seed)
        self.inputs: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.values: list[Value] = []
        wanted = 1 if makers else self.random.choice((1, 1, 2, 3))
        while len(self.inputs) < wanted:
            try:
                self.new_input()
            except Skip:
                pass
        wanted = 1 if makers else self.random.choice((1, 1, 2, 3, 5, 8, 12))
        makers = makers or list(MAKERS)
        for _ in range(6 * wanted):
            if len(self.calls) >= wanted:
                break
            self.call(self.random.choice(makers))

    def graph(self) -> dict[str, Any] | None:
        """The graph, or None where no call could be made."""
        if not self.calls:
            return None
        made = [value.name for value in self.values if not value.name.startswith("in")]
        if not made:
            return None
        outputs = [made[-1]]
        if self.random.random() < 0.5:
            outputs.append(self.random.choice(made))
        outputs = list(dict.fromkeys(outputs))
        return {
            "version": 1,
            "nodes": self.inputs + self.calls,
            "outputs": outputs,
            "mutations": [],
            "training": False,
            "output_template": output_template(len(outputs)),
        }

    # What makers ask.

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def pick(
        self,
        is_fit: Callable[[torch.Tensor], bool] = lambda _: True,
    ) -> Value:
        """A value, of the last ones sooner. Raises Skip."""
        fit = [value for value in self.values if is_fit(value.tensor)]
        if not fit:
            raise Skip
        return fit[max(self.random.randrange(len(fit)), self.random.randrange(len(fit)))]

    def floating(self, least_rank: int = 0) -> Value:
        return self.pick(lambda t: t.is_floating_point() and t.dim() >= least_rank)

    def of_rank(self, least: int) -> Value:
        return self.pick(lambda t: t.dim() >= least)

    def dim(self, tensor: torch.Tensor) -> int:
        rank = max(1, tensor.dim())
        return self.random.randrange(-rank, rank)

    def dims(self, tensor: torch.Tensor) -> list[int]:
        rank = max(1, tensor.dim())
        count = self.random.randint(1, rank)
        chosen = self.random.sample(range(rank), count)
        return [d - rank if self.chance(0.3) else d for d in chosen]

    def flag(self) -> bool:
        return self.chance(0.5)

    def number(self) -> int | float | bool:
        return self.random.choice(NUMBERS)

    def beside(self, tensor: torch.Tensor) -> Value | int | float | bool:
        """What may stand beside it in a pointwise call."""
        if self.chance(0.3):
            return self.number()
        if self.chance(0.5):
            return self.pick(lambda t: fits(t, tensor))
        return self.broadcast_input(tensor)

    def tensor_beside(self, tensor: torch.Tensor) -> Value:
        found = self.beside(tensor)
        return found if isinstance(found, Value) else self.broadcast_input(tensor)

    def broadcast_input(self, tensor: torch.Tensor) -> Value:
        keep = self.random.randint(0, tensor.dim())
        shape = [size if self.chance(0.7) else 1 for size in tensor.shape[tensor.dim() - keep :]]
        return self.input_of(
            shape, self.random.choice((tensor.dtype, tensor.dtype, self.random.choice(DTYPES)))
        )

    def new_input(self) -> Value:
        rank = self.random.choice((0, 1, 2, 2, 3, 3, 4, 4, 5))
        shape = [self.random.choice(SIZES) for _ in range(rank)]
        if self.chance(0.03) and rank:
            shape[self.random.randrange(rank)] = 0
        if self.chance(0.05) and rank:
            shape[-1] = self.random.choice((1000, 4097, 16_500, 40_000))
        return self.input_of(shape, self.random.choice(DTYPES))

    def input_of(self, shape: list[int], dtype: torch.dtype, is_dense: bool = False) -> Value:
        """Row-major, permuted, channels last, with gaps, or expanded."""
        if math.prod(shape) > ELEMENTS_MAX:
            raise Skip
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        how = 0.0 if is_dense or not shape else self.random.random()
        if 0.6 < how < 0.75:
            order = list(range(len(shape)))
            self.random.shuffle(order)
            inverse = [order.index(i) for i in range(len(order))]
            tensor = torch.empty([shape[i] for i in order], dtype=dtype, device="meta").permute(
                inverse
            )
        elif 0.75 < how < 0.85 and len(shape) == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        elif 0.85 < how < 0.93:
            tensor = torch.empty([*shape[:-1], 2 * shape[-1] + 1], dtype=dtype, device="meta")[
                ..., 1::2
            ][..., : shape[-1]]
        elif how > 0.93:
            tensor = torch.empty([1, *shape[1:]], dtype=dtype, device="meta").expand(shape)
        name = f"in{len(self.inputs)}"
        self.inputs.append(node_of(name, "input", name, [tensor]))
        value = Value(name, tensor)
        self.values.append(value)
        return value

    def index_input(self, shape: list[int]) -> Value:
        return self.input_of(shape, torch.int64)

    def call(self, name: str) -> None:
        """Adds that operator's call, if one can be made."""
        before = len(self.inputs), len(self.values)
        try:
            overload, args, kwargs = MAKERS[name](self)
            result = overload(*plain(args), **plain(kwargs))
        except Exception:  # PyTorch says by all kinds of them what is no call
            del self.inputs[before[0] :], self.values[before[1] :]
            return
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        if (
            not tensors
            or any(t.numel() > ELEMENTS_MAX for t in tensors)
            or any(t.is_complex() for t in tensors)
        ):
            del self.inputs[before[0] :], self.values[before[1] :]
            return
        target = str(overload)
        node = f"n{len(self.calls)}"
        is_tuple = isinstance(result, (tuple, list))
        entry = node_of(node, "call", target, parts, is_tuple)
        entry["args"] = encoded(args)
        entry["kwargs"] = encoded(kwargs)
        self.calls.append(entry)
        if not is_tuple:
            self.values.append(Value(node, tensors[0]))
            return
        for i, part in enumerate(parts):
            if not isinstance(part, torch.Tensor) or part.numel() == 0:
                continue
            item = node_of(f"{node}_{i}", "call", "getitem", [part])
            item["args"] = [{"node": node}, i]
            self.calls.append(item)
            self.values.append(Value(f"{node}_{i}", part))


def fits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both broadcast together."""
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(one.shape), reversed(other.shape)))


def node_of(
    name: str, kind: str, target: str, parts: list[Any], is_tuple: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "target": target,
        "args": [],
        "kwargs": {},
        "is_tuple": is_tuple,
        "source": "",
        "values": [type_of(part) for part in parts],
    }


def type_of(part: Any) -> dict[str, Any] | None:
    if not isinstance(part, torch.Tensor):
        return None
    return {
        "dtype": str(part.dtype).removeprefix("torch."),
        "shape": list(part.shape),
        "stride": list(part.stride()),
    }


def plain(argument: Any) -> Any:
    """The arguments of the call itself."""
    if isinstance(argument, Value):
        return argument.tensor
    if isinstance(argument, dict):
        return {key: plain(one) for key, one in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [plain(one) for one in argument]
    return argument


def encoded(argument: Any) -> Any:
    """The arguments as JSON has them."""
    if isinstance(argument, Value):
        return {"node": argument.name}
    if isinstance(argument, dict):
        return {key: encoded(one) for key, one in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [encoded(one) for one in argument]
    if isinstance(argument, float) and not math.isfinite(argument):
        return {"float": str(argument)}
    if isinstance(argument, torch.dtype):
        return {"dtype": str(argument).removeprefix("torch.")}
    if isinstance(argument, torch.device):
        return {"device": "cpu"}
    return argument


Maker = Callable[[RandomGraph], tuple[Any, Arguments, dict[str, Any]]]
MAKERS: dict[str, Maker] = {}
aten = torch.ops.aten


def maker(name: str) -> Callable[[Callable[[RandomGraph], Any]], Any]:
    """Adds a maker, of (overload, arguments) or with keyword arguments."""

    def add(function: Callable[[RandomGraph], Any]) -> Any:
        def made(graph: RandomGraph) -> tuple[Any, Arguments, dict[str, Any]]:
            found = function(graph)
            return found if len(found) == 3 else (*found, {})

        MAKERS[name] = made
        return function

    return add


from random_calls import add_makers  # noqa: E402

add_makers()
