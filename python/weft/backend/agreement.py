"""A quick look whether two sets of results say the same.

The verdict was the search's, in a sandbox, on many kinds of data; this is the
last look, on the user's own data, before kernels take over.
"""

import torch

#: Of results, looked at together: what is computed of them takes 60 bytes each
#: at most, and the program's own memory must have room for it.
ELEMENTS_MAX = 1 << 18
#: Of the root mean square of what is expected, by the size of an element.
TOLERANCES = {2: 2e-2, 4: 1e-3, 8: 1e-5}
#: Products in TF32 keep as many bits of their factors as float16 has.
TF32_TOLERANCE = TOLERANCES[2]
#: An error that no rounding explains: its root mean square over that of what is
#: expected, and in all. (What is 0 but for rounding may err by as much as it is.)
FAR, FAR_LEAST = 0.3, 1e-3


@torch.no_grad()
def difference(expected, got, precision=""):
    """"" if they agree, else what differs. Both are lists of tensors, numbers
    and None. `precision`: of the framework's products of float32, "tf32" where
    they are."""
    if len(expected) != len(got):
        return f"{len(got)} results instead of {len(expected)}"
    for number, (a, b) in enumerate(zip(expected, got)):
        why = _difference(a, b, precision)
        if why:
            return f"result {number}: {why}"
    return ""


@torch.no_grad()
def distance(expected, got):
    """"" where two compilers' results are the same but for rounding, which may be
    much in a deep net of halves, else how far they are from each other."""
    for number, (a, b) in enumerate(zip(expected, got, strict=True)):
        if isinstance(a, torch.Tensor) and a.dtype.is_floating_point:
            why = _distance(a, b)
            if why:
                return f"result {number}: {why}"
    return ""


def _distance(a, b):
    squares, errors = 0.0, 0.0
    for a_part, b_part in _parts(a, b):
        finite = torch.isfinite(a_part)
        a_part, b_part = a_part[finite].double(), b_part[finite].double()
        if not torch.isfinite(b_part).all():
            return "nan or infinity where eager has numbers"
        squares += float(a_part.square().sum())
        errors += float((a_part - b_part).square().sum())
    error, scale = ((one / max(1, a.numel())) ** 0.5 for one in (errors, squares))
    if error <= max(FAR_LEAST, FAR * scale):
        return ""
    return f"an error of {error:.2g} in numbers of {scale:.2g} (root mean squares)"


def _difference(a, b, precision):
    if not isinstance(a, torch.Tensor):
        return "" if a == b else f"{b!r} instead of {a!r}"
    if not isinstance(b, torch.Tensor):
        return "it is no tensor"
    for what in ("dtype", "shape", "device"):
        if getattr(a, what) != getattr(b, what):
            return f"{what} {getattr(b, what)} instead of {getattr(a, what)}"
    if not _same_strides(a, b):
        return f"strides {b.stride()} instead of {a.stride()}"
    if not a.dtype.is_floating_point:
        return "" if torch.equal(a, b) else "other values"
    return _error(a, b, precision)


def _same_strides(a, b):
    return all(n <= 1 or x == y
               for n, x, y in zip(a.shape, a.stride(), b.stride())) or (
                   a.numel() == 0)


def _error(a, b, precision):
    count, squares = 0, 0.0
    for a_part, b_part in _parts(a, b):
        finite = torch.isfinite(a_part)
        if not torch.equal(finite, torch.isfinite(b_part)):
            return "nan or infinity at other places"
        found = a_part[finite].double()
        count += found.numel()
        squares += float(found.square().sum())
    if count == 0:
        return ""
    tolerance = TOLERANCES[min(8, max(2, a.itemsize))]
    if precision == "tf32" and a.dtype == torch.float32:
        tolerance = TF32_TOLERANCE
    error = max(_error_of(*parts, (squares / count) ** 0.5)
                for parts in _parts(a, b))
    return "" if error <= tolerance else f"an error of {error:.2g}"


def _error_of(a, b, scale):
    finite = torch.isfinite(a)
    a, b = (x[finite].double() for x in (a, b))
    if a.numel() == 0:
        return 0.0
    # Nothing but zeros is expected: then nothing else may be there.
    return float(((a - b).abs() / (a.abs() + scale).clamp_min(1e-300)).max())


def _parts(a, b):
    """Both, as views of ELEMENTS_MAX elements at most."""
    if a.numel() <= ELEMENTS_MAX:
        yield a, b
        return
    dim = max(range(a.dim()), key=lambda i: a.shape[i])
    size = max(1, ELEMENTS_MAX * a.shape[dim] // a.numel())
    for one, other in zip(a.split(size, dim), b.split(size, dim)):
        yield from _parts(one, other)
