"""The incumbent's time by kernels, nodes and regions: one profile of a few calls."""

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from weft.regions import roofline
from weft.regions.regions import Region, RegionGroup

RANGE = "weft::incumbent"
#: Inductor's own range around a call, within RANGE.
CALL_PREFIX = "## Call CompiledFxGraph"
CALLS = 3
#: Events of a wrapper that launch no kernel.
_NO_KERNELS = (
    "aten::empty",
    "aten::as_strided",
    "aten::set_",
    "aten::resize_",
    "cuda",
    "cu",
    "Memcpy",
    "Memset",
    "[memory]",
    "## ",
    "inductor::_",
)


@dataclasses.dataclass(frozen=True)
class Launch:
    """One event directly below a profiled call: a kernel's launch or an operator."""

    name: str
    seconds: float  # of the device that computes it


@dataclasses.dataclass(frozen=True)
class Profile:
    """One call's launches in order, and the time of the whole call on the device."""

    launches: tuple[Launch, ...]
    seconds: float


@dataclasses.dataclass(frozen=True)
class RegionTime:
    """The incumbent's time for all regions of a group of equal regions."""

    group: RegionGroup
    seconds: float
    roofline_s: float

    @property
    def excess_s(self) -> float:
        """Time above the roofline: the most that a kernel can save."""
        return max(0.0, self.seconds - self.roofline_s)


def profiled(
    prepare: Callable[[], list[Any]], function: Callable[[list[Any]], object], device: torch.device
) -> list[Profile]:
    """Profiles of CALLS calls, each with the arguments that `prepare` gives. Raises what the profiler does, as where the program
    itself has one running."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        torch.cuda.synchronize(device)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(CALLS):
            given = prepare()
            with torch.profiler.record_function(RANGE):
                function(given)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
    return [
        profile_of(event, device.type)
        for event in profile.events() or ()
        if event.name == RANGE and not _is_on_device(event)
    ]


def _is_on_device(event: Any) -> bool:
    return "CPU" not in str(getattr(event, "device_type", "CPU"))


def profile_of(event: Any, kind: str) -> Profile:
    """The Profile of one call's event (torch.autograd.profiler_util.FunctionEvent)."""
    outer = event
    while True:
        children = sorted(event.cpu_children, key=lambda one: one.time_range.start)
        inner = [child for child in children if child.name.startswith(CALL_PREFIX)]
        if len(inner) != 1:
            break
        event = inner[0]
    launches = tuple(
        Launch(child.name, _seconds(child, kind))
        for child in children
        if not child.name.startswith(_NO_KERNELS)
    )
    return Profile(launches, _seconds(outer, kind))


def _seconds(event: Any, kind: str) -> float:
    """The device's time of an event; on a CPU the event's own."""
    if kind == "cuda":
        return float(event.device_time_total) / 1e6
    return float(event.cpu_time_total) / 1e6


def kernel_times(
    profiles: Sequence[Profile], kernels: Mapping[str, Sequence[int]], weights: Mapping[str, float]
) -> dict[str, float]:
    """{"kernel:handle": seconds}, medians of the profiled calls. Launches and kernels
    are in the same order; a kernel without an event of its own (C++ code has none) gets
    its share, by `weights`, of the time that no event explains."""
    found: dict[str, list[float]] = {kernel: [] for kernel in kernels}
    for profile in profiles:
        seconds, rest = _aligned(profile, list(kernels))
        missing = [kernel for kernel in kernels if kernel not in seconds]
        whole = sum(weights.get(kernel, 0.0) for kernel in missing)
        for kernel in missing:
            share = weights.get(kernel, 0.0) / whole if whole else 1 / len(missing)
            seconds[kernel] = rest * share
        for kernel, one in seconds.items():
            found[kernel].append(one)
    return {kernel: statistics.median(times) if times else 0.0 for kernel, times in found.items()}


def _aligned(profile: Profile, kernels: list[str]) -> tuple[dict[str, float], float]:
    """({kernel: seconds} of those that have an event, seconds of no kernel's event)."""
    seconds: dict[str, float] = {}
    position = 0
    for launch in profile.launches:
        at = next(
            (i for i in range(position, len(kernels)) if _is_launch_of(launch.name, kernels[i])),
            None,
        )
        if at is not None:
            seconds[kernels[at]] = launch.seconds
            position = at + 1
    return seconds, max(0.0, profile.seconds - sum(seconds.values()))


def _is_launch_of(event: str, kernel: str) -> bool:
    """Whether an event of that name is the kernel's: Triton's by its own name,
    an operator's by its last part."""
    name = kernel.rsplit(":", 1)[0]
    if event == name or event.startswith(name):
        return True
    if "." not in name:  # one that Inductor generated
        return False
    last = event.rsplit("::", 1)[-1]
    parts = name.split(".")
    return (
        last in parts
        or last.lstrip("_") in parts
        or f"{parts[-1]}" == last
        or (parts[-1] in ("convolution", "bmm", "mm", "addmm", "baddbmm") and parts[-1] in last)
    )


def node_times(
    kernels: Mapping[str, Sequence[int]], times: Mapping[str, float], nodes: Sequence[fx.Node]
) -> dict[fx.Node, float]:
    """Seconds of each node. A kernel's time is divided among its nodes by the bytes
    and operations of each; a node in several kernels has a share of each."""
    found: dict[fx.Node, float] = {}
    for kernel, positions in kernels.items():
        members = [nodes[i] for i in positions if i < len(nodes)]
        weights = [node_weight(node) for node in members]
        whole = sum(weights)
        for node, weight in zip(members, weights):
            share = weight / whole if whole else 1 / len(members)
            found[node] = found.get(node, 0.0) + times.get(kernel, 0.0) * share
    return found


def node_weight(node: fx.Node) -> float:
    """A node's cost relative to others: bytes, and operations at 100 a byte."""
    if node.op != "call_function":
        return 0.0
    return roofline.node_bytes(node) + roofline.node_flops(node) / 100


def kernel_weights(
    kernels: Mapping[str, Sequence[int]], nodes: Sequence[fx.Node]
) -> dict[str, float]:
    """Each kernel's cost relative to others, for kernels without an event."""
    return {
        kernel: sum(node_weight(nodes[i]) for i in positions if i < len(nodes))
        for kernel, positions in kernels.items()
    }


def region_times(
    groups: Sequence[RegionGroup],
    times: Mapping[fx.Node, float],
    roofline_of: Callable[[Region], float],
) -> list[RegionTime]:
    """The time of each group, the largest time above the roofline first."""
    from weft.regions.regions import region_nodes

    found = []
    for group in groups:
        seconds = sum(
            times.get(node, 0.0) for region in group.regions for node in region_nodes(region)
        )
        found.append(RegionTime(group, seconds, len(group.regions) * roofline_of(group.first)))
    return sorted(found, key=lambda one: -one.excess_s)
