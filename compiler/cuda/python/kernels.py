try:
    # On the current device. PyTorch's compiler allocates in this way, too: it
    # takes half the time.
    _weft_empty = torch._C._dynamo.guards._empty_strided_cuda
except AttributeError:  # another PyTorch
    def _weft_empty(shape, stride, dtype):
        return torch.empty_strided(shape, stride, dtype=dtype, device="cuda")


class _WeftKernels:
    """The kernels of one CUDA text, loaded on the current device."""

    def __init__(self, source, launches, inputs, outputs):
        major, minor = torch.cuda.get_device_capability()
        arch = f"sm_{major}{minor}"
        built = _weft_built(f"{source}\0{launches}", arch)
        try:
            self.load(built or _weft_package(source, launches, arch),
                      inputs, outputs)
        except (LookupError, TypeError, ValueError, RuntimeError):
            if built is None:
                raise
            self.load(_weft_package(source, launches, arch), inputs, outputs)

    def load(self, package, inputs, outputs):
        driver = ctypes.CDLL("libcuda.so.1")
        # All scratch memory is one allocation: each takes the host a while.
        self.scratch, self.scratch_bytes = [], 0
        for size in package["scratch"]:
            self.scratch.append(self.scratch_bytes)
            self.scratch_bytes += -(-size // 256) * 256
        names = [f"{what}{i}" for what, count in (
            ("in", inputs), ("out", outputs), ("s", len(self.scratch)))
            for i in range(count)]
        functions = _weft_functions(driver, package, package["launches"])
        kernels = [(function, [names.index(name) for name in one["arguments"]],
                    (one["grid"], one["threads"], one.get("shared_bytes", 0),
                     one.get("cluster", 1), one.get("cooperative", False)))
                   for function, one in zip(functions, package["launches"])]
        self.launch = _WeftLaunches(driver, kernels, len(names))

    def __call__(self, tensors):
        pointers = [tensor.data_ptr() for tensor in tensors]
        if self.scratch:
            scratch = _weft_empty((self.scratch_bytes,), (1,), torch.uint8)
            first = scratch.data_ptr()
            pointers += [first + offset for offset in self.scratch]
        self.launch(pointers)


def _weft_realigned(tensor):
    """A copy with the same strides, gaps and all."""
    pairs = zip(tensor.shape, tensor.stride())
    span = 1 + sum((size - 1) * stride for size, stride in pairs)
    copy = tensor.as_strided((span,), (1,)).clone()
    return copy.as_strided(tensor.shape, tensor.stride(), 0)


def _weft_open_cuda(source, launches, results):
    """A function of tensors. `launches`: JSON, what of the source is launched
    and with which scratch memory; `results`: shape, stride and type of each."""
    loaded = {}

    def call(*inputs):
        # Packs of elements are read at once, at multiples of 16 bytes.
        tensors = [_weft_realigned(t) if t.data_ptr() % 16 else t
                   for t in inputs]
        outputs = [_weft_empty(*result) for result in results]
        tensors += outputs
        device = inputs[0].get_device()
        if device not in loaded:
            torch.cuda.synchronize()  # the device's context is there now
            loaded[device] = _WeftKernels(
                source, launches, len(inputs), len(outputs))
        loaded[device](tensors)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
    return _weft_where_inputs_are(call)


