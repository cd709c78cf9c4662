# Asked of the chosen Python; importing torch would take seconds.
import ctypes
import glob
import importlib.metadata
import importlib.util
import json
import os
import platform
import site
import sys
import sysconfig


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def nvrtc():
    for folder in sys.path:
        for path in sorted(glob.glob(os.path.join(folder, "nvidia/*/lib/libnvrtc.so*"))):
            about = os.stat(path)
            return f"{path} {about.st_size} {about.st_mtime_ns}"
    for name in (
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so",
        "/usr/local/cuda/lib64/libnvrtc.so",
    ):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"{name} {major.value}.{minor.value}"
    return ""


def torch_files():
    """Source and what bytecode is beside it: of the first and of the last
    module that a process with PyTorch's compiler loads."""
    found = importlib.util.find_spec("torch")
    if not found or not found.origin:
        return []
    sys.pycache_prefix = None
    folder = os.path.dirname(found.origin)
    compiler = os.path.join(folder, "_inductor/compile_fx.py")
    sources = filter(os.path.exists, (found.origin, compiler))
    return [(source, importlib.util.cache_from_source(source)) for source in sources]


def changed(file):
    about = os.stat(file)
    return f"{about.st_size} {about.st_mtime_ns}"


def sites():
    """Folders of packages that are installed, and those that their .pth files
    name: sys.path does not tell them from PYTHONPATH's."""
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    named = list(folders)
    for folder in folders:
        for path in glob.glob(os.path.join(folder, "*.pth")):
            with open(path, encoding="utf-8", errors="replace") as file:
                named += [
                    os.path.join(folder, line)
                    for line in map(str.strip, file)
                    if line and not line.startswith(("#", "import "))
                ]
    return set(map(os.path.abspath, named))


files = torch_files()
roots = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
# What PYTHONPATH names is not looked at in a box: nobody's folders are seen there
# for it, least of all one that the run's own scratch lies in.
named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
left_out = {os.path.abspath(p) for p in named if p} - sites()
roots |= {p for p in sys.path if p} - left_out
print(
    json.dumps(
        {
            "version": platform.python_version(),
            "torch": version("torch"),
            "triton": version("triton"),
            "nvrtc": nvrtc(),
            "has_bytecode": all(os.path.exists(b) for _, b in files),
            "torch_files": " ".join(changed(s) for s, _ in files),
            "roots": sorted(roots),
        }
    )
)
