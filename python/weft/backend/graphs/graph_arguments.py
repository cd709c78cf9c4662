# The call of a captured graph's module with the graph's own arguments: composed
# modules in the user's process go through it (composed_module.py), and its text
# stands in the ModelNew of `weft run --train` (training/trained_model_text.py), where
# there is no weft. So it names nothing of weft's.
import math
import threading

import torch
from torch.utils import _pytree as _weft_pytree


class _WeftSize:
    """A number that a call's arguments say: the sum of `terms`, (factor, the
    dimensions that it multiplies: [(argument, dimension), …])."""

    def __init__(self, terms):
        self.terms = terms

    def __repr__(self):
        return f"_WeftSize({self.terms!r})"

    def of(self, given):
        return sum(
            factor * math.prod(given[i].shape[dim] for i, dim in places)
            for factor, places in self.terms
        )


class _WeftGraphCall:
    """The class that computes a graph, without tensors of its own: its
    parameters and buffers are arguments of each call.

    `inputs` are the arguments that forward() takes, `state` names those that
    the module holds, `parameters` are those of them that are parameters, and
    `outputs` say how each result is had (backend/graphs/problem_source.py, Source).
    `reference`, if given, is called where the module's own guards decline."""

    def __init__(self, kind, inputs, state, parameters, outputs, reference=None):
        self._kind, self._inputs, self._reference = kind, inputs, reference
        self._state = [(i, name, i in parameters) for i, name in state.items()]
        self._outputs = [_weft_resolved(output) for output in outputs]
        self._local = threading.local()

    def __call__(self, given):
        """The graph's results for its arguments and constants, a list."""
        instance = self.instance()
        parameters, buffers = instance._parameters, instance._buffers
        for i, name, is_parameter in self._state:
            (parameters if is_parameter else buffers)[name] = given[i]
        try:
            computed = instance.forward(*[given[i] for i in self._inputs])
        finally:  # nobody else's tensors are kept alive
            for _, name, is_parameter in self._state:
                (parameters if is_parameter else buffers)[name] = None
        return [_weft_result(output, computed, given) for output in self._outputs]

    def instance(self):
        """This thread's: two may call with other tensors."""
        instance = getattr(self._local, "instance", None)
        if instance is None:
            instance = self._kind.__new__(self._kind)
            torch.nn.Module.__init__(instance)
            for _, name, is_parameter in self._state:
                if is_parameter:
                    instance.register_parameter(name, None)
                else:
                    instance.register_buffer(name, None)
            if self._reference is not None:
                instance.forward_reference = self._reference
            self._local.instance = instance
        return instance


def _weft_resolved(output):
    """With operators in the place of their names."""
    if output[0] != "view":
        return output
    steps = []
    for name, args, kwargs in output[2]:
        function = torch.ops
        for part in name.split("."):
            function = getattr(function, part)
        steps.append((function, args, kwargs))
    is_sized = any(isinstance(leaf, _WeftSize) for leaf in _weft_pytree.tree_leaves(steps))
    return ("sized view" if is_sized else "view", output[1], steps)


def _weft_result(one, computed, given):
    kind, what = one[0], one[1]
    if kind == "computed":
        return computed[what]
    if kind == "argument":
        return given[what]
    if kind == "value":
        return what
    if kind == "size":
        return what.of(given)
    result, steps = given[what], one[2]
    if kind == "sized view":
        steps = _weft_pytree.tree_map_only(_WeftSize, lambda size: size.of(given), steps)
    for function, args, kwargs in steps:
        result = function(result, *args, **kwargs)
    return result
