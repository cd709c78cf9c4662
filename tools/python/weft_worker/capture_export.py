"""Runs torch.export on a model and explains what it could not capture."""

import os
import re

from weft_worker import capture_decompositions as decompositions
from weft_worker import problem as problems
from weft_worker.problem import ProblemError

# What the exporter says, and what the user can do about it.
REASONS = (
    (r"data-dependent|GuardOnDataDependent|Could not guard|"
     r"Could not extract specialized|unbacked",
     "data_dependent",
     "what it does depends on the values of a tensor (an if, a loop, .item() "
     "or a shape): write it with torch.where and fixed shapes"),
    (r"[Dd]ynamic.?[Oo]utput.?[Ss]hape|nonzero",
     "dynamic_shape",
     "the shape of a result depends on the values of a tensor (nonzero, "
     "unique, a boolean index): write it with torch.where and fixed shapes"),
)


def export(problem, model, inputs):
    """The decomposed, functional program of model(*inputs)."""
    import torch

    try:
        with torch.no_grad():
            program = torch.export.export(model, tuple(inputs), strict=False)
            decompositions.shield_random_calls(program.graph)
            return program.run_decompositions(
                decompositions.decomposition_table())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise explained(problem, error) from error


def explained(problem, error):
    """The ProblemError for what the exporter raised."""
    import traceback

    line = problems.last_line_in(problem.path, error) or \
        line_in_text(problem.path, str(error))
    details = "".join(traceback.format_exception(error))
    if problems.is_out_of_memory(error):
        return ProblemError(
            "out_of_memory", "capturing the model needs more memory than "
            f"there is: {first_sentence(error)}; make its sizes smaller",
            file=problem.name, line=line, details=details)
    text = f"{type(error).__name__}: {error}"
    for pattern, kind, advice in REASONS:
        if re.search(pattern, text):
            return ProblemError(
                kind, f"Model.forward cannot be captured: {advice} "
                f"({first_sentence(error)})", file=problem.name, line=line,
                details=details)
    return ProblemError(
        "unsupported", "Model.forward cannot be captured by torch.export: "
        f"{type(error).__name__}: {first_sentence(error)}; write that line in "
        "plain tensor operators", file=problem.name, line=line,
        details=details)


def line_in_text(path, text):
    """The last line of the problem file that a message names, or 0."""
    found = re.findall(rf'File "{re.escape(path)}", line (\d+)', text)
    return int(found[-1]) if found else 0


def first_sentence(error):
    """The first line that says something; the exporter's run to pages."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()[:300]
    return type(error).__name__
