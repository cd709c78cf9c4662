"""Fused attention of GPUs, computed by products and a softmax.

These operators take no wider type than half precision, or float32. So their results
are worked out from the definition, a few heads at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
#: Elements of one score matrix of the heads that are computed at once.
SCORES_MAX = 1 << 26


def _named(*names: str) -> set[Any]:
    packets = [getattr(_aten, name, None) for name in names]
    return {packet.default for packet in packets if packet is not None}


_FLASH = _named("_scaled_dot_product_flash_attention")
_OTHERS = _named("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
_FLASH_BACKWARD = _named("_scaled_dot_product_flash_attention_backward")
_CUDNN_BACKWARD = _named("_scaled_dot_product_cudnn_attention_backward")
_EFFICIENT_BACKWARD = _named("_scaled_dot_product_efficient_attention_backward")


class Unsupported(Exception):
    """Why such a call has no wide result."""


def takes(target: Any) -> bool:
    """Whether `compute` is for that operator."""
    return target in (_FLASH | _OTHERS | _FLASH_BACKWARD | _CUDNN_BACKWARD | _EFFICIENT_BACKWARD)


def compute(target: Any, args: Any, kwargs: Any, wide_args: Any, wide_kwargs: Any) -> Any:
    """The results of that call on the operands as the graph has them (`args`), with
    those that count computed from `wide_args`. Unsupported, if it drops numbers."""
    named = _by_name(target, wide_args, wide_kwargs)
    bias = named.get("attn_bias")
    if bias is not None and not bias.numel():
        named["attn_bias"] = None
    if named.get("dropout_p"):
        raise Unsupported(f"{target} drops numbers at random")
    results = list(target(*args, **kwargs))
    if target in _FLASH | _OTHERS:
        output, logsumexp = _forward(named)
        results[0] = _like(results[0], output)
        results[1] = _with_rows(results[1], logsumexp)
        return tuple(results)
    grads = _backward(named)
    for i, grad in enumerate(grads):
        if results[i] is not None and results[i].numel():
            results[i] = _like(results[i], grad)
    return tuple(results)


def _by_name(target: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Every argument of a call, defaults included."""
    found = {}
    for i, one in enumerate(target._schema.arguments):
        found[one.name] = args[i] if i < len(args) else kwargs.get(one.name, one.default_value)
    return found


def _with_rows(result: torch.Tensor, logsumexp: torch.Tensor) -> torch.Tensor:
    """Such a logsumexp with the wide values. It may be padded, or empty."""
    if not result.numel():
        return result
    found = result.to(logsumexp.dtype)
    rows = found.squeeze(-1) if found.dim() == 4 else found
    rows[..., : logsumexp.shape[-1]] = logsumexp
    return found


def _like(result: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    laid = torch.empty_strided(
        result.shape, result.stride(), dtype=values.dtype, device=result.device
    )
    return laid.copy_(values)


def _forward(named: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    query = named["query"]
    output = torch.empty(
        *query.shape[:-1], named["value"].shape[-1], dtype=query.dtype, device=query.device
    )
    logsumexp = torch.empty(query.shape[:-1], dtype=query.dtype, device=query.device)
    for batch, head, attend, operands in _heads(named):
        output[batch, head], logsumexp[batch, head] = attend(*operands)
    return output, logsumexp


def _backward(named: dict[str, Any]) -> list[torch.Tensor]:
    """Gradients of query, key, value and, if there is one, bias."""
    inputs = [named["query"], named["key"], named["value"]]
    bias = named.get("attn_bias")
    grads = [torch.zeros_like(input_value) for input_value in inputs]
    if bias is not None:
        grads.append(torch.zeros_like(bias))
    outer: Any = named.get("grad_out", named.get("grad_out_"))
    share = inputs[0].shape[1] // inputs[1].shape[1]
    for batch, head, attend, operands in _heads(named):
        leaves = [operand.detach().requires_grad_() for operand in operands if operand is not None]
        with torch.enable_grad():
            output, _ = attend(*leaves)
            found = torch.autograd.grad(output, leaves, outer[batch, head])
        grads[0][batch, head] = found[0]
        grads[1][batch, head // share] += found[1]
        grads[2][batch, head // share] += found[2]
        if bias is not None:
            grads[3].expand(inputs[0].shape[0], inputs[0].shape[1], *bias.shape[2:])[
                batch, head
            ] += found[3]
    return grads


def _heads(named: dict[str, Any]) -> Any:
    """(batch, head, the function of one head's operands, those operands)."""
    query, key, value = named["query"], named["key"], named["value"]
    if query.shape[-2] * key.shape[-2] > SCORES_MAX:
        raise Unsupported("its scores take too much room")
    bias = named.get("attn_bias")
    if bias is not None:
        bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    attend = _attention(named)
    share = query.shape[1] // key.shape[1]
    for batch in range(query.shape[0]):
        for head in range(query.shape[1]):
            yield (
                batch,
                head,
                attend,
                (
                    query[batch, head],
                    key[batch, head // share],
                    value[batch, head // share],
                    None if bias is None else bias[batch, head],
                ),
            )


def _attention(named: dict[str, Any]) -> Callable[..., Any]:
    scale = named.get("scale")
    if scale is None:
        scale = 1 / math.sqrt(named["query"].shape[-1])

    def attend(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> Any:
        scores = query @ key.transpose(-1, -2) * scale
        if bias is not None:
            scores = scores + bias
        if named.get("is_causal"):
            seen = torch.ones(scores.shape, dtype=torch.bool, device=scores.device).tril()
            scores = scores.masked_fill(~seen, -math.inf)
        return (torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1))

    return attend
