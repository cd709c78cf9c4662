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
    return _weft_launch_of(ctypes.CDLL("libcuda.so.1"), made.function, grid,
                           (32 * told.num_warps, told.shared), taken, hidden)


def _weft_launch_of(driver, function, grid, how, taken, hidden):
    """The launch of a kernel of so many arguments, and some more that are
    null."""
    return _WeftLaunches(driver, [(
        ctypes.c_void_p(function), [*range(taken), *[taken] * hidden],
        ((*grid, 1, 1)[:3], *how))], taken)


class _WeftBuilt:
    """The kernels of a Triton text that weft has built: they take no compiler's
    time, which for a model's can be minutes."""

    def __init__(self, source):
        self.source, self.on = source, {}  # {device: {name: …}}

    def launches(self, name, grid, taken, options):
        """The kernel of that name, or None: Triton is to make it."""
        if getattr(options.get("integer"), "primitive_bitwidth", 32) > 32:
            return None  # a size that none was built for
        device = torch._C._cuda_getDevice()
        if device not in self.on:
            if torch.cuda.is_current_stream_capturing():
                return None  # who waits for the device now ends the capture
            try:
                self.on[device] = self.loaded()
            except (KeyError, TypeError, ValueError, RuntimeError):
                self.on[device] = {}
        if name not in self.on[device]:
            return None
        driver, context, function, one = self.on[device][name]
        _weft_check(driver.cuCtxSetCurrent(context))  # a thread may have none
        hidden = one["arguments"].count("null")
        if len(one["arguments"]) - hidden != taken:
            return None
        how = one["threads"], one.get("shared_bytes", 0)
        return _weft_launch_of(driver, function.value, grid, how, taken, hidden)

    def loaded(self):
        """{name: (driver, context, handle, launch in the package)} on this
        device."""
        major, minor = torch.cuda.get_device_capability()
        package = _weft_built(self.source, f"sm_{major}{minor}")
        if package is None:
            return {}
        found = {}
        for part in (package, *package.get("batches", {}).values()):
            for one in part.get("launches", ()):
                found.setdefault(one["function"], {})[one["module"]] = one
        # Of several by one name nothing tells which is meant.
        ones = [one for modules in found.values() if len(modules) == 1
                for one in modules.values()]
        torch.cuda.synchronize()  # the device's context is there now
        driver = ctypes.CDLL("libcuda.so.1")
        functions, context = _weft_functions(driver, package, ones), ctypes.c_void_p()
        _weft_check(driver.cuCtxGetCurrent(ctypes.byref(context)))
        return {one["function"]: (driver, context, function, one)
                for function, one in zip(functions, ones)}


class _WeftDirect:
    """A Triton kernel that Triton launches the first time only, if weft has not
    built it: its look at the arguments takes longer than many a kernel."""

    def __init__(self, kernel, built):
        self.kernel, self.built, self.known = kernel, built, {}

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
        if aligned and key not in self.known:
            known = self.built.launches(
                self.kernel.fn.__name__, grid, len(taken), options)
            if known is not None:
                known(taken)
                self.keep(key, known)
                return
        made = self.kernel[grid](*tensors, **options)
        if aligned and key not in self.known:  # else it is another kernel
            self.keep(key, _weft_launches_of(made, grid, len(taken)))

    def keep(self, key, launches):
        if len(self.known) >= 256:  # of as many batches
            self.known.clear()
        self.known[key] = launches


