"""Runs generated Triton kernels in Triton's interpreter, for tests."""

import functools
import importlib.util
import itertools
import os

# Read when Triton is first imported, which importing the framework may do.
os.environ["TRITON_INTERPRET"] = "1"

import numpy as np  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
from triton.runtime import interpreter  # noqa: E402

import captured_cases  # noqa: E402
from weft.build import triton_interpreter  # noqa: E402

count = itertools.count()


class TritonVariant:
    """The cases from `first` on, in steps of `step`: the sources from
    `which` on, at most `most` of them, for a GPU with so many
    multiprocessors, whose memory moves so many bytes in a nanosecond."""

    def __init__(self, label, which, most, multiprocessors, first=0, step=1, memory=4300):
        self.label = label
        self.which = which
        self.most = most
        self.facts = [str(multiprocessors), "16", str(99 << 10), str(memory)]
        self.cases = captured_cases.part(first, step)

    def generate(self, graphs, options):
        cli = captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN")
        return captured_cases.generate(graphs, [cli, *self.facts, *options])

    def build(self, graphs, answers, folder):
        del graphs
        built = []
        for answer in answers:
            chosen = answer["variants"][self.which :][: self.most]
            built.append(
                {
                    one["variant"]: functools.partial(run, load(one["text"], folder))
                    for one in chosen
                }
            )
        return built


def reduce_in_steps(self, inputs):
    """Stands in for the interpreter's own reduction by a function, which calls
    it once for each element and takes minutes. This combines all neighbours of
    a tile at once, then what is left, as a GPU does."""
    types = [one.dtype for one in inputs]
    values = [np.moveaxis(one.handle.data, self.axis, -1) for one in inputs]
    while values[0].shape[-1] > 1:
        pairs = [
            self.to_tensor(value[..., side::2], dtype)
            for side in (0, 1)
            for value, dtype in zip(values, types)
        ]
        combined = self.combine_fn.fn(*pairs)
        if not isinstance(combined, tuple):
            combined = (combined,)
        values = [one.handle.data for one in combined]
    return [self.to_tensor(value[..., 0], dtype) for value, dtype in zip(values, types)]


def remembering_types():
    """Half of what interpreting takes is making types, of which a kernel has few:
    each is made once. What a type or a tensor holds follows from its element's
    type and its shape, but for what is set here."""
    core, types, tensors, dtypes = triton.language.core, {}, {}, {}
    of_type, of_tensor = core.block_type.__init__, core.tensor.__init__
    of_numpy = interpreter._get_np_dtype

    def element_of(kind):
        if isinstance(kind, core.pointer_type):
            return (kind.name, kind.address_space, kind.const)
        return kind.name

    def make_type(self, element_ty, shape):
        key = (element_of(element_ty), tuple(getattr(one, "value", one) for one in shape))
        if key not in types:
            of_type(self, element_ty, shape)
            types[key] = dict(vars(self), key=key)
        vars(self).update(types[key], element_ty=element_ty)

    def make_tensor(self, handle, type):
        key = getattr(type, "key", None) or element_of(type)
        if key not in tensors:
            of_tensor(self, handle, type)
            tensors[key] = dict(vars(self), handle=None)
        vars(self).update(tensors[key], handle=handle, type=type, dtype=type.scalar)

    def numpy_type(kind):
        key = getattr(kind, "key", None) or element_of(kind)
        if key not in dtypes:
            dtypes[key] = of_numpy(kind)
        return dtypes[key]

    core.block_type.__init__ = make_type
    core.tensor.__init__ = make_tensor
    interpreter._get_np_dtype = numpy_type


remembering_types()
interpreter.ReduceOps.generic_reduce = reduce_in_steps
triton_interpreter.mend()


def load(text, folder):
    """That source's kernel_function. A file, as Triton reads it again."""
    name = f"generated_{next(count)}"
    path = os.path.join(folder, name + ".py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel_function


def run(function, inputs):
    """What the kernels leave in outputs and scratch that held NaN before."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        with triton_interpreter.plainly():
            return captured_cases.as_list(function(*inputs))
    finally:
        torch.use_deterministic_algorithms(before)
