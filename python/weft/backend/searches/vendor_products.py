"""Products in half precision whose activation the vendor's library computes with them.

cuBLASLt adds a bias and applies GELU (by tanh) or ReLU before it stores a product. PyTorch
has an operator for this, which its compiler does not use on a GPU. Values decide whether a
region is such a product. Its activation is run on all 65,536 numbers of a half type, by the
region's operators and by the library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from weft.backend.options import log
from weft.regions.extraction import Extracted
from weft.regions.regions import HALVES, Role, operator_name, role_of

RESHAPES = ("view", "_unsafe_view", "reshape")
#: Rows and terms of the product that tries an activation: enough for the library.
TRIED_ROWS = TRIED_TERMS = 16

#: 1 + tanh(x) loses digits near -1. cuBLASLt's result for -3.51 was the farthest of all from
#: float32's: by 1.2e-6 of the argument (H200, 2026-11-30).
GELU_SLACK = 2e-6

Activation = Callable[[torch.Tensor], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Epilogue:
    """A region that is activation(addmm(bias, left, right))."""

    product: fx.Node
    #: The bias and the factors: inputs of the region, or views of them.
    operands: tuple[fx.Node, ...]
    activation: Activation
    dtype: torch.dtype
    shape: tuple[int, ...]


class VendorProduct:
    """Computes a region of this form by the library: a function of the list of the region's
    inputs. `text` tells it from other code of the same region."""

    def __init__(self, extracted: Extracted, epilogue: Epilogue, is_gelu: bool) -> None:
        self.text = f"_addmm_activation, gelu={is_gelu}, 1"
        self._is_gelu = is_gelu
        self._shape = epilogue.shape
        self._operands = _operands(extracted.module.graph, epilogue)

    def __call__(self, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
        """The region's one result."""
        bias, left, right = self._operands(*arguments)
        made = torch._addmm_activation(bias, left, right, use_gelu=self._is_gelu)
        return [made.view(self._shape)]


def epilogue_of(extracted: Extracted) -> Epilogue | None:
    """The region as a product with an activation; None if it has another form."""
    nodes = [node for node in extracted.module.graph.nodes if node.op == "call_function"]
    products = [node for node in nodes if node.target == torch.ops.aten.addmm.default]
    if len(products) != 1 or len(extracted.results) != 1 or products[0].kwargs:
        return None
    product = products[0]
    value = product.meta["val"]
    result = extracted.results[0].meta["val"]
    bias = product.args[0].meta["val"]
    if value.dtype not in HALVES or result.dtype != value.dtype or not result.is_contiguous():
        return None
    if bias.dim() != 1 or bias.dtype != value.dtype or not bias.is_contiguous():
        return None
    before, after = nodes[: nodes.index(product)], nodes[nodes.index(product) + 1 :]
    if not after or not all(role_of(node) is Role.VIEW for node in before):
        return None
    behind = {product}
    for node in after:
        if role_of(node) is Role.VIEW and behind.isdisjoint(node.all_input_nodes):
            before.append(node)
            continue
        if not behind.issuperset(node.all_input_nodes) or not _is_pointwise(node, value.numel()):
            return None
        behind.add(node)
    operands = product.all_input_nodes
    if len(operands) != 3:
        return None
    chain = [node for node in after if node in behind]
    return Epilogue(
        product,
        tuple(operands),
        lambda values: _run(chain, product, values),
        value.dtype,
        tuple(result.shape),
    )


def _is_pointwise(node: fx.Node, elements: int) -> bool:
    """Whether each element depends on the same element of the product alone."""
    made = node.meta["val"]
    if not isinstance(made, torch.Tensor) or made.numel() != elements:
        return False
    if not isinstance(node.target, torch._ops.OpOverload) or not node.all_input_nodes:
        return False
    name = operator_name(node)
    return (
        name in RESHAPES
        or torch.Tag.pointwise in node.target.tags
        or (name == "_to_copy" and set(node.kwargs) == {"dtype"})
    )


def _run(chain: list[fx.Node], product: fx.Node, values: torch.Tensor) -> torch.Tensor:
    """The chain's last value, where the product's are `values`, of one dimension."""
    known = {product: values}
    for node in chain:
        if operator_name(node) in RESHAPES:
            known[node] = known[node.all_input_nodes[0]]
            continue
        target: Any = node.target
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
        known[node] = target(*args, **kwargs)
    return known[chain[-1]]


def _operands(graph: fx.Graph, epilogue: Epilogue) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The function of the region's inputs that gives the product's operands."""
    own = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op == "placeholder" or role_of(node) is Role.VIEW:
            if all(one in known for one in node.all_input_nodes):
                known[node] = own.node_copy(node, known.__getitem__)
    own.output(tuple(known[node] for node in epilogue.operands))
    own.eliminate_dead_code()
    found: Callable[..., tuple[torch.Tensor, ...]] = fx.GraphModule(torch.nn.Module(), own)
    return found


def vendor_product(extracted: Extracted, device: torch.device) -> VendorProduct | None:
    """What computes the region by the library, if it is one product with an activation that
    the library has. Runs two small products on `device`."""
    epilogue = epilogue_of(extracted)
    if epilogue is None:
        return None
    for is_gelu in (False, True):
        if is_same(epilogue, device, is_gelu):
            return VendorProduct(extracted, epilogue, is_gelu)
    return None


def is_same(epilogue: Epilogue, device: torch.device, is_gelu: bool) -> bool:
    """Whether the library's activation is the region's own, on all numbers of the type: equal,
    or for GELU within one unit in the last place and GELU_SLACK of the argument. Either may
    take subnormal float32 numbers for 0. For GELU, numbers beyond half of float32's largest
    are left out: the library gives infinity for them."""
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    values = bits.view(epilogue.dtype).to(device)
    left = torch.zeros(TRIED_ROWS, TRIED_TERMS, dtype=epilogue.dtype, device=device)
    right = torch.zeros(TRIED_TERMS, len(values), dtype=epilogue.dtype, device=device)
    got = torch._addmm_activation(values, left, right, use_gelu=is_gelu)
    expected = epilogue.activation(values)
    if expected.dtype != epilogue.dtype or expected.shape != values.shape:
        return False
    slack = torch.full_like(values, torch.finfo(torch.float32).tiny, dtype=torch.float32)
    if is_gelu:
        unit = torch.finfo(epilogue.dtype).eps
        slack += unit * expected.float().abs() + GELU_SLACK * values.float().abs()
    near = (got.float() - expected.float()).abs() <= slack
    same = near | (got == expected) | (got.isnan() & expected.isnan())
    if is_gelu:
        same |= values.isfinite() & (values.float().abs() > torch.finfo(torch.float32).max / 2)
    differing = int((~same.all(0)).sum())
    if differing:
        log.info("gelu=%s differs for %d of %d numbers", is_gelu, differing, len(values))
    return differing == 0
