"""The search for the kernels of one region, by the program's own data: a run of weft on
the region's graph."""

import dataclasses
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from weft.backend.graphs.problem_source import Source, Unsupported, source_of
from weft.backend.implementations import composed_module
from weft.backend.implementations.composed_module import ComposedModule
from weft.backend.options import Options, log, told
from weft.backend.searches import region_graph, search
from weft.backend.searches.background_verification import rechecks
from weft.backend.searches.region_graph import NoGraph, SubgraphKernels
from weft.backend.searches.region_kernel import Kernel
from weft.backend.searches.vendor_products import vendor_product
from weft.backend.searches.region_module import (
    Combined,
    NoKernel,
    NotSliced,
    RegionModule,
    combined,
)
from weft.problem.problem import internal_error
from weft.regions import insertion
from weft.regions.attribution import RegionTime
from weft.regions.extraction import Extracted, extracted
from weft.regions.insertion import Replacement
from weft.regions.regions import (
    HALVES,
    Kind,
    RegionGroup,
    Role,
    base_of,
    has_few_rows,
    is_attention,
    role_of,
)

#: Regions of one program that are searched, at most.
REGIONS_MAX = 12
#: Seconds of a search without its kernels, and seconds for two kernels of a region, by
#: device. An H200 with 8 cores took 8 s and 1.3 s (2026-11-30).
START_S, REGION_S = {"cuda": 10.0, "cpu": 8.0}, {"cuda": 2.0, "cpu": 4.0}
#: A kernel is tried in the program if it takes at most TRIED_MAX times as long as the
#: incumbent's code. The events that time a kernel include its launch: kernels that do
#: nearly nothing took 4.1 to 4.5 µs (H200, 2026-11-30).
TRIED_MAX, LAUNCH_S = 1.25, 4e-6
#: A region that takes a smaller part of the program's time is not worth a search.
SHARE_MIN = 0.01
#: The least budget of one region's own search, in seconds. On an H200 with 16 cores, four
#: searches at once began to build kernels after 10 to 14 s (2026-11-29).
BUDGET_MIN_S = {"cuda": 25.0, "cpu": 10.0}
#: Part of a region's excess that is hoped for if its products are in half precision,
#: which only the vendor's library computes.
PRODUCT_HOPE = 0.05


@dataclasses.dataclass
class Found:
    """The result of one region's search: a kernel, or why there is none."""

    reason: str = ""
    summary: str = ""
    path: str = ""
    kernel: Kernel | None = None
    #: Seconds that the region's kernels take, timed alone; 0: not known.
    seconds: float = 0.0
    #: Makes the kernel of one subgraph an operator of its own; None where the region's
    #: module is one operator.
    kernels: SubgraphKernels | None = None


@dataclasses.dataclass
class Candidate:
    """A group of equal regions, with what the program's data say of it."""

    time: RegionTime
    extracted: tuple[Extracted, ...]  # of each region of the group
    source: Source | None = None
    #: "waiting", "searching", "none" (no kernel), "verified", "slower", "generated"
    state: str = "waiting"
    reason: str = ""
    found: Found | None = None
    #: How many times as long the whole call takes without it, where it was inserted.
    gain: float = 0.0
    #: The subgraphs whose kernels are used; None: all that have one.
    used: frozenset[str] | None = None
    #: Part of the names of its operators: no other region of the process has it.
    owner: str = ""

    @property
    def group(self) -> RegionGroup:
        return self.time.group

    def expected_gain_s(self) -> float:
        """Seconds of a call that the kernels save, by their own timing."""
        return self.time.seconds - self.kernel_s() * len(self.group.regions)

    def kernel_s(self) -> float:
        """Seconds of one call of the kernels on the device, by their own timing."""
        assert self.found
        return max(0.0, self.found.seconds - LAUNCH_S)

    def why_not_tried(self) -> str:
        """ "" unless the kernels alone take much longer than the incumbent's code."""
        incumbent_s = self.time.seconds / len(self.group.regions)
        if self.kernel_s() <= TRIED_MAX * incumbent_s:
            return ""
        return (
            f"its kernels take {self.kernel_s() * 1e6:.1f} µs, where Inductor's "
            f"code takes {incumbent_s * 1e6:.1f} µs in the program"
        )

    def kernels(self) -> list[Kernel]:
        """What computes in the place of the region's operators."""
        assert self.found and self.found.kernel
        inserted = self.found.kernels.inserted(self.used) if self.found.kernels else []
        return inserted or [self.found.kernel]

    def halves(self) -> list[frozenset[str]]:
        """Two parts of the subgraphs whose kernels are used; [] if it has no parts."""
        assert self.found
        if self.found.kernels is None:
            return []
        names = sorted(self.used or self.found.kernels.module.subgraphs)
        middle = len(names) // 2
        return [frozenset(names[:middle]), frozenset(names[middle:])] if middle else []

    def replacements(self) -> list[Replacement]:
        """The argument of with_inserted() for all regions of the group."""
        graph = self._graph()
        return [
            Replacement(region, own, graph)
            for region, own in zip(self.group.regions, self.extracted, strict=True)
        ]

    def _graph(self) -> fx.Graph:
        assert self.found and self.found.kernel
        first = self.extracted[0]
        if self.found.kernels is not None:
            try:
                return self.found.kernels.graph(first, self.used)
            except NoGraph as error:
                if self.used is not None:  # one operator would have all kernels
                    raise
                log.info("a region's module is one operator: %s", error)
                self.found.kernels = None
        target = insertion.operator_for(
            f"{self.owner} {self.group.key}",
            self.found.kernel.composed.text,
            self.found.kernel,
            insertion.layouts_of(first),
            len(first.inputs),
        )
        return insertion.call_graph(target, first)


def take_vendor_products(
    candidates: Sequence[Candidate], device: torch.device, on_failure: Callable[[str], None]
) -> None:
    """Makes those "verified" that the vendor's library computes as one product with its
    activation. Runs small products on the device, a GPU."""
    for candidate in candidates:
        own = candidate.extracted[0]
        if candidate.group.first.kind is not Kind.PRODUCT:
            continue
        try:
            product = vendor_product(own, device)
        except Exception as error:  # no memory is free, say
            log.info("the library's products were not tried: %s", told(error))
            return
        if product is None:
            continue
        kernel = Kernel(None, product, own.module, on_failure)
        candidate.found = Found(kernel=kernel)
        candidate.state = "verified"
        candidate.reason = "cuBLASLt computes the activation with the product"


def chosen(times: Sequence[RegionTime], whole_s: float) -> list[Candidate]:
    """The regions that are worth a search, what may gain most first."""
    worth = [time for time in times if whole_s <= 0 or time.seconds >= SHARE_MIN * whole_s]
    worth.sort(key=lambda one: -hoped_s(one))
    return [Candidate(one, tuple(map(extracted, one.group.regions))) for one in worth[:REGIONS_MAX]]


def hoped_s(time: RegionTime) -> float:
    """Seconds of a call that a kernel for the region may save."""
    dtypes = {
        one.dtype
        for node in time.group.first.nodes
        for one in [node.meta["val"]]
        if isinstance(one, torch.Tensor)
    }
    is_half = not dtypes.isdisjoint(HALVES)
    is_product = time.group.first.kind in (Kind.PRODUCT, Kind.CONVOLUTION, Kind.ATTENTION)
    is_summed = any(map(has_few_rows, time.group.first.nodes))
    return time.excess_s * (PRODUCT_HOPE if is_product and is_half and not is_summed else 1.0)


def write_source(candidate: Candidate, values: Sequence[Any], static: frozenset[int]) -> None:
    """Gives the candidate its problem file, of the values of the region's inputs; or
    the reason why it has none. `static`: positions of the graph's parameters."""
    one = extracted(candidate.group.first, is_summed=True)
    if any(map(_is_random_state, one.results)):
        candidate.state = "none"
        candidate.reason = "attention's random state does not depend on its inputs"
        return
    state = {
        i: "parameter" for i, node in enumerate(one.inputs) if _position(base_of(node)) in static
    }
    if len(state) == len(one.inputs):
        state = {}
    try:
        candidate.source = source_of(one.module, list(values), state)
    except Unsupported as error:
        candidate.state, candidate.reason = "none", str(error)
    except Exception as error:
        candidate.state = "none"
        candidate.reason = internal_error(f"the region could not be written down ({told(error)})")


def _is_random_state(node: fx.Node) -> bool:
    """Whether it is the seed or offset of an attention operator's random numbers."""
    source = node.args[0] if node.target is operator.getitem else None
    return (
        isinstance(source, fx.Node)
        and is_attention(source)
        and not node.meta["val"].is_floating_point()
    )


def _position(node: fx.Node) -> int:
    """The position of a graph's argument; -1 for another node."""
    if role_of(node) is not Role.INPUT or node.op != "placeholder":
        return -1
    return list(node.graph.find_nodes(op="placeholder")).index(node)


def searched_together(
    candidates: Sequence[Candidate], budget_s: float, kind: str
) -> list[Candidate]:
    """The candidates for which one search of `budget_s` has time, on a device of this
    kind: two at least."""
    count = max(2, int((budget_s - START_S[kind]) / REGION_S[kind]))
    for one in candidates[count:]:
        one.state, one.reason = "none", "there is no time for it (budget_s)"
    return list(candidates[:count])


def budgets_s(count: int, whole_s: float, at_once: int, least_s: float) -> list[float]:
    """The budgets of `count` regions, in the order of their searches. All are equal,
    and at least `least_s`; regions for which no time is left have none."""
    if count == 0 or whole_s < 1:
        return []
    each = max(min(whole_s, least_s), whole_s * at_once / count)
    each = min(each, whole_s)
    affordable = max(1, int(at_once * (whole_s // each)))
    return [each] * min(count, affordable)


def combined_of(
    candidates: Sequence[Candidate], values: Sequence[Sequence[Any]]
) -> Combined | None:
    """One problem file for all of these; None if there is none."""
    try:
        return combined(
            [extracted(candidate.group.first, is_summed=True).module for candidate in candidates],
            values,
        )
    except Exception as error:
        log.info("regions are searched one by one: %s", told(error))
        return None


def search_together(
    candidates: Sequence[Candidate],
    problem: Combined,
    options: Options,
    budget_s: float,
    ends: threading.Event,
    on_failure: Callable[[str], None],
) -> list[Found | None]:
    """One search for all of these regions: processes start once. None for a region whose
    statements cannot be taken out of the module that was found. Raises what a search
    does."""
    asked = _asked(options, budget_s)
    outcome = search.found(problem.source, asked, ends, times_module=False)
    if not outcome.has_kernels:
        return [Found(outcome.reason, outcome.summary, outcome.path)] * len(candidates)
    text = composed_module.text_of(outcome.path)
    loaded = composed_module.loaded(outcome.path)
    seconds = search.kernel_seconds(outcome.path)
    results: list[Found | None] = []
    for one, arguments, places in zip(candidates, problem.arguments, problem.results):
        try:
            module = RegionModule(outcome.path, loaded, text, arguments, places)
        except NoKernel as error:
            results.append(Found(str(error), outcome.summary, outcome.path))
            continue
        except NotSliced as error:
            log.info("a region has no part of its own: %s", error)
            results.append(None)
            continue
        kernel = Kernel(problem.source, module, one.extracted[0].module, on_failure)
        if outcome.from_store:
            rechecks.begin(kernel, module, options)
        results.append(
            Found(
                "",
                outcome.summary,
                outcome.path,
                kernel,
                sum(seconds.get(subgraph, 0.0) for subgraph in module.subgraphs),
                _kernels_of(one, module, problem.source, on_failure),
            )
        )
    return results


def _kernels_of(
    candidate: Candidate, module: RegionModule, source: Source, on_failure: Callable[[str], None]
) -> SubgraphKernels | None:
    """None on a processor: there Inductor would build C++ for what lies between the kernels,
    which takes most of a trial, and each operator costs microseconds."""
    device = candidate.extracted[0].device()
    if device.type != "cuda":
        return None
    path, _ = module.identity
    facts = region_graph.facts_of(path, device)
    return SubgraphKernels(candidate.owner, module, facts, source, on_failure)


def _asked(options: Options, budget_s: float) -> Options:
    """Options of a region's search. The program itself compares with the incumbent,
    which is Inductor's code already."""
    seeds = "library,compiler" if options.seeds == "auto" else options.seeds
    return dataclasses.replace(
        options, budget_s=max(1.0, budget_s), fallback="eager", mode=None, seeds=seeds
    )


def search_one(
    candidate: Candidate,
    options: Options,
    budget_s: float,
    ends: threading.Event,
    on_failure: Callable[[str], None],
) -> Found:
    """Searches, or takes what an earlier search found. Blocks for about the budget;
    never raises."""
    assert candidate.source
    asked = _asked(options, budget_s)
    try:
        outcome = search.found(candidate.source, asked, ends, times_module=False)
        if not outcome.has_kernels:
            return Found(outcome.reason, outcome.summary, outcome.path)
        composed = ComposedModule(candidate.source, outcome.path)
        kernel = Kernel(candidate.source, composed, candidate.extracted[0].module, on_failure)
        if outcome.from_store:
            rechecks.begin(kernel, composed, options)
        return Found(
            "",
            outcome.summary,
            outcome.path,
            kernel,
            sum(search.kernel_seconds(outcome.path).values()),
        )
    except search.SearchFailed as error:
        return Found(str(error))
    except Exception as error:
        return Found(f"the search failed with {told(error)}")
