"""Which operators capture takes apart, and which stay single calls.

The rule: what the compiler can fuse is taken apart to core ATen, unless the single call is
one the compiler lowers itself. Calls that run on a library kernel, or draw random numbers,
stay as eager makes them. So a graph that stays PyTorch's is no slower than the model, and
draws the same numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from torch import library as torch_library

# By operator name, all overloads. Core ATen keeps convolution, embedding,
# addmm, mm, bmm, _softmax, native_layer_norm and their like by itself.
KEPT_LIBRARY = (
    "linear",
    "matmul",
    "einsum",
    "baddbmm",
    "mv",
    "dot",
    "vdot",
    "bilinear",
    "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_safe_softmax",
    "lstm",
    "gru",
    "rnn_tanh",
    "rnn_relu",
    "cdist",
    "_euclidean_dist",
    "pdist",
    "embedding_bag",
    "ctc_loss",
    "grid_sampler",
    "max_pool1d",
    "max_unpool2d",
    "max_unpool3d",
    "im2col",
    "col2im",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)

# Taken apart, these check for singular matrices in an operator with an effect,
# which a graph of pure calls has no place for.
KEPT_SOLVERS = (
    "inverse",
    "det",
    "logdet",
    "slogdet",
    "svd",
    "qr",
    "matrix_exp",
    "linalg_inv",
    "linalg_det",
    "linalg_slogdet",
    "linalg_pinv",
    "linalg_solve",
    "linalg_cholesky",
    "linalg_lu_factor",
    "linalg_eigh",
    "linalg_eigvalsh",
    "linalg_svd",
    "linalg_svdvals",
    "linalg_matrix_rank",
    "linalg_matrix_power",
    "linalg_ldl_factor",
    "linalg_tensorinv",
)

# The compiler lowers these; where its kernel does not win, one call of the
# framework's beats the several that it would be taken apart into.
KEPT_LOWERED = (
    "silu",
    "mish",
    "softplus",
    "hardswish",
    "hardsigmoid",
    "hardshrink",
    "softshrink",
    "threshold",
    "addcmul",
    "addcdiv",
    "masked_fill",
    "rsub",
    "clamp_min",
    "clamp_max",
    "xlogy",
    "logsumexp",
    "std",
    "std_mean",
    "var_mean",
    "rms_norm",
    "log_sigmoid",
)

# Their decompositions gather through index tensors: slower than the copy
# loops that they replace, and nothing to fuse.
KEPT_MOVEMENT = (
    "roll",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "tril",
    "triu",
    "take",
    "nll_loss_forward",
    "nll_loss2d_forward",
    "renorm",
    "select_scatter",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "embedding_dense_backward",
    "index_add",
)

# Another operator would draw other numbers from the same generator.
KEPT_RANDOM = ("bernoulli", "rrelu")

KEPT = KEPT_LIBRARY + KEPT_SOLVERS + KEPT_LOWERED + KEPT_MOVEMENT + KEPT_RANDOM

# The exporter takes these apart whatever the table says (their schemas may
# alias): replaced by operators of our own first, and named back afterwards.
SHIELDED = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
SHIELD = "weft_capture"

_shield: torch_library.Library | None = None
#: Operators of define_kept() → the ATen operators that they stand for.
_kept: dict[Any, Any] = {}


def decomposition_table() -> dict[Any, Callable[..., Any]]:
    """The exporter's core ATen table, less what stays a single call."""
    import torch

    table = torch.export.default_decompositions()
    for name in KEPT:
        packet = getattr(torch.ops.aten, name, None)
        if packet is None:  # not in this version of the framework
            continue
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    table.update(spread_with_correction())
    table[torch.ops.aten.unbind.int] = unbind
    table[torch.ops.prims.convert_element_type.default] = convert
    for operator in (torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default):
        table[operator] = converted_before(operator)
    return table


def converted_before(softmax: Callable[..., Any]) -> Callable[..., Any]:
    """Of halves in float32: on a device one call converts, too, which no
    float64 could stand for. As on the host: a conversion, then the softmax."""
    import torch

    def in_float32(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
        if not half_to_float:
            return NotImplemented  # it stays a call
        return softmax(x.to(torch.float32), dim, False)

    return in_float32


def convert(x: torch.Tensor, dtype: torch.dtype) -> Any:
    """As an ATen call. Dynamo's graphs have this operator where a Python float is
    a symbol."""
    import torch

    return torch.ops.aten._to_copy.default(x, dtype=dtype)


def unbind(x: torch.Tensor, dim: int = 0) -> list[torch.Tensor]:
    """One view of each row: the exporter makes two of it."""
    return [x.select(dim, row) for row in range(x.shape[dim])]


def spread_with_correction() -> dict[Any, Callable[..., Any]]:
    """The older overloads of std and its like, in terms of `.correction`.

    They say `unbiased` where it says `correction`: one form is enough for
    whoever reads the graph.
    """
    import torch

    def older(newer: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
        def of_dims(x: torch.Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
            return newer(x, dim, correction=int(unbiased), keepdim=keepdim)

        def of_all(x: torch.Tensor, unbiased: bool = True) -> Any:
            return newer(x, None, correction=int(unbiased))

        return of_dims, of_all

    table = {}
    for name in ("std", "std_mean", "var_mean"):
        packet = getattr(torch.ops.aten, name)
        table[packet.dim], table[packet.default] = older(packet.correction)
    return table


def shield_random_calls(graph: torch.fx.Graph) -> None:
    """Replaces SHIELDED calls, also the in-place ones, in a torch.fx graph."""
    import torch

    from weft.capture import in_place_draws

    define_shield()
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        name = aten_name(node.target)
        if name.rstrip("_") in SHIELDED and returns_its_input(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
            continue
        if in_place_draws.replace(graph, node, name) or name.rstrip("_") not in SHIELDED:
            continue
        operator = getattr(getattr(torch.ops, SHIELD), name.rstrip("_"))
        with graph.inserting_before(node):
            call = graph.call_function(operator.default, node.args, node.kwargs)
            call.meta = dict(node.meta)
            if name.endswith("_"):
                source = call
                call = graph.call_function(torch.ops.aten.copy_.default, (node.args[0], source))
                call.meta = dict(node.meta)
        node.replace_all_uses_with(call)
        graph.erase_node(node)


def returns_its_input(node: torch.fx.Node) -> bool:
    """Whether that dropout drops nothing: the framework then gives back the
    tensor itself, and draws no numbers."""
    given: list[Any] = [*node.args, *node.kwargs.values()]
    probability, trains = given[1:3]
    return bool(probability == 0) or trains is False


@contextlib.contextmanager
def shapes_of_lstm() -> Iterator[None]:
    """Of an LSTM that no library of the processor's runs, PyTorch 2.11 drops the
    wrong dimension of each layer's last state (2.13 no more)."""
    from torch._decomp import decompositions

    known = getattr(decompositions, "one_layer_lstm", None)
    if known is None:
        yield
        return

    def one_layer_lstm(given: Any, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        out, states = known(given, hidden, *args, **kwargs)
        return out, tuple(state.reshape(before.shape) for state, before in zip(states, hidden))

    setattr(decompositions, "one_layer_lstm", one_layer_lstm)
    try:
        yield
    finally:
        setattr(decompositions, "one_layer_lstm", known)


def aten_name(target: object) -> str:
    """ "add" of aten.add.Tensor; "" of what is no ATen operator."""
    parts = str(target).split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "aten" else ""


def prune(graph: torch.fx.Graph) -> None:
    """Drops what nothing reads, but not draws: they move the generator."""
    import torch

    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node.users:
            continue
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded not in tags:
            graph.erase_node(node)


def unshielded(target: Any) -> str:
    """The ATen name of a call, with shielded ones named back."""
    return str(_kept.get(target, target)).replace(SHIELD + ".", "aten.", 1)


def original(target: Any) -> Any:
    """The ATen operator that a shielded operator stands for; others as they are."""
    import torch

    name = unshielded(target)
    if name == str(target):
        return target
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def define_kept(
    operator: Any, signature: str, made: Callable[..., Any], tags: Sequence[torch.Tag]
) -> Any:
    """A new operator that stands for a call of `operator`. `signature`: the text
    of its schema after the name. `made`: returns tensors like the call's results."""
    import torch

    shield = define_shield()
    name = f"kept_{len(_kept)}"
    shield.define(name + signature, tags=tags)
    shield.impl(name, made, "CompositeExplicitAutograd")
    defined = getattr(torch.ops, SHIELD).__getattr__(name).default
    _kept[defined] = operator
    return defined


def define_shield() -> torch_library.Library:
    """Declares the shield operators once; they only ever run on fakes."""
    global _shield
    if _shield is not None:
        return _shield
    import torch
    from torch import library as torch_library

    # Module-level: the operators vanish with the library object.
    _shield = torch_library.Library(SHIELD, "DEF")
    for name in SHIELDED:
        _shield.define(
            f"{name}(Tensor input, float p, bool train) -> Tensor",
            tags=(torch.Tag.nondeterministic_seeded,),
        )
        _shield.impl(
            name, lambda input, p, train: torch.empty_like(input), "CompositeExplicitAutograd"
        )
    return _shield
