"""`weft.verify(reference, candidate, inputs)`: is this module the other?

The error model is the judge's (docs/verdict.md); the data is the user's own,
and both run in this process. Who does not trust the candidate's code has
`weft eval` judge it in a sandbox.
"""

import contextlib
import copy
import dataclasses
import operator

import torch
from torch.utils import _pytree as pytree

from weft.backend.parts import is_counted


@dataclasses.dataclass
class Verdict:
    """`error` and `framework_error` are the largest normalised errors against
    float64 over all results; `tolerance` that of the result with the error."""

    accepted: bool
    reason: str
    error: float
    framework_error: float
    tolerance: float

    def __bool__(self):
        return self.accepted


def verify(reference, candidate, inputs, seed=0, kwargs=None):
    """The Verdict on `candidate`, called with copies of the same inputs and
    keyword arguments. Both are afterwards what they were: buffers, attributes,
    random states. Gradients are not looked at. Raises what the reference raises."""
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    inputs = inputs, dict(kwargs or {})
    framework = _results(reference, inputs, seed)
    try:
        got = _results(candidate, inputs, seed)
    except Exception as error:
        return Verdict(False, f"it raised {type(error).__name__}: {error}",
                       float("inf"), 0.0, 0.0)
    wide = _wide_results(reference, inputs, seed, framework)
    return _judge(framework, wide, got)


@torch.no_grad()
def _results(function, inputs, seed):
    """(structure, leaves): results, then the inputs as they are afterwards."""
    copies = pytree.tree_map_only(torch.Tensor, _copy, inputs)
    devices = {leaf.device.index or 0 for leaf in pytree.tree_leaves(inputs)
               if isinstance(leaf, torch.Tensor) and leaf.is_cuda}
    with torch.random.fork_rng(devices=list(devices)), _put_back(function):
        torch.manual_seed(seed)
        leaves, structure = pytree.tree_flatten(
            (_opened(function(*copies[0], **copies[1])), *copies))
        # A result may be a buffer, which is put back.
        leaves = [_copy(leaf) if isinstance(leaf, torch.Tensor) else leaf
                  for leaf in leaves]
    return structure, leaves


def _copy(tensor):
    return tensor.detach().clone()


def _opened(result):
    """Results with fields in the place of their dataclasses."""
    def opened(leaf):
        if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type):
            return leaf
        return {type(leaf).__name__: {
            field.name: _opened(getattr(leaf, field.name))
            for field in dataclasses.fields(leaf)}}

    return pytree.tree_map(opened, result)


@contextlib.contextmanager
def _put_back(function):
    """A module's call within it leaves nothing: of two that count their calls
    the second would be another function. What was not changed is not touched."""
    parts = (list(function.modules())
             if isinstance(function, torch.nn.Module) else [])
    buffers = [(buffer, _copy(buffer), buffer._version) for part in parts
               for buffer in part._buffers.values() if is_counted(buffer)]
    own = [(vars(part), dict(vars(part))) for part in parts]
    held = [(one, one.copy()) for part in parts
            for one in (*vars(part).values(), *_tables(part))
            if type(one) in (list, dict, set)]
    try:
        yield
    finally:
        for container, then in held:
            _refill(container, then)
        for now, then in own:
            _refill(now, then)
        for buffer, then, version in buffers:
            if buffer._version != version:
                buffer.copy_(then)


def _tables(part):
    return part._parameters, part._buffers


def _refill(container, then):
    """Puts in it the very objects that were in it, where it has others."""
    if isinstance(container, list):
        if len(container) != len(then) or not all(map(
                operator.is_, container, then)):
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


def _wide_results(reference, inputs, seed, framework):
    """float64's leaves, or None where that computes something else."""
    try:
        wide = copy.deepcopy(reference)
        if isinstance(wide, torch.nn.Module):
            wide = wide.double()
        widened = pytree.tree_map_only(
            torch.Tensor,
            lambda t: t.double() if t.is_floating_point() else t, inputs)
        structure, leaves = _results(wide, widened, seed)
    except Exception:  # a dtype that it names itself, what cannot be copied
        return None
    alike = structure == framework[0] and all(
        not isinstance(a, torch.Tensor) or a.shape == b.shape
        for a, b in zip(framework[1], leaves))
    return leaves if alike else None


def _judge(framework, wide, got):
    if framework[0] != got[0]:
        return Verdict(False, _other_structure(framework[0], got[0]),
                       float("inf"), 0.0, 0.0)
    worst = Verdict(True, "", 0.0, 0.0, 0.0)
    count = len(pytree.tree_leaves(_shown(framework[0])[0]))
    for i, (a, b) in enumerate(zip(framework[1], got[1])):
        name = (f"result {i}" if i < count
                else f"argument {i - count} after the call")
        one = _judge_one(name, a, None if wide is None else wide[i], b)
        one.framework_error = max(one.framework_error, worst.framework_error)
        if not one.accepted:
            return one
        if one.error >= worst.error:
            worst = one
    return worst


def _shown(structure):
    """The results, the arguments and the keyword arguments after the call, with
    * for each leaf."""
    return pytree.tree_unflatten(["*"] * structure.num_leaves, structure)


def _other_structure(expected, got):
    (result, *after), (other, *other_after) = map(_shown, (expected, got))
    text = (f"it returns {other} instead of {result}"
            if repr(other) != repr(result) else  # namedtuples equal tuples
            f"its arguments are {other_after} after the call instead of {after}")
    return text.replace("'*'", "*")


def _judge_one(name, expected, wide, got):
    from weft.expect import compare, summed_terms

    if not isinstance(expected, torch.Tensor):
        try:
            same = bool(expected == got)
        except Exception as error:  # an object that holds tensors, say
            return Verdict(False, f"{name}, a {type(expected).__name__}, cannot be "
                           f"compared: {error}", 0.0, 0.0, 0.0)
        return Verdict(same, "" if same else
                       f"{name} is {got!r} instead of {expected!r}",
                       0.0, 0.0, 0.0)
    for what in ("dtype", "shape", "device", "layout"):
        a, b = getattr(expected, what), getattr(got, what, None)
        if a != b:
            return Verdict(False, f"{name} has the {what} {b} instead of {a}",
                           float("inf"), 0.0, 0.0)
    if expected.layout != torch.strided:
        expected, got = expected.to_dense(), got.to_dense()
        wide = None if wide is None else wide.to_dense()
    # How many terms are behind a result is not known: as for whole models.
    made = compare.expect(name, expected, wide, summed_terms.UNTOLD)
    finding = compare.compare(got.contiguous(), made)
    return Verdict(not finding.reason, finding.reason, finding.error,
                   made.framework_error, made.tolerance)
