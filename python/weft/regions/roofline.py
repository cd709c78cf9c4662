"""The least time that a device needs for a region: by the bytes that it must move and
by the operations that it must do."""

import dataclasses
import functools
import operator
import time
from collections.abc import Callable

import torch
from torch import fx
from torch.utils import flop_counter

from weft.device.gpu_facts import best_s
from weft.regions.regions import (
    Region,
    operator_name,
    region_inputs,
    region_nodes,
    region_results,
    tensors_of,
)

#: Sizes of the probe's tensors: beyond the caches of a GPU, and of most processors.
COPY_BYTES = {"cuda": 256 << 20, "cpu": 64 << 20}
PRODUCT_SIZE = {"cuda": 4096, "cpu": 512}
#: Other processes use a GPU in turns with this one, so that a few probes may all be slow.
PROBES = {"cuda": 20, "cpu": 3}
#: Operators that read only what an index selects of their first argument.
SELECTING = ("embedding", "index", "gather", "index_select")


@dataclasses.dataclass(frozen=True)
class Device:
    """What one device was measured to reach. Units: bytes and operations a second."""

    bytes_per_s: float
    flops_per_s: float

    def roofline_s(self, nbytes: int, flops: int) -> float:
        """The least time for this number of bytes and operations."""
        return max(nbytes / self.bytes_per_s, flops / self.flops_per_s)


def probed(device: torch.device, dtype: torch.dtype) -> Device:
    """The device's copy bandwidth and its speed in products of this dtype, measured
    once in a process (some milliseconds)."""
    index = device.index if device.index is not None else 0
    return _probed(device.type, index, dtype)


@functools.cache
@torch.no_grad()
def _probed(kind: str, index: int, dtype: torch.dtype) -> Device:
    device = torch.device(kind, index) if kind == "cuda" else torch.device(kind)
    source = torch.zeros(COPY_BYTES.get(kind, 64 << 20) // 4, device=device)
    copy = torch.empty_like(source)
    copy_s = _least_s(device, lambda: copy.copy_(source))
    size = PRODUCT_SIZE.get(kind, 512)
    factor = torch.zeros(size, size, device=device, dtype=dtype)
    product = torch.empty_like(factor)
    product_s = _least_s(device, lambda: torch.mm(factor, factor, out=product))
    return Device(2 * source.nbytes / copy_s, 2 * size**3 / product_s)


def _least_s(device: torch.device, work: Callable[[], object]) -> float:
    if device.type == "cuda":
        with torch.cuda.device(device):
            return max(best_s(work, PROBES["cuda"]), 1e-9)
    found = []
    for _ in range(PROBES["cpu"] + 1):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return max(min(found[1:]), 1e-9)


def region_bytes(region: Region) -> int:
    """Bytes that it must read and write, each element once."""
    nodes = region_nodes(region)
    inside = set(nodes)
    read = sum(
        _bytes_read(node, [user for user in node.users if user in inside])
        for node in region_inputs(region, nodes)
    )
    return read + sum(
        one.nbytes for node in region_results(region, nodes) for one in tensors_of(node)
    )


def _bytes_read(node: fx.Node, readers: list[fx.Node]) -> int:
    """Bytes that these readers need of a node: rows that an index selects are as many
    as the results have."""
    nbytes = sum(map(read_bytes, tensors_of(node)))
    if all(operator_name(one) in SELECTING and one.args[0] is node for one in readers):
        made = sum(one.nbytes for reader in readers for one in tensors_of(reader))
        return min(nbytes, made)
    return nbytes


def read_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements: an expanded dimension is read once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= size if stride else min(size, 1)
    return count * tensor.element_size()


def region_flops(region: Region) -> int:
    """Operations of its products, convolutions and attention; other operators are
    bound by memory."""
    return sum(map(node_flops, region.nodes))


def node_flops(node: fx.Node) -> int:
    """Operations of one node; 0 if PyTorch has no formula for it."""
    packet = getattr(node.target, "overloadpacket", None)
    formula = flop_counter.flop_registry.get(packet)
    if formula is None or node.target is operator.getitem:
        return 0
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    try:
        return int(formula(*args, **kwargs, out_val=node.meta["val"]))
    except Exception:  # a formula that does not know this call's arguments
        return 0


def node_bytes(node: fx.Node) -> int:
    """Bytes that it reads and writes where it is not fused to anything."""
    read = sum(read_bytes(one) for given in node.all_input_nodes for one in tensors_of(given))
    return read + sum(one.nbytes for one in tensors_of(node))


def region_dtype(region: Region) -> torch.dtype:
    """The dtype of its first product's result; without one, of its first floating
    result."""
    for node in sorted(region.nodes, key=lambda one: node_flops(one) == 0):
        for one in tensors_of(node):
            if one.dtype.is_floating_point:
                return one.dtype
    return torch.float32


def roofline_s(region: Region) -> float:
    """The region's least time on its device, which is probed if need be."""
    first = tensors_of(region.nodes[0])[0]
    found = probed(first.device, region_dtype(region))
    return found.roofline_s(region_bytes(region), region_flops(region))
