def _weft_launches_of(made, grid, taken):
    """What Triton made of a kernel that takes so many arguments, launched
    without it; or None, where that asks for more than the driver's ordinary
    launch."""
    told = made.metadata
    head = re.search(r"\.entry [^(]*\(([^)]*)\)", made.asm.get("ptx", ""))
    if head is None or told.num_ctas != 1 or any(
            getattr(told, name, 0) for name in (
                "launch_cooperative_grid", "launch_pdl", "global_scratch_size",
                "profile_scratch_size")):
        return None
    hidden = head.group(1).count(".param") - taken  # which are null
    return _WeftLaunches(ctypes.CDLL("libcuda.so.1"), [(
        ctypes.c_void_p(made.function), [*range(taken), *[taken] * hidden],
        ((*grid, 1, 1)[:3], 32 * told.num_warps, told.shared))], taken)


class _WeftDirect:
    """A Triton kernel that Triton launches the first time only: its look at
    the arguments takes longer than many a kernel."""

    def __init__(self, kernel):
        self.kernel, self.known = kernel, {}

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid)

    def launch(self, grid, *tensors, **options):
        taken = [tensor.data_ptr() for tensor in tensors]
        aligned = not functools.reduce(operator.or_, taken) % 16
        taken += [options[size] for size in ("batch", "sequence")
                  if size in options]
        key = tensors[0].get_device(), grid, options.get("integer")
        known = self.known.get(key)
        if known is not None and aligned:
            known(taken)
            return
        made = self.kernel[grid](*tensors, **options)
        if not aligned or key in self.known:  # it is another kernel
            return
        if len(self.known) >= 256:  # of as many batches
            self.known.clear()
        self.known[key] = _weft_launches_of(made, grid, len(taken))


