"""Calls that something watches, traces, or changes."""

import torch

_is_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", None) or (
    lambda: torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
)


def is_special() -> bool:
    """Whether this call is watched, traced, or under a mode that changes what
    operators do."""
    return (
        _is_any_autocast()
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
    )
