# A call finds the processor's caches cold, and the device idle until its first
# kernel: what stands here is as short as it can be. All that is the same in
# each call is kept in the driver's own form.
class _WeftAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int),
                ("value", ctypes.c_uint * 16)]


class _WeftConfig(ctypes.Structure):
    """CUlaunchConfig."""
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(_WeftAttribute)),
                ("count", ctypes.c_uint)]


def _weft_config(grid, threads, shared_bytes, cluster=1, cooperative=False):
    """How a kernel is launched: a grid of three numbers of blocks, of so
    many threads in a line; in clusters of blocks; as blocks that wait for each
    other."""
    attributes, count = (_WeftAttribute * 2)(), 0
    if cluster > 1:
        attributes[count].id = 4
        attributes[count].value[:3] = (cluster, 1, 1)
        count += 1
    if cooperative:
        attributes[count].id, attributes[count].value[0] = 2, 1
        count += 1
    return _WeftConfig(tuple(grid), (threads, 1, 1), shared_bytes, None,
                       attributes, count)


def _weft_functions(driver, package, launches):
    """The driver's handles of what a package (docs/reference/gpu-package.md) launches, on
    the device that is current now."""
    modules, functions = {}, []
    for one in launches:
        number = one["module"]
        if number not in modules:
            cubin = base64.b64decode(package["modules"][number]["cubin"])
            modules[number] = ctypes.c_void_p()
            _weft_check(driver.cuModuleLoadData(
                ctypes.byref(modules[number]), cubin))
        function = ctypes.c_void_p()
        _weft_check(driver.cuModuleGetFunction(
            ctypes.byref(function), modules[number], one["function"].encode()))
        if one.get("shared_bytes", 0):  # what it has by itself counts, too
            _weft_check(driver.cuFuncSetAttribute(
                function, 8, one["shared_bytes"]))
        if one.get("cluster", 1) > 8:
            _weft_check(driver.cuFuncSetAttribute(function, 14, 1))
        functions.append(function)
    return functions


class _WeftLaunches:
    """Kernels that are launched one after the other, on the device that is
    current now. Of each: the driver's handle, which of so many pointers it
    takes (one more is null), and what _weft_config() is told."""

    def __init__(self, driver, kernels, pointers):
        self.driver, self.start = driver, driver.cuLaunchKernelEx
        self.kernels, self.pointers = kernels, pointers
        self.free = []
        self.device = torch._C._cuda_getDevice()
        self.context = ctypes.c_void_p()
        _weft_check(driver.cuCtxGetCurrent(ctypes.byref(self.context)))

    def __call__(self, pointers):
        # One's own: another thread may launch at the same time.
        try:
            stream, values, configs, launches = self.free.pop()
        except IndexError:
            stream, values, configs, launches = self.prepared()
        values[:self.pointers] = pointers
        current = torch._C._cuda_getCurrentRawStream(self.device)
        if stream != current:
            for config in configs:
                config.stream = current
        for launch in launches:
            code = self.start(*launch)
            if code:
                self.retry(code, launch)
        self.free.append((current, values, configs, launches))

    def retry(self, code, launch):
        if code in (201, 400):  # a thread that has no context, or another
            _weft_check(self.driver.cuCtxSetCurrent(self.context))
            code = self.start(*launch)
        _weft_check(code)

    def prepared(self):
        """The stream, room for the pointers, and what starts each kernel with
        the pointers that lie there."""
        values = (ctypes.c_void_p * (self.pointers + 1))()
        first = ctypes.addressof(values)
        configs = [_weft_config(*how) for _, _, how in self.kernels]
        launches = []
        for config, (function, taken, _) in zip(configs, self.kernels):
            places = (ctypes.c_void_p * len(taken))(
                *(first + 8 * number for number in taken))
            launches.append((ctypes.byref(config), function, places, None))
        return 0, values, configs, launches


def _weft_check(code):
    if code:
        name = ctypes.c_char_p()
        ctypes.CDLL("libcuda.so.1").cuGetErrorName(code, ctypes.byref(name))
        raise RuntimeError(
            f"weft: the CUDA driver says {(name.value or b'error').decode()} "
            f"({code}). A kernel is made for one kind of GPU: on another one, "
            "run weft there")


def _weft_where_inputs_are(function):
    """The function, called with its first tensor's device as the current one."""
    def call(*inputs):
        if inputs[0].get_device() == torch._C._cuda_getDevice():
            return function(*inputs)
        with torch.cuda.device(inputs[0].device):
            return function(*inputs)
    return call


