"""Checks one candidate kernel of a subgraph (docs/explanation/verification.md).

A kernel is not judged as a Model that calls it, because a kernel and a module differ:

* A kernel writes into the oracle's buffers. Two sets of buffers take turns, so that every
  call sees other addresses. A module allocates its results.
* All kernels of a subgraph are compared with the same cases. For most of them eager's
  answer is enough, which costs little. A module's cases are made for the module alone.
* A module also has state, random numbers, and arguments that are no tensors.

Shared steps are in verdict.py and expectation_maker.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any


from weft.candidate import gpu_package, harness
from weft.candidate.slot import CandidateFailed, Slot
from weft.device.arena import BufferSet
from weft.device.arena_keeper import ArenaKeeper
from weft.device.trace_spans import lap
from weft.expect import compare, mismatches
from weft.judge.job_folders import JobFolders, NotStaged
from weft.judge.limits import Limits
from weft.judge.verdict import Verdict, judging

if TYPE_CHECKING:
    import torch

    from weft.expect.expected import CaseMaker, Cases, PassingCases, SubgraphCase
    from weft.oracle.warden_client import OutsideFolders


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
    verdict = Verdict()
    with judging(verdict, slot, keeps=True):
        _run_cases(slot, keeper, cases, job, limits, verdict)
    verdict.framework_error = cases.framework_error
    verdict.show_framework(
        [spec.dtype for spec in cases.reference.outputs], cases.maker.framework_used_tf32
    )
    verdict.lacks_float64 = cases.lacks_float64
    verdict.controls = dict(cases.controls)
    verdict.conclude(verdict.controls)
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
        reason = _reason(got, again, case, verdict, cases.maker)
        if reason and case.is_near:
            del case  # before the next is made: it may fill half a device
            case = cases.case(chosen)
            reason = _reason(got, again, case, verdict, cases.maker)
        if reason:
            if again is None:
                reason += verdict.remark_on_tf32(got, case, cases.maker)
            raise CandidateFailed("wrong", f"case {number} ({case.distribution}): {reason}")
        if number == 0:
            earlier = [x.clone() for x in got]
        del case


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
    slot: Slot, buffers: BufferSet, which: int, case: SubgraphCase, limits: Limits
) -> list[torch.Tensor]:
    """Calls the candidate once on fresh buffers; its outputs."""
    with lap("write"):
        buffers.write_inputs(case.data)
        buffers.fill_outputs()
    with lap("calls"):
        slot.call(limits.wall_ms, sets=[which])
    with lap("guards"):
        wrong = buffers.out_of_bounds_write(case.data)
    if wrong:
        raise CandidateFailed("cheated", wrong)
    # No copy: the candidate stands still until its next call.
    return buffers.output_views


def _reason(
    got: list[torch.Tensor],
    first: list[torch.Tensor] | None,
    case: SubgraphCase,
    verdict: Verdict,
    maker: CaseMaker,
) -> str:
    """Why these results are wrong, or "". `first`: those of the same inputs
    before, or None."""
    reason = verdict.compare(got, case, maker)
    return reason if reason or first is None else _difference(got, first, case, verdict)


def _difference(
    got: list[torch.Tensor], first: list[torch.Tensor], case: SubgraphCase, verdict: Verdict
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
