"""A captured graph computed in a wider type: the reference of the last check.

One operator after the other. An operand is widened where it is used, and a value
goes after its last use, so that parameters are never all there in the wider type.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from weft.backend.implementations import reference_attention
from weft.expect import tf32
from weft.problem import sentences
from weft.problem.widen import FLOATING, NARROW

_aten = torch.ops.aten
#: Take the half type of their operand as given.
_HALF_TO_FLOAT = (_aten._softmax.default, _aten._log_softmax.default)
_CASTS = (_aten._to_copy.default, torch.ops.prims.convert_element_type.default)
_SHAPE_FUNCTIONS = ("_operator", "math", "builtins", "torch.utils._sympy.functions")


class NoReference(Exception):
    """Why the graph was not computed in a wider type."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a reference may take."""

    bytes: int  #: of values at one time, beside the graph's arguments
    until: float  #: by time.monotonic()

    def check(self, live_bytes: int) -> None:
        """Raises NoReference beyond them."""
        if live_bytes > self.bytes:
            raise NoReference(f"it takes more than {self.bytes >> 20} MiB")
        if time.monotonic() > self.until:
            raise NoReference("its time was over")


@dataclasses.dataclass(frozen=True)
class Rounding:
    """Which dtype rounds on the way to each result of a graph."""

    #: For each result: a half type that a call on its way rounds to, or None.
    halves: list[torch.dtype | None]

    @property
    def wide(self) -> torch.dtype:
        """float64, or float32 if each floating result has errors of halves: then
        float32's are nothing beside them."""
        return torch.float32 if all(self.halves) else torch.float64


def rounding_of(graph_module: torch.fx.GraphModule) -> Rounding:
    """By the dtypes that tracing has noted. A result that is not floating, or an
    argument, counts as one of halves: it needs no wider type."""
    half: dict[torch.fx.Node, torch.dtype | None] = {}
    for node in graph_module.graph.nodes:
        own = [
            one.dtype
            for one in tree_leaves(node.meta.get("val"))
            if isinstance(one, torch.Tensor) and _is_half(one.dtype)
        ]
        before = [found for input_node in node.all_input_nodes if (found := half[input_node])]
        if node.op != "call_function":
            half[node] = None
        else:
            half[node] = next(iter([*own, *before]), None)
    halves: list[torch.dtype | None] = []
    for leaf in _results(graph_module):
        value = leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else None
        is_computed = (
            isinstance(value, torch.Tensor)
            and leaf.op == "call_function"
            and value.dtype in FLOATING
        )
        halves.append(half[leaf] if is_computed else torch.float16)
    return Rounding(halves)


def _is_half(dtype: torch.dtype) -> bool:
    return dtype in (torch.float16, torch.bfloat16)


def _results(graph_module: torch.fx.GraphModule) -> list[Any]:
    result = graph_module.graph.find_nodes(op="output")[0].args[0]
    return list(result) if isinstance(result, (list, tuple)) else [result]


def run(
    graph_module: torch.fx.GraphModule,
    arguments: Sequence[Any],
    dtype: torch.dtype,
    limits: Limits,
    rounds: bool = False,
) -> list[Any]:
    """The graph's results in that dtype; a result that is an argument is as it is.
    `rounds`: what the graph casts to a narrower type is rounded to it all the same.
    NoReference, also for whatever an operator raises."""
    with torch.no_grad(), _exact_products(dtype, arguments):
        try:
            found = _Wide(graph_module, dtype, limits, rounds).run(*arguments)
        except NoReference:
            raise
        except torch.OutOfMemoryError:
            raise NoReference("there is no room for it") from None
        except Exception as error:
            raise NoReference(sentences.of_error(error, 300)) from None
    return list(found) if isinstance(found, (list, tuple)) else [found]


@contextlib.contextmanager
def _exact_products(dtype: torch.dtype, arguments: Sequence[Any]) -> Iterator[None]:
    """Within it, float32 is computed without TF32. The flags are the process's, so
    they are touched only if they allow TF32."""
    devices = {argument.device for argument in arguments if isinstance(argument, torch.Tensor)}
    if dtype == torch.float32 and any(map(tf32.is_allowed, devices)):
        with tf32.forbidden():
            yield
    else:
        yield


class _Wide(torch.fx.Interpreter):
    """Runs each call of a graph on widened operands."""

    def __init__(
        self, graph_module: torch.fx.GraphModule, dtype: torch.dtype, limits: Limits, rounds: bool
    ) -> None:
        super().__init__(graph_module)
        self.extra_traceback = False
        self._dtype, self._limits, self._rounds = dtype, limits, rounds
        self._node: torch.fx.Node | None = None
        self._given: set[int] = set()  #: storages of arguments
        #: For each call's node that has a value: its storages and their bytes.
        self._alive: dict[torch.fx.Node, dict[int, int]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        self._node = n
        result = super().run_node(n)
        if n.op in ("placeholder", "get_attr"):
            self._given |= {_storage(tensor) for tensor in _tensors(result)}
        elif n.op == "call_function":
            self._check(n, result)
        return result

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        raise NoReference(f"it calls the module {target}")

    call_method = call_module

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(target, torch._ops.OpOverload):
            if getattr(target, "__module__", "") in _SHAPE_FUNCTIONS:
                return target(*args, **kwargs)
            raise NoReference(f"{target} is no operator of PyTorch")
        if target._schema.is_mutable:
            raise NoReference(f"{target} writes into its operand")
        if target == _aten.view.dtype:  # by its bits
            return target(self._narrow(args[0]), *args[1:])
        if target.is_view:
            return target(*args, **kwargs)
        if target in _CASTS and not self._rounds and _is_plain_cast(args, kwargs):
            return self._widened(args[0])
        if reference_attention.takes(target):
            narrow = tree_map(self._narrow, [*args]), kwargs
            return reference_attention.compute(
                target, *narrow, *tree_map(self._widened, (args, kwargs))
            )
        return self._computed(target, args, kwargs)

    def _computed(self, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        rounded = self._rounded_to(target, args, kwargs)
        args, kwargs = tree_map(self._widened, (args, kwargs))
        if target in _HALF_TO_FLOAT:
            args = (*args[:2], False)
        result = tree_map(self._widened, target(*args, **kwargs))
        if rounded is not None:
            result = result.to(rounded).to(self._dtype)
        return self._laid(result)

    def _rounded_to(self, target: Any, args: Any, kwargs: Any) -> torch.dtype | None:
        """To which narrower type a call of the graph casts, if that counts."""
        if not self._rounds or target not in _CASTS:
            return None
        dtypes = [
            leaf
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.dtype) and leaf in NARROW
        ]
        return dtypes[0] if dtypes else None

    def _widened(self, value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return self._dtype if value in FLOATING else value
        if isinstance(value, torch.Tensor) and value.dtype in FLOATING:
            return value.to(self._dtype)
        return value

    def _narrow(self, value: Any) -> Any:
        """An operand of the node in the dtype that the graph has for it."""
        if not isinstance(value, torch.Tensor) or value.dtype != self._dtype:
            return value
        given = value
        assert self._node is not None
        for input_node in self._node.all_input_nodes:
            if self.env.get(input_node) is value:
                return given.to(input_node.meta["val"].dtype)
        return value

    def _laid(self, result: Any) -> Any:
        """The result with the strides that the graph has: views go by them."""
        assert self._node is not None
        declared = self._node.meta.get("val")
        if not (isinstance(result, torch.Tensor) and isinstance(declared, torch.Tensor)):
            return result
        shape, strides = tuple(declared.shape), declared.stride()
        if (
            not all(type(one) is int for one in (*shape, *strides))
            or result.stride() == strides
            or tuple(result.shape) != shape
        ):
            return result
        laid = torch.empty_strided(shape, strides, dtype=result.dtype, device=result.device)
        return laid.copy_(result)

    def _check(self, node: torch.fx.Node, result: Any) -> None:
        """NoReference, where what is alive is beyond the limits."""
        self._alive = {one: sizes for one, sizes in self._alive.items() if one in self.env}
        self._alive[node] = {
            _storage(tensor): tensor.untyped_storage().nbytes() for tensor in _tensors(result)
        }
        alive: dict[int, int] = {}
        for sizes in self._alive.values():
            alive.update(sizes)
        self._limits.check(
            sum(size for storage, size in alive.items() if storage not in self._given)
        )


def _is_plain_cast(args: Any, kwargs: Any) -> bool:
    """Whether all that a cast does is to change one floating type to another."""
    dtypes = [leaf for leaf in tree_leaves((args[1:], kwargs)) if leaf is not None]
    return len(dtypes) == 1 and dtypes[0] in FLOATING and args[0].dtype in FLOATING


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
