"""Proves a capture: runs the written graph and compares it with the model.

It runs the graph's JSON and not the exporter's program, so that what the
compiler reads is what was checked. Both runs start from the same seed and
must leave the random generator in the same state: else the composition would
draw other numbers than the model.
"""

from __future__ import annotations

import operator
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from weft.problem import problem as problems
from weft.problem.node_names import used_by
from weft.problem.problem import ProblemError

if TYPE_CHECKING:
    import torch

    from weft.capture.matching import Runs

# How far two float32 computations of one model may differ: operators taken
# apart round differently. Relative to the element, and to the largest one.
RELATIVE_TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 3e-2, "bfloat16": 1e-1}
SCALE_TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 5e-3, "bfloat16": 3e-2}
# What a call leaves in a buffer may have cancelled (the mean of what has none):
# it is rounding of numbers about 1, and so held against this much at least.
CANCELLED_SCALE = 0.01
# A GPU's library chooses at each call whether a convolution uses TF32: what
# then cancels (a mean of normalised values) differs by more of the little left.
TF32_TOLERANCE_TIMES = 50
# What has products and may draw random numbers beside.
DRAWING = ("attention", "dropout", "gru", "lstm", "rnn")
# What rounding makes of a model is at most so many times what it makes of it to
# have its inputs off by one unit of roundoff.
SWAY_TIMES = 8
# An argmax may fall the other way where two elements are within rounding.
INTEGER_MISMATCH_SHARE_MAX = 1e-3


def run_graph(
    graph: dict[str, Any],
    model: torch.nn.Module,
    leaves: list[Any],
    place: torch.device | str = "cpu",
) -> tuple[list[Any], dict[str, Any]]:
    """Runs the graph on the flattened inputs; literals are made at `place`.

    Returns (outputs, {target: mutated value}). Strides that the framework's
    shape rules guessed are replaced in `graph` by those that the run had, and
    products that were TF32 are told in it.
    """
    last_use = last_uses(graph)
    left = iter(leaves)
    values: dict[str, Any] = {}
    for index, node in enumerate(graph["nodes"]):
        value = node_value(node, values, model, left, place)
        check_values(node, value)
        if was_tf32(node, value, values, place):
            node["tf32"] = True
        values[node["name"]] = value
        for name in last_use.get(index, ()):
            del values[name]
    outputs = [values[name] for name in graph["outputs"]]
    mutated = {item["target"]: values[item["node"]] for item in graph["mutations"]}
    return outputs, mutated


def node_value(
    node: dict[str, Any],
    values: dict[str, Any],
    model: torch.nn.Module | None,
    leaves: Iterator[Any] | None,
    place: torch.device | str,
) -> Any:
    if node["kind"] == "input":
        assert leaves is not None
        return next(leaves)
    if node["kind"] == "call":
        args = [argument(arg, values) for arg in node["args"]]
        kwargs = {key: argument(arg, values) for key, arg in node["kwargs"].items()}
        return function_of(node["target"])(*args, **kwargs)
    if node.get("elements"):
        return literal_tensor(node, place)
    value: Any = model
    for part in node["target"].split("."):
        value = getattr(value, part)
    return value.detach()


def was_tf32(
    node: dict[str, Any], value: Any, values: dict[str, Any], place: torch.device | str
) -> bool:
    """Whether the library computed that call in TF32: kernels may, too."""
    import torch

    from weft.expect import tf32

    if node["kind"] != "call" or not tf32.multiplies([node["target"]]):
        return False
    if any(word in node["target"] for word in DRAWING):  # once, as the model
        return False
    if not tf32.is_allowed(torch.device(place)):
        return False
    with tf32.forbidden():
        exact = node_value(node, values, None, None, place)
    results = [
        part for part in (value if node["is_tuple"] else [value]) if isinstance(part, torch.Tensor)
    ]
    others = exact if node["is_tuple"] else [exact]
    return tf32.was_used(results, [part for part in others if isinstance(part, torch.Tensor)])


def literal_tensor(node: dict[str, Any], place: torch.device | str) -> torch.Tensor:
    import torch

    type_ = node["values"][0]
    elements = [
        float(item["float"]) if isinstance(item, dict) else item for item in node["elements"]
    ]
    tensor = torch.tensor(elements, dtype=getattr(torch, type_["dtype"]), device=place)
    return tensor.reshape(type_["shape"])


def function_of(target: str) -> Callable[..., Any]:
    """The operator of that name in the graph."""
    import torch

    if target == "getitem":
        return operator.getitem
    _, name, overload = target.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)


def argument(arg: Any, values: dict[str, Any]) -> Any:
    import torch

    if isinstance(arg, list):
        return [argument(part, values) for part in arg]
    if not isinstance(arg, dict):
        return arg
    ((kind, value),) = arg.items()
    if kind == "node":
        return values[value]
    if kind == "float":
        return float(value)
    if kind == "device":
        return torch.device(value)
    return getattr(torch, value)


def last_uses(graph: dict[str, Any]) -> dict[int, list[str]]:
    """Index of a node → names that nothing reads after it."""
    kept = set(graph["outputs"])
    kept.update(item["node"] for item in graph["mutations"])
    last = {}
    for index, node in enumerate(graph["nodes"]):
        last[node["name"]] = index
        for name in used_by(node):
            last[name] = index
    freed: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in kept:
            freed.setdefault(index, []).append(name)
    return freed


def check_values(node: dict[str, Any], value: Any) -> None:
    """Holds the node's declared shapes against what it returned, and takes
    its types and strides from that: the exporter's rules for half types differ
    from what runs (a batch norm's statistics)."""
    import torch

    parts = value if node["is_tuple"] else [value]
    for declared, part in zip(node["values"], parts):
        if declared is None or not isinstance(part, torch.Tensor):
            continue
        dtype = str(part.dtype).removeprefix("torch.")
        if part.is_quantized:
            raise quantized(node)
        if list(part.shape) != declared["shape"]:
            raise Mismatch(
                f"node {node['name']} ({node['target']}) is {dtype} "
                f"{list(part.shape)}, not {declared['dtype']} "
                f"{declared['shape']}"
            )
        declared["dtype"] = dtype
        declared["stride"] = list(part.stride())


def quantized(node: dict[str, Any]) -> ProblemError:
    """The exporter's shape rules take these for dense tensors."""
    file, _, line = node["source"].partition(":")
    return ProblemError(
        "unsupported",
        f"{node['target']} makes a quantised tensor, which cannot be compiled: use dense tensors",
        file=file,
        line=int(line or 0),
    )


class Unsteady(ProblemError):
    """A model's second run from the same state differs from its first."""

    def __init__(self, difference: Mismatch) -> None:
        super().__init__(
            "capture_differs",
            "two calls of the model differ, from the same "
            f"inputs, buffers and random state: {difference.what}; make forward() "
            "deterministic, or look for state that it keeps outside of buffers",
            code="failed",
        )


class Mismatch(ProblemError):
    """`what` differs between the model and its graph, though two calls of the
    model agree."""

    def __init__(self, what: str) -> None:
        super().__init__(
            "capture_differs",
            problems.internal_error(
                f"the captured graph does not compute what the model does: {what}"
            ),
            code="failed",
        )
        self.what = what


class OtherDraws(ProblemError):
    """The graph leaves another state of the random generator than the model."""

    def __init__(self) -> None:
        super().__init__(
            "capture_differs",
            "the captured graph draws other random numbers than "
            "the model: forward() must neither seed torch's generator nor draw "
            "numbers that it does not use",
            code="failed",
        )


class GraphFailed(ProblemError):
    """The graph's run raised `error`, and the model's did not."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(
            "capture_differs",
            problems.internal_error(
                f"the captured graph raised {type(error).__name__}: {problems.short(error)}"
            ),
            code="failed",
            details="".join(traceback.format_exception(error)),
        )


def compare(
    expected: torch.Tensor,
    got: torch.Tensor,
    what: str,
    has_tf32: bool = False,
    scale_min: float = 0.0,
    swayed: torch.Tensor | None = None,
) -> None:
    """Raises Mismatch where two tensors differ beyond rounding, that of
    TF32 where a convolution may have used it. `scale_min`: what the largest
    element counts as, at least. `swayed`: what the model gave where its inputs
    were off by rounding."""
    import torch

    if expected.dtype != got.dtype or expected.shape != got.shape:
        raise Mismatch(
            f"{what} is {got.dtype} {list(got.shape)}, not {expected.dtype} {list(expected.shape)}"
        )
    if torch.equal(expected, got):
        return
    if not expected.is_floating_point():
        share = (expected != got).double().mean().item()
        if share > INTEGER_MISMATCH_SHARE_MAX:
            raise Mismatch(f"{what} differs in {share:.2%} of its elements")
        return
    dtype = str(expected.dtype).removeprefix("torch.")
    finite = expected[torch.isfinite(expected)]
    scale = finite.abs().max().item() if finite.numel() else 0.0
    slack = SCALE_TOLERANCE[dtype] * max(scale, scale_min)
    if has_tf32 and dtype == "float32":
        slack *= TF32_TOLERANCE_TIMES
    if swayed is not None and swayed.shape == expected.shape:
        sway = (swayed - expected).abs()
        sway = sway[torch.isfinite(sway)]
        slack += SWAY_TIMES * (sway.max().item() if sway.numel() else 0.0)
    close = torch.isclose(got, expected, rtol=RELATIVE_TOLERANCE[dtype], atol=slack, equal_nan=True)
    if not close.all():
        error = (got - expected).abs()[~close].max().item()
        raise Mismatch(
            f"{what} differs by up to {error:.3g} (largest element "
            f"{scale:.3g}) in {(~close).double().mean():.2%} of "
            "its elements"
        )


def compare_runs(
    expected: Runs,
    got: Runs,
    source: str,
    has_tf32: bool,
    sway: Callable[[bool], tuple[list[torch.Tensor], dict[str, Any]]] | None = None,
) -> None:
    """`expected` and `got`: (outputs, mutated, generator state). `sway(off)`: the
    first two once more, of inputs that are off by rounding or not; asked only
    where these differ, and a model that differs from itself is at fault. (A deep
    net in training mode makes of an ulp a hundredth: every normalisation divides
    by what little is left.)"""
    import torch

    try:
        try:
            _compare_values(expected, got, has_tf32)
        except Mismatch:
            if sway is None:
                raise
            try:
                _compare_values(expected, sway(False), has_tf32)
            except Mismatch as difference:
                raise Unsteady(difference) from None
            _compare_values(expected, got, has_tf32, sway(True))
        if not all(map(torch.equal, expected[2], got[2])):
            raise OtherDraws
    except ProblemError as error:
        error.file = os.path.basename(source)
        raise


def _compare_values(
    expected: Sequence[Any],
    got: Sequence[Any],
    has_tf32: bool,
    swayed: tuple[list[torch.Tensor], dict[str, Any]] | None = None,
) -> None:
    swayed_outputs: Sequence[Any] = swayed[0] if swayed else [None] * len(expected[0])
    swayed_after = swayed[1] if swayed else {}
    for index, (one, other, third) in enumerate(
        zip(expected[0], got[0], swayed_outputs, strict=True)
    ):
        compare(one, other, f"output {index}", has_tf32, swayed=third)
    for target, value in got[1].items():
        compare(
            expected[1][target],
            value,
            f"{target} after the call",
            has_tf32,
            CANCELLED_SCALE,
            swayed_after.get(target),
        )
