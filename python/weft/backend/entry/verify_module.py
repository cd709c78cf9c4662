"""`weft.verify(reference, candidate, inputs)`: is this module the other?

The error model is the judge's (docs/explanation/verification.md); the data is the user's
own, and both run in this process. `weft eval` judges code that is not trusted, in a
sandbox.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import operator
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.backend.graphs.module_guards import is_counted

#: So many copies of all results are overwritten, up to so many bytes.
_OVERWRITTEN_MAX = 8
_OVERWRITTEN_BYTES = 1 << 28


@dataclasses.dataclass
class Verdict:
    """`error` and `framework_error` are the largest normalised errors against
    float64 over all results; `tolerance` that of the result with the error."""

    accepted: bool
    reason: str
    error: float
    framework_error: float
    tolerance: float

    def __bool__(self) -> Any:
        return self.accepted


def verify(
    reference: Callable[..., Any],
    candidate: Callable[..., Any],
    inputs: Any,
    seed: int = 0,
    kwargs: Mapping[str, Any] | None = None,
) -> Verdict:
    """Compares `candidate` with `reference` on copies of the same inputs.

    Returns a Verdict on results, inputs, and buffers that both have. Buffers, attributes
    and random states are restored afterwards. Gradients are not compared. Raises what
    the reference raises."""
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    call = inputs, dict(kwargs or {})
    framework = _results(reference, call, seed)
    try:
        got = _results(candidate, call, seed, like=framework.leaves)
    except Exception as error:
        return Verdict(False, f"it raised {type(error).__name__}: {error}", float("inf"), 0.0, 0.0)
    framework.own.clear()  # until here, so that nobody finds them in free memory
    wide = _wide_results(reference, call, seed, framework)
    return _judge(framework, wide, got)


class _Results(typing.NamedTuple):
    """Copies of results, then of the inputs as they are afterwards; {a buffer's
    name: its values before the call and after}; and what these are copies of."""

    structure: object
    leaves: list[Any]
    buffers: dict[Any, Any]
    own: list[Any]


@torch.no_grad()
def _results(function: Any, inputs: Any, seed: Any, like: Any = ()) -> Any:
    """`like`: results of which none may lie about where these are made."""
    copies = pytree.tree_map_only(torch.Tensor, _copy, inputs)
    devices = {
        leaf.device.index or 0
        for leaf in pytree.tree_leaves(inputs)
        if isinstance(leaf, torch.Tensor) and leaf.is_cuda
    }
    with torch.random.fork_rng(devices=list(devices)), _put_back(function):
        torch.manual_seed(seed)
        before = _buffers(function)
        _overwrite_free_memory(like)
        own, structure = pytree.tree_flatten((_opened(function(*copies[0], **copies[1])), *copies))
        # A result may be a buffer, which is put back.
        leaves = [_copy(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in own]
        after = _buffers(function)
    return _Results(
        structure,
        leaves,
        {name: (value, after[name]) for name, value in before.items() if name in after},
        own,
    )


def _buffers(function: Any) -> dict[Any, Any]:
    """{name: values}, of a compiled module those that it was made of."""
    if not isinstance(function, torch.nn.Module):
        return {}
    return {
        name.removeprefix("_orig_mod."): _copy(buffer)
        for name, buffer in function.named_buffers()
        if is_counted(buffer) and buffer.layout == torch.strided
    }


def _overwrite_free_memory(results: Any) -> None:
    """What the reference worked out on the way is gone, and its memory is given to
    who asks next: one that then writes nothing could be right."""
    size = sum(
        leaf.nbytes
        for leaf in results
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
    )
    copies = max(1, min(_OVERWRITTEN_MAX, _OVERWRITTEN_BYTES // max(1, size)))
    with contextlib.suppress(torch.OutOfMemoryError):
        held = [
            torch.empty_like(leaf).view(torch.uint8).fill_(0xFF)
            for _ in range(copies)
            for leaf in results
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.dim()
        ]
        del held


def _copy(tensor: Any) -> Any:
    return tensor.detach().clone()


def _opened(result: Any) -> Any:
    """Results with fields in the place of their dataclasses."""

    def opened(leaf: Any) -> Any:
        if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type):
            return leaf
        return {
            type(leaf).__name__: {
                field.name: _opened(getattr(leaf, field.name)) for field in dataclasses.fields(leaf)
            }
        }

    return pytree.tree_map(opened, result)


@contextlib.contextmanager
def _put_back(function: Any) -> Iterator[None]:
    """A module's call within it leaves nothing: of two that count their calls
    the second would be another function. What was not changed is not touched."""
    parts = list(function.modules()) if isinstance(function, torch.nn.Module) else []
    buffers = [
        (buffer, _copy(buffer), buffer._version)
        for part in parts
        for buffer in part._buffers.values()
        if buffer is not None and is_counted(buffer)
    ]
    own = [(vars(part), dict(vars(part))) for part in parts]
    held = [
        (one, one.copy())
        for part in parts
        for one in (*vars(part).values(), *_tables(part))
        if type(one) in (list, dict, set)
    ]
    try:
        yield
    finally:
        for container, then in held:
            _refill(container, then)
        for now, then in own:
            _refill(now, then)
        for buffer, then, version in buffers:
            # Running statistics are written uncounted.
            if buffer._version != version or not _is_as(buffer, then):
                buffer.copy_(then)


def _is_as(buffer: Any, then: Any) -> Any:
    return buffer.layout != torch.strided or torch.equal(buffer, then)


def _tables(part: Any) -> tuple[Any, Any]:
    return part._parameters, part._buffers


def _refill(container: Any, then: Any) -> None:
    """Puts in it the very objects that were in it, where it has others."""
    if isinstance(container, list):
        if len(container) != len(then) or not all(map(operator.is_, container, then)):
            container[:] = then
    elif isinstance(container, set):
        if container != then:
            container.clear()
            container.update(then)
    else:
        for name in container.keys() - then.keys():
            del container[name]
        for name, value in then.items():
            if container.get(name) is not value:
                container[name] = value


def _wide_results(reference: Any, inputs: Any, seed: int, framework: Any) -> Any:
    """float64's, or None where that computes something else."""
    try:
        wide = copy.deepcopy(reference)
        if isinstance(wide, torch.nn.Module):
            wide = wide.double()
        widened = pytree.tree_map_only(
            torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, inputs
        )
        results = _results(wide, widened, seed)
    except Exception:  # a dtype that it names itself, what cannot be copied
        return None
    alike = results.structure == framework.structure and all(
        not isinstance(a, torch.Tensor) or a.shape == b.shape
        for a, b in zip(framework.leaves, results.leaves)
    )
    return results if alike else None


def _judge(framework: Any, wide: Any, got: Any) -> Any:
    if framework.structure != got.structure:
        return Verdict(
            False, _other_structure(framework.structure, got.structure), float("inf"), 0.0, 0.0
        )
    worst = Verdict(True, "", 0.0, 0.0, 0.0)
    for name, *values in _held(framework, wide, got):
        one = _judge_one(name, *values)
        one.framework_error = max(one.framework_error, worst.framework_error)
        if not one.accepted:
            return one
        if one.error >= worst.error:
            worst = one
    return worst


def _shown(structure: Any) -> Any:
    """The results, the arguments and the keyword arguments after the call, with
    * for each leaf."""
    return pytree.tree_unflatten(["*"] * structure.num_leaves, structure)


def _other_structure(expected: Any, got: Any) -> Any:
    (result, *after), (other, *other_after) = map(_shown, (expected, got))
    text = (
        f"it returns {other} instead of {result}"
        if repr(other) != repr(result)
        # namedtuples equal tuples
        else f"its arguments are {other_after} after the call instead of {after}"
    )
    return text.replace("'*'", "*")


def _held(framework: Any, wide: Any, got: Any) -> Iterator[Any]:
    """(name, the framework's, float64's or None, the candidate's) of each."""
    count = len(pytree.tree_leaves(_shown(framework.structure)[0]))
    for i, (a, b) in enumerate(zip(framework.leaves, got.leaves)):
        name = f"result {i}" if i < count else f"argument {i - count} after the call"
        yield name, a, None if wide is None else wide.leaves[i], b
    for name, (before, a) in framework.buffers.items():
        first, b = got.buffers.get(name, (None, None))
        if (
            first is None
            or first.dtype != before.dtype
            or first.device != before.device
            or not torch.equal(first, before)
        ):
            continue
        if not (torch.equal(a, before) and torch.equal(b, first)):
            truth = None if wide is None else wide.buffers.get(name)
            yield f"buffer {name}", a, None if truth is None else truth[1], b


def _judge_one(name: str, expected: Any, wide: Any, got: Any) -> Verdict:
    from weft.expect import compare, summed_terms

    if not isinstance(expected, torch.Tensor):
        try:
            same = bool(expected == got)
        except Exception as error:  # an object that holds tensors, say
            return Verdict(
                False,
                f"{name}, a {type(expected).__name__}, cannot be compared: {error}",
                0.0,
                0.0,
                0.0,
            )
        return Verdict(
            same, "" if same else f"{name} is {got!r} instead of {expected!r}", 0.0, 0.0, 0.0
        )
    for what in ("dtype", "shape", "device", "layout"):
        a, b = getattr(expected, what), getattr(got, what, None)
        if a != b:
            return Verdict(
                False, f"{name} has the {what} {b} instead of {a}", float("inf"), 0.0, 0.0
            )
    if expected.layout != torch.strided:
        expected, got = expected.to_dense(), got.to_dense()
        wide = None if wide is None else wide.to_dense()
    # How many terms are behind a result is not known: as for whole models.
    made = compare.expect(name, expected, wide, summed_terms.UNTOLD)
    finding = compare.compare(got.contiguous(), made)
    return Verdict(
        not finding.reason, finding.reason, finding.error, made.framework_error, made.tolerance
    )
