"""The verdict on a candidate, a subgraph's kernel or a composed module.

This file compares the results of one case and ends a verdict. verify_subgraph.py and
verify_model.py call the candidate.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.candidate.slot import CandidateFailed, Slot
from weft.device.trace_spans import lap
from weft.expect import compare, mismatches, perturbed_runs

if TYPE_CHECKING:
    import torch

    from weft.expect.case import Case
    from weft.expect.expectation_maker import ExpectationMaker
    from weft.oracle.replies import Mismatch

#: Remark on a refused result that is as exact as TF32.
TF32_REASON = "; TF32 errs so, and PyTorch computed in float32 (--precision tf32 allows it)"


@dataclass
class Verdict:
    """docs/reference/worker-protocol.md's `verdict`."""

    correct: bool = False
    reason: str = ""
    kind: str = "correct"
    cases: int = 0
    max_error: float = 0.0
    framework_error: float = 0.0
    tolerance: float = 0.0
    #: True if an expectation is eager's alone, because float64 had no room.
    lacks_float64: bool = False
    controls: dict[str, bool | None] = field(default_factory=dict)
    #: How exact the products were, as the errors show: the candidate's, …
    precision: str = ""
    framework_precision: str = ""  #: The same for PyTorch's own results.
    #: The result of kernelbench_tolerance for a module, if the run asked for it.
    kernelbench: dict[str, Any] = field(default_factory=dict)
    #: The error of a refused result, as a multiple of its bound; else 0.
    beyond: float = 0.0
    #: The first elements of a wrong result (mismatches.first).
    mismatches: list[Mismatch] = field(default_factory=list)
    wall_ms: float = 0.0

    def fail(self, kind: str, reason: str) -> None:
        self.kind, self.reason, self.correct = kind, reason, False

    def show(self, precision: str) -> None:
        """Keeps the coarsest one that was seen."""
        if precision:
            self.precision = compare.coarsest({precision, self.precision})

    def show_framework(self, dtypes: Iterable[torch.dtype], used_tf32: bool | None) -> None:
        """`dtypes`: of all that it computes."""
        names = {str(dtype).removeprefix("torch.") for dtype in dtypes}
        self.framework_precision = compare.coarsest(names | {"tf32"} if used_tf32 else names)

    def hold(self, error: float, tolerance: float) -> None:
        """Keeps the error that came nearest to its tolerance."""
        if tolerance == 0.0 and error == 0.0:
            return  # an exact output says nothing about rounding
        if error * max(self.tolerance, 1e-300) >= self.max_error * tolerance:
            self.max_error, self.tolerance = error, tolerance

    def conclude(self, controls: dict[str, bool | None]) -> None:
        """After the last case: it is right, if nothing was wrong."""
        if self.reason:
            return
        self.controls = controls
        self.correct = True
        if False in controls.values():
            self.kind = "not_discriminating"

    def compare(
        self,
        got: Sequence[torch.Tensor],
        case: Case[Any],
        maker: ExpectationMaker[Any, Any, Any],
        redraws: bool = True,
    ) -> str:
        """Why these results are not what the case expects, or "". If the case expects by
        eager's answer alone, a difference says nothing yet. `redraws`: before a result
        is refused by little, the reference runs on nearby inputs."""
        is_sure = not case.is_near
        draws = perturbed_runs.PerturbedRuns(
            case.expectations, partial(maker.expect_scaled, case) if redraws and is_sure else None
        )
        for number, (x, made) in enumerate(zip(got, case.expectations)):
            with lap("compare"):
                finding = draws.compare(x, made)
            if is_sure or not finding.reason:
                self.hold(finding.error, made.tolerance)
            if finding.reason:
                if is_sure:
                    self.mismatches = mismatches.first(x, made)
                    self.beyond = finding.beyond
                return finding.reason
            if number < len(case.outputs):
                self.show(compare.precision_shown(finding, made, case.is_near))
        return ""

    def remark_on_tf32(
        self,
        got: Sequence[torch.Tensor],
        case: Case[Any],
        maker: ExpectationMaker[Any, Any, Any],
    ) -> str:
        """A remark for the reason, if TF32 explains the results that are refused."""
        if not maker.is_explained_by_tf32(got, case):
            return ""
        self.precision = "tf32"
        return TF32_REASON


@contextlib.contextmanager
def judging(verdict: Verdict, slot: Slot, keeps: bool = False) -> Iterator[None]:
    """Within it a candidate runs: its failure is the verdict, its end is the job's.
    `keeps`: the process may serve another job, if nothing was wrong."""
    start = time.perf_counter()
    try:
        yield
    except CandidateFailed as ended:
        verdict.fail(ended.kind, ended.reason)
    finally:
        slot.dismiss(keep=keeps and not verdict.reason)
    verdict.wall_ms = (time.perf_counter() - start) * 1000
