

def get_inputs(seed=0):
    """Random tensors as INPUTS describes them; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return [_random_tensor(spec, generator) for spec in INPUTS]


def _random_tensor(spec, generator):
    shape, stride = spec["shape"], spec["stride"]
    dtype = getattr(torch, spec["dtype"])
    elements = 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    if 0 in shape:
        elements = 0
    if dtype == torch.bool:
        storage = torch.randint(0, 2, (elements,), generator=generator)
    elif dtype.is_floating_point:
        storage = torch.randn(elements, generator=generator)
    else:
        storage = torch.randint(0, 8, (elements,), generator=generator)
    return torch.as_strided(storage.to(dtype), shape, stride)
