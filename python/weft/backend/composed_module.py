"""A composed module, loaded into the user's process and called with the
graph's own arguments."""

import importlib.util
import itertools
import os
import sys
import threading

import torch

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
        self._class = _load(path).ModelNew
        self._outputs = [_resolved(one) for one in source.outputs]
        self._state = [(i, name, i in source.parameters)
                       for i, name in source.state.items()]
        self._local = threading.local()
        self._instance()

    def __call__(self, arguments):
        """The graph's results for its arguments, a list."""
        source = self.source
        given = [*arguments, *source.constants]
        instance = self._instance()
        parameters, buffers = instance._parameters, instance._buffers
        for i, name, is_parameter in self._state:
            (parameters if is_parameter else buffers)[name] = given[i]
        try:
            computed = instance.forward(*[given[i] for i in source.inputs])
        finally:  # nobody else's tensors are kept alive
            for _, name, is_parameter in self._state:
                (parameters if is_parameter else buffers)[name] = None
        return [_result(one, computed, given) for one in self._outputs]

    def _instance(self):
        """This thread's: two may call with other tensors."""
        instance = getattr(self._local, "instance", None)
        if instance is None:
            instance = self._class.__new__(self._class)
            torch.nn.Module.__init__(instance)
            for _, name, is_parameter in self._state:
                if is_parameter:
                    instance.register_parameter(name, None)
                else:
                    instance.register_buffer(name, None)
            # The user's own code is a better reference than the graph in it.
            instance.forward_reference = _decline
            self._local.instance = instance
        return instance


def _decline(*_, **__):
    raise Declined("the guards of the composed module do not know these "
                   "arguments")


def _resolved(output):
    """With operators in the place of their names."""
    if output[0] != "view":
        return output
    steps = []
    for name, args, kwargs in output[2]:
        function = torch.ops
        for part in name.split("."):
            function = getattr(function, part)
        steps.append((function, args, kwargs))
    return (*output[:2], steps)


def _result(one, computed, given):
    kind, what = one[0], one[1]
    if kind == "computed":
        return computed[what]
    if kind == "argument":
        return given[what]
    if kind == "value":
        return what
    result = given[what]
    for function, args, kwargs in one[2]:
        result = function(result, *args, **kwargs)
    return result


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
