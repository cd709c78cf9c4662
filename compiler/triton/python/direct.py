_weft_interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def _weft_launches_of(made, grid, tensors):
    """What Triton made of a kernel, launched without it; or None, where that
    asks for more than the driver's ordinary launch."""
    told = made.metadata
    head = re.search(r"\.entry [^(]*\(([^)]*)\)", made.asm.get("ptx", ""))
    if head is None or told.num_ctas != 1 or any(
            getattr(told, name, 0) for name in (
                "launch_cooperative_grid", "launch_pdl", "global_scratch_size",
                "profile_scratch_size")):
        return None
    hidden = head.group(1).count(".param") - tensors  # which are null
    return _WeftLaunches(ctypes.CDLL("libcuda.so.1"), [(
        ctypes.c_void_p(made.function), [*range(tensors), *[tensors] * hidden],
        ((*grid, 1, 1)[:3], 32 * told.num_warps, told.shared))], tensors)


class _WeftDirect:
    """A Triton kernel that Triton launches the first time only: its look at
    the arguments takes longer than many a kernel."""

    def __init__(self, kernel):
        self.kernel, self.known = kernel, {}

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid)

    def launch(self, grid, *tensors, **options):
        pointers = [tensor.data_ptr() for tensor in tensors]
        key = tensors[0].get_device(), grid
        known = self.known.get(key)
        aligned = not functools.reduce(operator.or_, pointers) % 16
        if known is not None and aligned:
            known(pointers)
            return
        made = self.kernel[grid](*tensors, **options)
        if aligned and key not in self.known:  # else it is another kernel
            self.known[key] = _weft_launches_of(made, grid, len(tensors))


