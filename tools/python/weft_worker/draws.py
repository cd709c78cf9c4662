"""The random numbers that a model draws, given again to its float64 run.

From the same seed float64 draws others than float32 does, and a model that
draws would have no float64 answer.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .reference import widen

#: What is drawn does not follow from the operands' values, or is a choice.
_DRAWN = {
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal",
    "multinomial", "normal", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "random", "randperm", "uniform",
}


class _Draws(TorchDispatchMode):
    """`drawn`: (operator, what it drew), in order."""

    def __init__(self, drawn):
        super().__init__()
        self._drawn = drawn

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in function.tags:
            return function(*args, **kwargs)
        return self._draw(function.overloadpacket.__name__, function,
                          args, kwargs)


class Take(_Draws):
    """Within it, what is drawn is written down."""

    def _draw(self, name, function, args, kwargs):
        result = function(*args, **kwargs)
        is_dropout = name == "native_dropout"
        drawn = result[1] if is_dropout else result
        # Who draws in some other way has no second run that draws the same.
        known = is_dropout or name.rstrip("_") in _DRAWN
        self._drawn.append((name, drawn.clone() if known else None))
        return result


class Give(_Draws):
    """Within it, it is drawn again, as float64. LookupError: it can't be."""

    def _draw(self, name, function, args, kwargs):
        then, drawn = self._drawn.pop(0) if self._drawn else ("", None)
        if then != name or drawn is None:
            raise LookupError(f"{name} has not drawn so before")
        if name == "native_dropout":
            x, p, trains = args
            scale = 1 / (1 - p) if trains and p < 1 else 1.0
            return x * drawn * scale, drawn
        if name.endswith("_"):
            return args[0].copy_(drawn)
        return widen(drawn)
