"""What the calls of a module change of their surroundings while it is captured."""

import contextlib
import dataclasses

from weft.backend import held
from weft.backend.executed import Executed, Named, functions_by_code, named_in
from weft.backend.graph_source import Unsupported
from weft.backend.surroundings import (
    CODE,
    CONSTANTS,
    DRAWS,
    NUMBERS,
    Picture,
    Surroundings,
    in_cell,
)

_SET_GENERATORS = frozenset({"manual_seed", "manual_seed_all", "set_rng_state",
                             "fork_rng"})
_ASKED_OF_GRADIENTS = frozenset({"is_grad_enabled", "requires_grad", "is_leaf",
                                 "grad_fn"})
_SETS = ("forward() sets PyTorch's generators of random numbers, which a graph does "
         "not")


class Watch:
    """Looks what the calls of a module that are made `within` it change of its
    surroundings, and puts that back at their end."""

    def __init__(self, module, parts):
        self.fault = ""  #: why no graph can stand for such a call
        self._modules = dict(module.named_modules(remove_duplicate=False))
        self._kinds = tuple(dict.fromkeys(part.kind for part in parts))
        self._functions = functions_by_code()
        self._surroundings = None
        self._pictures = []  # each as it was when something else was named
        self._draws = False
        self._states = []

    @contextlib.contextmanager
    def within(self):
        self._pictures = [] if self._surroundings is None else [
            Picture(self._surroundings, self._modules)]
        self._states = [list(map(held.state_of, generators))
                        for generators in _generators()]
        try:
            with Executed(self._entered):
                yield
        finally:
            self._put_back()

    def asks_of_gradients(self):
        """Whether forward() may ask who wants a gradient, or makes one."""
        return self._names(_ASKED_OF_GRADIENTS)

    def check_draws(self):
        """Unsupported, where forward() may set the generators that its graph draws
        from: the graph would not."""
        if self._names(_SET_GENERATORS):
            raise Unsupported(_SETS)

    def _names(self, names):
        return self._surroundings is not None and not (
            self._surroundings.named.attributes.isdisjoint(names))

    def surroundings(self):
        """What was found; None where that is nothing."""
        picture = self._surroundings and Picture(self._surroundings, self._modules)
        if picture is None or picture.is_empty():
            return None
        return dataclasses.replace(self._surroundings, found=picture.nodes)

    def _put_back(self):
        for generators, states, fault in zip(_generators(), self._states, (
                DRAWS.format("Python's or NumPy's random") if self._draws else "",
                _SETS if self._names(_SET_GENERATORS) else "")):
            # Others may have drawn, too, and if none of its code names that, alone.
            if fault and list(map(held.state_of, generators)) != states:
                self.fault = self.fault or fault
                list(map(held.set_state, generators, states))
        faults = list(filter(None, (one.fault() for one in self._pictures)))
        if faults:
            self.fault = self.fault or faults[0]
            for picture in reversed(self._pictures):
                picture.put_back()

    def _entered(self, code, space):
        """Raised, an Unsupported ends the call before its code runs."""
        try:
            self._look(code, space)
        except (Unsupported, RecursionError) as error:
            self.fault = self.fault or str(error)
            raise Unsupported(self.fault) from None

    def _look(self, code, space):
        then = self._surroundings or Surroundings(Named(), self._kinds, (), ())
        named = then.named | named_in(code)
        spaces = () if any(one is space for _, one in then.spaces) else (
            (space.get("__name__", ""), space),)
        functions = tuple(filter(_has_data, self._functions.get(code, ())))
        if spaces or functions or named != then.named:
            self._surroundings = dataclasses.replace(
                then, named=named, spaces=then.spaces + spaces,
                functions=then.functions + functions)
            picture = Picture(self._surroundings, self._modules)
            self._pictures.append(picture)
            self._draws = self._draws or picture.has_random


def _generators():
    return held.shared_generators(), held.generators_of_torch()


def _has_data(function):
    """Whether it has more than code: variables around it, or values of arguments
    that are left out, which can change."""
    return not all(isinstance(in_cell(cell), (type, *CODE))
                   for cell in function.__closure__ or ()) or not all(
        isinstance(value, (*NUMBERS, *CONSTANTS)) for value in (
            *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))
