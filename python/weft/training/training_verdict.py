"""One ModelNew, with kernels for one or both passes, and what `weft eval` says of
it: of a step of training, and of a few steps of gradient descent."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import TYPE_CHECKING, Any

from weft.problem import problem as problems
from weft.runs import DriverSettings, NotJudged, judge, write_text
from weft.training import step_text

if TYPE_CHECKING:
    from weft.training.joint import Step

#: So often a module is timed that others left no time for.
TIMED_MAX = 3


@dataclasses.dataclass
class Trial:
    names: list[str]  # passes that are by kernels
    text: str  # ModelNew's module
    #: docs/reference/worker-protocol.md; timing: None, where it was not timed.
    verdict: dict[str, Any] | None = None
    timing: dict[str, Any] | None = None
    descent: dict[str, Any] | None = None  # another verdict

    @property
    def reason(self) -> str:
        """Why it is refused; "": it is right as far as it was judged."""
        for verdict in (self.verdict, self.descent):
            if verdict and not verdict["correct"]:
                return verdict["reason"]
        return ""

    @property
    def is_faster(self) -> bool:
        """Than eager beyond noise; what could not be timed is not slower."""
        return not self.reason and (self.timing is None or self.timing["over_eager"]["low"] > 1)

    def gain(self) -> float:
        return self.timing["over_eager"]["ratio"] if self.timing else 1.0

    def check_step(self, settings: DriverSettings, reference: str, step: Step) -> None:
        """Results and gradients, and the time of both passes."""
        candidate = self._written(settings, "step", step_text.write(self.text, "ModelNew", step))
        for _ in range(TIMED_MAX):
            self.verdict, self.timing = _judged(settings, reference, candidate, is_timed=True)
            if self.verdict["kind"] != "not_timed":
                break

    def check_descent(self, settings: DriverSettings, reference: str, step: Step) -> None:
        """That its losses follow eager's."""
        candidate = self._written(
            settings, "descent", step_text.write_descent(self.text, "ModelNew", step)
        )
        self.descent, _ = _judged(settings, reference, candidate, is_timed=False)

    def _written(self, settings: DriverSettings, what: str, text: str) -> str:
        path = os.path.join(settings.out, "composed", "_".join([*self.names, what]) + ".py")
        write_text(text, path)
        return path


def _judged(
    settings: DriverSettings, reference: str, candidate: str, is_timed: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    try:
        verdict, timing = judge(settings, reference, candidate, settings.mode, is_timed)
    except NotJudged as error:
        return {"correct": False, "kind": "not_judged", "reason": str(error)}, None
    verdict["reason"] = _named(verdict["reason"], settings, reference)
    return verdict, timing


def _named(reason: str, settings: DriverSettings, reference: str) -> str:
    """With what its outputs are, in the place of their numbers. A candidate
    may have written the reason, with any number in it."""
    pattern = re.compile(r"\b(?:output )?output ?(\d{1,9})\b")
    if not pattern.search(reason):
        return reason
    try:
        names = _names(settings, reference)
    except Exception:  # short of memory, say: it has numbers then
        return reason
    if names is None:
        return pattern.sub("the losses", reason)
    return pattern.sub(lambda found: dict(enumerate(names)).get(int(found[1]), found[0]), reason)


def _names(settings: DriverSettings, reference: str) -> list[str] | None:
    """Those of a step's outputs; None: it has one, without a name."""
    problem = problems.load_problem(reference, settings.mode)
    model = problems.build_model(problem, device=settings.device)
    made = model(*problems.make_inputs(problem, device=settings.device))
    if not isinstance(made, dict):
        return None
    return [name for name, one in made.items() if one is not None]
