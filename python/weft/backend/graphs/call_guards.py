"""Whether a module's call is the one that was captured, and its graph's arguments."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch

from weft.backend.graphs import aliases
from weft.backend.graphs.call_matcher import CallMatcher
from weft.backend.graphs.call_structure import is_same_value
from weft.backend.graphs.exported_module import Argument, Captured, same_as
from weft.backend.graphs.module_guards import ModuleGuards

#: The table of a module that has the arguments of a kind.
_TABLES = {"parameter": "_parameters", "buffer": "_buffers"}
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class CallGuards:
    """Captured, bound to the module whose calls it may compute. Threads may share it.

    A call pays for it, so what is compared lies in flat lists."""

    def __init__(self, captured: Captured, module: torch.nn.Module) -> None:
        self.captured = captured
        self.matcher = CallMatcher(captured.structure)
        self.modules = dict(module.named_modules(remove_duplicate=False))
        self._guards: ModuleGuards | None = None  # None: the module has other parts
        if self.modules.keys() == {one.path for one in captured.modules}:
            guards = ModuleGuards(captured.modules, self.modules)
            if guards.is_of_one_kind:
                self._guards = guards
                self._find_arguments()
        #: (all parameters and buffers of the last look that passed, those that the
        #: graph takes): one object, for threads that call meanwhile.
        self._known_state: tuple[list[Any], list[Any]] | None = None
        #: (guards of the tensors of that look, whether one of them wants a gradient)
        self._known_tensors: tuple[Any, bool] = (None, False)

    def _find_arguments(self) -> None:
        arguments = self.captured.arguments
        self._inputs = [argument.leaf for argument in arguments if argument.kind == "input"]
        looks = [bool(argument.look) for argument in arguments]
        self._are_tensors = None if all(looks) else looks
        places: dict[str, dict[Any, int]] = {"buffer": {}, "input": {}}
        for i, one in enumerate(arguments):
            if one.kind in places:
                key = one.leaf if one.kind == "input" else (one.owner, one.name)
                places[one.kind][key] = i
        self._written = [
            places[kind][of]
            for kind, of in self.captured.results
            if kind in places and of in places[kind]
        ]

    def modules_fit(self) -> bool:
        """True if modules, their modes and the default dtype are as they were."""
        return (
            self._guards is not None
            and self._guards.modes_fit()
            and self.captured.default_dtype == torch.get_default_dtype()
        )

    def leaves_fit(self, leaves: list[Any]) -> bool:
        """True if what is no tensor has the same value, and the same tensors are one."""
        captured = self.captured
        return all(is_same_value(leaves[i], value) for i, value in captured.constants.items()) and (
            captured.tensors_max_one or same_as(leaves) == captured.same
        )

    def arguments_of(self, leaves: list[Any]) -> tuple[list[Any] | None, bool]:
        """(the graph's arguments of that call, whether one of them wants a
        gradient); (None, False) if they are others than were captured."""
        if self._guards is None:
            return None, False
        state = self._state()
        if state is None:
            return None, False
        found = [*state, *[leaves[leaf] for leaf in self._inputs]]
        tensors = (
            found
            if self._are_tensors is None
            else list(itertools.compress(found, self._are_tensors))
        )
        guards, wants_gradient = self._known_tensors
        try:
            is_known = guards is not None and guards.check(*tensors)
        except TypeError:  # an input is no tensor
            return None, False
        if not is_known and not self._tensors_fit(found):
            return None, False
        if self._written and self._shares_what_is_written(found):
            return None, False
        if not is_known:
            wants_gradient = any(tensor.requires_grad for tensor in tensors)
            self._known_tensors = (_guards_of(tensors), wants_gradient)
        return found, wants_gradient

    def written_tensor(self, kind: str, place: Any, leaves: list[Any]) -> torch.Tensor:
        """The tensor that a result of the graph, by Captured.results, is copied to."""
        return leaves[place] if kind == "input" else self._tensor_at(place[0], "_buffers", place[1])

    def _state(self) -> list[Any] | None:
        """The parameters, buffers and constants that the graph takes; None if the
        module has others than it had."""
        guards = self._guards
        assert guards is not None  # by arguments_of()
        now, known = guards.tensors(), self._known_state
        if (
            known is not None
            and len(now) == len(known[0])
            and all(map(operator.is_, now, known[0]))
        ):
            return known[1]
        if not guards.tables_fit() or any(
            self._tensor_at(*one) is not self._tensor_at(*other)
            for one, other in self.captured.ties
        ):
            return None
        found = [
            argument.value
            if argument.kind == "constant"
            else self._tensor_at(argument.owner, _TABLES[argument.kind], argument.name)
            for argument in self.captured.arguments
            if argument.kind != "input"
        ]
        self._known_state = now, found
        return found

    def _tensor_at(self, path: str, table: str, name: str) -> Any:
        return getattr(self.modules[path], table).get(name)

    def _shares_what_is_written(self, found: list[Any]) -> bool:
        """True if forward() would write into another argument, too."""
        tensors = [(i, one) for i, one in enumerate(found) if isinstance(one, torch.Tensor)]
        spans = sorted(aliases.span_of(one) for _, one in tensors)
        if all(a[1] <= b[0] for a, b in itertools.pairwise(spans)):
            return False  # each has memory of its own
        return any(
            i != j and aliases.overlap(found[j], other)
            for j in self._written
            for i, other in tensors
        )

    def _tensors_fit(self, found: list[Any]) -> bool:
        # Inputs come last, and differ most often.
        return all(map(_fits, reversed(self.captured.arguments), reversed(found)))


def _fits(argument: Argument, value: Any) -> bool:
    return argument.fits(value) and (not argument.look or type(value) in _TENSORS)


def _guards_of(tensors: list[torch.Tensor]) -> Any:
    """What PyTorch's compiler compares tensors with, in C++: all of them in the
    time of a few looks. None where this PyTorch has none; they know no tensor
    twice."""
    kind = getattr(torch._C._dynamo.guards, "TensorGuards", None)
    if kind is None or len({id(tensor) for tensor in tensors}) != len(tensors):
        return None
    try:
        return kind(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
    except Exception:  # made otherwise in another PyTorch: the slow look stays
        return None
