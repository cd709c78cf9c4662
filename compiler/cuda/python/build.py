_weft_interpreted = False


def _weft_nvrtc():
    """NVIDIA's compiler, from this Python's packages or the toolkit."""
    places = [place for folder in sys.path for place in sorted(glob.glob(
        os.path.join(folder, "nvidia/*/lib/libnvrtc.so.*")), reverse=True)]
    places += ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
               "/usr/local/cuda/lib64/libnvrtc.so"]
    for place in places:
        try:
            return ctypes.CDLL(place)
        except OSError:
            pass
    raise RuntimeError("weft: no NVRTC to build a kernel with: pip install "
                       "nvidia-cuda-nvrtc, or install the CUDA toolkit")


def _weft_nvrtc_version(nvrtc):
    parts = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(*map(ctypes.byref, parts))
    return ".".join(str(part.value) for part in parts)


def _weft_cubin(nvrtc, source, arch):
    program = ctypes.c_void_p()

    def read(what):
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtc{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, "nvrtc" + what)(program, text)
        return text.raw

    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(),
                             b"kernel.cu", 0, None, None)
    options = (f"--gpu-architecture={arch}", "--std=c++17",
               "--extra-device-vectorization", "-default-device")
    array = (ctypes.c_char_p * 4)(*(one.encode() for one in options))
    if nvrtc.nvrtcCompileProgram(program, 4, array):
        raise RuntimeError("weft: NVRTC failed on a kernel:\n"
                           + read("GetProgramLog").decode()[-4000:])
    return read("GetCUBIN")


def _weft_package(source, launches, arch, _folder=[]):
    """Cubin and launches of that CUDA text, built if nobody has before."""
    if not _folder:
        _folder.append(_weft_cache())
    nvrtc = _weft_nvrtc()
    folder = os.path.join(_folder[0], "nvrtc-" + _weft_nvrtc_version(nvrtc))
    os.makedirs(folder, exist_ok=True)
    key = hashlib.sha256(f"{source}\0{launches}\0{arch}".encode()).hexdigest()[:32]
    path = os.path.join(folder, key + ".json")
    if not os.path.exists(path):
        told = json.loads(launches)
        cubin = base64.b64encode(_weft_cubin(nvrtc, source, arch)).decode()
        package = {"format": 1, "arch": arch, "scratch": told["scratch"],
                   "modules": [{"cubin": cubin}],
                   "launches": [{"module": 0, **o} for o in told["launches"]]}
        with tempfile.NamedTemporaryFile(
                "w", dir=folder, delete=False) as file:
            json.dump(package, file)
        os.replace(file.name, path)  # whole or not at all, for all who race
    with open(path) as file:
        return json.load(file)


