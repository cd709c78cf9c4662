"""The rules for what forward() keeps for its next call: buffers stay the same
tensors (attribute_buffers.py makes buffers of plain ones), and parameters are not
written."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.device.arena import same_bytes
from weft.problem.attribute_buffers import joined, whole, written_by
from weft.problem.problem import Problem, ProblemError, read_source

#: A module's buffers, the name of one, its tensor, and the one bound to it now.
_Changed = tuple[dict[str, torch.Tensor | None], str, torch.Tensor, torch.Tensor]


@contextlib.contextmanager
def parameters_refused(problem: Problem, model: torch.nn.Module) -> Iterator[None]:
    """Around a call of the model: ProblemError if it writes a parameter, as
    one does that sets its own in the first call."""
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    yield
    for name, tensor in model.named_parameters():
        if name in before and not same_values(tensor, before[name]):
            raise written_parameter(problem, name)


def same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Byte by byte."""
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and same_bytes(*(t.detach().contiguous().reshape(-1) for t in (one, other)))
    )


def written_parameter(problem: Problem, name: str) -> ProblemError:
    return ProblemError(
        "unsupported",
        f"Model.forward writes into its parameter {name}, which "
        "a model's calls must leave as it is: set it in __init__, or make it a "
        "buffer",
        file=problem.name,
        line=_line_of_write(problem, name.rpartition(".")[2]),
    )


def _line_of_write(problem: Problem, name: str) -> int:
    """0: it is not seen where."""
    for node in nodes_of_calls(problem):
        for written in written_by(node):
            if getattr(whole(written), "attr", None) == name:
                return int(getattr(node, "lineno"))
    return 0


def nodes_of_calls(problem: Problem) -> list[ast.AST]:
    """The source's syntax nodes outside of constructors, in order of lines."""
    source = ast.parse(read_source(problem.path))
    left_out = {
        id(node)
        for method in ast.walk(source)
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for node in ast.walk(method)
    }
    found = [
        node for node in ast.walk(source) if id(node) not in left_out and hasattr(node, "lineno")
    ]
    return sorted(found, key=lambda node: getattr(node, "lineno"))


def write_back(problem: Problem, model: torch.nn.Module) -> None:
    """From now on the model's buffers stay the tensors that they are: what a
    call binds to their names is written into them at its end."""
    before: list[tuple[str, dict[str, torch.Tensor | None], dict[str, torch.Tensor | None]]] = []

    def note(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        before[:] = [
            (path, part._buffers, dict(part._buffers)) for path, part in module.named_modules()
        ]

    def settle(module: torch.nn.Module, inputs: tuple[Any, ...], result: Any) -> Any:
        changed: list[_Changed] = []
        for path, buffers, held in before:
            for name, tensor in held.items():
                now: Any = buffers.get(name)
                if now is tensor or tensor is None:
                    continue
                check_alike(problem, joined(path, name), tensor, now)
                check_own(problem, joined(path, name), now, inputs)
                changed.append((buffers, name, tensor, now))
        before.clear()
        with torch.no_grad():
            # All are read before one is written: they may be each other's, and
            # the result one of them.
            values = [now.clone() for *_, now in changed]
            result = pytree.tree_map_only(torch.Tensor, lambda leaf: _apart(leaf, changed), result)
            for (buffers, name, tensor, _), value in zip(changed, values):
                buffers[name] = tensor.copy_(value)
        return result

    model.register_forward_pre_hook(note)
    model.register_forward_hook(settle)


def _apart(leaf: torch.Tensor, changed: list[_Changed]) -> torch.Tensor:
    """It, or a copy where it is a tensor that will be written."""
    base = leaf._base if leaf._is_view() else leaf
    return leaf.clone() if any(base is t for _, _, t, _ in changed) else leaf


def check_alike(problem: Problem, name: str, tensor: torch.Tensor, now: object) -> None:
    what = type(now).__name__
    if isinstance(now, torch.Tensor):
        if now.dtype == tensor.dtype and now.shape == tensor.shape:
            return
        what = f"{now.dtype} {list(now.shape)}"
    raise ProblemError(
        "unsupported",
        f"Model.forward binds {name}, which was {tensor.dtype} "
        f"{list(tensor.shape)}, to {what}: what it keeps for the next call must "
        "keep its shape",
        file=problem.name,
    )


def check_own(problem: Problem, name: str, now: object, inputs: Any) -> None:
    """A caller that writes into an argument afterwards would write into what is
    kept. (The exporter's own tensors, which have no memory, come later.)"""
    if type(now) is not torch.Tensor:
        return
    held = now.untyped_storage().data_ptr()
    for leaf in pytree.tree_leaves(inputs):
        if (
            type(leaf) is torch.Tensor
            and leaf.numel()
            and leaf.untyped_storage().data_ptr() == held
        ):
            raise ProblemError(
                "unsupported",
                f"Model.forward keeps one of its arguments as it "
                f"is in {name}, where its caller may write: write it with "
                f"self.{name}.copy_(x)",
                file=problem.name,
                line=_line_of_write(problem, name.rpartition(".")[2]),
            )
