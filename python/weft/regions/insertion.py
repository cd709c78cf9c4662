"""Inserts generated kernels into a decomposed graph as opaque operators.

An operator's name has a hash of all that it computes by: Inductor's caches know an
operator by its name alone."""

import copy
import dataclasses
import hashlib
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch import library as torch_library

from weft.regions.extraction import Extracted
from weft.regions.regions import Region, Role, region_nodes, role_of

NAMESPACE = "weft_region"
#: Version of the way to insert; part of each operator's name.
MECHANISM = 1

#: The most arguments of an operator in PyTorch; more are given as one list.
ARGUMENTS_MAX = 64

Kernel = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]
Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]

_library: torch_library.Library | None = None
_kernels: dict[str, Kernel] = {}
_lock = threading.Lock()


class NotInserted(Exception):
    """Why a region cannot become an operator."""


def operator_for(
    key: str, text: str, kernel: Kernel, layouts: Sequence[Layout], inputs_count: int
) -> torch._ops.OpOverload:
    """The operator that computes a region by `kernel`, a function of a list of
    `inputs_count` tensors; it is called with arguments_of(inputs). Registered once for a region's key and a module's text;
    a later kernel of the same name replaces the earlier one. `layouts`: shape, strides,
    dtype and device of each result."""
    global _library
    spelled = f"{MECHANISM}\n{key}\n{text}\n{list(layouts)!r}"
    name = "r" + hashlib.sha256(spelled.encode()).hexdigest()[:24]
    with _lock:
        is_known = name in _kernels
        _kernels[name] = kernel
        if not is_known:
            _library = _library or torch_library.Library(NAMESPACE, "FRAGMENT")
            _register(_library, name, list(layouts), inputs_count)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def arguments_of(inputs: Sequence[fx.Node]) -> tuple[fx.node.Argument, ...]:
    """The arguments of a call of an operator with these inputs."""
    return tuple(inputs) if len(inputs) <= ARGUMENTS_MAX else (list(inputs),)


def add_call(
    graph: fx.Graph,
    target: torch._ops.OpOverload,
    inputs: Sequence[fx.Node],
    values: Sequence[torch.Tensor],
) -> fx.Node:
    """A call of an operator with these inputs. `values`: the fake values of its results.
    Inductor gets the inputs' strides as they are recorded now."""
    call = graph.call_function(target, arguments_of(inputs))
    call.meta["val"] = values[0] if len(values) == 1 else tuple(values)
    given = fx.node.map_arg(call.args, lambda one: one.meta["val"])
    call.meta["eager_input_vals"] = (given, {})
    return call


def _register(
    library: torch_library.Library, name: str, layouts: list[Layout], inputs_count: int
) -> None:
    is_list = inputs_count > ARGUMENTS_MAX
    given = "Tensor[] a" if is_list else ", ".join(f"Tensor a{i}" for i in range(inputs_count))
    is_one = len(layouts) == 1
    made = "Tensor" if is_one else "(" + ", ".join(["Tensor"] * len(layouts)) + ")"
    # The kernel was verified for the strides that the graph records.
    tags = [getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)]
    library.define(f"{name}({given}) -> {made}", tags=tags)

    def run(*arguments: Any) -> object:
        found = _kernels[name](list(arguments[0] if is_list else arguments))
        return found[0] if is_one else tuple(found)

    def fake(*arguments: Any) -> object:
        made = tuple(
            torch.empty_strided(shape, stride, dtype=dtype, device=device)
            for shape, stride, dtype, device in layouts
        )
        return made[0] if is_one else made

    library.impl(name, run, "CompositeExplicitAutograd")
    torch_library.register_fake(f"{NAMESPACE}::{name}", fake, lib=library)


def layouts_of(extracted: Extracted) -> list[Layout]:
    """Layouts of the results, as the graph records them."""
    return [layout_of(node.meta["val"]) for node in extracted.results]


def layout_of(value: torch.Tensor) -> Layout:
    """Shape, strides, dtype and device of a tensor."""
    return tuple(value.shape), tuple(value.stride()), value.dtype, value.device


def copied(module: fx.GraphModule) -> tuple[fx.GraphModule, dict[fx.Node, fx.Node]]:
    """(a copy that shares the module's tensors, {node: its copy})."""
    graph = copy.deepcopy(module.graph)
    graph_module = fx.GraphModule(module, graph)
    graph_module.meta = dict(module.meta)
    return graph_module, dict(zip(module.graph.nodes, graph_module.graph.nodes, strict=True))


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A region, and the graph that computes it: of the inputs of `extracted`, giving its
    results. Regions that compute the same may share the graph."""

    region: Region
    extracted: Extracted
    graph: fx.Graph


def call_graph(target: torch._ops.OpOverload, extracted: Extracted) -> fx.Graph:
    """The graph that computes a region by one operator."""
    graph = fx.Graph()
    given = []
    for number, node in enumerate(extracted.inputs):
        given.append(graph.placeholder(f"input_{number}"))
        given[-1].meta["val"] = node.meta["val"]
    values = tuple(node.meta["val"] for node in extracted.results)
    call = graph.call_function(target, arguments_of(given))
    call.meta["val"] = values[0] if len(values) == 1 else values
    results = [call]
    if len(values) > 1:
        results = [graph.call_function(operator.getitem, (call, i)) for i in range(len(values))]
        for one, value in zip(results, values):
            one.meta["val"] = value
    graph.output(tuple(results))
    return graph


def with_inserted(module: fx.GraphModule, replaced: Sequence[Replacement]) -> fx.GraphModule:
    """A copy of the module in which other graphs compute these regions, of which none
    overlaps another."""
    made, copies = copied(module)
    graph = made.graph
    now: dict[fx.Node, fx.Node] = {}  # a replaced result → what replaced it
    for one in replaced:
        arguments = [now.get(copies[node], copies[node]) for node in one.extracted.inputs]
        with graph.inserting_before(copies[one.region.nodes[-1]]):
            results = _inlined(graph, one, arguments)
        inside = {copies[inner] for inner in region_nodes(one.region)}
        for node, result in zip(one.extracted.results, results, strict=True):
            now[copies[node]] = result
            _replace_outside(copies[node], result, inside)
    sort(graph)
    graph.eliminate_dead_code()
    graph.lint()
    made.recompile()
    return made


def _inlined(
    graph: fx.Graph, replacement: Replacement, arguments: Sequence[fx.Node]
) -> list[fx.Node]:
    """The results of the replacement's graph, whose nodes are copied to where `graph`
    inserts."""
    known = dict(zip(replacement.graph.find_nodes(op="placeholder"), arguments, strict=True))
    label = replacement.region.nodes[0].meta.get("stack_trace", "")
    for node in replacement.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        made = known[node] = graph.node_copy(node, known.__getitem__)
        made.meta = {"val": node.meta["val"], "stack_trace": label}
        if getattr(node.target, "namespace", "") == NAMESPACE:
            # Without it Inductor's exact strides would be no constraint.
            values = fx.node.map_arg(node.args, lambda one: one.meta["val"])
            made.meta["eager_input_vals"] = (values, {})
    (results,) = replacement.graph.output_node().args
    assert isinstance(results, (tuple, list))
    return [known[one] for one in results if isinstance(one, fx.Node)]


def _replace_outside(node: fx.Node, by: fx.Node, inside: set[fx.Node]) -> None:
    """Readers outside of the region, and views inside that outside nodes read, take
    `by` in the place of the node."""
    node.replace_all_uses_with(
        by,
        delete_user_cb=lambda user: (
            user is not by and (user not in inside or role_of(user) is Role.VIEW)
        ),
        propagate_meta=False,
    )


def sort(graph: fx.Graph) -> None:
    """Moves nodes behind what they read, and leaves all others in their order."""
    from torch._inductor.pattern_matcher import stable_topological_sort

    stable_topological_sort(graph)
