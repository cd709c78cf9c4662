import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile

import torch


def _weft_open_python(source, _folder=[]):
    """kernel_function of that Python text, from a file: Triton reads a kernel's
    text again, and what it builds lies beside it."""
    if not _folder:
        cache = _weft_cache()
        if not os.access(cache, os.W_OK):  # as where a sandbox shows others' builds
            cache = os.environ.get("TORCH_EXTENSIONS_DIR") or tempfile.mkdtemp()
        _folder.append(cache)
    name = "weft_" + hashlib.sha256(source.encode()).hexdigest()[:32]
    path = os.path.join(_folder[0], name + ".py")
    if not os.path.exists(path):
        with tempfile.NamedTemporaryFile(
                "w", dir=_folder[0], delete=False, encoding="utf-8") as file:
            file.write(source)
        os.replace(file.name, path)  # whole or not at all, for all who race
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    # A folder of its own: two kernels may call their libraries the same.
    builds = os.path.join(_folder[0], name)
    os.makedirs(builds, exist_ok=True)
    variables = ("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR",
                 "WEFT_KERNEL_CACHE")
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(dict.fromkeys(variables, builds))
    try:
        spec.loader.exec_module(module)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return module.kernel_function


def _weft_results(made, looks):
    """What kernel_function gave, in the captured layout."""
    if not isinstance(made, (tuple, list)):
        made = (made,)
    made = tuple(_weft_restride(one, *look) for one, look in zip(made, looks))
    return made if len(made) > 1 else made[0]


