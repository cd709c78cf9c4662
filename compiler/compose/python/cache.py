def _weft_processor():
    """Names this kind of processor: a native build runs on no other."""
    facts = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            facts += "".join(sorted({line for line in file if line.startswith(
                ("model name", "flags", "Features"))}))
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def _weft_cache():
    """The folder of kernels built on this kind of processor, private to
    its user. Machines may share WEFT_KERNEL_CACHE."""
    if os.environ.get("WEFT_KERNEL_CACHE"):
        folder = os.path.join(os.environ["WEFT_KERNEL_CACHE"], _weft_processor())
        os.makedirs(folder, exist_ok=True)
        return folder
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(
        os.path.expanduser("~"), ".cache")
    parent = home
    while not os.path.exists(parent) and parent != os.path.dirname(parent):
        parent = os.path.dirname(parent)
    if os.path.isdir(parent) and os.access(parent, os.W_OK | os.X_OK):
        folder = os.path.join(home, "weft", _weft_processor())
        os.makedirs(folder, mode=0o700, exist_ok=True)
        facts = os.stat(folder)
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022 \
                and os.access(folder, os.W_OK):
            return folder
    return tempfile.mkdtemp(prefix="weft-kernels-")


