def _weft_processor():
    """Names this kind of processor and C library: a native build runs with no
    other."""
    facts = platform.machine() + repr(platform.libc_ver())
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            facts += "".join(sorted({line for line in file if line.startswith(
                ("model name", "flags", "Features"))}))
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def _weft_builders():
    """Names what kernels are built with here: the C++ compiler, by its path and by
    what it says of its version, Python, PyTorch and its CUDA."""
    compiler = shutil.which(os.environ.get("CXX") or "g++") or ""
    version = b""
    if compiler:
        try:
            version = subprocess.run([compiler, "--version"], capture_output=True,
                                     stdin=subprocess.DEVNULL, timeout=60).stdout
        except (OSError, subprocess.SubprocessError):
            pass  # where no process may start, nothing is built either
    facts = (compiler, os.path.realpath(compiler), version, sys.version,
             torch.__version__, torch.version.cuda)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def _weft_cache():
    """The folder of kernels built with these builders on this kind of processor,
    private to its user. Machines may share WEFT_KERNEL_CACHE."""
    name = _weft_processor() + "-" + _weft_builders()
    if os.environ.get("WEFT_KERNEL_CACHE"):
        folder = os.path.join(os.environ["WEFT_KERNEL_CACHE"], name)
        try:
            os.makedirs(folder, exist_ok=True)
            return folder
        except OSError:  # it is read-only, or another user's
            pass
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(
        os.path.expanduser("~"), ".cache")
    parent = home
    while not os.path.exists(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
    if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
        folder = os.path.join(home, "weft", name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        facts = os.stat(folder)
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022 \
                and os.access(folder, os.W_OK):
            return folder
    return tempfile.mkdtemp(prefix="weft-kernels-")


