"""A problem file for a graph that the user's process captured.

The file stands alone: the graph's operators, and for every input, parameter and
buffer a draw of the same kind of numbers as the real one holds, not its values.
"""

import dataclasses
import hashlib
import json
import math
import operator
import os
import re
from collections.abc import Sequence
from typing import Any

import torch

from weft.problem import tensor_kinds

#: Operators of others cannot be loaded in the sandbox.
NAMESPACES = ("aten", "prims")
NODES_MAX = 20_000
SAMPLE_ELEMENTS = 65_536
#: A tensor with no more distinct values is a mask, a scale or a constant: it is
#: drawn from just these.
DISTINCT_MAX = 16
STATE_HINTS = ("running_mean", "running_var", "num_batches_tracked")
DTYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)

_HEAD = '''"""A graph of {count} operators that was captured from a person's program.

Written by weft. get_inputs() and the constructor draw numbers of the kind that
the program's own tensors had; none of their values are here but those of
tensors with very few distinct ones.
"""

import torch
import torch.nn as nn


def _tensor(shape, stride, dtype, device, kind, *numbers):
    """A tensor of that layout with drawn values."""
    count = 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    count = 0 if 0 in shape else count
    if kind == "among":
        values, shares = numbers
        which = torch.multinomial(torch.tensor(shares), max(1, count), True)
        flat = torch.tensor(values, dtype=dtype)[which][:count]
    elif kind == "integers":
        flat = torch.randint(numbers[0], numbers[1] + 1, (count,), dtype=dtype)
    else:
        flat = torch.randn(count) * numbers[1] + numbers[0]
        flat = (flat.abs() if kind == "positive" else flat).to(dtype)
    return flat.to(device).as_strided(shape, stride)


'''


#: Before the user's file and line in a problem file's line.
USER_LINE = "  # from "
#: Frames of these files are not the user's.
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


class Unsupported(Exception):
    """Why a graph stays the framework's."""


def user_line(node: torch.fx.Node) -> Any:
    """ "model.py:23" of the user's line that made that node; "" if unknown."""
    frames = re.findall(r'File "([^"\n]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return next(
        (
            f"{os.path.basename(file)}:{line}"
            for file, line in reversed(frames)
            if not file.startswith((_TORCH, "<"))
        ),
        "",
    )


def at_user_lines(reason: str, text: str) -> Any:
    """`reason`, in which lines of the problem file `text` are replaced by the
    user's lines that they come from, or left out."""
    lines = text.splitlines()

    def replaced(found: Any) -> str:
        number = int(found[1])
        line = lines[number - 1] if 0 < number <= len(lines) else ""
        _, _, user = line.partition(USER_LINE)
        return f"{user}: " if user else ""

    return re.sub(r"\bproblem\.py:(\d+): ?", replaced, reason)


@dataclasses.dataclass
class Source:
    """A problem file, and how its arguments and results map to the graph's.

    `inputs` and `state` say which of the graph's arguments forward() takes and
    which the module holds; constants follow the graph's arguments. `outputs`
    has for each result of the graph ("computed", i), ("argument", i),
    ("view", i, [(operator's name, args, kwargs), …]), ("value", v) or
    ("size", s); of a graph for any sizes a view's numbers may be sizes, too
    (graph_call._WeftSize).
    """

    text: str
    key: str
    count: int
    inputs: list[Any]
    state: dict[Any, Any]  # argument → attribute
    parameters: set[Any]  # arguments that are parameters
    constants: list[Any]
    outputs: list[Any]
    #: Of graphs that compute the same, whatever their names and arguments.
    shape: str = ""
    #: "INPUT:DIM" of forward(), or two with a comma: the file has
    #: get_inputs_at(size) or get_inputs_at(size, size), and is the graph at any
    #: sizes of these dimensions. "": it is for its own.
    any_size: str = ""
    #: What these were where the file was written.
    sizes: tuple[Any, ...] = ()
    #: Arguments after the graph's own: (_WeftSize, dtype) of each tensor that a
    #: call makes of its sizes.
    numbers: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        """Also that of a module that was saved when one size could be a symbol."""
        one = state.pop("batch", 0)
        self.__dict__.update(state)
        if one:
            self.sizes = (one,)


def source_of(
    graph_module: torch.fx.GraphModule, arguments: Sequence[Any], state: Any, looks: Any = None
) -> Any:
    """The Source of an ATen graph; `state` gives for positions of arguments
    "parameter", or a buffer's name. `looks`: shapes and strides of arguments in
    the graph, where they are others than these tensors'. Unsupported says why
    there is none."""
    return _Writer(graph_module, arguments, state, looks or {}).source()


class _Writer:
    def __init__(self, graph_module: Any, arguments: Any, state: Any, looks: Any) -> None:
        self.looks = looks
        self.module = graph_module
        self.nodes = list(graph_module.graph.nodes)
        self.arguments = list(arguments)
        self.kinds = dict(state)
        self.positions: dict[Any, Any] = {}  # placeholder or constant → argument
        self.constants: list[Any] = []

    def source(self) -> Source:
        calls = self.read_nodes()
        outputs, computed = self.read_outputs()
        used = self.used_arguments()
        if not computed or not any(not is_view(node) for node in calls):
            raise Unsupported("it computes nothing: only views and copies of its inputs")
        inputs = [i for i in used if i not in self.kinds]
        names = {i: _attribute(i, self.kinds[i]) for i in used if i in self.kinds}
        for i in used:
            _check_tensor(self.arguments[i], f"argument {i}")
        if not inputs:
            raise Unsupported("it takes no input but the model's own state")
        commented = self.forward(inputs, names, calls, computed)
        body = re.sub(USER_LINE + ".*", "", commented)
        draws = {i: draw_of(self.arguments[i], self.looks.get(i)) for i in used}
        text = (
            _HEAD.format(count=len(calls))
            + "class Model(nn.Module):\n"
            + self.constructor(names, draws)
            + commented
            + "\n\ndef get_inputs():\n    return [\n"
            + "".join(f"        _tensor({draws[i]}),\n" for i in inputs)
            + "    ]\n\n\ndef get_init_inputs():\n    return []\n"
        )
        return Source(
            text,
            self.key(body, inputs, names),
            len(calls),
            inputs,
            names,
            {i for i in names if self.kinds[i] == "parameter"},
            self.constants,
            outputs,
            self.shape(body, inputs, names, calls),
        )

    def read_nodes(self) -> Any:
        if len(self.nodes) > NODES_MAX:
            raise Unsupported(f"it has {len(self.nodes)} nodes, and weft takes {NODES_MAX}")
        calls, given = [], 0
        for node in self.nodes:
            if node.op == "placeholder":
                self.positions[node] = given
                given += 1
            elif node.op == "call_function":
                check_call(node)
                calls.append(node)
            elif node.op == "get_attr":
                self.constant(node)
            elif node.op != "output":
                raise Unsupported(f"it has a node of the kind {node.op} ({node.name})")
        return calls

    def constant(self, node: Any) -> None:
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            raise Unsupported(
                "it has an inner graph (a branch, a loop or an operator of "
                f"higher order: {node.target})"
            )
        position = len(self.arguments)
        self.positions[node] = position
        self.arguments.append(value)
        self.constants.append(value)
        self.kinds[position] = "constant"

    def read_outputs(self) -> Any:
        """How each result is had, and which nodes have to be computed."""
        outputs, computed = [], []
        result = next(node for node in self.nodes if node.op == "output")
        leaves = result.args[0]
        for leaf in leaves if isinstance(leaves, (list, tuple)) else [leaves]:
            if not isinstance(leaf, torch.fx.Node):
                outputs.append(("value", leaf))
                continue
            if leaf in self.positions:
                outputs.append(("argument", self.positions[leaf]))
                continue
            chain = view_chain(leaf, self.positions)
            if chain is not None:
                outputs.append(chain)
                continue
            if not isinstance(leaf.meta.get("val"), torch.Tensor):
                raise Unsupported(f"its result {leaf.name} is no tensor")
            if leaf not in computed:
                computed.append(leaf)
            outputs.append(("computed", computed.index(leaf)))
        return outputs, computed

    def used_arguments(self) -> list[Any]:
        """Those that something is computed of, in order."""
        return [
            i
            for node, i in self.positions.items()
            if any(user.op != "output" for user in node.users)
            and isinstance(self.arguments[i], torch.Tensor)
        ]

    def constructor(self, names: Any, draws: Any) -> str:
        if not names:
            return ""
        lines = ["    def __init__(self):", "        super().__init__()"]
        for i, name in names.items():
            if self.kinds[i] == "parameter":
                gradient = "True" if _is_floating(self.arguments[i]) else "False"
                lines.append(f"        self.{name} = nn.Parameter(_tensor({draws[i]}), {gradient})")
            else:
                lines.append(f'        self.register_buffer("{name}", _tensor({draws[i]}))')
        return "\n".join(lines) + "\n\n"

    def forward(self, inputs: Any, names: Any, calls: Any, computed: Any) -> str:
        spelled = {node: node.name for node in self.nodes}
        at = {i: node for node, i in self.positions.items()}
        header = ", ".join(["self", *(spelled[at[i]] for i in inputs)])
        lines = [f"    def forward({header}):"]
        for i, name in names.items():
            lines.append(f"        {spelled[at[i]]} = self.{name}")
        for node in calls:
            line = user_line(node)
            lines.append(
                f"        {spelled[node]} = {_call_text(node)}" + (USER_LINE + line if line else "")
            )
        results = ", ".join(spelled[node] for node in computed)
        lines.append(f"        return ({results},)")
        return "\n".join(lines) + "\n"

    def shape(self, body: Any, inputs: Any, names: Any, calls: Any) -> str:
        """The graph as text, with names by order alone."""
        at = {i: node for node, i in self.positions.items()}
        order = [*(at[i] for i in [*inputs, *names]), *calls]
        known = {node.name: f"n{i}" for i, node in enumerate(order)}
        known |= {name: f"s{i}" for i, name in enumerate(names.values())}
        text = re.sub(
            r"(?<![\w.])[A-Za-z_]\w*|(?<=self\.)\w+", lambda one: known.get(one[0], one[0]), body
        )
        return text + repr(
            [_layout(self.arguments[i], self.looks.get(i)) for i in [*inputs, *names]]
        )

    def key(self, body: Any, inputs: Any, names: Any) -> Any:
        """What the kernels depend on: not the values of any tensor."""
        looks = [
            (i, names.get(i), _layout(self.arguments[i], self.looks.get(i)))
            for i in [*inputs, *names]
        ]
        text = json.dumps([body, looks, torch.__version__])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def refuse_nested(graph_module: torch.fx.GraphModule) -> None:
    """Unsupported, if AOTAutograd made the graph of nested tensors: their length is
    a symbol that has no value."""
    for node in graph_module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.is_nested_int():
            raise Unsupported("it has nested tensors, and weft compiles dense tensors only")


def view_chain(node: Any, positions: Any) -> Any:
    """("view", argument, steps) of a result that is a view of an argument alone,
    whatever sizes it takes; None of others. `positions`: node → argument."""
    steps = []
    while node not in positions:
        if not is_view(node) or any(
            input_node is not node.args[0]
            and not isinstance(input_node.meta.get("val"), (int, torch.SymInt))
            for input_node in node.all_input_nodes
        ):
            return None
        steps.append((str(node.target), node.args[1:], dict(node.kwargs)))
        node = node.args[0]
    return ("view", positions[node], steps[::-1])


def is_view(node: torch.fx.Node) -> Any:
    """Whether a call gives its first operand's memory."""
    target = node.target
    if target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
        return True
    schema = getattr(target, "_schema", None)
    if schema is None or not node.args or not schema.returns:
        return False
    info = schema.returns[0].alias_info
    return (
        isinstance(node.args[0], torch.fx.Node)
        and info is not None
        and not info.is_write
        and len(schema.returns) == 1
        and isinstance(node.meta.get("val"), torch.Tensor)
    )


def check_call(node: torch.fx.Node) -> None:
    """Unsupported, if the problem file could not say that call."""
    target = node.target
    if target is operator.getitem:
        return
    line = user_line(node)
    where = f" ({line})" if line else ""
    if isinstance(target, torch._ops.OpOverload):
        if target.namespace in NAMESPACES:
            return
        raise Unsupported(f"the operator {target} is not PyTorch's own{where}")
    raise Unsupported(
        f"it calls {getattr(target, '__name__', target)}, which is no operator on tensors{where}"
    )


def draw_of(tensor: torch.Tensor, look: Any = None) -> str:
    """The arguments of _tensor() in a problem file, for the like of this."""
    shape, stride, dtype, device = _layout(tensor, look)
    layout = f"{tuple(shape)}, {tuple(stride)}, {dtype}, {device!r}"
    sample = _sample(tensor)
    if sample.numel() == 0:
        return layout + ', "among", [0], [1.0]'
    values, counts = sample.unique(return_counts=True)
    if values.numel() <= DISTINCT_MAX:
        shares = (counts / counts.sum()).tolist()
        return layout + f', "among", {_spelled(values.tolist())}, {shares}'
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        low, high = int(tensor.min()), int(tensor.max())
        return layout + f', "integers", {low}, {high}'
    finite = sample.double().nan_to_num(0.0, 0.0, 0.0)
    mean, spread = float(finite.mean()), float(finite.std(correction=0))
    kind = "positive" if float(finite.min()) >= 0 else "normal"
    return layout + f', "{kind}", {mean!r}, {spread or 1.0!r}'


@torch.no_grad()
def _sample(tensor: torch.Tensor) -> Any:
    """Some of its elements, on the processor, without a copy of the rest."""
    tensor = tensor.detach()
    if tensor.numel() == 0:
        return torch.empty(0)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    flat = tensor.as_strided((min(extent, SAMPLE_ELEMENTS),), (1,), tensor.storage_offset())
    flat = flat.cpu()
    if flat.dtype in (torch.float16, torch.bfloat16):
        flat = flat.float()
    return flat[~flat.isnan()] if flat.dtype.is_floating_point else flat


def _check_tensor(tensor: torch.Tensor, what: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise Unsupported(f"its {what} is no tensor")
    if kind := tensor_kinds.special_kind(tensor):
        raise Unsupported(f"its {what} is {kind}, and weft compiles dense tensors only")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise Unsupported(f"its {what} is a {type(tensor).__name__}, a tensor of another class")
    if tensor.dtype not in DTYPES:
        raise Unsupported(f"its {what} is of the dtype {tensor.dtype}")
    if tensor.device.type not in ("cpu", "cuda"):
        raise Unsupported(f"its {what} is on {tensor.device}")


def _layout(tensor: torch.Tensor, look: Any = None) -> list[Any]:
    shape = look.shape if look else tensor.shape
    stride = look.stride if look else tensor.stride()
    return [list(shape), list(stride), str(tensor.dtype), str(tensor.device)]


def _attribute(position: int, kind: Any) -> str:
    """A name that tells the judge which numbers a buffer may hold."""
    if kind == "parameter":
        return f"weight_{position}"
    hint = next((hint for hint in STATE_HINTS if kind.endswith(hint)), "")
    return f"buffer_{position}" + (f"_{hint}" if hint else "")


def _is_floating(tensor: torch.Tensor) -> Any:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _call_text(node: torch.fx.Node) -> str:
    if node.target is operator.getitem:
        return f"{_spelled(node.args[0])}[{_spelled(node.args[1])}]"
    parts = [_spelled(arg) for arg in node.args]
    parts += [f"{name}={_spelled(arg)}" for name, arg in node.kwargs.items()]
    return f"torch.ops.{node.target}({', '.join(parts)})"


def _spelled(arg: Any) -> Any:
    """Python's text of an argument."""
    if isinstance(arg, torch.fx.Node):
        return arg.name
    if isinstance(arg, (list, tuple)):
        parts = ", ".join(_spelled(one) for one in arg)
        return f"[{parts}]"
    if isinstance(arg, torch.device):
        return f"torch.device({str(arg)!r})"
    if isinstance(arg, float) and not math.isfinite(arg):
        return f"float('{arg}')"
    if arg is None or isinstance(
        arg, (bool, int, float, str, torch.dtype, torch.layout, torch.memory_format)
    ):
        return (
            str(arg)
            if isinstance(arg, (torch.dtype, torch.layout, torch.memory_format))
            else repr(arg)
        )
    if isinstance(arg, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise Unsupported("a size in it is not known")
    raise Unsupported(f"an argument of the class {type(arg).__name__}")
