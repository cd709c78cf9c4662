"""Files by which `weft eval` judges training: a step of it, or a few steps of
gradient descent, as what forward() of Model, or of ModelNew, computes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weft.runs import read_text

if TYPE_CHECKING:
    from weft.training.joint import Step

#: Of gradient descent.
DESCENT_STEPS = 5
_FOLDER = os.path.dirname(os.path.abspath(__file__))


def write(text: str, name: str, step: Step, is_compiled: bool = False) -> str:
    """The file of a step of training. text: a module's, with the class of that
    name; step: a joint.Step. is_compiled: whether torch.compile will get it."""
    return (
        f"{text.rstrip()}\n\n\n"
        "# By `weft run --train`, from here on: to be judged.\n"
        f"import torch\n\n_weft_class = {name}\n"
        f"_weft_gradients = {step.tangents}\n"
        f"_weft_leaves = {step.leaves}\n"
        f"_weft_lost = {step.lost}\n_weft_anchor = {step.anchor!r}\n"
        f"_weft_is_compiled = {is_compiled}\n\n" + read_text(_FOLDER, "step_part.py")
    )


def write_descent(text: str, name: str, step: Step) -> str:
    """The same of a few steps."""
    return f"{write(text, name, step)}\n\n_weft_steps = {DESCENT_STEPS}\n" + read_text(
        _FOLDER, "descent_part.py"
    )
