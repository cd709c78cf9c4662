"""Partitions a decomposed ATen graph into regions: convex sets of nodes for which one
generated module may be inserted.

Pure functions of an fx graph whose nodes carry fake values in `meta["val"]`."""

from __future__ import annotations

import dataclasses
import enum
import operator
from typing import Any

import torch
from torch import fx

#: Operators whose time a fused pointwise chain does not dominate.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_int_mm", "convolution_backward")
#: A product of at most this many rows is written as a sum of products, which a
#: reduction kernel computes: both read the matrix once. On an H200 (2026-11-29) such
#: kernels were 1.1 to 2 times as fast as cuBLAS with one row, and slower with two.
SUMMED_ROWS_MAX = 1
#: Maximum number of products in such a sum: PyTorch's own computation stores them all.
SUMMED_ELEMENTS_MAX = 1 << 28
HALVES = (torch.float16, torch.bfloat16)
ATTENTION_PREFIX = "_scaled_dot_product_"
#: A region with more operators is searched too slowly to be of use.
OPERATORS_MAX = 400
#: Inductor's own operators, which no problem file can name.
INDUCTOR_PRIMS = ("inductor_", "_inductor", "fma", "prepare_softmax_online")
NAMESPACES = ("aten", "prims")
#: Chains that contain a lookup are not joined through products with few rows.
LOOKUPS = ("embedding", "index")
#: Those of `prims` that extraction.py writes as ATen's operators.
PRIMS = ("convert_element_type", "iota")
#: Pure, but better left to Inductor: their results depend on data or on memory.
EXCLUDED = (
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "as_strided",
    "as_strided_scatter",
    "set_",
    "item",
    "_local_scalar_dense",
)


class Kind(enum.Enum):
    """What dominates a region."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORMALIZATION = "reduction"
    POINTWISE = "pointwise"


class Role(enum.Enum):
    """How the partition treats a node."""

    INPUT = "input"  # placeholders and constants
    VIEW = "view"  # shares its argument's memory: no kernel
    FUSIBLE = "fusible"  # pointwise operators, reductions and copies
    PRODUCT = "product"  # products, convolutions and attention
    BARRIER = "barrier"  # in no region: draws, writes, or is not PyTorch's own
    OUTPUT = "output"


@dataclasses.dataclass(frozen=True)
class Region:
    """A convex set of computing nodes, in graph order. Views between the nodes are
    implied (region_views())."""

    kind: Kind
    nodes: tuple[fx.Node, ...]

    @property
    def name(self) -> str:
        """The name of its first node, for reports."""
        return self.nodes[0].name

    def operators(self, count_max: int = 4) -> str:
        """The names of its operators, each once, the first `count_max` of them."""
        names = list(
            dict.fromkeys(
                operator_name(node) for node in self.nodes if node.target is not operator.getitem
            )
        )
        more = "+…" if len(names) > count_max else ""
        return "+".join(names[:count_max]) + more


@dataclasses.dataclass(frozen=True)
class RegionGroup:
    """Regions that compute the same from inputs of the same shapes, strides and
    dtypes: repeated layers."""

    key: str
    regions: tuple[Region, ...]

    @property
    def first(self) -> Region:
        return self.regions[0]


def operator_name(node: fx.Node) -> str:
    """The operator's name without namespace and overload."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.split("::")[-1]
    return getattr(target, "__name__", str(target))


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    """The fake tensors that a node computes; [] if it computes none."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def role_of(node: fx.Node) -> Role:
    """How the partition treats this node, without a look at its neighbours."""
    if node.op in ("placeholder", "get_attr"):
        return Role.INPUT
    if node.op == "output":
        return Role.OUTPUT
    if node.op != "call_function":
        return Role.BARRIER
    if node.target is operator.getitem:
        return role_of(node.args[0]) if isinstance(node.args[0], fx.Node) else Role.BARRIER
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in NAMESPACES:
        return Role.BARRIER
    if not _is_static(node) or _draws_or_writes(node):
        return Role.BARRIER
    name = operator_name(node)
    if _is_view(target):
        return Role.VIEW
    if name in EXCLUDED or name.startswith(INDUCTOR_PRIMS):
        return Role.BARRIER
    if target.namespace == "prims" and name not in PRIMS:
        return Role.BARRIER
    if name in PRODUCTS or is_attention(node):
        return Role.PRODUCT
    return Role.FUSIBLE


def is_attention(node: fx.Node) -> bool:
    """Whether it is one of PyTorch's attention operators."""
    return operator_name(node).startswith(ATTENTION_PREFIX)


def _draws_or_writes(node: fx.Node) -> bool:
    target: Any = node.target
    tags = target.tags
    if (
        torch.Tag.dynamic_output_shape in tags
        or torch.Tag.data_dependent_output in tags
        or target._schema.is_mutable
    ):
        return True
    return torch.Tag.nondeterministic_seeded in tags and not is_attention(node)


def _is_static(node: fx.Node) -> bool:
    """Whether all values are tensors of known sizes on one kind of device, and no
    argument is symbolic."""
    found = tensors_of(node)
    if not found:
        return False
    for one in found:
        if any(type(size) is not int for size in (*one.shape, *one.stride())):
            return False
        if one.dtype.is_complex or one.layout != torch.strided:
            return False
    symbols: list[object] = []
    fx.node.map_aggregate(
        (node.args, node.kwargs),
        lambda one: symbols.append(one) if isinstance(one, (torch.SymInt, torch.SymFloat)) else one,
    )
    return not symbols and all(tensors_of(input_node) for input_node in node.all_input_nodes)


def _is_view(target: torch._ops.OpOverload) -> bool:
    """Whether its results share the first argument's memory."""
    returns = target._schema.returns
    return bool(returns) and all(
        one.alias_info is not None and not one.alias_info.is_write for one in returns
    )


def has_few_rows(node: fx.Node) -> bool:
    """Whether it is a product that may be written as a sum: mm or addmm of at most
    SUMMED_ROWS_MAX rows."""
    if node.target not in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default) or node.kwargs:
        return False
    left: Any = node.args[-2]
    right: Any = node.args[-1]
    (rows, terms), columns = left.meta["val"].shape, right.meta["val"].shape[1]
    is_floating: bool = node.meta["val"].dtype.is_floating_point
    return is_floating and rows <= SUMMED_ROWS_MAX and rows * terms * columns <= SUMMED_ELEMENTS_MAX


class Partition:
    """Roles, depths and reachability of one graph's nodes. `joins_sums`: on a GPU,
    products that are written as sums are fused like other reductions."""

    def __init__(self, graph: fx.Graph, joins_sums: bool = False) -> None:
        self.nodes = list(graph.nodes)
        self.roles = {node: role_of(node) for node in self.nodes}
        if joins_sums:
            for node in self.nodes:
                if self.roles[node] is Role.PRODUCT and _is_sum_on_gpu(node):
                    self.roles[node] = Role.FUSIBLE
        self._index = {node: i for i, node in enumerate(self.nodes)}
        self._ancestors: dict[fx.Node, int] = {}
        for node in self.nodes:
            bits = 0
            for input_node in node.all_input_nodes:
                bits |= self._ancestors[input_node] | 1 << self._index[input_node]
            self._ancestors[node] = bits
        self._depth = self._depths()
        self._reduced = self._behind_reductions()

    def _depths(self) -> dict[fx.Node, int]:
        """The number of products and barriers on the longest path to each node: a
        path between two fusible nodes of one depth crosses none."""
        depth: dict[fx.Node, int] = {}
        stops = (Role.PRODUCT, Role.BARRIER)
        for node in self.nodes:
            depth[node] = max(
                (
                    depth[input_node]
                    + (self.roles[input_node] in stops and node.target is not operator.getitem)
                    for input_node in node.all_input_nodes
                ),
                default=0,
            )
        return depth

    def _behind_reductions(self) -> set[fx.Node]:
        """Nodes whose value depends on a reduction of the same depth: no prologue of
        a product can compute them."""
        found: set[fx.Node] = set()
        for node in self.nodes:
            if (
                self.is_member(node, Role.FUSIBLE)
                and not is_pointwise(node)
                or any(
                    input_node in found and self._depth[input_node] == self._depth[node]
                    for input_node in node.all_input_nodes
                )
            ):
                found.add(node)
        return found

    def is_convex(self, members: set[fx.Node]) -> bool:
        """Whether no path leaves the set and comes back, but through views that
        depend on nothing else."""
        bits = sum(1 << self._index[node] for node in members)
        first = min(self._index[node] for node in members)
        last = max(self._index[node] for node in members)
        for node in self.nodes[first : last + 1]:
            if node in members or self.roles[node] is Role.VIEW or node.target is operator.getitem:
                continue
            if self._ancestors[node] & bits and any(
                self._ancestors[member] >> self._index[node] & 1 for member in members
            ):
                return False
        return True

    def readers(self, node: fx.Node) -> list[fx.Node]:
        """Nodes that read its value or a view of it; views themselves are none."""
        found: dict[fx.Node, None] = {}
        for user in node.users:
            if self.roles[user] is Role.VIEW or (user.target is operator.getitem):
                found.update(dict.fromkeys(self.readers(user)))
            else:
                found[user] = None
        return list(found)

    def sources(self, node: fx.Node) -> list[fx.Node]:
        """The computing nodes and inputs that it reads, through views."""
        found: dict[fx.Node, None] = {}
        for input_node in node.all_input_nodes:
            if self.roles[input_node] is Role.VIEW or input_node.target is operator.getitem:
                found.update(dict.fromkeys(self.sources(input_node)))
            else:
                found[input_node] = None
        return list(found)

    def is_member(self, node: fx.Node, role: Role) -> bool:
        return self.roles[node] is role and node.target is not operator.getitem

    def fused_chains(self) -> list[Region]:
        """Maximal connected sets of fusible nodes between products and barriers."""
        regions, seen = [], set[fx.Node]()
        for node in self.nodes:
            if node in seen or not self.is_member(node, Role.FUSIBLE):
                continue
            members, ahead = {node}, [node]
            while ahead:
                one = ahead.pop()
                for other in (*self.sources(one), *self.readers(one)):
                    if (
                        other not in members
                        and self.is_member(other, Role.FUSIBLE)
                        and self._depth[other] == self._depth[node]
                    ):
                        members.add(other)
                        ahead.append(other)
            seen |= members
            if len(members) <= OPERATORS_MAX and self.is_convex(members):
                regions.append(self._region(members))
        return regions

    def products(self) -> list[Region]:
        """Each product, convolution and attention with the pointwise nodes before
        and after it that leave the set convex."""
        regions = []
        for node in self.nodes:
            if self.is_member(node, Role.PRODUCT):
                regions.append(self._region(self._around(node)))
        return regions

    def _around(self, product: fx.Node) -> set[fx.Node]:
        members = {product}
        ahead = [product]
        while ahead:
            one = ahead.pop(0)
            for other in self.readers(one):
                if self._joins(other, members, one):
                    members.add(other)
                    ahead.append(other)
        ahead = [product]
        while ahead:
            one = ahead.pop(0)
            for other in self.sources(one):
                if (
                    other not in members
                    and self.is_member(other, Role.FUSIBLE)
                    and other not in self._reduced
                    and all(user in members for user in self.readers(other))
                    and self.is_convex({*members, other})
                ):
                    members.add(other)
                    ahead.append(other)
        return members

    def _joins(self, node: fx.Node, members: set[fx.Node], before: fx.Node) -> bool:
        """Whether this reader of `before` belongs to the product's epilogue."""
        return (
            node not in members
            and len(members) < OPERATORS_MAX
            and self.is_member(node, Role.FUSIBLE)
            and is_pointwise(node)
            and tensors_of(node)[0].numel() == tensors_of(before)[0].numel()
            and self.is_convex({*members, node})
        )

    def _region(self, members: set[fx.Node]) -> Region:
        ordered = tuple(sorted(members, key=self._index.__getitem__))
        return Region(_kind_of(ordered), ordered)


def _is_sum_on_gpu(node: fx.Node) -> bool:
    return has_few_rows(node) and node.meta["val"].is_cuda


def is_pointwise(node: fx.Node) -> bool:
    target: Any = node.target
    return torch.Tag.pointwise in target.tags or operator_name(node) in (
        "convert_element_type",
        "_to_copy",
        "where",
        "clone",
    )


def _kind_of(nodes: tuple[fx.Node, ...]) -> Kind:
    names = [operator_name(node) for node in nodes]
    if any(map(is_attention, nodes)):
        return Kind.ATTENTION
    if any(name.startswith("convolution") for name in names):
        return Kind.CONVOLUTION
    if any(name in PRODUCTS for name in names):
        return Kind.PRODUCT
    if all(is_pointwise(node) for node in nodes):
        return Kind.POINTWISE
    return Kind.NORMALIZATION


def regions_of(graph: fx.Graph) -> list[Region]:
    """All candidate regions, in graph order. Regions may overlap: a chain with the
    epilogue of a product before it. Timing decides which are used. A chain through
    products with few rows replaces the regions inside it."""
    partition = Partition(graph)
    index = {node: i for i, node in enumerate(partition.nodes)}
    joined = _chains_with_sums(graph, partition)
    inside = {node for one in joined for node in one.nodes}
    found = joined + [
        one
        for one in partition.fused_chains() + partition.products()
        if not inside.issuperset(one.nodes)
    ]
    return sorted(
        (one for one in found if has_input_and_result(one)), key=lambda one: index[one.nodes[0]]
    )


def _chains_with_sums(graph: fx.Graph, partition: Partition) -> list[Region]:
    """On a GPU, the chains with products of few rows. `partition`: the graph's
    partition in which such products are not fused."""
    if not any(
        partition.is_member(node, Role.PRODUCT) and _is_sum_on_gpu(node) for node in partition.nodes
    ):
        return []
    return [
        one
        for one in Partition(graph, joins_sums=True).fused_chains()
        if any(map(has_few_rows, one.nodes))
        and not any(operator_name(node) in LOOKUPS for node in one.nodes)
    ]


def has_input_and_result(region: Region) -> bool:
    """Whether it reads a tensor, and something reads its result."""
    nodes = region_nodes(region)
    return bool(region_inputs(region, nodes)) and bool(region_results(region, nodes))


def region_nodes(region: Region) -> list[fx.Node]:
    """Its nodes and the views and getitems that lie between them, in graph order."""
    members = set(region.nodes)
    between: dict[fx.Node, None] = {}

    def needed(node: fx.Node) -> bool:
        """Whether a view chain begins in the region."""
        if node in members or node in between:
            return True
        if node.op != "call_function" or not (
            node.target is operator.getitem or role_of(node) is Role.VIEW
        ):
            return False
        given = node.args[0]
        assert isinstance(given, fx.Node)
        if needed(given):
            between[node] = None
            return True
        return False

    for node in region.nodes:
        for input_node in node.all_input_nodes:
            needed(input_node)
    for node in region.nodes:
        for user in node.users:  # of several results: each that is read
            if user.target is operator.getitem:
                between[user] = None
    both = members | set(between)
    return [node for node in region.nodes[0].graph.nodes if node in both]


def region_inputs(region: Region, nodes: list[fx.Node]) -> list[fx.Node]:
    """Nodes outside of it whose values it reads, in the order of their use."""
    inside = set(nodes)
    found: dict[fx.Node, None] = {}
    for node in nodes:
        for input_node in node.all_input_nodes:
            if input_node not in inside:
                found[input_node] = None
    return list(found)


def region_results(region: Region, nodes: list[fx.Node]) -> list[fx.Node]:
    """Nodes in it, no views, whose values something outside reads, maybe through a
    view."""
    inside = set(nodes)
    results: dict[fx.Node, None] = {}
    for node in nodes:
        if not any(user not in inside for user in node.users):
            continue
        node = base_of(node)
        results[node] = None
    return list(results)


def base_of(node: fx.Node) -> fx.Node:
    """The node whose memory this one is: itself, or what it is a view of."""
    while True:
        given = node.args[0] if node.args else None
        if node.target is operator.getitem:
            assert isinstance(given, fx.Node)
            if role_of(given) is not Role.VIEW:
                return node
            node = given
        elif role_of(node) is Role.VIEW:
            assert isinstance(given, fx.Node)
            node = given
        else:
            return node


def groups_of(regions: list[Region]) -> list[RegionGroup]:
    """Regions by what they compute, in the order of each group's first region."""
    found: dict[str, list[Region]] = {}
    for region in regions:
        found.setdefault(key_of(region), []).append(region)
    return [RegionGroup(key, tuple(members)) for key, members in found.items()]


def key_of(region: Region) -> str:
    """Equal of two regions that compute the same, whatever their nodes are named."""
    nodes = region_nodes(region)
    inputs = region_inputs(region, nodes)
    number = {node: i for i, node in enumerate([*inputs, *nodes])}

    def spelled(arg: object) -> str:
        if isinstance(arg, fx.Node):
            return f"%{number[arg]}"
        if isinstance(arg, (list, tuple)):
            return "[" + ", ".join(map(spelled, arg)) + "]"
        return repr(arg)

    lines = [f"%{number[node]}: {_layout(node)}" for node in inputs]
    for node in nodes:
        kwargs = ", ".join(f"{name}={spelled(value)}" for name, value in node.kwargs.items())
        lines.append(
            f"%{number[node]} = {node.target}({spelled(node.args)}, {kwargs}) → {_layout(node)}"
        )
    results = region_results(region, nodes)
    lines.append("return " + ", ".join(f"%{number[node]}" for node in results))
    return "\n".join(lines)


def _layout(node: fx.Node) -> str:
    return "; ".join(
        f"{tuple(one.shape)} {one.stride()} {one.dtype} {one.device}" for one in tensors_of(node)
    )
