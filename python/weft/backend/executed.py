"""The Python code that a call executes besides PyTorch's and Python's own: what
such code names is what it may read, or change."""

import collections
import dataclasses
import dis
import gc
import sys
import types

#: Whose code is not looked at, nor the attributes of its classes' objects.
_LIBRARIES = frozenset({
    *sys.stdlib_module_names, "torch", "torchgen", "functorch", "triton", "weft",
    "numpy", "sympy", "mpmath", "networkx", "jinja2", "typing_extensions"})
#: Who names these may name anything in the next moment.
_COMPUTED_NAMES = frozenset({
    "getattr", "setattr", "delattr", "vars", "dir", "__dict__", "asdict",
    "astuple", "attrgetter", "getmembers"})


def is_library(name):
    """Of a module's name, whether it is Python's, PyTorch's or what these need."""
    first = (name or "").partition(".")[0]
    return first in _LIBRARIES or first.startswith("namedtuple_")


@dataclasses.dataclass(frozen=True)
class Named:
    """By code: names of attributes (and texts that may be), of globals, and whether
    it may name any attribute by what it computes."""

    attributes: frozenset = frozenset()
    globals: frozenset = frozenset()
    is_any: bool = False

    def __or__(self, other):
        return Named(self.attributes | other.attributes,
                     self.globals | other.globals, self.is_any or other.is_any)


def named_in(code):
    texts = set()
    consts = list(code.co_consts)
    for const in consts:
        if isinstance(const, tuple):  # of names for keywords and patterns
            consts += const
        elif isinstance(const, str) and const.isidentifier():
            texts.add(const)
    by_globals = {one.argval for one in dis.get_instructions(code)
                  if one.opname.endswith(("_GLOBAL", "_NAME"))}
    if "globals" in by_globals:
        by_globals |= texts
    return Named(frozenset(texts.union(code.co_names)), frozenset(by_globals),
                 not _COMPUTED_NAMES.isdisjoint(code.co_names))


def functions_by_code():
    """Functions that have more than their code: variables around them, or values
    of arguments that are left out."""
    found = collections.defaultdict(list)
    for one in gc.get_objects():
        if type(one) is types.FunctionType and (
                one.__closure__ or one.__defaults__ or one.__kwdefaults__):
            found[one.__code__].append(one)
    return found


class Executed:
    """While it is entered, this thread tells `entered(code, globals)` of code that
    is nobody's library, each time before its first line runs. Tracers and
    debuggers go on."""

    def __init__(self, entered):
        self._entered = entered
        self._seen = set()  # code that was told, or is a library's
        self._before = None

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _trace(self, frame, event, argument):
        code = frame.f_code
        if event == "call" and code not in self._seen:
            if is_library(frame.f_globals.get("__name__")):
                self._seen.add(code)
            elif self._is_of_the_call(frame.f_back):
                self._seen.add(code)
                self._entered(code, frame.f_globals)
        return self._before and self._before(frame, event, argument)

    def _is_of_the_call(self, caller):
        """Whether what it calls is; what an import executes, is not."""
        code = caller.f_code
        return not code.co_filename.startswith("<frozen importlib") and (
            code in self._seen or is_library(caller.f_globals.get("__name__")))
