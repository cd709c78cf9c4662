"""Whether a model is the same graph at every size, by the exporter's word.

A run with --dynamic-batch (or -dim) captures a problem at several sizes (its text then says
WEFT_SIZES, one for each symbol) and compares the graphs. That does not show a branch that
is taken beyond all of them. The exporter gets the sizes as symbols, and reports what the
model asks of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.capture import export
from weft.problem.problem import Problem, ProblemError
from weft.problem.sentences import first_sentence

if TYPE_CHECKING:
    import torch


#: What the exporter calls the symbols, in their order.
NAMES = ("batch", "sequence")


def sizes_of(problem: Problem) -> Sequence[int] | None:
    """The sizes that the problem file was given, no two alike; or None."""
    return getattr(problem.module, "WEFT_SIZES", None)


def check(problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> None:
    """ProblemError, where the model is another one at some sizes."""
    import torch
    from torch.utils import _pytree as pytree

    symbols = {
        size: torch.export.Dim(name, min=2) for name, size in zip(NAMES, sizes_of(problem) or ())
    }
    try:
        shapes = _shapes(problem, symbols, inputs)
        named = pytree.tree_leaves(shapes)
        if not all(symbol in named for symbol in symbols.values()):
            raise refusal(problem, "no input has the size as a dimension")
        with export.prepared_exporter():
            torch.export.export(model, tuple(inputs), strict=False, dynamic_shapes=shapes)
    except (KeyboardInterrupt, ProblemError):
        raise
    except BaseException as error:
        raise refusal(problem, _why(error)) from error


def _shapes(problem: Problem, symbols: dict[int, Any], inputs: list[Any]) -> Any:
    """What the exporter is told of the inputs: of each tensor its dimensions that
    grow. Those of a problem with get_inputs_at() may grow otherwise than a size
    does, of any other they are sizes."""
    import torch
    from torch.utils import _pytree as pytree

    make, sizes = getattr(problem.module, "get_inputs_at", None), list(symbols)
    larger = (
        [
            pytree.tree_leaves(tuple(make(*(size + (i == which) for i, size in enumerate(sizes)))))
            for which in range(len(sizes))
        ]
        if make
        else []
    )
    leaves, structure = pytree.tree_flatten(tuple(inputs))
    return pytree.tree_unflatten(
        [
            _dims(symbols, leaf, others) if isinstance(leaf, torch.Tensor) else None
            for leaf, *others in zip(leaves, *larger)
        ],
        structure,
    )


def _dims(
    symbols: dict[int, Any], leaf: torch.Tensor, others: list[torch.Tensor]
) -> dict[int, Any]:
    """{dimension: what the exporter is told of it} of a tensor; `others`: it where
    a size is one more. Of one that joins sizes the exporter finds out which."""
    import torch

    found = {}
    for dim, n in enumerate(leaf.shape):
        rates = [
            (other.shape[dim] - n, size, symbol)
            for other, (size, symbol) in zip(others, symbols.items())
            if other.shape[dim] != n
        ]
        if n in symbols:
            found[dim] = symbols[n]
        elif len(rates) == 1:
            rate, size, symbol = rates[0]
            found[dim] = rate * symbol + (n - rate * size)
        elif rates:
            found[dim] = torch.export.Dim.DYNAMIC
    return found


def refusal(problem: Problem, why: str) -> ProblemError:
    return ProblemError(
        "one_batch",
        f"{problem.name} cannot have kernels for any size: {why}; "
        "leave out --dynamic-batch or --dynamic-dim",
        file=problem.name,
    )


def _why(error: BaseException) -> str:
    """What the exporter says of the sizes, of its many lines."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    for line in lines:
        if re.search(
            r"(batch|sequence).*(satisf|specializ|constant)|"
            "Not all values",
            line,
        ):
            return line
    return first_sentence(error)
