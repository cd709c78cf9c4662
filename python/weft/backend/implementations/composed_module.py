"""A composed module, loaded into the user's process and called with the
graph's own arguments."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch

from weft.backend.graphs.graph_arguments import _WeftGraphCall, _WeftSize

_count = itertools.count()
#: Digests of modules that no call may take any more, and why.
_revoked: dict[Any, Any] = {}


class GuardFailed(Exception):
    """The module's own guards do not know these arguments."""


class Revoked(Exception):
    """Why its kernels were found to be wrong, after they had been taken."""


def revoke(digest: str, reason: str) -> None:
    """From now on no call of this process takes kernels of that text, wherever
    it was loaded from."""
    _revoked[digest] = reason


def why_revoked(digest: str) -> str:
    """Why no call may take kernels of that text; "" if calls may."""
    return _revoked.get(digest, "")


def digest_of(text: str) -> Any:
    return hashlib.sha256(text.encode()).hexdigest()


class ComposedModule:
    """ModelNew of a file, without tensors of its own: what it reads are the
    tensors of each call. `identity` is (the entry's path, its text's digest)."""

    def __init__(self, source: Any, path: str) -> None:
        """Builds its kernels, which takes a compiler's time. Raises what the
        file does."""
        self.source = source
        given_back = {output[1] for output in source.outputs if output[0] in ("argument", "view")}
        self._constants = Constants(source.constants, given_back)
        self._of_sizes = SizeTensors(source.numbers)
        self._numbers = Numbers([i for i in source.inputs if i not in given_back])
        self.text = text_of(path)
        self._digest = digest_of(self.text)
        self.identity = path, self._digest
        self.raise_if_revoked()
        # The user's own code is a better reference than the graph in it.
        self._call = _WeftGraphCall(
            loaded(path).ModelNew,
            source.inputs,
            source.state,
            source.parameters,
            source.outputs,
            reference=_decline,
        )
        self._call.instance()

    def __call__(self, arguments: Any) -> Any:
        """The graph's results for its arguments, a list."""
        self.raise_if_revoked()
        given = [*self._numbers.on_device(arguments), *self._of_sizes.of(arguments)]
        return self._call([*given, *self._constants.beside(given)])

    def raise_if_revoked(self) -> None:
        if self._digest in _revoked:
            raise Revoked(_revoked[self._digest])


class Constants:
    """A graph's own tensors. Dynamo leaves a number that a model makes on the
    processor; what was verified had it on the device that the model is on.
    `given_back`: which of all that the graph reads are results, too (its
    arguments come first): those stay where they are."""

    def __init__(self, given: Any, given_back: Any = ()) -> None:
        self._given, self._given_back = given, given_back
        self._numbers = [one for one in given if one.dim() == 0 and one.device.type == "cpu"]
        #: (their versions, all tensors): of one call or another.
        self._there: tuple[list[int | None] | None, Any] = (None, given)

    def beside(self, arguments: Any) -> Any:
        """As they are now, numbers where the graph's arguments are."""
        if not self._numbers:
            return self._given
        versions = [None if number.is_inference() else number._version for number in self._numbers]
        known = self._there
        if known[0] != versions:
            known = self._there = versions, self._at(arguments)
        return known[1]

    def _at(self, arguments: Any) -> Any:
        # A graph is of tensors on the devices that it was captured with.
        device = _device_of(arguments)
        if device is None:
            self._numbers = []  # nothing is ever moved
            return self._given
        return [
            one.to(device)
            if any(one is it for it in self._numbers) and len(arguments) + i not in self._given_back
            else one
            for i, one in enumerate(self._given)
        ]


class Numbers:
    """Arguments of a graph on a GPU that are numbers on the host: Dynamo passes a
    Python float that changes so. The kernels were verified with these numbers on
    the GPU. `positions`: of the arguments that may be moved."""

    def __init__(self, positions: list[int]) -> None:
        self._positions = positions
        #: Those that are numbers on the host; None: no call was seen.
        self._moved: list[int] | None = None

    def on_device(self, arguments: list[object]) -> list[object]:
        """The arguments, with these numbers where the others are."""
        if self._moved is None:
            self._moved = self._found(arguments)
        if not self._moved:
            return arguments
        device = _device_of(arguments)
        moved: list[Any] = list(arguments)
        for i in self._moved:
            moved[i] = moved[i].to(device)
        return moved

    def _found(self, arguments: list[object]) -> list[int]:
        if _device_of(arguments) is None:
            return []
        return [
            i
            for i in self._positions
            if isinstance(one := arguments[i], torch.Tensor)
            and one.dim() == 0
            and one.device.type == "cpu"
        ]


class SizeTensors:
    """Tensors that a call makes of its sizes: (_WeftSize, dtype) of each."""

    #: Calls of other sizes make them anew.
    KNOWN_MAX = 64

    def __init__(self, made: Sequence[tuple[_WeftSize, torch.dtype]]) -> None:
        self._made = made
        self._known: dict[tuple[object, ...], torch.Tensor] = {}

    def of(self, arguments: list[object]) -> list[torch.Tensor]:
        """The tensors of that call, on the device of the arguments."""
        if not self._made:
            return []
        device = _device_of(arguments) or torch.device("cpu")
        return [self._tensor(size.of(arguments), dtype, device) for size, dtype in self._made]

    def _tensor(self, value: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        key = value, dtype, device
        if key not in self._known:
            if len(self._known) >= self.KNOWN_MAX:
                self._known = {}
            self._known[key] = torch.tensor(value, dtype=dtype, device=device)
        return self._known[key]


def _device_of(arguments: list[object]) -> torch.device | None:
    """The first device of the arguments that is not the host; None: no such."""
    return next(
        (
            argument.device
            for argument in arguments
            if isinstance(argument, torch.Tensor) and argument.device.type != "cpu"
        ),
        None,
    )


def _decline(*_: Any, **__: Any) -> None:
    raise GuardFailed("the guards of the composed module do not know these arguments")


def text_of(path: str) -> Any:
    with open(os.path.join(path, "model_new.py"), encoding="utf-8", newline="") as file:
        return file.read()


def loaded(path: Any) -> Any:
    """The Python module of an entry, executed anew."""
    name = f"weft_composed_{next(_count)}"
    spec = importlib.util.spec_from_file_location(name, os.path.join(path, "model_new.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
