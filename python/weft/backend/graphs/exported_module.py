"""A module captured for one kind of inputs, without Dynamo: its graph, where
the graph's arguments are found, and what has to be as it was then.

The rule is torch.export's: the control flow of this call is frozen, and so is what
forward() reads besides tensors. call_guards.py has what is compared at each call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import inspect
import logging
import math
import os
import re
import sysconfig
import traceback
import types
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import sympy
import torch
import torch.export._trace

import weft
from weft.backend.graphs import aliases, call_structure, symbolic_graph
from weft.backend.graphs.call_structure import Flattened, Structure, is_same_value
from weft.backend.graphs.module_guards import ModuleRecord
from weft.backend.graphs.problem_source import Unsupported
from weft.capture import export, value_checks
from weft.capture.traced_operators import kept_in_traces
from weft.problem import sentences

#: Of the inputs at a batch that is captured besides the program's own.
SAMPLE_BYTES_MAX = 1 << 30
#: Where code lies that is no model's.
_NOT_THE_USERS = tuple(
    os.path.dirname(os.path.abspath(one.__file__ or "")) + os.sep for one in (torch, weft, sympy)
) + ("<",)
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_TABLES = ("_parameters", "_buffers")
#: Of names of parameters and buffers, as torch.export has them.
STATE_PREFIX = "module."
#: Leaves of a result that a graph gives, and those that are the same at each call.
_GRAPH_RESULTS = (
    torch.Tensor,
    int,
    float,
    bool,
    str,
    type(None),
    torch.SymInt,
    torch.SymFloat,
    torch.SymBool,
)
_CONSTANT_RESULTS = (
    complex,
    bytes,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    slice,
    range,
    type,
    enum.Enum,
    types.FunctionType,
)


@dataclasses.dataclass
class Argument:
    """Of the graph. kind: "parameter" or "buffer" (`owner`: path of its module,
    `name` there), "input" (`leaf` of the flattened call), or "constant"."""

    kind: str
    owner: str = ""
    name: str = ""
    leaf: int = 0
    value: object = None
    #: (shape, stride, dtype, device) of a tensor.
    look: tuple[Any, ...] = ()
    #: Its dimensions that grow with the sizes that are symbols.
    grows: tuple[Any, ...] = ()

    def fits(self, value: Any) -> Any:
        """Whether a tensor looks like that. What grows is contiguous."""
        look = look_of(value)
        if not self.grows or not look or look == self.look:
            return look == self.look
        shape, _, *rest = look
        return (
            rest == list(self.look[2:])
            and value.is_contiguous()
            and len(shape) == len(self.look[0])
            and all(n == m or i in self.grows for i, (n, m) in enumerate(zip(shape, self.look[0])))
        )


@dataclasses.dataclass
class Captured:
    """What is known of a module's call with one kind of inputs."""

    structure: Structure  #: of (args, kwargs)
    is_flat: bool  #: args are tensors alone, and there are no kwargs
    arguments: list[Argument]
    constants: dict[int, Any]  #: leaf of the call that is no tensor: its value
    modules: list[ModuleRecord]
    result: Structure  #: of (result, [attributes of each object in changed_objects])
    #: For each result of the graph: ("output", None), ("buffer", (owner, name))
    #: or ("input", leaf).
    results: list[tuple[str, Any]]
    result_constants: dict[int, Any]  #: leaf of the result that no graph gives
    #: Numbers of the argument's plain objects whose attributes forward() sets.
    changed_objects: list[int]
    #: Of each leaf the place of the first that is the very same tensor.
    same: tuple[int, ...]
    #: Pairs of (path, table, name) that are one tensor.
    ties: tuple[tuple[tuple[str, str, str], tuple[str, str, str]], ...]
    default_dtype: torch.dtype
    #: Why it is for these sizes alone, where any were asked for.
    one_size: str = ""

    @functools.cached_property
    def tensors_max_one(self) -> bool:
        """True if no two leaves of the call are tensors."""
        return len(self.same) - len(self.constants) < 2

    @functools.cached_property
    def is_one_result(self) -> bool:
        """True if forward() gives one value of the graph and nothing besides."""
        return (
            self.result == call_structure.flatten((0, [])).structure and not self.result_constants
        )


def same_as(leaves: Any) -> Any:
    """Of each leaf the place of the first that is the very same tensor."""
    places: dict[Any, Any] = {}
    return tuple(
        places.setdefault(id(leaf), i) if isinstance(leaf, torch.Tensor) else i
        for i, leaf in enumerate(leaves)
    )


def capture(
    module: torch.nn.Module,
    call: Flattened,
    records: list[ModuleRecord],
) -> tuple[Captured, torch.fx.GraphModule]:
    """(Captured, the functional ATen graph) of the call of a module with these
    records. Unsupported says why not. Runs forward(), on tensors without data."""
    recorder = _FlatCall(module, call)
    try:
        with _exporting() as warned:
            program = torch.export.export(recorder, recorder.tensors, strict=False)
            is_written = aliases.is_result_written(program)
            program = program.run_decompositions({})
    except Exception as error:
        raise Unsupported(
            recorder.noted.fault or (f"torch.export cannot capture it: {_explained(error)}")
        ) from None
    for warning in warned:
        if _assigned(str(warning.message)):
            raise Unsupported(
                f"the call changes the module itself: {sentences.first_sentence(warning.message)}"
            )
    leaves = call.leaves
    arguments = _arguments(program, leaves)
    assert recorder.noted.result is not None  # forward() was recorded
    return Captured(
        structure=call.structure,
        is_flat=(
            not call.objects
            and all(type(one) is torch.Tensor for one in leaves)
            and call.structure == call_structure.flatten((tuple(leaves), {})).structure
        ),
        arguments=arguments,
        constants={i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)},
        modules=records,
        result=recorder.noted.result,
        results=_results(program, arguments, is_written),
        result_constants=recorder.noted.result_constants,
        changed_objects=recorder.noted.changed_objects,
        same=same_as(leaves),
        ties=_ties(module),
        default_dtype=torch.get_default_dtype(),
    ), program.graph_module


@dataclasses.dataclass
class _Noted:
    """What the last run of forward() showed."""

    fault: str = ""  #: why no graph can stand for the call
    result: Structure | None = None
    result_constants: dict[int, Any] = dataclasses.field(default_factory=dict)
    changed_objects: list[int] = dataclasses.field(default_factory=list)


class _FlatCall(torch.nn.Module):
    """A module's call as a function of the tensors among its arguments, which
    torch.export takes; it notes the structure of what forward() gave."""

    def __init__(self, module: torch.nn.Module, call: Flattened) -> None:
        super().__init__()
        self.module = module  # so state is named as in it, after STATE_PREFIX
        self._call = call
        self.tensors = tuple(leaf for leaf in call.leaves if isinstance(leaf, torch.Tensor))
        self.noted = _Noted()  # torch.export takes attributes back that are set

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        try:
            return self._run(tensors)
        except Unsupported as error:
            self.noted.fault = str(error)
            raise

    def _run(self, tensors: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        given = iter(tensors)
        leaves = [
            next(given) if isinstance(one, torch.Tensor) else one for one in self._call.leaves
        ]
        objects: list[Any] = []
        args, kwargs = call_structure.restore(self._call.structure, leaves, made=objects)
        trees = [(args, kwargs), *map(vars, objects)]
        before = [call_structure.flatten(tree, objects) for tree in trees]
        tables = _tables_of(self.module)
        result = self.module.forward(*args, **kwargs)
        if _tables_of(self.module) != tables:
            raise Unsupported(
                "forward() sets a mode, or adds or removes parameters, "
                "buffers or parts of a module; a graph would not"
            )
        trees = [(args, kwargs), *map(vars, objects)]
        changed = [_is_changed(then, tree, objects) for then, tree in zip(before, trees)]
        if changed[0]:
            raise Unsupported(
                "forward() changes a list or dictionary that is its argument; a graph would not"
            )
        noted = self.noted
        noted.changed_objects = [i for i, is_so in enumerate(changed[1:]) if is_so]
        found = call_structure.flatten(
            (result, [vars(objects[i]) for i in noted.changed_objects]), objects
        )
        noted.result = found.structure
        noted.result_constants = {
            i: leaf for i, leaf in enumerate(found.leaves) if not isinstance(leaf, _GRAPH_RESULTS)
        }
        for leaf in noted.result_constants.values():
            if not isinstance(leaf, _CONSTANT_RESULTS) and not any(leaf is one for one in leaves):
                raise Unsupported(
                    f"forward() returns a {type(leaf).__name__}, whose tensors "
                    "cannot be found; return tensors in tuples, lists, dicts or "
                    "plain objects"
                )
        return tuple(leaf for leaf in found.leaves if isinstance(leaf, _GRAPH_RESULTS))


def _tables_of(module: torch.nn.Module) -> list[tuple[Any, ...]]:
    """Of each part its mode, and the names in its tables with whether one is None."""
    return [
        (
            path,
            part.training,
            *(
                (name, value is None)
                for table in (*_TABLES, "_modules")
                for name, value in vars(part)[table].items()
            ),
        )
        for path, part in module.named_modules(remove_duplicate=False)
    ]


def _is_changed(then: Flattened, tree: Any, known: list[Any]) -> bool:
    now = call_structure.flatten(tree, known)
    return now.structure != then.structure or not all(map(is_same_value, now.leaves, then.leaves))


def _assigned(warning: Any) -> list[Any]:
    """The attributes that the exporter says were assigned, but for those that
    mirror a recurrent layer's parameters, which it binds itself."""
    if "assigned during export" not in warning:
        return []
    return [
        name
        for name in re.findall(r"self\.[\w.\[\]']+", warning)
        if not re.search(r"\b_flat_weights\[\d+\]$", name)
    ]


def _ties(module: Any) -> Any:
    """Parameters and buffers that are one tensor: the exporter reads one place of
    it alone. (What is below a part that is shared is so as long as that is.)"""
    first: dict[int, Any] = {}
    ties = []
    for path, part in module.named_modules():
        for table in _TABLES:
            for name, value in part.__dict__[table].items():
                place = path, table, name
                if value is not None and id(value) in first:
                    ties.append((first[id(value)], place))
                first.setdefault(id(value), place)
    return tuple(ties)


def capture_sizes(module: Any, call: Any, captured: Any, places: Any) -> Any:
    """(sizes, what symbolic_graph.source_for_any() takes) of a module captured so: for
    each place (position, dim) the size is that of this dimension of the leaf with
    that position (None: its first tensor), and of each leaf that has as many
    there. Marks what grows in `captured`. Unsupported says why not."""
    leaves = call.leaves
    places = [_place(leaves, *place) for place in places]
    owners = _owners(leaves, places)
    old = tuple(leaves[i].shape[dim] for i, dim in places)
    growing = [i for i, owned in enumerate(owners) if owned]
    if not all(leaves[i].is_contiguous() for i in growing):
        raise Unsupported("an input that grows is not contiguous")
    _check_any_size(module, call, owners)

    def resized(leaf: Any, owned: Any, sizes: Any) -> Any:
        for dim, symbol in owned.items():
            taken = torch.arange(sizes[symbol], device=leaf.device)
            leaf = leaf.index_select(dim, taken % old[symbol])
        return leaf

    samples = symbolic_graph.SAMPLES[len(places)]
    sized = max(_bytes_at(sizes, old, leaves, owners) for sizes in samples)
    if sized > SAMPLE_BYTES_MAX:
        raise Unsupported(
            f"its inputs at a size of {max(samples[-1])} would take "
            f"{sized >> 20} MiB of the program's memory, and may take "
            f"{SAMPLE_BYTES_MAX >> 20}"
        )
    graphs = {}
    for sizes in dict.fromkeys((*samples, old)):
        at: list[Any] = []
        for i, first in enumerate(captured.same):  # one stays one
            at.append(at[first] if first < i else resized(leaves[i], owners[i], sizes))
        one, graph = capture(module, dataclasses.replace(call, leaves=at), captured.modules)
        if (one.results, one.result, one.changed_objects) != (
            captured.results,
            captured.result,
            captured.changed_objects,
        ):
            raise Unsupported("it is another graph at another size")
        graphs[sizes] = (
            graph,
            {
                i: symbolic_graph.Look(tuple(argument.look[0]), argument.look[1])
                for i, argument in enumerate(one.arguments)
                if argument.look
            },
        )
    for i, argument in enumerate(captured.arguments):
        if argument.look:  # of the last sample all sizes are others
            a, b = (graphs[at][1][i] for at in (samples[0], samples[-1]))
            argument.grows = tuple(d for d, (n, m) in enumerate(zip(a.shape, b.shape)) if n != m)
    return old, graphs


def _bytes_at(sizes: Any, old: Any, leaves: list[Any], owners: Any) -> Any:
    """Of the leaves that grow, at these sizes."""

    def share(owned: Any, of: Any) -> Any:
        return math.prod(of[symbol] for symbol in owned.values())

    return sum(
        leaf.nbytes // share(owned, old) * share(owned, sizes)
        for leaf, owned in zip(leaves, owners)
        if owned
    )


def _place(leaves: list[Any], position: int, dim: Any) -> tuple[Any, Any]:
    """(leaf, dimension from 0 on) that is meant."""
    if position is None:
        position = next(
            (i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.dim()), 0
        )
    named = leaves[position]
    rank = named.dim() if isinstance(named, torch.Tensor) else 0
    at = dim + rank if dim < 0 else dim
    if not 0 <= at < rank or named.shape[at] < 2:
        raise Unsupported(f"the input has no dimension {dim} of 2 or more")
    return position, at


def _owners(leaves: Any, places: Any) -> Any:
    """Of each leaf {dimension: which place's size it has}."""
    if len(places) > symbolic_graph.SYMBOLS_MAX:
        raise Unsupported(
            f"{len(places)} sizes are symbols, and {symbolic_graph.SYMBOLS_MAX} can be"
        )
    if len(set(places)) != len(places):
        raise Unsupported("one dimension is there twice")
    owners: list[dict[int, int]] = [{} for _ in leaves]
    for symbol, (i, dim) in enumerate(places):
        owners[i][dim] = symbol
    for symbol, (named, dim) in enumerate(places):
        for i, leaf in enumerate(leaves):
            if (
                isinstance(leaf, torch.Tensor)
                and leaf.dim() > dim
                and leaf.shape[dim] == leaves[named].shape[dim]
            ):
                owners[i].setdefault(dim, symbol)
    return owners


def _check_any_size(module: torch.nn.Module, call: Flattened, owners: Any) -> None:
    """Unsupported, where the model is another one at some sizes: samples cannot
    tell of a branch that is taken beyond all of them, and the exporter can."""
    symbols = [torch.export.Dim(name, min=2) for name in symbolic_graph.NAMES]
    shapes = torch.export.ShapesCollection()
    for leaf, owned in zip(call.leaves, owners):
        if owned:
            shapes[leaf] = {dim: symbols[i] for dim, i in owned.items()}
    recorder = _FlatCall(module, call)
    try:
        with _exporting():
            torch.export.export(
                recorder,
                recorder.tensors,
                strict=False,
                dynamic_shapes=shapes.dynamic_shapes(recorder, recorder.tensors),
            )
    except Exception as error:
        raise Unsupported(
            "torch.export cannot give it a size that is a symbol: "
            f"{type(error).__name__}: "
            f"{sentences.first_sentence(error)}"
        ) from None


def _explained(error: BaseException) -> Any:
    """What the exporter raised, what to do about it, and the line of the model
    that it came to."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_the_users(frame.filename)
    ]
    where = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    told = f"{type(error).__name__}: {sentences.first_sentence(error)}"
    _, advice = export.advice_on(error)
    if not advice and export.is_internal(error):
        return export.internal_error(error) + where
    return (f"{advice} ({told})" if advice else told) + where


def _is_the_users(filename: str) -> bool:
    """Whether a file is neither PyTorch's, weft's, sympy's nor Python's own."""
    if filename.startswith(_NOT_THE_USERS):
        return False
    return not filename.startswith(_PYTHON) or "site-packages" in filename


@contextlib.contextmanager
def _exporting() -> Iterator[Any]:
    """Within it the exporter runs; gives the list of its warnings. Checks of values
    stay: no eager run came before."""
    with (
        torch.no_grad(),
        _quietly() as warned,
        kept_in_traces(),
        export.state_named_once(),
        value_checks.CausalHints(),
    ):
        yield warned


@contextlib.contextmanager
def _quietly() -> Iterator[Any]:
    """The exporter tells of its own internals, and prints its graph before some
    errors; what matters is raised, or stands in the warnings that there were."""
    logger = logging.getLogger("torch")
    level = logger.level
    with (
        warnings.catch_warnings(record=True) as warned,
        mock.patch.object(torch.export._trace, "print", lambda *_, **__: None, create=True),
    ):
        warnings.simplefilter("always")
        logger.setLevel(logging.CRITICAL)
        try:
            yield warned
        finally:
            logger.setLevel(level)


def in_order(function: Any, kwargs: Any) -> dict[Any, Any]:
    """The keyword arguments as torch.export takes them: in the order in which the
    function names them, and then others as they come."""
    named = {
        name: kwargs[name]
        for name in _names(getattr(function, "__func__", function))
        if name in kwargs
    }
    return {**named, **kwargs}


@functools.lru_cache(256)
def _names(function: Any) -> Any:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # of a built-in one they are not known
        return ()


def _arguments(program: Any, leaves: list[Any]) -> Any:
    arguments, inputs = [], [i for i, one in enumerate(leaves) if isinstance(one, torch.Tensor)]
    left = iter(inputs)
    for spec in program.graph_signature.input_specs:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            leaf = next(left)
            arguments.append(Argument("input", leaf=leaf, look=look_of(leaves[leaf])))
        elif kind in ("PARAMETER", "BUFFER"):
            owner, name = _place_of(spec.target)
            value = (
                program.state_dict.get(spec.target)
                if spec.target in program.state_dict
                else program.constants[spec.target]
            )
            arguments.append(Argument(kind.lower(), owner, name, look=look_of(value)))
        elif kind == "CONSTANT_TENSOR":
            value = program.constants[spec.target]
            arguments.append(Argument("constant", value=value, look=look_of(value)))
        else:
            raise Unsupported(
                f"forward() uses an object that is no tensor ({kind.lower().replace('_', ' ')})"
            )
    kinds = [argument.kind for argument in arguments]
    if "input" in kinds[: len(kinds) - len(inputs)]:
        raise Unsupported("torch.export does not give the inputs last")
    return arguments


def _place_of(target: str) -> tuple[str, str]:
    """(path of its module, name there) of a parameter or buffer of _FlatCall's."""
    owner, _, name = target.removeprefix(STATE_PREFIX).rpartition(".")
    return owner, name


def _results(program: Any, arguments: Any, is_written: Any) -> Any:
    """is_written: whether a result is what forward() writes to; None: not known."""
    results: list[tuple[str, Any]] = []
    leaves = {}
    names = [node.name for node in program.graph.find_nodes(op="placeholder")]
    for name, argument in zip(names, arguments):
        leaves[name] = argument.leaf
    for spec in program.graph_signature.output_specs:
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            results.append(("output", None))
        elif kind == "BUFFER_MUTATION":
            owner, name = _place_of(spec.target)
            results.append(("buffer", (owner, name)))
        elif kind == "USER_INPUT_MUTATION":
            results.append(("input", leaves[spec.target]))
        else:
            raise Unsupported(f"it has a result of the kind {kind.lower()}")
    if is_written is None:
        nodes = {node.name: node for node in program.graph.nodes}
        specs = program.graph_signature.output_specs
        written = {nodes[spec.arg.name] for spec in specs if spec.kind.name.endswith("_MUTATION")}
        is_written = any(
            spec.kind.name == "USER_OUTPUT"
            and aliases.is_view_of(nodes.get(getattr(spec.arg, "name", None)), written)
            for spec in specs
        )
    if is_written:
        raise Unsupported("a result is what forward() writes to, or a view of it")
    return results


def look_of(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return ()
    return (value.shape, value.stride(), value.dtype, value.device)
