"""Files by which `weft eval` judges training: a step of it, or a few steps of
gradient descent, as what forward() of Model, or of ModelNew, computes."""

import os

from weft.runs import read_text

#: Of gradient descent.
DESCENT_STEPS = 5
_FOLDER = os.path.dirname(os.path.abspath(__file__))


def write(text, name, step, is_compiled=False):
    """The file of a step of training. text: a module's, with the class of that
    name; step: a joint.Step. is_compiled: whether torch.compile will get it."""
    return (f"{text.rstrip()}\n\n\n"
            "# By `weft run --train`, from here on: to be judged.\n"
            f"import torch\n\n_weft_class = {name}\n"
            f"_weft_gradients = {step.tangents}\n"
            f"_weft_leaves = {step.leaves}\n"
            f"_weft_lost = {step.lost}\n_weft_anchor = {step.anchor!r}\n"
            f"_weft_is_compiled = {is_compiled}\n\n"
            + read_text(_FOLDER, "step_part.py"))


def write_descent(text, name, step):
    """The same of a few steps."""
    return (f"{write(text, name, step)}\n\n_weft_steps = {DESCENT_STEPS}\n"
            + read_text(_FOLDER, "descent_part.py"))
