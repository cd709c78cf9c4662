"""Other forms of a whole program that Inductor compiles: no kernel is generated for them,
and no search is needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import fx

from weft.regions import few_rows, folding, hoisting, insertion

#: Devices whose programs are tried in other forms. On a processor an operator more costs
#: microseconds in each call.
DEVICES = ("cuda",)


class NoForm(Exception):
    """The program has nothing that the form changes."""


@dataclasses.dataclass(frozen=True)
class Form:
    """A way to rewrite a graph; `words` say what it does, in reports."""

    words: str
    folds: hoisting.Choice | None = None
    #: Whether products of few rows are split.
    splits: bool = False

    def of(self, module: fx.GraphModule, compile_part: hoisting.Compile) -> fx.GraphModule:
        """A copy of the graph in this form; raises NoForm, and what the compiler does."""
        if self.folds is not None and not folding.is_allowed():
            raise NoForm("the program does not allow cuDNN")
        if self.splits and not few_rows.is_possible():
            raise NoForm("Triton is not installed")
        if self.splits and not few_rows.launches_of(module.graph, processors_of(module)):
            raise NoForm("no product in the program has few rows")
        made = hoisting.hoisted(module, compile_part, self.folds)
        if made is None and not self.splits:
            raise NoForm("nothing in the program is of this kind")
        made = made or insertion.copied(module)[0]
        if self.splits:
            few_rows.split(made.graph, few_rows.launches_of(made.graph, processors_of(made)))
            made.recompile()
        return made


def processors_of(module: fx.GraphModule) -> int:
    """How many multiprocessors the GPU has that the graph's tensors are on."""
    devices = {
        one.meta["val"].device
        for one in module.graph.nodes
        if isinstance(one.meta.get("val"), torch.Tensor)
    }
    return min(
        torch.cuda.get_device_properties(one).multi_processor_count
        for one in devices
        if one.type == "cuda"
    )


APART = "small values are computed apart"
FOLDED = "cuDNN computes norms, sums and ReLU with convolutions"
SPLIT = "products of few rows are split over the GPU"
#: In the order of their trials. The first two compute small values apart too.
FORMS = (Form(FOLDED, lambda one: True), Form(SPLIT, splits=True), Form(APART))


def chosen_form(is_faster: Callable[[Form], bool]) -> Form | None:
    """The first of FORMS that is faster than the program as it is; None if none is."""
    return next((form for form in FORMS if is_faster(form)), None)
