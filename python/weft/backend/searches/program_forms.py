"""Other forms of a whole program that Inductor compiles: no kernel is generated for them,
and no search is needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from torch import fx

from weft.regions import folding, hoisting

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

    def of(self, module: fx.GraphModule, compile_part: hoisting.Compile) -> fx.GraphModule:
        """A copy of the graph in this form; raises NoForm, and what the compiler does."""
        if self.folds is not None and not folding.is_allowed():
            raise NoForm("the program does not allow cuDNN")
        made = hoisting.hoisted(module, compile_part, self.folds)
        if made is None:
            raise NoForm("nothing in the program is of this kind")
        return made


APART = "small values are computed apart"
FOLDED = "cuDNN computes norms, sums and ReLU with convolutions"
#: In the order of their trials. The first computes small values apart too.
FORMS = (Form(FOLDED, lambda one: True), Form(APART))


def chosen_form(is_faster: Callable[[Form], bool]) -> Form | None:
    """The first of FORMS that is faster than the program as it is; None if none is."""
    return next((form for form in FORMS if is_faster(form)), None)
