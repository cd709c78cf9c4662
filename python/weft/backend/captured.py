"""A module captured for one kind of inputs, without Dynamo: its graph, where
the graph's arguments are found, and what has to be as it was then."""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import logging
import math
import operator
import os
import re
import traceback
import warnings
from unittest import mock

import torch
import torch.export._trace
from torch.utils import _pytree as pytree

import weft
from weft.backend import aliases, any_batch, parts, surroundings
from weft.backend.graph_source import Unsupported
from weft.capture import export

Part = parts.Part  # of modules that were saved when it was in this file
#: Of the inputs at a batch that is captured besides the program's own.
SAMPLE_BYTES_MAX = 1 << 30
#: Where code lies that is no model's.
_NOT_THE_USERS = tuple(os.path.dirname(os.path.abspath(one.__file__)) + os.sep
                       for one in (torch, weft)) + ("<",)


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
    look: tuple = ()
    #: Its dimensions that grow with the sizes that are symbols.
    grows: tuple = ()

    def fits(self, value):
        """Whether a tensor looks like that. What grows is contiguous."""
        look = look_of(value)
        if not self.grows or not look or look == self.look:
            return look == self.look
        shape, _, *rest = look
        return (rest == list(self.look[2:]) and value.is_contiguous()
                and len(shape) == len(self.look[0])
                and all(n == m or i in self.grows for i, (n, m) in
                        enumerate(zip(shape, self.look[0]))))


@dataclasses.dataclass
class Captured:
    """What is known of a module's call with one kind of inputs."""

    structure: object  # of (args, kwargs)
    is_flat: bool  # args are tensors alone, and there are no kwargs
    arguments: list
    numbers: dict  # leaf of the call → its value, where it is no tensor
    parts: list
    result: object  # structure
    #: For each result of the graph: ("output", None), ("buffer", (owner, name))
    #: or ("input", leaf).
    results: list
    #: Of each leaf the place of the first that is the very same tensor.
    same: tuple = ()
    #: Pairs of (path, table, name) that are one tensor.
    ties: tuple = ()
    default_dtype: torch.dtype | None = None
    #: What it may read besides; None: nothing, or it was saved before that was
    #: looked at.
    surroundings: object = None
    #: Of each argument whether it wants a gradient, where forward() may ask that;
    #: then it may ask, too, whether gradients are made: there were none.
    wants: tuple | None = None
    #: Why it is for these sizes alone, where any were asked for.
    one_size: str = ""

    def __getstate__(self):
        """Structures as examples of them, whose classes pickle knows."""
        return {**vars(self), "structure": _example(self.structure),
                "result": _example(self.result)}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.structure = pytree.tree_structure(self.structure)
        self.result = pytree.tree_structure(self.result)


def _example(structure):
    return pytree.tree_unflatten(range(structure.num_leaves), structure)


def same_as(leaves):
    """Of each leaf the place of the first that is the very same tensor."""
    places = {}
    return tuple(places.setdefault(id(leaf), i)
                 if isinstance(leaf, torch.Tensor) else i
                 for i, leaf in enumerate(leaves))


def capture(module, args, kwargs, its_parts):
    """(Captured, the functional ATen graph) of a module of such parts, whose
    kwargs are in_order(); Unsupported says why not."""
    try:
        with torch.no_grad(), _quietly() as warned, export.state_named_once():
            program = torch.export.export(module, args, kwargs, strict=False)
            is_written = aliases.is_result_written(program)
            program = program.run_decompositions({})
    except Exception as error:
        raise Unsupported(
            f"torch.export cannot capture it: {_explained(error)}") from None
    for warning in warned:
        if _assigned(str(warning.message)):
            raise Unsupported("the call changes the module itself: "
                              f"{_first_line(warning.message)}")
    leaves, structure = pytree.tree_flatten((args, kwargs))
    arguments = _arguments(program, leaves)
    return Captured(
        structure=structure,
        is_flat=not kwargs and all(type(arg) is torch.Tensor for arg in args),
        arguments=arguments,
        numbers={i: leaf for i, leaf in enumerate(leaves)
                 if not isinstance(leaf, torch.Tensor)},
        parts=its_parts, result=program.call_spec.out_spec,
        results=_results(program, arguments, is_written), same=same_as(leaves),
        ties=_ties(module),
        default_dtype=torch.get_default_dtype()), program.graph_module


def _assigned(warning):
    """The attributes that the exporter says were assigned, but for those that
    mirror a recurrent layer's parameters, which it binds itself."""
    if "assigned during export" not in warning:
        return []
    return [name for name in re.findall(r"self\.[\w.\[\]']+", warning)
            if not re.search(r"\b_flat_weights\[\d+\]$", name)]


def _ties(module):
    """Parameters and buffers that are one tensor: the exporter reads one place of
    it alone. (What is below a part that is shared is so as long as that is.)"""
    first, ties = {}, []
    for path, part in module.named_modules():
        for table in _TABLES.values():
            for name, value in part.__dict__[table].items():
                place = path, table, name
                if value is not None and id(value) in first:
                    ties.append((first[id(value)], place))
                first.setdefault(id(value), place)
    return tuple(ties)


def capture_sizes(module, args, kwargs, captured, places):
    """(sizes, what any_batch.source_for_any() takes) of a module captured so: for
    each place (position, dim) the size is that of this dimension of the leaf with
    that position (None: its first tensor), and of each leaf that has as many
    there. Marks what grows in `captured`. Unsupported says why not."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    places = [_place(leaves, *place) for place in places]
    owners = _owners(leaves, places)
    old = tuple(leaves[i].shape[dim] for i, dim in places)
    growing = [i for i, owned in enumerate(owners) if owned]
    if not all(leaves[i].is_contiguous() for i in growing):
        raise Unsupported("an input that grows is not contiguous")
    _check_any_size(module, args, kwargs, leaves, owners)

    def resized(leaf, owned, sizes):
        for dim, symbol in owned.items():
            taken = torch.arange(sizes[symbol], device=leaf.device)
            leaf = leaf.index_select(dim, taken % old[symbol])
        return leaf

    samples = any_batch.SAMPLES[len(places)]
    sized = max(_bytes_at(sizes, old, leaves, owners) for sizes in samples)
    if sized > SAMPLE_BYTES_MAX:
        raise Unsupported(
            f"its inputs at a size of {max(samples[-1])} would take "
            f"{sized >> 20} MiB of the program's memory, and may take "
            f"{SAMPLE_BYTES_MAX >> 20}")
    graphs = {}
    for sizes in dict.fromkeys((*samples, old)):
        at = []
        for i, first in enumerate(captured.same):  # one stays one
            at.append(at[first] if first < i else resized(
                leaves[i], owners[i], sizes))
        one, graph = capture(module, *pytree.tree_unflatten(at, structure),
                             captured.parts)
        if one.results != captured.results:
            raise Unsupported("it is another graph at another size")
        graphs[sizes] = graph, {
            i: any_batch.Look(tuple(argument.look[0]), argument.look[1])
            for i, argument in enumerate(one.arguments) if argument.look}
    for i, argument in enumerate(captured.arguments):
        if argument.look:  # of the last sample all sizes are others
            a, b = (graphs[at][1][i] for at in (samples[0], samples[-1]))
            argument.grows = tuple(d for d, (n, m) in enumerate(
                zip(a.shape, b.shape)) if n != m)
    return old, graphs


def _bytes_at(sizes, old, leaves, owners):
    """Of the leaves that grow, at these sizes."""
    def share(owned, of):
        return math.prod(of[symbol] for symbol in owned.values())

    return sum(leaf.nbytes // share(owned, old) * share(owned, sizes)
               for leaf, owned in zip(leaves, owners) if owned)


def _place(leaves, position, dim):
    """(leaf, dimension from 0 on) that is meant."""
    if position is None:
        position = next((i for i, leaf in enumerate(leaves)
                         if isinstance(leaf, torch.Tensor) and leaf.dim()), 0)
    named = leaves[position]
    rank = named.dim() if isinstance(named, torch.Tensor) else 0
    at = dim + rank if dim < 0 else dim
    if not 0 <= at < rank or named.shape[at] < 2:
        raise Unsupported(f"the input has no dimension {dim} of 2 or more")
    return position, at


def _owners(leaves, places):
    """Of each leaf {dimension: which place's size it has}."""
    if len(places) > any_batch.SYMBOLS_MAX:
        raise Unsupported(f"{len(places)} sizes are symbols, and "
                          f"{any_batch.SYMBOLS_MAX} can be")
    if len(set(places)) != len(places):
        raise Unsupported("one dimension is there twice")
    owners = [{} for _ in leaves]
    for symbol, (i, dim) in enumerate(places):
        owners[i][dim] = symbol
    for symbol, (named, dim) in enumerate(places):
        for i, leaf in enumerate(leaves):
            if (isinstance(leaf, torch.Tensor) and leaf.dim() > dim
                    and leaf.shape[dim] == leaves[named].shape[dim]):
                owners[i].setdefault(dim, symbol)
    return owners


def _check_any_size(module, args, kwargs, leaves, owners):
    """Unsupported, where the model is another one at some sizes: samples cannot
    tell of a branch that is taken beyond all of them, and the exporter can."""
    symbols = [torch.export.Dim(name, min=2) for name in any_batch.NAMES]
    shapes = torch.export.ShapesCollection()
    for leaf, owned in zip(leaves, owners):
        if owned:
            shapes[leaf] = {dim: symbols[i] for dim, i in owned.items()}
    try:
        with torch.no_grad(), _quietly():
            torch.export.export(
                module, args, kwargs, strict=False,
                dynamic_shapes=shapes.dynamic_shapes(module, args, kwargs))
    except Exception as error:
        raise Unsupported("torch.export cannot give it a size that is a symbol: "
                          f"{type(error).__name__}: {_first_line(error)}"
                          ) from None


def _explained(error):
    """What the exporter raised, what to do about it, and the line of the model
    that it came to."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not frame.filename.startswith(_NOT_THE_USERS)]
    where = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    told = f"{type(error).__name__}: {_first_line(error)}"
    _, advice = export.advice_on(error)
    return (f"{advice} ({told})" if advice else told) + where


@contextlib.contextmanager
def _quietly():
    """The exporter tells of its own internals, and prints its graph before some
    errors; what matters is raised, or stands in the warnings that there were."""
    logger = logging.getLogger("torch")
    level = logger.level
    with warnings.catch_warnings(record=True) as warned, mock.patch.object(
            torch.export._trace, "print", lambda *_, **__: None, create=True):
        warnings.simplefilter("always")
        logger.setLevel(logging.CRITICAL)
        try:
            yield warned
        finally:
            logger.setLevel(level)


def in_order(function, kwargs):
    """The keyword arguments as torch.export takes them: in the order in which the
    function names them, and then others as they come."""
    named = {name: kwargs[name] for name in
             _names(getattr(function, "__func__", function)) if name in kwargs}
    return {**named, **kwargs}


@functools.lru_cache(256)
def _names(function):
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # of a built-in one they are not known
        return ()


def _arguments(program, leaves):
    arguments, leaf = [], 0
    for spec in program.graph_signature.input_specs:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            value = leaves[leaf]
            arguments.append(Argument("input", leaf=leaf, look=look_of(value)))
            leaf += 1
        elif kind in ("PARAMETER", "BUFFER"):
            owner, _, name = spec.target.rpartition(".")
            value = (program.state_dict.get(spec.target)
                     if spec.target in program.state_dict
                     else program.constants[spec.target])
            arguments.append(Argument(kind.lower(), owner, name,
                                      look=look_of(value)))
        elif kind == "CONSTANT_TENSOR":
            value = program.constants[spec.target]
            arguments.append(Argument("constant", value=value,
                                      look=look_of(value)))
        else:
            raise Unsupported(f"forward() uses an object that is no tensor "
                              f"({kind.lower().replace('_', ' ')})")
    kinds = [one.kind for one in arguments]
    if "input" in kinds[:len(kinds) - leaf]:
        raise Unsupported("torch.export does not give the inputs last")
    return arguments


def _results(program, arguments, is_written):
    """is_written: whether a result is what forward() writes to; None: not known."""
    results, leaves = [], {}
    names = [node.name for node in
             program.graph.find_nodes(op="placeholder")]
    for name, argument in zip(names, arguments):
        leaves[name] = argument.leaf
    for spec in program.graph_signature.output_specs:
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            results.append(("output", None))
        elif kind == "BUFFER_MUTATION":
            owner, _, name = spec.target.rpartition(".")
            results.append(("buffer", (owner, name)))
        elif kind == "USER_INPUT_MUTATION":
            results.append(("input", leaves[spec.target]))
        else:
            raise Unsupported(f"it has a result of the kind {kind.lower()}")
    if is_written is None:
        nodes = {node.name: node for node in program.graph.nodes}
        specs = program.graph_signature.output_specs
        written = {nodes[spec.arg.name] for spec in specs
                   if spec.kind.name.endswith("_MUTATION")}
        is_written = any(
            spec.kind.name == "USER_OUTPUT" and aliases.is_view_of(
                nodes.get(getattr(spec.arg, "name", None)), written)
            for spec in specs)
    if is_written:
        raise Unsupported("a result is what forward() writes to, or a view of it")
    return results


def wants_of(arguments):
    return tuple(getattr(one, "requires_grad", False) for one in arguments)


def look_of(value):
    if not isinstance(value, torch.Tensor):
        return ()
    return (value.shape, value.stride(), value.dtype, value.device)


class Bound:
    """Captured, and the module whose call it may be: quick looks by way of the
    modules' own dictionaries."""

    def __init__(self, captured, module):
        self.captured = captured
        self.modules = dict(module.named_modules(remove_duplicate=False))
        self._parts = None  # of a module that has other parts
        if parts.are_of_one_kind(captured.parts, self.modules):
            self._parts = parts.PartGuards(captured.parts, self.modules)
            self._find_arguments()
        self._surroundings = captured.surroundings and surroundings.Guards(
            captured.surroundings, self.modules)
        #: (guards of the last tensors that fitted, whether one of them wants
        #: a gradient): one object, for threads that call with others.
        self._known = (None, False)

    def _find_arguments(self):
        """Of each, where it is: the module's attributes, the name of the table
        among them, and its name there. So are constants: inputs follow."""
        self._owners, self._tables, self._names, self._leaves = [], [], [], []
        constants = {}
        for i, one in enumerate(self.captured.arguments):
            if one.kind == "input":
                self._leaves.append(one.leaf)
                continue
            if one.kind == "constant":
                place = {"constants": constants}, "constants", i
                constants[i] = one.value
            else:
                place = (vars(self.modules[one.owner]),
                         _TABLES[one.kind], one.name)
            self._owners.append(place[0])
            self._tables.append(place[1])
            self._names.append(place[2])
        looks = [bool(one.look) for one in self.captured.arguments]
        self._are_tensors = None if all(looks) else looks
        places = {"buffer": {}, "input": {}}
        for i, one in enumerate(self.captured.arguments):
            if one.kind in places:
                key = one.leaf if one.kind == "input" else (one.owner, one.name)
                places[one.kind][key] = i
        self._written = [places[kind][of] for kind, of in self.captured.results
                         if kind in places and of in places[kind]]
        self._ties = [[(vars(self.modules[path]), table, name)
                       for path, table, name in tie]
                      for tie in self.captured.ties]

    def parts_fit(self):
        """Whether modules, modes, hooks and settings are as they were."""
        return (self._parts is not None and self._parts.fit()
                and self.captured.default_dtype in (
                    None, torch.get_default_dtype())
                and (self._surroundings is None or self._surroundings.fit())
                and (not self._ties or all(
                    a[of].get(x) is b[to].get(y)
                    for (a, of, x), (b, to, y) in self._ties)))

    def are_the_same(self, leaves):
        """Whether the leaves are one tensor, or several, where they were."""
        then = self.captured.same
        if not then or len(then) == 1:  # saved before it was looked at
            return True
        return same_as(leaves) == then

    def gathered(self, leaves):
        """(the graph's arguments of that call, whether one of them wants a
        gradient), or (None, False) where they are others."""
        if self._parts is None:
            return None, False
        tables = map(operator.getitem, self._owners, self._tables)
        found = [*map(dict.get, tables, self._names),
                 *[leaves[leaf] for leaf in self._leaves]]
        tensors = (found if self._are_tensors is None else
                   list(itertools.compress(found, self._are_tensors)))
        if self.captured.wants is not None and self.captured.wants != wants_of(found):
            return None, False
        guards, wants_gradient = self._known
        is_known = guards is not None and guards.check(*tensors)
        if not is_known and not self._tensors_fit(found):
            return None, False
        if self._written and self._shares_what_is_written(found):
            return None, False
        if is_known:
            return found, wants_gradient
        wants_gradient = any(one.requires_grad for one in tensors)
        self._known = (_guards_of(tensors), wants_gradient)
        return found, wants_gradient

    def _shares_what_is_written(self, found):
        """Whether forward() would write into another argument, too."""
        tensors = [(i, one) for i, one in enumerate(found)
                   if isinstance(one, torch.Tensor)]
        spans = sorted(aliases.span_of(one) for _, one in tensors)
        if all(a[1] <= b[0] for a, b in itertools.pairwise(spans)):
            return False  # each has memory of its own
        return any(i != j and aliases.overlap(found[j], other)
                   for j in self._written for i, other in tensors)

    def _tensors_fit(self, found):
        for one, value in zip(self.captured.arguments, found):
            if not one.fits(value) or (
                    one.look and type(value) not in _TENSORS):
                return False
        return True


#: Of a module, by the kind of an argument.
_TABLES = {"parameter": "_parameters", "buffer": "_buffers"}
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def _guards_of(tensors):
    """What PyTorch's compiler compares tensors with, in C++: all of them in the
    time of a few looks. None where this PyTorch has none; they know no tensor
    twice."""
    kind = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    if kind is None or len({id(one) for one in tensors}) != len(tensors):
        return None
    try:
        return kind(*tensors, dynamic_dims_sizes=None,
                    dynamic_dims_strides=None)
    except Exception:  # made otherwise in another PyTorch: the slow look stays
        return None


def _first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
