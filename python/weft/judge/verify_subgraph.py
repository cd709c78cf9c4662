"""Checks one candidate kernel of a subgraph (docs/explanation/verification.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any


from weft.candidate import gpu_package, harness
from weft.expect import compare, mismatches, perturbed_runs
from weft.device.arena import Arena, BufferSet, new_arena
from weft.device.device import HOST, Device
from weft.device.trace_spans import lap
from weft.candidate.slot import CandidateFailed, Slot
from weft.judge.job_folders import JobFolders, NotStaged

if TYPE_CHECKING:
    import torch

    from weft.device.device_arena import DeviceArena
    from weft.expect.expected import Case, CaseMaker, Cases, PassingCases
    from weft.judge.whole_model import WholeModel
    from weft.oracle.replies import Mismatch
    from weft.oracle.warden_client import OutsideFolders

#: The first call in a process pays page faults and thread start-up.
LOAD_ALLOWANCE_MS = 5000
#: … and on a device makes its context and loads its modules.
DEVICE_LOAD_ALLOWANCE_MS = 60_000
#: … and a Python file, or a composed module, builds what it is made of.
BUILD_ALLOWANCE_MS = 300_000
#: What is said of a refused result that is as exact as TF32.
TF32_REASON = "; TF32 errs so, and PyTorch computed in float32 (--precision tf32 allows it)"


@dataclass
class Limits:
    """Of one call of the candidate."""

    wall_ms: int = 10_000
    memory_bytes: int = 4 << 30
    limit_address_space: bool = True

    @staticmethod
    def from_request(request: dict[str, Any]) -> Limits:
        given = request.get("limits") or {}
        limits = Limits()
        limits.wall_ms = int(given.get("wall_ms", limits.wall_ms))
        most = given.get("memory_bytes", limits.memory_bytes)
        limits.memory_bytes = int(most)
        return limits

    def for_loading(self, device: Device, allowance_ms: int = LOAD_ALLOWANCE_MS) -> Limits:
        """The same for the call that loads the candidate."""
        if device.is_cuda:
            allowance_ms += DEVICE_LOAD_ALLOWANCE_MS
        # A context reserves more address space than any limit allows.
        limits_space = self.limit_address_space and not device.is_cuda
        return replace(self, wall_ms=self.wall_ms + allowance_ms, limit_address_space=limits_space)

    def for_job(self, job: dict[str, Any], device: Device) -> Limits:
        """The same for loading that job's candidate."""
        if job.get("kind") in harness.BUILDS_WHEN_LOADED:
            return self.for_loading(device, BUILD_ALLOWANCE_MS)
        return self.for_loading(device)


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
    #: Some expectation is the framework's alone: float64 had no room.
    lacks_float64: bool = False
    controls: dict[str, bool | None] = field(default_factory=dict)
    #: How exact the products were, as the errors show: the candidate's, …
    precision: str = ""
    framework_precision: str = ""  #: The same for PyTorch's own results.
    #: The result of kernelbench_tolerance for a module, if the run asked for it.
    kernelbench: dict[str, Any] = field(default_factory=dict)
    #: Of a result refused for its errors, how many times the bound; else 0.
    beyond: float = 0.0
    #: Of a wrong result, the first elements (mismatches.first).
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


class ArenaKeeper:
    """Keeps one arena and replaces it only when it does not fit."""

    def __init__(self, device: Device = HOST) -> None:
        self.device = device
        self._arena: Arena | DeviceArena | None = None

    def of(self, size_bytes: int) -> Arena | DeviceArena:
        held = self._arena
        if (
            held is None
            or size_bytes > held.bytes
            or (held.bytes > 4 * size_bytes and held.bytes > 1 << 28)
        ):
            self.close()
            held = self._arena = new_arena(size_bytes, self.device)
        return held

    @property
    def is_large(self) -> bool:
        """Whether others on the device need a share of this."""
        held = self._arena
        return held is not None and self.device.is_large(held.bytes)

    def close(self) -> None:
        if self._arena is not None:
            self._arena.close()
            self._arena = None


def read_candidate(candidate: dict[str, Any]) -> bytes:
    """The bytes of a request's candidate. ValueError: the request names none."""
    if candidate.get("kind") not in harness.RUNNERS:
        raise ValueError(f"unknown kind of candidate {candidate.get('kind')!r}")
    library = candidate.get("library")
    if not isinstance(library, str):
        raise ValueError("candidate has no 'library'")
    with open(library, "rb") as file:
        return file.read()


def stage(
    candidate: dict[str, Any], content: bytes, folders: JobFolders | OutsideFolders
) -> dict[str, Any]:
    """Copies the candidate to where the sandbox can read it; its job. NotStaged: why
    it cannot run."""
    job = {"kind": candidate["kind"], "library": folders.place("candidate.so", content)}
    if candidate["kind"] in harness.PYTHON_FILES:
        job["source"] = folders.place("candidate.py", content)
        job["kernel_cache"] = folders.build_folder(content)
    if candidate["kind"] in gpu_package.KINDS:
        try:
            source = gpu_package.interpreted_source(content)
        except ValueError as error:  # the package's build ran the candidate's code
            raise NotStaged(str(error)) from None
        if source is not None:
            job["source"] = folders.place("candidate.py", source.encode("utf-8", "replace"))
    return job


def check(
    slot: Slot,
    keeper: ArenaKeeper,
    cases: Cases | PassingCases,
    job: dict[str, Any],
    limits: Limits,
) -> Verdict:
    """Runs every case; the verdict."""
    start = time.perf_counter()
    verdict = Verdict()
    try:
        _run_cases(slot, keeper, cases, job, limits, verdict)
    except CandidateFailed as ended:
        verdict.fail(ended.kind, ended.reason)
    finally:
        slot.dismiss(keep=not verdict.reason)
    verdict.framework_error = cases.framework_error
    verdict.show_framework(
        [spec.dtype for spec in cases.reference.outputs], cases.maker.framework_used_tf32
    )
    verdict.lacks_float64 = cases.lacks_float64
    verdict.controls = dict(cases.controls)
    if not verdict.reason:
        verdict.correct = True
        passed = [name for name, ok in verdict.controls.items() if ok is False]
        if passed:
            verdict.kind = "not_discriminating"
    verdict.wall_ms = (time.perf_counter() - start) * 1000
    return verdict


def _run_cases(
    slot: Slot,
    keeper: ArenaKeeper,
    cases: Cases | PassingCases,
    job: dict[str, Any],
    limits: Limits,
    verdict: Verdict,
) -> None:
    reference = cases.reference
    first = BufferSet(0, reference.inputs, reference.outputs)
    # The second set moves every pointer; large ones overlap to save memory.
    base = first.end if first.end <= 1 << 28 else 1 << 16
    second = BufferSet(base, reference.inputs, reference.outputs)
    with lap("memory"):
        arena = keeper.of(max(first.end, second.end))
        arena.clear()
    sets = [first.bind(arena), second.bind(arena)]
    described = {**job, "sizes": reference.sizes, "sets": [s.to_json() for s in sets]}
    # Made before the candidate's process is waited for: it may still begin.
    case = cases.quick_case(0)
    slot.begin(described, arena, limits.for_job(job, keeper.device))
    earlier: list[torch.Tensor] | None = None
    for number, (which, chosen) in enumerate(_schedule(cases.count)):
        if number > 0:
            keeper.device.make_way()
            case = cases.quick_case(chosen)
        got = run_case(slot, sets[which].bind(arena), which, case, limits)
        verdict.cases = number + 1
        again = earlier if number > 0 and chosen == 0 else None
        reason = _reason(got, again, case, verdict, cases.maker.expect_scaled)
        if reason and case.is_near:
            del case  # before the next is made: it may fill half a device
            case = cases.case(chosen)
            reason = _reason(got, again, case, verdict, cases.maker.expect_scaled)
        if reason:
            if again is None and is_of_tf32(
                got, case.outputs, cases.maker, partial(cases.maker.allow_tf32, case.storages)
            ):
                verdict.precision = "tf32"
                reason += TF32_REASON
            what = f"case {number} ({case.distribution}): {reason}"
            return verdict.fail("wrong", what)
        if number == 0:
            earlier = [x.clone() for x in got]
        del case


def is_of_tf32(
    got: Iterable[torch.Tensor],
    wants: list[compare.Expected],
    reference: CaseMaker | WholeModel,
    allow: Callable[[list[compare.Expected]], object],
) -> bool:
    """Whether TF32, which the framework did not use, explains these results.
    `allow(wants)` widens expectations by what it costs."""
    if not reference.multiplies or reference.framework_used_tf32:
        return False
    wants = [replace(want) for want in wants]
    try:
        allow(wants)
        return not compare.first_reason(got, wants)
    except RuntimeError:  # out of memory, or what a library makes of that
        return False


def _schedule(count: int) -> Iterator[tuple[int, int]]:
    """(buffer set, case), the first case twice: see docs/explanation/verification.md. The last case
    is the altered one, which must follow the first case in the same buffers."""
    yield 0, 0
    for number in range(1, count - 1):
        # Case 1 runs in the first buffers again, with other contents.
        yield (number - 1) % 2, number
    yield 1, 0
    yield 1, count - 1


def run_case(
    slot: Slot, buffers: BufferSet, which: int, case: Case, limits: Limits
) -> list[torch.Tensor]:
    """Calls the candidate once on fresh buffers; its outputs."""
    with lap("write"):
        buffers.write_inputs(case.storages)
        buffers.fill_outputs()
    with lap("calls"):
        slot.call(limits.wall_ms, sets=[which])
    with lap("guards"):
        wrong = buffers.out_of_bounds_write(case.storages)
    if wrong:
        raise CandidateFailed("cheated", wrong)
    # No copy: the candidate stands still until its next call.
    return buffers.output_views


def _reason(
    got: list[torch.Tensor],
    first: list[torch.Tensor] | None,
    case: Case,
    verdict: Verdict,
    expect_scaled: Callable[[list[torch.Tensor], float], list[compare.Expected]],
) -> str:
    """Why these results are wrong, or "". `first`: those of the same inputs
    before, or None."""
    draws = perturbed_runs.PerturbedRuns(
        case.outputs, None if case.is_near else lambda factor: expect_scaled(case.storages, factor)
    )
    for x, made in zip(got, case.outputs):
        with lap("compare"):
            finding = draws.compare(x, made)
        decides = not (finding.reason and case.is_near)
        if decides:
            verdict.hold(finding.error, made.tolerance)
        if finding.reason:
            if decides:
                verdict.mismatches = mismatches.first(x, made)
                verdict.beyond = finding.beyond
            return finding.reason
        verdict.show(compare.precision_shown(finding, made, case.is_near))
    return "" if first is None else _difference(got, first, case, verdict)


def _difference(
    got: list[torch.Tensor], first: list[torch.Tensor], case: Case, verdict: Verdict
) -> str:
    """The same inputs twice: other outputs mean a race or hidden state."""
    for x, before, made in zip(got, first, case.outputs):
        if not x.dtype.is_floating_point:
            continue  # each run was held against the reference exactly
        again = replace(made, framework=before.contiguous(), wide=None)
        again.tolerance = 4 * made.tolerance
        again.rms_tolerance = 4 * made.rms_tolerance
        if made.slices is not None:
            again.slices = replace(made.slices, tolerance=4 * made.slices.tolerance)
        with lap("compare"):
            finding = compare.compare(x, again)
        if finding.reason:
            if not case.is_near:
                verdict.mismatches = mismatches.first(x, again)
            return f"output {made.name} differs between two runs: {finding.reason}"
    return ""
