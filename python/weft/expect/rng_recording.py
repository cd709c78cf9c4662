"""The random numbers that a model draws, given again to its float64 run.

From the same seed float64 draws others than float32 does, and a model that
draws would have no float64 answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from weft.problem.module_state import rng_state
from weft.problem.operator_trace import Mode
from weft.problem.widen import widen

#: What is drawn does not follow from operands, or is a choice among them.
_DRAWN = {
    "bernoulli",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "normal",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "uniform",
}


@dataclass(frozen=True)
class _Call:
    """A call of an operator that may draw; `name` is without the overload's."""

    name: str
    function: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        return self.function(*self.args, **self.kwargs)


class _Draws(Mode):
    """`drawn`: (operator, what it drew), in order."""

    def __init__(self, drawn: list[tuple[str, torch.Tensor]]) -> None:
        super().__init__()
        self._drawn = drawn

    def on_call(
        self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        name = function.overloadpacket.__name__
        # A mean that is a tensor is part of what `normal` gives.
        if (name == "native_dropout" or name.rstrip("_") in _DRAWN) and not (
            name == "normal" and function._overloadname.startswith(("Tensor", "float_Tensor"))
        ):
            return self._draw(_Call(name, function, args, kwargs))
        return self._may_draw(_Call(name, function, args, kwargs))

    def _draw(self, call: _Call) -> Any:
        raise NotImplementedError

    def _may_draw(self, call: _Call) -> Any:
        raise NotImplementedError


class Take(_Draws):
    """Within it, what is drawn is written down. LookupError: it can't be."""

    def __init__(self, drawn: list[tuple[str, torch.Tensor]], device: torch.device) -> None:
        super().__init__(drawn)
        self._device = device

    def _draw(self, call: _Call) -> Any:
        result = call.run()
        drawn = result[1] if call.name == "native_dropout" else result
        self._drawn.append((call.name, drawn.clone()))
        return result

    def _may_draw(self, call: _Call) -> Any:
        """Attention and recurrent layers draw only where they drop."""
        before = rng_state(self._device)
        result = call.run()
        if rng_state(self._device) != before:
            raise LookupError(f"what {call.name} draws is not told")
        return result


class Give(_Draws):
    """Within it, it is drawn again, as float64. LookupError: it can't be."""

    def _draw(self, call: _Call) -> Any:
        then, drawn = self._drawn.pop(0) if self._drawn else ("", None)
        if drawn is None or then != call.name:
            raise LookupError(f"{call.name} has not drawn so before")
        if call.name == "native_dropout":
            x, p, trains = call.args
            scale = 1 / (1 - p) if trains is not False and p < 1 else 1.0
            return x * drawn * scale, drawn
        if call.name.endswith("_"):
            return call.args[0].copy_(drawn)
        if "out" in call.kwargs:
            return call.kwargs["out"].copy_(drawn)
        return widen(drawn)

    def _may_draw(self, call: _Call) -> Any:
        return call.run()  # it did not
