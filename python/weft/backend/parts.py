"""The modules of a model as they were when it was captured: what a call goes by
besides tensors, and the look at every call whether it is all so still."""

import dataclasses
import itertools
import operator
import types

import torch
from torch.utils import _pytree as pytree

from weft.backend.graph_source import Unsupported

_ATOMS = (bool, int, float, complex, str, bytes, type(None), torch.dtype,
          torch.device, torch.Size, torch.layout, torch.memory_format, type,
          types.FunctionType, types.BuiltinFunctionType)
_CONTAINER_ITEMS_MAX = 1000
#: Every module has these; what matters of them is looked at by name.
_OF_MODULES = frozenset(vars(torch.nn.Module()))
_OWN = "_weft"
#: What weft, and torch.compile, write into a module: nothing of the model's.
_MARKS = frozenset({_OWN, "_is_torch_compile"})
#: What is nobody's setting.
OF_ANY_MODULE = _OF_MODULES | _MARKS
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: Of tensors that a module has, or lacks.
_TABLES = ("_parameters", "_buffers")
_flat = itertools.chain.from_iterable


@dataclasses.dataclass
class Part:
    """One module of the model, as it was."""

    path: str
    kind: type
    training: bool
    children: list
    settings: dict
    names: frozenset
    #: (table, name) of the parameters and buffers that it has none of.
    lacking: tuple = ()
    #: (name, how often it was written to) of the tensors among its settings:
    #: forward() may have read a number from one, which the graph holds.
    written: tuple = ()

    def __getstate__(self):
        return {**vars(self), "written": ()}  # of these tensors alone


def parts_of(module):
    """What a call goes by besides tensors. Unsupported, where a part is of a
    kind that nobody could look at again."""
    parts = []
    for path, part in module.named_modules(remove_duplicate=False):
        own = vars(part)
        if path and any(own[name]
                        for name in (*_FORWARD_HOOKS, *_BACKWARD_HOOKS)):
            raise Unsupported(f"its part {path} has hooks, which kernels would "
                              "not call")
        settings = {name: _kept(value) for name, value in own.items()
                    if name not in OF_ANY_MODULE}
        parts.append(Part(path, type(part), part.training,
                          list(part._modules), settings,
                          frozenset(own) - _MARKS, tuple(
                              (table, name) for table in _TABLES
                              for name, value in own[table].items()
                              if value is None),
                          tuple((name, value._version)
                                for name, (_, value) in settings.items()
                                if is_counted(value))))
    return parts


def is_counted(value):
    """Whether PyTorch counts how often it is written to."""
    return (isinstance(value, torch.Tensor) and not value.is_inference()
            and not torch.nn.parameter.is_lazy(value))


def _kept(value):
    """("same", value) to be compared as an object, or ("equal", a copy): "=="
    of a tensor or an array says nothing of what it is."""
    if isinstance(value, (list, tuple, dict, set)):
        leaves = pytree.tree_leaves(list(value) if isinstance(value, set)
                                    else value)
        if len(leaves) <= _CONTAINER_ITEMS_MAX and all(
                isinstance(leaf, _ATOMS) for leaf in leaves):
            return ("equal", pytree.tree_map(lambda leaf: leaf, value)
                    if not isinstance(value, set) else set(value))
    if isinstance(value, (int, float, complex, str, bytes)):
        return ("equal", value)
    return ("same", value)


def are_of_one_kind(parts, modules):
    """Whether these modules, by their paths, are such parts. The outermost may
    be of another class: that of weft.optimize()."""
    return modules.keys() == {part.path for part in parts} and all(
        type(modules[part.path]) is part.kind for part in parts if part.path)


@dataclasses.dataclass
class _Seen:
    """A look that passed: which objects the watched attributes were."""

    values: list
    empty: list  # of them, the tables that must have nothing in them
    children: list  # the tables of parts that have children
    containers: list  # the settings whose contents can be changed in place


class PartGuards:
    """Whether modules have the modes, hooks, children, settings and numbers of
    attributes that parts had. Threads may share it.

    Every call pays for this, so it is done by flat tables over all modules, in
    C loops: are the watched attributes the very objects of the last look that
    passed, and what is in those that can be changed in place? Where one is
    another object, that look is made anew, one attribute after the other."""

    def __init__(self, parts, modules):
        """Of modules that are_of_one_kind() holds of."""
        self._owners = [vars(modules[part.path]) for part in parts]
        self._own_counts = [len(part.names) for part in parts]
        self._counts, self._getters, self._watched = [], [], []
        for part, own in zip(parts, self._owners):
            watched = _watched_of(part)
            if _OWN in own:
                watched[_OWN] = ("any", None)
            self._counts.append(len(part.names) + len(own.keys() & _MARKS))
            self._getters.append((operator.itemgetter(*watched), own))
            self._watched += watched.values()
        self._contents = [then for how, then in self._watched
                          if how == "contents"]
        self._names = [name for part in parts for name in part.children]
        self._children = [
            modules.get(f"{part.path}.{name}" if part.path else name)
            for part in parts for name in part.children]
        lacking = [(own, *place) for part, own in zip(parts, self._owners)
                   for place in part.lacking]
        self._lacking = tuple(zip(*lacking))
        self._written = [(own, *one) for part, own in zip(parts, self._owners)
                         for one in part.written]
        self._seen = None

    def fit(self):
        """Whether all of it is as it was."""
        counts = list(map(len, self._owners))
        if counts != self._counts and not self._are_marks(counts):
            return False
        if self._lacking and not self._lacks():
            return False
        if self._written and any(is_counted(own.get(name)) and own[name]._version != count
               for own, name, count in self._written):
            return False
        seen = self._seen
        try:
            if seen is None or not all(map(operator.is_, self._values(),
                                           seen.values)):
                seen = self._looked_at(list(self._values()))
        except KeyError:  # an attribute is gone, and there is another
            return False
        if seen is None:
            return False
        self._seen = seen  # one object, for threads that look, too
        return (not any(seen.empty) and seen.containers == self._contents
                and list(_flat(seen.children)) == self._names
                and all(map(operator.is_,
                            _flat(map(dict.values, seen.children)),
                            self._children)))

    def _lacks(self):
        """Whether what it had none of it has none of still."""
        owners, tables, names = self._lacking
        return all(map(operator.is_, itertools.repeat(None), map(
            dict.get, map(operator.getitem, owners, tables), names)))

    def _are_marks(self, counts):
        """Whether what is new in them is marks, as of one call of torch.compile."""
        if [count - len(own.keys() & _MARKS)
                for count, own in zip(counts, self._owners)] != self._own_counts:
            return False
        self._counts = counts
        return True

    def _values(self):
        """Of the watched attributes, now."""
        return _flat([get(own) for get, own in self._getters])

    def _looked_at(self, now):
        """_Seen of these values; None where one is not as it was."""
        found = {how: [] for how in (*_FITS, "any")}
        for (how, then), value in zip(self._watched, now):
            if how != "any" and not _FITS[how](value, then):
                return None
            found[how].append(value)
        return _Seen(now, found["empty"], found["children"], found["contents"])


def _watched_of(part):
    """{attribute: (how it has to be, what it was)}; how: a key of _FITS, or
    "any"."""
    hooks = (_BACKWARD_HOOKS if not part.path  # its call has the others called
             else (*_BACKWARD_HOOKS, *_FORWARD_HOOKS))
    return {"training": ("same", part.training),
            "_modules": ("children" if part.children else "empty", None),
            **{name: ("empty", None) for name in hooks},
            **{name: (how, then) if how == "same" or _is_constant(then)
               else ("contents", then)
               for name, (how, then) in part.settings.items()}}


def _is_constant(value):
    """Whether a setting can only be replaced."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return not isinstance(value, (list, dict, set))


def is_equal(value, then):
    """Of numbers and texts; 0.0 is not -0.0."""
    return value is then or (type(value) is type(then) and value == then and (
        not isinstance(value, (float, complex)) or repr(value) == repr(then)))


#: (value, then) → whether an attribute may be that. What is in it, where that
#: can change without it, fit() looks at each time.
_FITS = {
    "same": operator.is_,
    "equal": is_equal,
    "contents": lambda value, then: type(value) is type(then),
    "empty": lambda value, _: isinstance(value, dict),
    "children": lambda value, _: isinstance(value, dict),
}
