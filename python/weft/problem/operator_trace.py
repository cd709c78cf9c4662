"""Lists PyTorch's operators that a call uses: {name: how often}.

A candidate's code can hide from the trace. So the list informs, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

#: A report names this many operators at most.
NAMES_MAX = 100
#: Move or make data but compute nothing: not worth naming.
_PLUMBING = (
    "alias",
    "arange",
    "as_strided",
    "clone",
    "contiguous",
    "copy_",
    "detach",
    "empty",
    "expand",
    "fill_",
    "full",
    "lift_fresh",
    "new_",
    "ones",
    "permute",
    "reshape",
    "resize_",
    "select",
    "slice",
    "split",
    "squeeze",
    "t.",
    "_local_scalar_dense",
    "_reshape",
    "_to_copy",
    "_unsafe_view",
    "transpose",
    "unbind",
    "unsqueeze",
    "view",
    "zero",
)


class Mode(TorchDispatchMode):
    """A mode that begins at once, and sees each call of an operator."""

    def __torch_dispatch__(
        self,
        function: torch._ops.OpOverload,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self.on_call(function, args, kwargs or {})

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call's result."""
        raise NotImplementedError

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else loading torch._dynamo, which takes seconds, comes first."""
        return False


class Recorder(Mode):
    """Writes down the operators that are called within it."""

    def __init__(self) -> None:
        super().__init__()
        self.called: dict[str, int] = {}

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = str(function)
        if name in self.called or len(self.called) < NAMES_MAX:
            self.called[name] = self.called.get(name, 0) + 1
        return function(*args, **kwargs)

    @property
    def computing(self) -> dict[str, int]:
        """Those that compute something: {name: how often}."""
        return {n: k for n, k in self.called.items() if computes(n)}


def run(function: Callable[..., Any], args: Iterable[Any]) -> tuple[Any, dict[str, int]]:
    """(function(*args), the operators that it called)."""
    recorder = Recorder()
    with recorder:
        result = function(*args)
    return result, recorder.computing


def computes(name: str) -> bool:
    """Whether that operator ("aten.mm.default") computes something."""
    return not name.partition(".")[2].startswith(_PLUMBING)
