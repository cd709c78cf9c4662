"""One case: the data of a reference's run, and the expectations of the run's results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from weft.expect import inputs
from weft.expect.compare import Expected

#: A subgraph's flat input storages, or a Model's RunData (model_case.py).
Data = TypeVar("Data")
AnyCase = TypeVar("AnyCase", bound="Case[Any]")


@dataclass
class Case(Generic[Data]):
    """`distribution`: a name of inputs.py, or says which number is another."""

    distribution: str
    data: Data
    outputs: list[Expected]
    #: For a Model: its inputs, then its state, after the run.
    others: list[Expected] = field(default_factory=list)
    is_near: bool = False  #: expected by eager's answer alone: compare.near

    @property
    def expectations(self) -> list[Expected]:
        return self.outputs + self.others

    @property
    def finite(self) -> bool:
        return inputs.is_finite(self.distribution)


def without_tensors(case: AnyCase) -> AnyCase:
    """The fields that ExpectationMaker.expect_near reads of another case."""
    return replace(
        case,
        data=None,
        outputs=[one.without_tensors() for one in case.outputs],
        others=[one.without_tensors() for one in case.others],
    )
