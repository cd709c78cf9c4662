"""Whether a model is the same graph at every size, by the exporter's word.

A run with --dynamic-batch (or -dim) captures a problem at several sizes (its text
then says WEFT_SIZES, one for each symbol) and compares the graphs. That cannot tell
of a branch that is taken beyond all of them; the exporter, which is given the sizes
as symbols, says what the model asks of them.
"""

import contextlib
import io
import re

from weft.capture import decompositions, export
from weft.problem.problem import ProblemError


#: What the exporter calls the symbols, in their order.
NAMES = ("batch", "sequence")


def sizes_of(problem):
    """The sizes that the problem file was given, no two alike; or None."""
    return getattr(problem.module, "WEFT_SIZES", None)


def check(problem, model, inputs):
    """ProblemError, where the model is another one at some sizes."""
    import torch
    from torch.utils import _pytree as pytree

    symbols = {size: torch.export.Dim(name, min=2)
               for name, size in zip(NAMES, sizes_of(problem))}

    def shape(leaf):
        if not isinstance(leaf, torch.Tensor):
            return None
        return {i: symbols[n] for i, n in enumerate(leaf.shape)
                if n in symbols}

    shapes = pytree.tree_map(shape, tuple(inputs))
    if not set(symbols.values()) <= set(pytree.tree_leaves(shapes)):
        raise refusal(problem, "no input has the size as a dimension")
    quiet = io.StringIO()
    try:
        with torch.no_grad(), contextlib.redirect_stdout(quiet), \
                contextlib.redirect_stderr(quiet), \
                decompositions.shapes_of_lstm(), export.data_as_detach(), \
                export.buffers_written_once(), export.without_value_checks():
            torch.export.export(model, tuple(inputs), strict=False,
                                dynamic_shapes=shapes)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise refusal(problem, _why(error)) from error


def refusal(problem, why):
    return ProblemError(
        "one_batch", f"{problem.name} cannot have kernels for any size: {why}; "
        "leave out --dynamic-batch or --dynamic-dim", file=problem.name)


def _why(error):
    """What the exporter says of the sizes, of its many lines."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    for line in lines:
        if re.search(r"(batch|sequence).*(satisf|specializ|constant)|"
                     "Not all values", line):
            return line[:300]
    return export.first_sentence(error)
