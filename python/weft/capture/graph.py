"""Writes an exported program as docs/reference/graph.md's JSON object."""

from __future__ import annotations

import collections
import contextlib
import inspect
import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any

from weft.problem import problem as problems
from weft.capture.decompositions import unshielded
from weft.problem.problem import ProblemError

if TYPE_CHECKING:
    import torch

    from torch.export import ExportedProgram

VERSION = 1
CONSTANT_ELEMENTS_MAX = 4096
INTEGER_MAX = 1 << 53  # the graph's elements are read as doubles
DTYPES = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
)
#: Only between the framework's operators, and in buffers that stay as they are:
#: verdicts are on real numbers.
INNER_DTYPES = ("complex64", "complex128")


def graph_of(
    program: ExportedProgram, model: torch.nn.Module, inputs: list[Any], path: str
) -> dict[str, Any]:
    """The graph of `program`, captured from `model` in the file `path`."""
    return Writer(program, model, inputs, path).graph()


class NoAtenOperator(ProblemError):
    """A decomposition has an operator that the graph cannot have."""


class Lines:
    """Lines of the problem file `path`."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def line_of(self, node: torch.fx.Node) -> int:
        """Line of the problem file that made that node, or 0."""
        line = 0
        for text in (node.meta.get("stack_trace") or "").splitlines():
            text = text.strip()
            if text.startswith(f'File "{self.path}", line '):
                line = int(text.split(", line ")[1].split(",")[0])
        return line


class Writer:
    """Turns the nodes of one exported program into JSON, in order."""

    def __init__(
        self, program: ExportedProgram, model: torch.nn.Module, inputs: list[Any], path: str
    ) -> None:
        self.program = program
        self.signature = program.graph_signature
        self.model = model
        self.path = os.path.abspath(path)
        self.line_of = Lines(path).line_of
        self.input_targets = input_targets(program, model, inputs)

    def graph(self) -> dict[str, Any]:
        specs = iter(self.signature.input_specs)
        left = {
            spec.arg.name: spec.target or "its result"
            for spec in self.signature.output_specs
            if hasattr(spec.arg, "name")
        }
        nodes = []
        for node in self.program.graph.nodes:
            if node.name in left:
                self.refuse_complex(node, left[node.name], node.meta.get("val"))
            if node.op == "placeholder":
                nodes.append(self.placeholder(node, next(specs)))
            elif node.op == "call_function":
                nodes.append(self.call(node))
            elif node.op != "output":
                raise self.unsupported(
                    node,
                    "the model branches or loops inside an operator (torch.cond and its like)",
                    "write it with torch.where",
                )
        outputs, template = self.outputs()
        return {
            "version": VERSION,
            "nodes": nodes,
            "outputs": outputs,
            "output_template": template,
            "mutations": self.mutations(),
        }

    def unsupported(
        self,
        node: torch.fx.Node,
        reason: str,
        advice: str = "write it in operators on dense tensors of fixed shape",
        kind: str = "unsupported",
        error: type[ProblemError] = ProblemError,
    ) -> ProblemError:
        return error(
            kind, f"{reason}: {advice}", file=os.path.basename(self.path), line=self.line_of(node)
        )

    def entry(
        self, node: torch.fx.Node, kind: str, target: Any, values: list[Any], is_tuple: bool = False
    ) -> dict[str, Any]:
        line = self.line_of(node)
        name = os.path.basename(self.path)
        return {
            "name": node.name,
            "kind": kind,
            "target": target,
            "args": [],
            "kwargs": {},
            "values": values,
            "is_tuple": is_tuple,
            "source": f"{name}:{line}" if line else "",
        }

    def placeholder(self, node: torch.fx.Node, spec: Any) -> dict[str, Any]:
        kind = spec.kind.name
        value = node.meta.get("val")
        if kind == "USER_INPUT":
            target = self.input_targets[node.name]
            self.refuse_complex(node, f"its argument {target}", value)
            entry = self.entry(node, "input", target, [self.value(node, value)])
            if isinstance(value, (bool, int, float)):
                entry["elements"] = [literal(value)]
            return entry
        if kind == "PARAMETER":
            self.refuse_complex(node, f"its parameter {spec.target}", value)
        if kind in ("PARAMETER", "BUFFER"):
            return self.entry(node, kind.lower(), spec.target, [self.value(node, value)])
        if kind == "CONSTANT_TENSOR":
            return self.constant(node, spec.target)
        raise self.unsupported(
            node,
            "forward() uses an object that is no tensor ("
            f"{kind.lower().replace('_', ' ')} {spec.target})",
            "use tensors, numbers and torch's default generator",
        )

    def refuse_complex(self, node: torch.fx.Node, what: str, value: object) -> None:
        dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if dtype in INNER_DTYPES:
            raise self.unsupported(node, f"{what} is {dtype}", problems.COMPLEX_ADVICE)

    def constant(self, node: torch.fx.Node, target: str) -> dict[str, Any]:
        """A tensor that the module holds unregistered, or a literal."""
        import torch

        tensor = self.program.constants[target]
        entry = self.entry(node, "constant", target, [self.value(node, node.meta["val"])])
        if attribute(self.model, target) is not None:
            return entry
        if isinstance(tensor, torch._subclasses.FakeTensor):
            raise self.unsupported(
                node,
                "a tensor made inside forward() has no value at capture",
                "make it in __init__ and register it as a buffer",
            )
        if not 0 < tensor.numel() <= CONSTANT_ELEMENTS_MAX:
            raise self.unsupported(
                node,
                f"forward() uses a constant of {tensor.numel()} elements "
                "that is no attribute of the model (1 to "
                f"{CONSTANT_ELEMENTS_MAX} are taken)",
                "make it in __init__ and register it as a buffer",
            )
        elements = tensor.detach().reshape(-1).tolist()
        if any(type(element) is int and abs(element) > INTEGER_MAX for element in elements):
            raise self.unsupported(
                node,
                f"forward() uses a constant above {INTEGER_MAX}",
                "make it in __init__ and register it as a buffer",
            )
        entry["elements"] = [literal(element) for element in elements]
        return entry

    def call(self, node: torch.fx.Node) -> dict[str, Any]:
        target = call_target(node.target)
        if target is None:
            raise self.unsupported(
                node, f"{node.target} is not an ATen operator", error=NoAtenOperator
            )
        value = node.meta.get("val")
        is_tuple = isinstance(value, (tuple, list))
        parts = list(value) if isinstance(value, (tuple, list)) else [value]
        values = [self.value(node, part) for part in parts]
        entry = self.entry(node, "call", target, values, is_tuple)
        entry["args"] = [self.argument(node, arg) for arg in node.args]
        entry["kwargs"] = {key: self.argument(node, arg) for key, arg in node.kwargs.items()}
        return entry

    def value(self, node: torch.fx.Node, value: object) -> dict[str, Any] | None:
        """What a tensor looks like; null for what is none."""
        import torch

        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise self.unsupported(
                node,
                "a number here depends on the data of a tensor (.item() or float())",
                "keep it a tensor",
                kind="data_dependent",
            )
        if not isinstance(value, torch.Tensor):
            return None
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in DTYPES + INNER_DTYPES:
            raise self.unsupported(
                node, f"a tensor of dtype {dtype} cannot be compiled", "use " + ", ".join(DTYPES)
            )
        if value.layout != torch.strided or value.is_quantized:
            raise self.unsupported(
                node, f"a tensor of layout {value.layout} cannot be compiled", "use dense tensors"
            )
        sizes = list(value.shape) + list(value.stride())
        if not all(type(size) is int for size in sizes):
            raise self.unsupported(
                node,
                "a shape here depends on the data of a tensor (nonzero, unique or a boolean index)",
                "write it with torch.where and fixed shapes",
                kind="data_dependent",
            )
        return {"dtype": dtype, "shape": list(value.shape), "stride": list(value.stride())}

    def argument(self, node: torch.fx.Node, arg: Any) -> Any:
        import torch

        if arg is None or isinstance(arg, (bool, int, str)):
            return arg
        if isinstance(arg, float):
            return literal(arg)
        if isinstance(arg, torch.fx.Node):
            return {"node": arg.name}
        if isinstance(arg, (list, tuple)):
            return [self.argument(node, part) for part in arg]
        for kind, type_ in (
            ("dtype", torch.dtype),
            ("device", torch.device),
            ("layout", torch.layout),
            ("memory_format", torch.memory_format),
        ):
            if isinstance(arg, type_):
                return {kind: str(arg).removeprefix("torch.")}
        raise self.unsupported(
            node, f"{node.target} is called with {arg!r}, a {type(arg).__name__}"
        )

    def mutations(self) -> list[dict[str, Any]]:
        """Buffers and inputs written in place, with their new values."""
        found = []
        for spec in self.signature.output_specs:
            kind = spec.kind.name
            if kind in ("BUFFER_MUTATION", "USER_INPUT_MUTATION"):
                found.append(
                    {
                        "target": spec.target,
                        "is_input": kind == "USER_INPUT_MUTATION",
                        "node": spec.arg.name,
                    }
                )
            elif kind != "USER_OUTPUT":
                raise ProblemError(
                    "unsupported",
                    f"forward() writes to {spec.target} "
                    f"({kind.lower().replace('_', ' ')}): only buffers and "
                    "inputs may be written in place",
                    file=os.path.basename(self.path),
                )
        return found

    def outputs(self) -> tuple[list[str], str]:
        """Names of what forward() returns, and the expression around them."""
        from torch.utils import _pytree as pytree

        names: list[str] = []
        leaves: list[Any] = []
        for spec in self.signature.output_specs:
            if spec.kind.name != "USER_OUTPUT":
                continue
            if hasattr(spec.arg, "value"):  # a constant: no node computes it
                leaves.append(spec.arg.value)
            else:
                leaves.append(Slot(len(names)))
                names.append(spec.arg.name)
        tree = pytree.tree_unflatten(leaves, self.program.call_spec.out_spec)
        return names, self.template(tree)

    @staticmethod
    def is_named(kind: type) -> bool:
        """A named tuple that the problem's file defines: ModelNew's has it."""
        module = sys.modules.get(problems.MODULE_NAME)
        return (
            issubclass(kind, tuple)
            and hasattr(kind, "_fields")
            and getattr(module, kind.__name__, None) is kind
        )

    def template(self, tree: Any) -> str:
        if isinstance(tree, Slot):
            return f"{{{tree.index}}}"
        if type(tree) in (list, tuple):
            parts = [self.template(part) for part in tree]
            if type(tree) is list:
                return "[" + ", ".join(parts) + "]"
            return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
        if type(tree).__module__ == "torch.return_types":
            parts = [self.template(part) for part in tree]
            return f"torch.return_types.{type(tree).__name__}((" + ", ".join(parts) + ",))"
        if self.is_named(type(tree)):
            parts = [self.template(part) for part in tree]
            return f"{type(tree).__name__}(" + ", ".join(parts) + ")"
        if type(tree) is collections.OrderedDict:
            return f"__import__('collections').OrderedDict({self.template(list(tree.items()))})"
        if type(tree) is dict and all(isinstance(key, (str, int)) for key in tree):
            parts = [f"{braced(repr(key))}: {self.template(part)}" for key, part in tree.items()]
            return "{{" + ", ".join(parts) + "}}"
        if tree is None or isinstance(tree, (bool, int, str)):
            return braced(repr(tree))
        if isinstance(tree, float):
            return repr(tree) if math.isfinite(tree) else f"float('{tree}')"
        raise ProblemError(
            "unsupported",
            f"forward() returns a {type(tree).__name__}: return tensors in tuples, lists and dicts",
            file=os.path.basename(self.path),
        )


class Slot:
    """The place of one output tensor in what forward() returns."""

    def __init__(self, index: int) -> None:
        self.index = index


def braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def literal(value: Any) -> Any:
    """A number as JSON has it; what JSON lacks as {"float": ...}."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def call_target(target: object) -> str | None:
    """ "aten.add.Tensor" or "getitem"; None for what is neither."""
    import operator
    import torch

    if target is operator.getitem:
        return "getitem"
    if not isinstance(target, torch._ops.OpOverload):
        return None
    name = unshielded(target)
    return name if name.startswith("aten.") else None


def attribute(model: torch.nn.Module, target: str) -> torch.Tensor | None:
    """The tensor at that attribute path of the module, or None."""
    import torch

    value: Any = model
    for part in target.split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, torch.Tensor) else None


def input_targets(
    program: ExportedProgram, model: torch.nn.Module, inputs: list[Any]
) -> dict[str, str]:
    """Placeholder name → expression over forward()'s argument names."""
    from torch.utils import _pytree as pytree

    bound = inspect.signature(model.forward).bind(*inputs)
    paths = []
    for name, value in bound.arguments.items():
        for path, _ in pytree.tree_flatten_with_path(value)[0]:
            for step in path:
                key = getattr(step, "key", 0)
                if not isinstance(key, (str, int)):
                    raise ProblemError(
                        "unsupported",
                        f"argument {name} has a dict with the key "
                        f"{key!r}: use strings or integers as keys",
                    )
            paths.append(name + pytree.keystr(path))
    names = [
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]
    if len(names) != len(paths):
        raise ProblemError(
            "unsupported",
            f"forward() takes {len(paths)} values, and "
            f"{len(names)} of them were captured: pass tensors and numbers in "
            "lists, tuples and dicts only",
        )
    return dict(zip(names, paths))


def write_json(graph: dict[str, Any], out: str) -> None:
    """Writes the file whole or not at all; OSError says why not."""
    part = f"{out}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            # NaN would be no JSON: literal() has replaced what could be one.
            json.dump(graph, file, allow_nan=False, separators=(",", ":"))
        os.replace(part, out)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(part)
        raise
