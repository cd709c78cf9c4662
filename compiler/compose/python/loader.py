_weft_cpu = torch.device("cpu")


def _weft_build(source, _folder=[]):
    """The library of that C++ text, built now if it is not there yet. The oracle
    names a folder of this machine with what its run has built."""
    key = "\0".join([source, *_weft_flags])
    name = hashlib.sha256(key.encode()).hexdigest()[:32] + ".so"
    if os.environ.get("WEFT_BUILT_KERNELS"):
        library = os.path.join(os.environ["WEFT_BUILT_KERNELS"], name)
        if os.path.exists(library):
            return ctypes.CDLL(library)
    if not _folder:
        _folder.append(_weft_cache())
    library = os.path.join(_folder[0], name)
    if not os.path.exists(library):
        compiler = shutil.which(os.environ.get("CXX") or "g++")
        if compiler is None:
            raise RuntimeError(
                "weft: no C++ compiler to build a kernel with: install g++, "
                "or set CXX to one")
        with tempfile.TemporaryDirectory(dir=_folder[0]) as scratch:
            text = os.path.join(scratch, "kernel.cpp")
            built = os.path.join(scratch, name)
            with open(text, "w", encoding="utf-8") as file:
                file.write(source)
            done = subprocess.run([compiler, *_weft_flags, text, "-o", built],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"weft: {compiler} failed on a kernel:\n"
                                   + done.stderr[-4000:])
            os.replace(built, library)  # whole or not at all, for all who race
    return ctypes.CDLL(library)


def _weft_open(source, tensors, sizes=0):
    """kernel_function of that C++ text, taking that many addresses and sizes."""
    library = _weft_build(source)
    function = library.kernel_function
    function.argtypes = [ctypes.c_void_p] * tensors + [ctypes.c_int64] * sizes
    function.restype = None
    if not hasattr(library, "kernel_outside"):
        return function
    outside = library.kernel_outside
    outside.argtypes, outside.restype = [], ctypes.c_int64

    def checked(*addresses):
        function(*addresses)
        if outside():
            raise IndexError("index out of range: one of the model's index "
                             "tensors points outside of what it looks up in")
    return checked


