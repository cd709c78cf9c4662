

SEEDS = 3
DISTRIBUTIONS = {
    "normal": lambda x: x,
    "positive": lambda x: x.abs(),
    "large": lambda x: x * 8.0,
    "small": lambda x: x * 1e-3,
    "constant": lambda x: torch.ones_like(x),
}


def spread(tensor, change):
    """The floating tensor, changed, in the same layout."""
    if not tensor.dtype.is_floating_point or 0 in tensor.stride():
        return tensor  # stride 0: one element seen many times
    changed = torch.empty_strided(tensor.shape, tensor.stride(),
                                  dtype=tensor.dtype)
    return changed.copy_(change(tensor))


def widen(tensor):
    return tensor.double() if tensor.dtype.is_floating_point else tensor


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def wide_outputs(inputs):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    result = as_list(wide_reference(*[widen(x) for x in inputs]))
    torch.set_default_dtype(before)
    return result


def errors(got, wide):
    """Distance to the float64 value, relative to it and to its mean size."""
    got, wide = got.double(), wide.double()
    finite = wide.isfinite()
    scale = wide[finite].abs().mean() if finite.any() else torch.tensor(1.0)
    error = (got - wide).abs() / (wide.abs() + scale + 1e-30)
    same = (got == wide) | (got.isnan() & wide.isnan())
    error = torch.where(same, torch.zeros_like(error), error)
    return torch.nan_to_num(error, nan=float("inf"), posinf=float("inf"))


def complaint(got, eager, wide, spec):
    """Why that output is wrong, or None."""
    if not isinstance(got, torch.Tensor):
        return f"a {type(got).__name__} where a tensor belongs"
    dtype = getattr(torch, spec["dtype"])
    if list(got.shape) != spec["shape"] or got.dtype != dtype:
        return (f"{got.dtype} of shape {list(got.shape)}, "
                f"expected {dtype} of shape {spec['shape']}")
    if list(got.stride()) != spec["stride"]:
        return f"stride {list(got.stride())}, expected {spec['stride']}"
    if not dtype.is_floating_point:
        wrong = (got != eager) & (got.double() != wide.double())
    else:
        error = errors(got, wide)
        limit = 4 * errors(eager, wide).clamp(max=1e-2).max()
        limit = limit + 32 * torch.finfo(dtype).eps
        same = (got == eager) | (got.isnan() & eager.isnan())
        wrong = (error > limit) & ~same
    if not wrong.any():
        return None
    place = tuple(wrong.nonzero()[0].tolist())
    return (f"{int(wrong.sum())} of {wrong.numel()} elements are wrong, first "
            f"at {list(place)}: {got[place].item()!r}, "
            f"expected {wide[place].item()!r}")


def check(name, seed, change):
    """What is wrong on these inputs, or None."""
    inputs = [spread(x, change).to(DEVICE) for x in get_inputs(seed)]
    eager = as_list(reference(*inputs))
    wide = wide_outputs(inputs)
    kept = [x.clone() for x in inputs]
    got = as_list(kernel_function(*inputs))
    for index, (x, before) in enumerate(zip(inputs, kept)):
        if not torch.equal(torch.nan_to_num(x), torch.nan_to_num(before)):
            return f"{name}, seed {seed}: input {index} was written to"
    if len(got) != len(eager):
        return f"{name}, seed {seed}: {len(got)} outputs, not {len(eager)}"
    for index, spec in enumerate(OUTPUTS):
        wrong = complaint(got[index], eager[index], wide[index], spec)
        if wrong:
            return f"{name}, seed {seed}, output {index}: {wrong}"
    return None


def main():
    for name, change in DISTRIBUTIONS.items():
        for seed in range(SEEDS):
            wrong = check(name, seed, change)
            if wrong:
                print("FAIL:", wrong)
                return 1
    print(f"PASS: {len(DISTRIBUTIONS) * SEEDS} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
