"""The expectations of a reference's results: the steps that a subgraph's recorded calls
(expected.py) and a problem's Model (whole_model.py) share.

The two references differ in how they run: a subgraph's calls are a function of flat
storages, a Model has state, draws random numbers and may write its arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from weft.expect import compare, tf32
from weft.expect.case import Case
from weft.expect.compare import Expected

if TYPE_CHECKING:
    from weft.device.device import Device

AnyCase = TypeVar("AnyCase", bound=Case[Any])
#: The data of a case.
Data = TypeVar("Data")
#: The results of a run.
Results = TypeVar("Results")


class ExpectationMaker(ABC, Generic[AnyCase, Data, Results]):
    """Runs a reference eagerly and in float64; says what its results should be."""

    def __init__(self, device: Device) -> None:
        self.device = device
        #: Whether an operator has products that may use TF32.
        self.multiplies = False
        #: Whether eager's products are TF32; None: not known yet.
        self.framework_used_tf32: bool | None = None

    @abstractmethod
    def tensors_of(self, results: Results) -> list[torch.Tensor]:
        """All tensors of these results, in the order of a case's expectations."""

    @abstractmethod
    def run(self, data: Data) -> Results:
        """Runs the reference eagerly."""

    @abstractmethod
    def run_wide(self, data: Data, narrow: Results, rounds: bool = False) -> Results | None:
        """Runs the reference in float64; None where that cannot be had. `narrow`:
        eager's results. `rounds`: what the reference casts to a narrower type is
        rounded to that type."""

    @property
    @abstractmethod
    def casts_to_narrow(self) -> bool:
        """Whether the last run_wide() met a cast to a narrower type."""

    @abstractmethod
    def against(self, data: Data, narrow: Results, wide: Results | None) -> list[Expected]:
        """The expectations by eager's and by wider results, which are used up."""

    @abstractmethod
    def expect(self, distribution: str, data: Data) -> AnyCase:
        """The case of that data, with all that is expected of it."""

    @abstractmethod
    def expect_near(self, data: Data, like: AnyCase) -> AnyCase:
        """The same by eager's answer alone, for data of the same kind as that case's is:
        compare.near says what may be concluded."""

    @abstractmethod
    def expect_scaled(self, case: AnyCase, factor: float) -> list[Expected]:
        """The expectations of that case's inputs times that factor."""

    def explained(self, data: Data, narrow: Results, wide: Results | None) -> list[Expected]:
        """The expectations, by float64 with the reference's own casts where float64
        alone says nothing."""
        is_wide = wide is not None
        if wide is None and self.framework_used_tf32:  # nearer to float64's than its own
            wide = self._in_float32(data)
        made = self.against(data, narrow, wide)
        del wide
        if not (is_wide and self.casts_to_narrow and any(map(compare.is_lost, made))):
            return made
        rounded = self.run_wide(data, narrow, rounds=True)
        if rounded is None:
            return made
        return list(map(compare.with_casts, made, self.against(data, narrow, rounded)))

    def find_out_tf32(self, data: Data, narrow: Results) -> None:
        """Whether eager computed these results in TF32. A library chooses by shape: what
        it did once, it does for all data."""
        may_use = self.multiplies and tf32.is_allowed(self.device.torch)
        if not may_use or self.framework_used_tf32 is not None:
            return
        used = tf32.was_used(self.tensors_of(narrow), self.tensors_of(self._in_float32(data)))
        if not used:
            self.device.assert_not_short()
        self.framework_used_tf32 = used

    def _in_float32(self, data: Data) -> Results:
        with tf32.forbidden():
            return self.run(data)

    def allow_for_tf32(self, data: Data, made: list[Expected]) -> None:
        """Has the expectations allow for the TF32 that eager used, or that a user
        allowed."""
        if self.framework_used_tf32:
            for one in made:
                compare.framework_used_tf32(one)
        if self.multiplies and tf32.is_asked(self.device.torch):
            self._widen_by_tf32(data, made)

    def _widen_by_tf32(self, data: Data, made: list[Expected]) -> None:
        """Widens these expectations by what TF32 costs on that data."""
        tf32.with_losses(
            self.device,
            lambda: self.run(data),
            lambda lossy: list(map(compare.allow, made, self.tensors_of(lossy))),
        )

    def is_explained_by_tf32(self, got: Iterable[torch.Tensor], case: AnyCase) -> bool:
        """Whether TF32, which eager did not use, explains these results."""
        if not self.multiplies or self.framework_used_tf32:
            return False
        wants = [replace(want) for want in case.expectations]
        try:
            self._widen_by_tf32(case.data, wants)
            return not compare.first_reason(got, wants)
        except RuntimeError:  # out of memory, or what a library makes of that
            return False
