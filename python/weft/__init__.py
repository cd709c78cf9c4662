"""weft: verified kernels for PyTorch models, from a person's own code.

    torch.compile(model, backend="weft")
    module, report = weft.optimize(model, inputs)

The same package is the Python side of the weft program (capture, oracle,
candidates), whose processes need none of this: it is loaded when it is asked
for (docs/reference/python.md).
"""

import importlib
import os

__version__ = "0.1.0"

#: Name → the module that has it.
_API = {
    "optimize": "weft.backend.optimize",
    "explain": "weft.backend.explain",
    "status": "weft.backend.status",
    "wait": "weft.backend.status",
    "on_progress": "weft.backend.status",
    "verify": "weft.backend.verify",
    "save": "weft.backend.saved",
    "load": "weft.backend.saved",
    "cache": "weft.backend.cache",
}

if os.environ.get("WEFT_BYTECODE"):
    from weft.build import bytecode

    bytecode.read_kept(os.environ["WEFT_BYTECODE"])


def __getattr__(name):
    if name not in _API:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module = importlib.import_module(_API[name])
    value = module if name == "cache" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_API])
