"""The reference of a subgraph: its captured ATen calls as a Python function.

`Reference` reads a graph (docs/reference/graph.md) and writes it out as Python source once,
so that eager timing includes no interpreter. The float64 form is the same calls with every
floating dtype argument widened, run on widened inputs: it differs from the recorded
computation in rounding only.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch

from weft.problem.node_names import used_by
from weft.problem.widen import FLOATING, NARROW

#: Of function(): in float64, but for what the graph casts to narrower types.
ROUNDS = "rounds"
#: Operators that map a file, and create it if there is none.
REFUSED = ("aten.from_file.default", "aten.from_file.out")
CASTS = ("aten._to_copy.", "aten.to.", "prims.convert_element_type.")


class BadGraph(Exception):
    """The graph JSON does not fit docs/reference/graph.md; the text says where."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as the graph describes it; shape and stride in elements."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def storage_elements(self) -> int:
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride))

    @property
    def storage_bytes(self) -> int:
        return self.storage_elements * self.dtype.itemsize

    @property
    def elements(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count

    @property
    def touched_bytes(self) -> int:
        """Bytes of the elements: what a call must move at least. An expanded
        dimension is there once, and gaps between elements do not count."""
        count = 1
        for n, step in zip(self.shape, self.stride):
            count *= n if step else min(n, 1)
        return min(count, self.storage_elements) * self.dtype.itemsize

    def view(self, storage: torch.Tensor) -> torch.Tensor:
        """The tensor over a flat storage of `storage_elements` elements."""
        return torch.as_strided(storage, self.shape, self.stride)

    def to_json(self) -> dict[str, Any]:
        return {
            "dtype": str(self.dtype).removeprefix("torch."),
            "shape": list(self.shape),
            "stride": list(self.stride),
        }

    @staticmethod
    def from_json(name: str, value: dict[str, Any]) -> TensorSpec:
        dtype = getattr(torch, str(value.get("dtype")), None)
        if not isinstance(dtype, torch.dtype):
            raise BadGraph(f"node {name}: unknown dtype {value.get('dtype')!r}")
        shape, stride = tuple(value["shape"]), tuple(value["stride"])
        if len(shape) != len(stride) or min(shape + stride, default=0) < 0:
            raise BadGraph(f"node {name}: shape {shape} and stride {stride}")
        return TensorSpec(name, dtype, shape, stride)


def dense(name: str, tensor: torch.Tensor) -> TensorSpec:
    """The TensorSpec of such a tensor, contiguous."""
    shape = tuple(tensor.shape)
    stride: list[int] = []
    step = 1
    for n in reversed(shape):
        stride.insert(0, step)
        step *= max(1, n)
    return TensorSpec(name, tensor.dtype, shape, tuple(stride))


def load_graph(path: str) -> dict[str, Any]:
    """The graph at `path` as a dictionary; BadGraph names what is wrong."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        graph = json.loads(text)
    except ValueError as error:
        raise BadGraph(f"{path} is no JSON: {error}") from None
    if not isinstance(graph, dict) or graph.get("version") != 1:
        raise BadGraph(f"{path}: not a graph of version 1")
    for key in ("nodes", "outputs"):
        if not isinstance(graph.get(key), list):
            raise BadGraph(f"{path}: no list '{key}'")
    _check_names(graph)
    return graph


def _check_names(graph: dict[str, Any]) -> None:
    """Raises BadGraph for a name that is no identifier: the graph becomes Python source,
    and it may be untrusted (from a kernel library or a journal)."""
    known = set()
    for node in graph["nodes"]:
        name = node.get("name") if isinstance(node, dict) else None
        if not _is_name(name) or name == "torch" or name.startswith("op_aten"):
            raise BadGraph(f"a node is named {name!r:.100}")
        if node.get("kind") == "call":
            for key in node.get("kwargs") or ():
                if not _is_name(key):
                    raise BadGraph(f"node {name}: a keyword is {key!r:.100}")
            for used in used_by(node):
                if used not in known:
                    raise BadGraph(f"node {name} uses {used!r:.100}, which no earlier node defines")
        known.add(name)
    for output in graph["outputs"]:
        if output not in known:
            raise BadGraph(f"output {output!r:.100} is no node")


def _is_name(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


class Reference:
    """A subgraph's inputs, outputs and executable reference.

    Whatever device the graph was captured on, this runs on `device`.
    """

    def __init__(self, graph: dict[str, Any], device: torch.device = torch.device("cpu")) -> None:
        self.graph = graph
        self.device = device
        self.nodes = {node["name"]: node for node in graph["nodes"]}
        self.inputs: list[TensorSpec] = []
        self._constants: dict[str, tuple[TensorSpec, list[Any]]] = {}
        for node in graph["nodes"]:
            if node["kind"] == "call":
                continue
            value = (node.get("values") or [None])[0]
            if value is None:
                continue
            spec = TensorSpec.from_json(node["name"], value)
            if node["kind"] == "constant" and node.get("elements"):
                self._constants[node["name"]] = (spec, node["elements"])
            else:
                self.inputs.append(spec)
        self.outputs = [self._output_spec(name) for name in graph["outputs"]]
        #: What a kernel takes after its tensors: the batch, say, where that is a
        #: symbol of the graph's. Two that are symbols are a list there.
        symbol = graph.get("symbol") or {}
        size = symbol["size"] if symbol.get("grows") else []
        self.sizes = size if isinstance(size, list) else [size]

    def _output_spec(self, name: str) -> TensorSpec:
        if name not in self.nodes:
            raise BadGraph(f"output {name} is no node")
        value = (self.nodes[name].get("values") or [None])[0]
        if value is None:
            raise BadGraph(f"output {name} is no tensor")
        return TensorSpec.from_json(name, value)

    def function(
        self, wide: bool | str = False, also: Sequence[str] = ()
    ) -> Callable[..., list[torch.Tensor]]:
        """The function of the input tensors that returns a list of outputs.

        wide: the float64 form; ROUNDS: with what is cast to a narrower type rounded.
        also: names of further nodes to return.
        """
        scope, source = self.source(wide, also)
        exec(compile(source, "<reference>", "exec"), scope)
        return scope["reference"]

    def source(
        self, wide: bool | str = False, also: Sequence[str] = ()
    ) -> tuple[dict[str, Any], str]:
        """The namespace and the text that define `reference`."""
        scope = {"torch": torch, "inf": float("inf"), "nan": float("nan")}
        lines = []
        for name, (spec, elements) in self._constants.items():
            is_widened = wide and spec.dtype in FLOATING
            dtype = torch.float64 if is_widened else spec.dtype
            values = torch.tensor(elements, dtype=dtype, device=self.device)
            scope[name] = values.reshape(spec.shape)
        last = self._last_uses({*self.graph["outputs"], *also})
        for node in self.graph["nodes"]:
            if node["kind"] != "call":
                continue
            try:
                lines.append(self._line(node, scope, wide))
            except (KeyError, AttributeError, TypeError, ValueError) as error:
                raise BadGraph(f"node {node.get('name')}: {error}") from None
            if last.get(node["name"]):
                lines.append(f"del {', '.join(last[node['name']])}")
        names = ", ".join(spec.name for spec in self.inputs)
        results = ", ".join([*self.graph["outputs"], *also])
        body = "".join(f"    {line}\n" for line in lines)
        text = f"def reference({names}):\n{body}    return [{results}]\n"
        return scope, text

    def _last_uses(self, kept: set[str]) -> dict[str, list[str]]:
        """{name of a call: names that nothing needs after it}.

        As a model's own variables go: at gigabytes each, all intermediate
        results at once would not fit.
        """
        last: dict[str, str] = {}
        for node in self.graph["nodes"]:
            if node["kind"] != "call":
                continue
            last[node["name"]] = node["name"]
            for name in used_by(node):
                if name not in self._constants:
                    last[name] = node["name"]
        freed: dict[str, list[str]] = {}
        inputs = {spec.name for spec in self.inputs}
        for name, user in last.items():
            if name not in kept and name not in inputs:
                freed.setdefault(user, []).append(name)
        return freed

    def _line(self, node: dict[str, Any], scope: dict[str, Any], wide: bool | str) -> str:
        is_kept = wide == ROUNDS and is_narrowing(node)
        wide = bool(wide) and not is_kept
        args = [self._text(arg, wide) for arg in node["args"]]
        if node["target"] == "getitem":
            int(args[1])  # ValueError: it is no index
            return f"{node['name']} = {args[0]}[{args[1]}]"
        kwargs = [f"{k}={self._text(v, wide)}" for k, v in node["kwargs"].items()]
        operator = _operator(node["target"])
        key = "op_" + node["target"].replace(".", "_").replace(":", "_")
        scope[key] = operator
        call = f"{key}({', '.join(args + kwargs)})"
        if is_kept:
            call += ".to(torch.float64)"
        return f"{node['name']} = {call}"

    def _text(self, arg: Any, wide: bool) -> str:
        """An argument of docs/reference/graph.md as Python source."""
        if isinstance(arg, list):
            return "[" + ", ".join(self._text(item, wide) for item in arg) + "]"
        if not isinstance(arg, dict):
            return repr(arg)
        ((kind, value),) = arg.items()
        if kind == "node":
            return value
        if kind == "float":
            return f"({float(value)})"
        if kind == "device":
            return f"torch.device({str(self.device)!r})"
        if kind == "dtype":
            if wide and getattr(torch, value) in FLOATING:
                value = "float64"
            return _attribute(value, torch.dtype)
        if kind == "layout":
            return _attribute(value, torch.layout)
        if kind == "memory_format":
            return _attribute(value, torch.memory_format)
        raise TypeError(f"argument of unknown kind {kind!r}")


def is_narrowing(node: dict[str, Any]) -> bool:
    """Whether all that a call does is to round to a narrower type than float64."""
    if node["kind"] != "call" or not node["target"].startswith(CASTS):
        return False
    return any(
        isinstance(arg, dict) and "dtype" in arg and getattr(torch, arg["dtype"]) in NARROW
        for arg in [*node["args"], *node["kwargs"].values()]
    )


def _operator(target: str) -> torch._ops.OpOverload:
    namespace, name, overload = target.split(".")
    found = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    # torch.ops also has functions, which load a library or a module by its name.
    if not isinstance(found, torch._ops.OpOverload) or target in REFUSED:
        raise TypeError(f"{target} is no operator of tensors")
    return found


def _attribute(name: str, kind: type) -> str:
    """The source of a value of torch, of that type; TypeError if it has another."""
    if not isinstance(getattr(torch, name), kind):
        raise TypeError(f"{name!r:.100} is no {kind.__name__}")
    return f"torch.{name}"
