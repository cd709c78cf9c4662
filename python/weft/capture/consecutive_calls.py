"""Proves that what forward() keeps may be captured, and judged, as buffers.

Both have a tensor for each name, written at each call's end (attribute_state.py). A model
may bind one tensor to two names, or a parameter to one, and write into it in place. It then
does something else, often only from its second call on. So some calls are made in a row, of
the model itself and of the model with buffers. The arguments are the same tensors each
time, with other values, as when a caller reuses them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.capture import check as capture_check
from weft.problem import attribute_buffers, attribute_state
from weft.problem import problem as problems
from weft.problem.problem import Problem, ProblemError

CALLS = 3


def check(
    problem: Problem, model: torch.nn.Module, inputs: list[Any], begin: Callable[[], object]
) -> None:
    """ProblemError if they differ. `model`: with the buffers of
    attribute_buffers, which its calls write. begin(): each call's random numbers
    begin there."""
    if not _keeps(problem):
        return
    place = next((leaf.device for leaf in _tensors(inputs)), None)
    plain = problems.build_model(problem, device=place, adopts=False)
    ours, theirs = _copied(inputs), _copied(inputs)
    for number in range(CALLS):
        if number:
            _refill((ours, theirs), problems.make_inputs(problem, problems.SEED + number, place))
        begin()
        try:
            expected = problems.run_forward(problem, plain, theirs)
        except ProblemError:
            return  # only with its tensors moved, as buffers are, does it run
        begin()
        got = problems.run_forward(problem, model, ours)
        _compare(problem, number, (expected, theirs), (got, ours))


def check_problem(problem: Problem, device: torch.device) -> None:
    """The same of a problem whose model is not built yet."""
    if not _keeps(problem):
        return
    model = problems.build_model(problem, device=device)
    attribute_state.write_back(problem, model)
    check(
        problem,
        model,
        problems.make_inputs(problem, device=device),
        lambda: torch.manual_seed(problems.SEED),
    )


def _keeps(problem: Problem) -> bool:
    """Whether its methods bind or write attributes."""
    source = problems.read_source(problem.path)
    return any(attribute_buffers.changed_attributes(source).values())


def _compare(problem: Problem, number: int, expected: Any, got: Any) -> None:
    try:
        for one, other in zip(_tensors(expected), _tensors(got), strict=True):
            capture_check.compare(one, other, f"a result of call {number + 1}")
    except ProblemError as error:
        raise ProblemError(
            "unsupported",
            "Model.forward keeps one tensor under two names, or a "
            "parameter under another, and writes into it: some call computes "
            "something else than with a tensor of its own for each name: keep "
            "it under one, or write the other with self.name.copy_(x)",
            file=os.path.basename(problem.path),
            details=str(error),
        ) from None


def _tensors(nest: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(nest) if isinstance(leaf, torch.Tensor)]


def _copied(nest: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, torch.clone, nest)


def _refill(nests: Iterable[Any], fresh: Any) -> None:
    for nest in nests:
        for leaf, values in zip(_tensors(nest), _tensors(fresh)):
            if leaf.shape == values.shape:
                leaf.copy_(values)
