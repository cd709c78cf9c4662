"""What forward() may read or change besides its arguments and what its modules
have as numbers, tensors and parts: objects, what is in containers, globals,
attributes of classes, variables around functions, the environment.

What is looked at is what can be reached by the names in the code that forward()
executes (executed.py). Before such code runs for the first time, a picture of it
is taken, so that what it changes is seen, and undone. A picture's description is
compared with that of another process, or of a copy of the module; at each call the
objects alone are, in C loops."""

import array
import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import operator
import os
import random
import sys
import threading
import types

import torch

from weft.backend import held
from weft.backend.executed import Named, is_library
from weft.backend.graph_source import Unsupported
from weft.backend.parts import OF_ANY_MODULE, is_counted

#: Of objects, containers and what these have: each call looks at all.
ITEMS_MAX = 10_000
BYTES_MAX = 1 << 16
NUMBERS = (int, float, complex, str, bytes)
CONSTANTS = (type(None), type(Ellipsis), torch.dtype, torch.device, torch.layout,
              torch.memory_format, slice, range)
CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
         types.WrapperDescriptorType, types.MethodWrapperType)
#: Of the library's classes, those whose objects hold what their user puts there.
_OPEN = frozenset({
    ("types", "SimpleNamespace"), ("argparse", "Namespace"),
    ("collections", "UserDict"), ("collections", "UserList"),
    ("collections", "UserString")})
_ASKED_OF_ENVIRONMENT = frozenset({"environ", "getenv"})
_CHANGES = "the call changes the module itself, or what it reads ({})"
DRAWS = "forward() draws numbers by {}, which a graph would hold fast"
_flat = itertools.chain.from_iterable


class _Same:
    """An object that is to be the very same."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(self) is type(other) and self.value is other.value

    def __hash__(self):
        return id(self.value)

    def __reduce__(self):
        """Of what another process may lack, nothing: no call fits there."""
        goes = isinstance(self.value, enum.Enum) or (
            isinstance(self.value, (type, *CODE)) and _is_by_name(self.value))
        return _Same, (self.value if goes else object(),)


class _SameTensor(_Same):
    """And with the same numbers, which forward() may have read."""

    def __init__(self, value):
        super().__init__(value)
        self.written = value._version if is_counted(value) else 0

    def __eq__(self, other):
        return super().__eq__(other) and self.written == other.written

    __hash__ = _Same.__hash__

    def __reduce__(self):
        return _Same if self != _SameTensor(self.value) else _SameTensor, (self.value,)


def _is_by_name(value):
    """Whether pickle finds it again."""
    found = sys.modules.get(getattr(value, "__module__", None))
    for name in getattr(value, "__qualname__", "<none>").split("."):
        found = getattr(found, name, None)
    return found is value


@dataclasses.dataclass(eq=False)
class Surroundings:
    """What is named, from where, and what was found there."""

    named: Named
    kinds: tuple  # classes of the modules
    spaces: tuple  # of globals, each (name of the Python module, dictionary)
    functions: tuple  # with variables around them
    found: list = dataclasses.field(default_factory=list)

    def __getstate__(self):
        """Variables around functions are this process's alone: nothing fits
        where there were some."""
        state = {**vars(self), "functions": (),
                 "spaces": tuple((name, None) for name, _ in self.spaces)}
        if self.functions:
            state["found"] = [object]
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.spaces = tuple((name, vars(sys.modules.get(name, types)))
                            for name, _ in self.spaces)


class Guards:
    """Whether some modules' surroundings are what they were. Threads may share
    it."""

    def __init__(self, surroundings, modules):
        self._surroundings = surroundings
        self._modules = modules
        self._seen = None

    def fit(self):
        seen = self._seen
        try:
            if seen is not None and seen.is_still():
                return True
            seen = Picture(self._surroundings, self._modules)
        except Exception:  # it grew, or is written to at this moment
            return False
        if seen.nodes != self._surroundings.found:
            return False
        self._seen = seen
        return True


class Picture:
    """All that is reached: `nodes` describes it, the rest finds it again."""

    def __init__(self, surroundings, modules):
        self._surroundings, self._modules = surroundings, modules
        self._named = surroundings.named
        self._paths_of = {id(one): path for path, one in modules.items()}
        self._numbers = {}  # of what was seen, by id
        self._kept = []  # so that no id is another's
        self._classes = set()
        self.nodes, self.paths = [], []
        self.has_random = False
        self._gets, self._values = [], []  # (get, name), and what it gives
        self._places = []  # their paths
        self._sized, self._sizes = [], []
        self._walks, self._items = [], []
        self._tensors, self._versions = [], []
        self._buffers, self._bytes = [], []
        self._generators = []
        self._undo = []
        for path, module in modules.items():
            self._see_settings(path, vars(module))
        for kind in surroundings.kinds:
            self._see_class(kind)
        for name, space in surroundings.spaces:
            self._note(name, name, self._data(
                space, name, space, sorted(self._named.globals)))
        for function in surroundings.functions:
            self._see_function(function)
        if not self._named.attributes.isdisjoint(_ASKED_OF_ENVIRONMENT):
            self._note("environ", "os.environ",
                       self._see(os.environ._data, "os.environ"))

    def is_still(self):
        """Whether it is all there, as the very same objects."""
        return ((not self._gets or all(map(operator.is_, [
            get(name, held.MISSING) for get, name in self._gets], self._values)))
                and (not self._sized or list(map(len, self._sized)) == self._sizes)
                and (not self._walks or all(map(operator.is_, _flat(
                    [walk() for walk in self._walks]), self._items)))
                and (not self._tensors or self._versions == [
                    one._version for one in self._tensors])
                and (not self._buffers or self._bytes == list(
                    map(held.bytes_of, self._buffers))))

    def is_empty(self):
        return not (self._gets or self._sized)

    def fault(self):
        """Why a call after which it is like this has no graph, or ""."""
        for one, state in self._generators:
            if held.state_of(one) != state:
                return DRAWS.format(f"a {type(one).__name__}")
        if self.is_still():
            return ""
        now = Picture(self._surroundings, self._modules)
        if now.nodes == self.nodes:
            return ""
        others = [path for path, (get, name), value in zip(
            self._places, self._gets, self._values)
            if not _is_alike(get(name, held.MISSING), value)]
        others += [path for path, a, b in zip(self.paths, now.nodes, self.nodes)
                   if a != b]
        return _CHANGES.format(others[0] if others else "an attribute")

    def put_back(self):
        for undo in self._undo:
            undo()

    def _note(self, name, path, description):
        self.nodes.append((name, description))
        self.paths.append(path)

    def _attributes(self, space):
        """Those names of a space that count, in an order of their own."""
        return list(space) if self._named.is_any else sorted(
            self._named.attributes.intersection(space))

    def _watch(self, get, name, value, path):
        self._places.append(path)
        self._gets.append((get, name))
        self._values.append(value)

    def _size(self, sized):
        self._sized.append(sized)
        self._sizes.append(len(sized))

    def _see_settings(self, path, space):
        """Attributes of a module that is a part of the model. (That they are the
        same objects, or equal numbers, is looked at with the parts.)"""
        for name in self._attributes(space):
            value = space[name]
            self._look_for_random(value)
            if name in OF_ANY_MODULE or isinstance(
                    value, (*NUMBERS, *CONSTANTS, *CODE, torch.Tensor)):
                continue
            at = f"{path}.{name}".strip(".")
            self._watch(space.get, name, value, at)
            self._note(name, at, self._see(value, at))

    def _see_class(self, kind):
        for one in kind.__mro__:
            if one not in self._classes and not is_library(one.__module__):
                self._classes.add(one)
                self._size(vars(one))
                self._note(_Same(one), one.__name__, self._data(
                    vars(one), one.__name__, one, self._attributes(vars(one))))

    def _see_function(self, function):
        """What it has besides its code."""
        name = function.__qualname__
        for free, cell in zip(function.__code__.co_freevars,
                              function.__closure__ or ()):
            value = in_cell(cell)
            if self._is_data(value):
                self._watch(functools.partial(in_cell, cell), free, value, free)
                self._undo.append(functools.partial(_putin_cell, cell, value))
                self._note(free, free, self._see(value, free))
        for defaults in (function.__defaults__, function.__kwdefaults__):
            if defaults:
                self._note(name, name, self._see(defaults, f"defaults of {name}"))

    def _data(self, space, path, owner, names):
        """The description of what is no code under such names of a class, or of a
        Python module: their `owner` sets them."""
        return self._space(space, path, owner, lambda: [
            name for name in names if name in space and self._is_data(space[name])])

    def _of_object(self, value, path, names):
        """The description of attributes of an object."""
        self._size(value.__dict__)
        return self._space(value.__dict__, path, value.__dict__, names)

    def _space(self, space, path, owner, names):
        def told():
            return {name: space[name] for name in names()}

        then = told()
        for name, value in then.items():
            self._watch(space.get, name, value, f"{path}.{name}")
        self._undo.append(lambda: held.put_back(owner, told(), then))
        return tuple((name, self._see(value, f"{path}.{name}"))
                     for name, value in then.items())

    def _is_data(self, value):
        """Whether it is no code, nor a library's own object."""
        self._look_for_random(value)
        return (isinstance(value, (*NUMBERS, *CONSTANTS, torch.Tensor, enum.Enum))
                or self._how(value) is not None)

    def _look_for_random(self, value):
        if value is random or isinstance(
                getattr(value, "__self__", None), held.kinds_of_generators()):
            self.has_random = True
        elif isinstance(value, types.ModuleType) and value.__name__ in (
                "numpy", "numpy.random"):
            self.has_random = self.has_random or (
                "random" in value.__name__
                or "random" in self._named.attributes)

    def _see(self, value, path):
        """Of one value: itself, where it cannot change, or the number of the node
        that describes it."""
        kind = type(value)
        if isinstance(value, enum.Enum):
            return _Same(value)
        if isinstance(value, CONSTANTS):
            return value
        if isinstance(value, NUMBERS):
            return kind, repr(value)
        if isinstance(value, held.of_numpy("generic")):
            return kind, value.tobytes()
        if isinstance(value, torch.Tensor):
            if is_counted(value):
                self._tensors.append(value)
                self._versions.append(value._version)
            return _SameTensor(value)
        how = self._how(value)
        if how is None:
            self._look_for_random(value)
            return _Same(value)
        number = self._numbers.get(id(value), -1)
        if number < 0:
            number = self._numbers[id(value)] = len(self.nodes)
            self._kept.append(value)
            self._note(None, path, None)
            self.nodes[number] = kind, how(value, path)
            if len(self._items) + len(self._gets) > ITEMS_MAX:
                raise _too_many(path)
        return number

    def _how(self, value):
        """What describes such a value; None: it is itself, whatever it holds."""
        kind = type(value)
        for kinds, how in self._hows:
            if isinstance(value, kinds):
                return how
        if isinstance(value, types.ModuleType):
            return None if is_library(value.__name__) else self._python_s
        if isinstance(value, type):
            is_other_s = is_library(value.__module__) or issubclass(value, enum.Enum)
            return None if is_other_s else self._class
        if not is_library(kind.__module__) or (
                kind.__module__, kind.__name__) in _OPEN:
            return self._object
        if kind.__module__.partition(".")[0] == "torch" and hasattr(
                value, "__dict__"):
            return self._all_of
        if kind.__module__ in ("builtins", "itertools") and hasattr(
                kind, "__next__"):
            return self._unseen
        return None

    @functools.cached_property
    def _hows(self):
        return ((torch.nn.Module, self._all_of),
                ((list, tuple, collections.deque), self._sequence),
                (dict, self._mapping),
                ((set, frozenset), self._set),
                ((bytearray, array.array, memoryview, held.of_numpy("ndarray")),
                 self._buffer),
                ((threading.local, random.SystemRandom), self._unseen),
                (held.kinds_of_generators(), self._generator),
                (functools.partial, self._partial),
                (types.MethodType, self._method),
                (contextvars.ContextVar, self._variable))

    def _all_of(self, value, path):
        """Of a module that is no part, and of PyTorch's other objects, whose code
        is not looked at: each attribute."""
        if id(value) in self._paths_of:
            return self._paths_of[id(value)]
        self._see_class(type(value))
        return self._of_object(value, path, lambda: list(vars(value)))

    def _object(self, value, path):
        self._see_class(type(value))
        found = []
        if isinstance(space := getattr(value, "__dict__", None), dict):
            found.append(self._of_object(
                value, path, lambda: self._attributes(space)))
        get = functools.partial(getattr, value)
        slots = {name: get(name, held.MISSING) for one in type(value).__mro__
                 for name, of in vars(one).items()
                 if isinstance(of, types.MemberDescriptorType)
                 and not is_library(one.__module__)}
        for name in self._attributes(slots):
            now = slots[name]
            self._watch(get, name, now, f"{path}.{name}")
            self._undo.append(functools.partial(_put_in_slot, value, name, now))
            found.append((name, self._see(now, f"{path}.{name}")))
        return tuple(found) or _Same(value)

    def _contents(self, value, path, walks, then, found):
        """Of a container, with the attributes that one of another class has."""
        self._size(value)
        if len(self._items) + len(value) > ITEMS_MAX:
            raise _too_many(path)
        for walk in walks:
            self._walks.append(walk)
            self._items += walk()
        if not isinstance(value, (tuple, frozenset)):
            self._undo.append(functools.partial(held.refill, value, then()))
        own = () if is_library(type(value).__module__) else self._object(value, path)
        return own, found()

    def _sequence(self, value, path):
        base = next(base for base in (list, tuple, collections.deque)
                    if isinstance(value, base))
        walk = functools.partial(base.__iter__, value)
        return self._contents(value, path, [walk], lambda: list(walk()), lambda: tuple(
            self._see(one, f"{path}[{i}]") for i, one in enumerate(walk())))

    def _mapping(self, value, path):
        items = functools.partial(dict.items, value)
        walks = [functools.partial(dict.__iter__, value),
                 functools.partial(dict.values, value)]
        return self._contents(value, path, walks, lambda: dict(items()), lambda: tuple(
            (self._see(key, path), self._see(one, f"{path}[{key!r}]"))
            for key, one in items()))

    def _set(self, value, path):
        base = set if isinstance(value, set) else frozenset
        walk = functools.partial(base.__iter__, value)
        return self._contents(value, path, [walk], lambda: set(walk()), lambda: frozenset(
            self._see(one, path) for one in walk()))

    def _buffer(self, value, path):
        if getattr(value, "nbytes", None) is None:
            size = len(value) * getattr(value, "itemsize", 1)
        else:
            size = value.nbytes
        if size > BYTES_MAX or getattr(getattr(value, "dtype", None),
                                       "hasobject", False):
            raise Unsupported(f"forward() may read more of {path} than can be "
                              "looked at at each call")
        self._buffers.append(value)
        self._bytes.append(held.bytes_of(value))
        self._undo.append(functools.partial(
            held.refill_bytes, value, self._bytes[-1]))
        return self._bytes[-1]

    def _unseen(self, value, path):
        raise Unsupported(f"forward() may read {path}, which gives something else "
                          f"each time ({type(value).__name__})")

    def _generator(self, value, path):
        state = held.state_of(value)
        self._generators.append((value, state))
        self._undo.append(functools.partial(held.set_state, value, state))
        return path

    def _partial(self, value, path):
        return tuple(self._see(one, path) for one in (
            value.func, value.args, value.keywords))

    def _method(self, value, path):
        return _Same(value.__func__), self._see(value.__self__, path)

    def _variable(self, value, path):
        now = value.get(held.MISSING)
        self._watch(lambda _, missing: value.get(missing), "", now, path)
        return self._see(now, path)

    def _class(self, value, path):
        self._see_class(value)
        return _Same(value)

    def _python_s(self, value, path):
        return self._data(vars(value), path, vars(value),
                          self._attributes(vars(value)))


def _is_alike(value, then):
    return value is then or (type(value) is type(then) and isinstance(
        value, NUMBERS) and repr(value) == repr(then))


def _too_many(path):
    return Unsupported(f"forward() may read more than {ITEMS_MAX} objects besides "
                       f"tensors ({path})")


def in_cell(cell, *_):
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return held.MISSING


def _putin_cell(cell, value):
    if in_cell(cell) is not value:
        cell.cell_contents = value


def _put_in_slot(value, name, then):
    if getattr(value, name, held.MISSING) is then:
        return
    if then is held.MISSING:
        delattr(value, name)
    else:
        setattr(value, name, then)
