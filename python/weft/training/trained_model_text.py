"""ModelNew's file: the problem's text, what its graphs' modules are, and the
parts that call them (backend/graphs/graph_arguments.py, trained_model_part.py). It
needs PyTorch, and nothing of weft."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from torch.utils import _pytree as pytree

from weft.backend.graphs import graph_arguments
from weft.backend.graphs.problem_source import Source, Unsupported
from weft.quoted import quoted
from weft.runs import read_text

if TYPE_CHECKING:
    import torch

    from weft.backend.graphs.exported_module import Argument
    from weft.training.joint import Step

_PART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trained_model_part.py")


@dataclasses.dataclass
class GraphText:
    """What computes one of the graphs: `source` (problem_source.Source), and the
    module that a search composed, or None: the graph's own operators."""

    source: Source
    composed: str | None

    @property
    def text(self) -> str:
        return self.source.text if self.composed is None else self.composed

    def plan(self) -> dict[str, Any]:
        source = self.source
        return {
            "kernels": self.composed is not None,
            "inputs": source.inputs,
            "state": source.state,
            "parameters": source.parameters,
            "outputs": source.outputs,
            "constants": _Code("[" + ", ".join(map(tensor_text, source.constants)) + "]"),
        }


class _Code:
    """Stands for itself in a repr."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def write(problem_text: str, step: Step, forward: GraphText, backward: GraphText) -> str:
    """The file's text; forward and backward are GraphTexts."""
    call = read_text(graph_arguments.__file__)
    return (
        f"{problem_text.rstrip()}\n\n\n"
        "# By `weft run --train`, from here on.\nimport torch\n\n"
        f"_weft_forward_text = {quoted(forward.text)}\n"
        f"_weft_backward_text = {quoted(backward.text)}\n"
        f"_weft_plan = {_shown(plan_of(step, forward, backward))}\n\n"
        f"{call}\n\n{read_text(_PART)}"
    )


def plan_of(step: Step, forward: GraphText, backward: GraphText) -> dict[str, Any]:
    captured = step.captured
    call = captured.structure.spec
    inputs = pytree.tree_unflatten(range(call.num_leaves), call)
    # Captured.result is of the result and of changed objects, of which none are here.
    result = pytree.tree_unflatten(range(captured.result.spec.num_leaves), captured.result.spec)[0]
    written = {place for kind, place in captured.results if kind == "buffer"}
    buffers = {i for i, one in enumerate(captured.arguments) if (one.owner, one.name) in written}
    kept = forward.source.outputs[step.count :]
    return {
        "arguments": [
            _argument(one, value) for one, value in zip(captured.arguments, step.arguments)
        ],
        "structure": pytree.treespec_dumps(pytree.tree_structure(inputs)),
        "result": pytree.treespec_dumps(pytree.tree_structure(result)),
        "results": captured.results,
        "differentiable": step.differentiable,
        "wanted": step.wanted,
        "copied": [
            i for i, one in enumerate(kept) if one[0] in ("argument", "view") and one[1] in buffers
        ],
        "parts": {
            module.path: (module.training, step.settings[module.path])
            for module in captured.modules
        },
        "forward": forward.plan(),
        "backward": backward.plan(),
    }


def _argument(one: Argument, value: torch.Tensor) -> tuple[Any, ...]:
    constant = _Code(tensor_text(value)) if one.kind == "constant" else None
    return (
        one.kind,
        one.owner,
        one.name,
        one.leaf,
        constant,
        (
            tuple(value.shape),
            tuple(value.stride()),
            value.dtype,
            value.device.type,
            value.requires_grad,
        ),
    )


def tensor_text(value: torch.Tensor) -> str:
    """Code that makes this tensor, on the host."""
    if value.is_complex():
        raise Unsupported(
            "it holds a complex tensor that is no parameter and no buffer: register it as a buffer"
        )
    numbers = value.detach().cpu().reshape(-1).tolist()
    shown = ", ".join(
        f"float('{number}')" if isinstance(number, float) and number - number != 0 else repr(number)
        for number in numbers
    )
    return f"torch.tensor([{shown}], dtype={value.dtype}).reshape({tuple(value.shape)})"


def _shown(plan: dict[str, Any]) -> str:
    lines = [f"    {name!r}: {value!r},\n" for name, value in plan.items()]
    return "{\n" + "".join(lines) + "}"
