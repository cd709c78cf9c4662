"""A composed module, loaded into the user's process and called with the
graph's own arguments."""

import importlib.util
import itertools
import os
import sys

from weft.backend.graph_call import _WeftGraphCall

_count = itertools.count()


class Declined(Exception):
    """The module's own guards do not know these arguments."""


class ComposedModule:
    """ModelNew of a file, without tensors of its own: what it reads are the
    tensors of each call."""

    def __init__(self, source, path):
        """Builds its kernels, which takes a compiler's time. Raises what the
        file does."""
        self.source = source
        # The user's own code is a better reference than the graph in it.
        self._call = _WeftGraphCall(
            _load(path).ModelNew, source.inputs, source.state,
            source.parameters, source.outputs, reference=_decline)
        self._call.instance()

    def __call__(self, arguments):
        """The graph's results for its arguments, a list."""
        return self._call([*arguments, *self.source.constants])


def _decline(*_, **__):
    raise Declined("the guards of the composed module do not know these "
                   "arguments")


def _load(path):
    name = f"weft_composed_{next(_count)}"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(path, "model_new.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
