"""Input data for checks: several distributions, because each hides something.

* U(0,1) makes relu the identity; zero-mean data makes sums vanish.
* Data of one magnitude hides a lost accumulation, equal rows a lost epsilon.
* Finite data hides NaN semantics. Random reals are never equal and never cancel.
* Data about zero hides the loss in a small difference of large numbers.
* The largest of many signed numbers is never below zero.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from weft.expect.reference import Reference, TensorSpec
from weft.problem.node_names import used_by
from weft.problem.widen import FLOATING

#: (name, whether all values are finite). The second has the buffers of the
#: first, which unmasks outputs remembered by pointer.
DISTRIBUTIONS = (
    "normal",
    "edges",
    "uniform",
    "wide",
    "grid",
    "far",
    "negative",
    "special",
)

#: Of tensors that fill a good part of a device: what finds most.
FEW_DISTRIBUTIONS = ("edges", "wide", "special")
#: After them: the first case with few elements changed, in the buffers where that
#: case ran last. A result remembered by a sample of the contents is wrong there.
ALTERED = "altered"
#: Instead of those that are finite where they have no finite answer: a sum of
#: logarithms, say, is nan for any tensor with a negative number.
INSIDE_EVERY_DOMAIN = "uniform"

#: Instead of those that are beyond the framework's type (compare.is_beyond): a few
#: layers whose weights, too, are 10^4 here and there overflow float32.
MILDER = {"edges": "mild edges", "wide": "mild wide"}

#: These look at values on the device and end the process' use of it when one
#: is out of range: random inputs are not for models that call them.
STRICT_OPERATORS = (
    "binary_cross_entropy.",
    "bernoulli.default",
    "bernoulli_.Tensor",
    "multinomial",
)

#: Integer inputs whose use does not bound them stay below this.
INTEGER_LIMIT = 8

#: Of so many elements one is changed in an altered copy.
ALTERED_SHARE = 1024

#: Of "edges" so many parts are rows like no others, if there are so many
#: elements: zeros, small ones, all alike, and large ones.
_EDGES = 16

_SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40, -1e-40)

#: "grid" is made of multiples of this …
_GRID_STEP = 0.25
#: … up to so many: of a few thousand elements many are equal.
_GRID_STEPS = 12
#: Of "far", the mean of each equal part. All have one unit: where a part is
#: another's millionth, nothing of it counts in a result that is one row.
_FAR = (0.0, 50.0, -300.0, 50.0, 300.0, -30.0, 0.0, 100.0)
#: All of "negative" lies below zero by this at least, and by no more than one
#: more: a maximum that begins at zero, and takes the elements from there, shows.
_BELOW_ZERO = 1 / 8
#: What picks one of equal values, and does not say which.
CHOOSERS = ("sort", "topk", "kthvalue", "median", "mode", "argsort")

#: Calls that read an integer operand as an index: the positions of the tensor
#: indexed, of the dimension (None: always 0), and of the index.
_INDEXERS = {
    "aten.embedding.default": (0, None, 1),
    "aten.gather.default": (0, 1, 2),
    "aten.index_select.default": (0, 1, 2),
    "aten.scatter.src": (0, 1, 2),
    "aten.scatter.value": (0, 1, 2),
    "aten.scatter_add.default": (0, 1, 2),
}
#: … of a class: the second operand, along the first one's classes.
_CLASSIFIERS = ("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")

#: Where normalisations take their weight. An infinite one gives an infinity or
#: a nan, depending on whether it multiplies the normalised value or is folded
#: into a scale and a shift first: both are right, and a clamp tells them apart.
_NORM_WEIGHTS = {
    "aten._native_batch_norm_legit.default": 1,
    "aten._native_batch_norm_legit.no_stats": 1,
    "aten._native_batch_norm_legit_functional.default": 1,
    "aten._native_batch_norm_legit_no_training.default": 1,
    "aten.native_batch_norm.default": 1,
    "aten.native_group_norm.default": 1,
    "aten.native_layer_norm.default": 2,
}


def norm_weights(reference: Reference) -> set[str]:
    """Names of what normalisations take as their weight."""
    taken = set()
    for node in reference.graph["nodes"]:
        place = _NORM_WEIGHTS.get(node["target"])
        if node["kind"] != "call" or place is None:
            continue
        weight = node["args"][place]
        if isinstance(weight, dict) and "node" in weight:
            taken.add(weight["node"])
    return taken


def without_infinities(storage: torch.Tensor) -> torch.Tensor:
    """The same, with a one for each infinity; nan and the rest stay."""
    return storage.masked_fill_(torch.isinf(storage), 1.0)


def integer_limits(reference: Reference) -> dict[str, int]:
    """For each input name, the number that its integers must stay below."""
    limits: dict[str, int] = {}
    for name, size in _indices(reference):
        limits[name] = min(limits.get(name, size), size)
    return limits


def are_bounded(reference: Reference) -> bool:
    """Whether integers that are inputs are read as such indices and nothing
    else, so that no value below the limits can be out of range."""
    known = collections.Counter(name for name, _ in _indices(reference))
    reads = collections.Counter(name for node in reference.graph["nodes"] for name in used_by(node))
    return all(
        known[spec.name] == reads[spec.name]
        for spec in reference.inputs
        if spec.dtype not in FLOATING and spec.dtype != torch.bool
    )


def _indices(reference: Reference) -> Iterator[tuple[str, int]]:
    """(node, how many places it may name) of each index that a call reads."""
    for node in reference.graph["nodes"]:
        if node["kind"] != "call":
            continue
        args = node["args"]
        read: Iterable[tuple[Any, int]] = []
        if node["target"] == "aten.index.Tensor":
            read = zip(args[1], _shape(reference, args[0]))
        elif node["target"] in _INDEXERS:
            table, dim, index = _INDEXERS[node["target"]]
            shape = _shape(reference, args[table])
            if shape:
                read = [(args[index], shape[0 if dim is None else args[dim]])]
        elif node["target"] in _CLASSIFIERS:
            read = [(args[1], _shape(reference, args[0])[:2][-1])]
        for arg, size in read:
            if isinstance(arg, dict) and "node" in arg:
                yield arg["node"], size


def _shape(reference: Reference, arg: dict[str, Any]) -> list[int]:
    values = reference.nodes[arg["node"]]["values"]
    return values[0]["shape"] if values[0] else []


def make_storage(
    spec: TensorSpec, distribution: str, generator: torch.Generator, limit: int = INTEGER_LIMIT
) -> torch.Tensor:
    """Flat storage for one input; as_strided over it gives the tensor."""
    count = spec.storage_elements
    if spec.dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator, device=generator.device).bool()
    if spec.dtype not in FLOATING:
        return torch.randint(
            0,
            max(1, limit),
            (count,),
            generator=generator,
            dtype=spec.dtype,
            device=generator.device,
        )
    return floats(count, distribution, of_case(distribution, generator)).to(spec.dtype)


def floats(count: int, distribution: str, generator: torch.Generator) -> torch.Tensor:
    """`count` float32 values of the named distribution, on the generator's
    device."""
    device = generator.device
    if distribution in ("uniform", "negative"):
        values = torch.rand(count, generator=generator, device=device)
        if distribution == "uniform":  # a logarithm has no answer at 0
            return values.clamp_(min=2**-24)
        return values.add_(_BELOW_ZERO).neg_()
    values = torch.randn(count, generator=generator, device=device)
    is_mild = distribution in MILDER.values()
    distribution = distribution.removeprefix("mild ")
    if distribution == "wide":
        # Six decades: small values count beside large ones, exp overflows.
        exponent = torch.rand(count, generator=generator, device=device)
        exponent.mul_(6).sub_(4).mul_(0.5 if is_mild else 1)
        return values.mul_(torch.pow(10, exponent, out=exponent))
    if distribution == "edges" and count >= _EDGES:
        zeros, small, alike, large = values.split(count // _EDGES)[:4]
        zeros.zero_()
        small.mul_(1e-4)
        alike.fill_(0.5)
        large.mul_(10 if is_mild else 1e4)
    if distribution == "grid":
        _put_on_grid(values)
    if distribution == "far":
        for part, mean in zip(values.split(max(1, -(-count // len(_FAR)))), _FAR):
            part.add_(mean)
    if distribution == "special" and count:
        # Few enough that most rows of a reduction stay finite.
        sites = max(1, min(4 * len(_SPECIAL), count // 16))
        if count < 4096:  # all of them at different places
            order = torch.randperm(count, generator=generator, device=device)
            where = order[:sites]
        else:
            where = torch.randint(0, count, (sites,), generator=generator, device=device)
        # In order: five sites hold nan, both infinities and both zeros.
        special = torch.tensor(_SPECIAL, device=device)
        values[where] = special.repeat(4)[:sites]
    return values


def _put_on_grid(values: torch.Tensor) -> None:
    """Values that are exact, and many of them equal. In the second half each is
    followed by its own negative; in the last eighth all are one value."""
    values.div_(_GRID_STEP).round_().clamp_(-_GRID_STEPS, _GRID_STEPS).mul_(_GRID_STEP)
    half = values[len(values) // 2 & ~1 :]
    pairs = len(half) // 2
    half[1 : 2 * pairs : 2] = -half[0 : 2 * pairs : 2]
    values[len(values) - len(values) // 8 :] = 3 * _GRID_STEP


def of_case(distribution: str, generator: torch.Generator) -> torch.Generator:
    """The generator for one input of a case. On the grid all inputs begin
    alike: those of one size are equal."""
    if distribution != "grid":
        return generator
    made = torch.Generator(generator.device)
    return made.manual_seed(generator.initial_seed())


#: The size of a lone element among normal ones.
OUTLIER = 50.0
#: Ways in which a call may differ from the one before by next to nothing.
TOUCHES = ("outlier", "row", "last", "first", "nan")
_EXTREMES = {"last": -1, "first": 0}
#: Cases of an argument of flags, which no other order of them gives: whether any
#: is set, and whether all are.
FLAGS = ("none set", "all set")


def touched(
    tensor: torch.Tensor, how: str, generator: torch.Generator, attempt: int = 0
) -> torch.Tensor:
    """A copy in which a lone element is an outlier or nan, one row is another,
    or the last element, resp. the first, is an extreme of all: the largest in the
    first attempt, the smallest in the second, either later."""
    made = tensor.clone(memory_format=torch.contiguous_format)
    flat = made.view(-1)
    if flat.numel() == 0:
        return made
    if how in _EXTREMES:
        _put_extreme(flat, _EXTREMES[how], generator, attempt)
        return made
    if tensor.dtype not in FLOATING:  # all values are some that were there
        where, other = torch.randint(
            0, flat.numel(), (2,), generator=generator, device=generator.device
        )
        flat[where] = flat[other].clone()
        return made
    width = 1 if how != "row" or tensor.dim() == 0 else tensor.shape[-1]
    first = width * int(
        torch.randint(0, flat.numel() // width, (1,), generator=generator, device=generator.device)
    )
    values = torch.randn(width, generator=generator, device=generator.device)
    if how == "outlier":
        values = values.sign_().mul_(OUTLIER)
    if how == "nan":
        values = values.fill_(torch.nan)
    flat[first : first + width] = values.to(tensor.dtype)
    return made


def _put_extreme(flat: torch.Tensor, place: int, generator: torch.Generator, attempt: int) -> None:
    """A kernel whose blocks end before the last element, or begin after the
    first, is seen by it in any largest value, norm or mean. No two tensors get
    the same one: their difference is an extreme, too."""
    spin, size = torch.rand(2, generator=generator, device=generator.device).tolist()
    is_largest = attempt == 0 or (attempt > 1 and spin < 0.5)
    if flat.dtype not in FLOATING:  # all values are some that were there
        flat[place] = flat.amax() if is_largest else flat.amin()
        return
    largest = float(flat.nan_to_num(0, 0, 0).abs().amax())
    value = min(max((2 + 2 * size) * largest, OUTLIER), torch.finfo(flat.dtype).max)
    flat[place] = value if is_largest else -value


def random_leaf(given: torch.Tensor, distribution: str, generator: torch.Generator) -> torch.Tensor:
    """A tensor like that argument: of such values, or the same integers and
    flags in another order."""
    if given.dtype not in FLOATING:
        flat = given.reshape(-1)
        order = torch.randperm(flat.numel(), generator=generator, device=generator.device)
        return flat[order].reshape(given.shape).contiguous()
    values = floats(given.numel(), distribution, of_case(distribution, generator))
    return values.to(given.dtype).reshape(given.shape)


def is_finite(distribution: str) -> bool:
    """Whether all values of a case of that name are, and of what is made of them
    as many as in any other: where no flag is set all may be masked."""
    return distribution not in ("nan", "special", *FLAGS)


def flagged(tensor: torch.Tensor, which: str) -> torch.Tensor:
    """The same; of flags, with none of them set or all."""
    if tensor.dtype != torch.bool:
        return tensor
    return torch.full_like(tensor, which == "all set")


def are_alike(tensor: torch.Tensor) -> bool:
    """Whether all its elements, integers or flags, are one: then no other order
    of them is another argument."""
    return tensor.numel() > 0 and bool((tensor == tensor.reshape(-1)[0]).all())


def varied(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same with an eighth of them another, at least one: a flag the other
    one, a number one less (what is a place or a length stays one), or one more
    of none."""
    flat = tensor.reshape(-1).clone()
    chosen = torch.rand(flat.numel(), generator=generator, device=generator.device) < 1 / 8
    chosen[flat.numel() // 2] = True
    first = flat[0]
    other = ~first if tensor.dtype == torch.bool else torch.where(first > 0, first - 1, first + 1)
    return torch.where(chosen, other, flat).reshape(tensor.shape)


def altered(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A copy with one element in ALTERED_SHARE changed, at random places."""
    made = tensor.clone(memory_format=torch.contiguous_format)
    flat = made.view(-1)
    if flat.numel() == 0:
        return made
    if tensor.dtype not in FLOATING:
        _mix(flat, generator)
        return made
    where = _some_places(flat, generator)
    values = 3 * torch.randn(len(where), generator=generator, device=generator.device)
    flat[where] = values.to(tensor.dtype)
    return made


def mixed(storage: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A flat copy with one element in ALTERED_SHARE replaced by another's value: a
    reference that takes the first takes the copy, whatever its domain."""
    made = storage.clone()
    if made.numel():
        _mix(made, generator)
    return made


def _mix(flat: torch.Tensor, generator: torch.Generator) -> None:
    """Gives one element in ALTERED_SHARE another's value: all are values that
    were there, and valid, whatever they mean."""
    others = _some_places(flat, generator)
    flat[_some_places(flat, generator)] = flat[others]


def _some_places(flat: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    count = flat.numel()
    return torch.randint(
        0, count, (max(1, count // ALTERED_SHARE),), generator=generator, device=generator.device
    )


def freshen(storage: torch.Tensor, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """New data at the price of a copy: rolled, mixed, and scaled by up to two.

    Timed calls need inputs that never repeat, in contents or magnitude; nor
    may a sum or a largest value be that of another call, but for the scale.
    """
    if storage.numel() < 2:
        return storage.clone()
    device = generator.device
    shift = int(torch.randint(1, storage.numel(), (1,), generator=generator, device=device))
    rolled = torch.roll(storage, shift)
    _mix(rolled, generator)
    if dtype not in FLOATING:
        return rolled
    scale = 0.5 + 1.5 * float(torch.rand(1, generator=generator, device=device))
    return rolled.mul_(scale)
