"""Recognises tensors that weft cannot compile, before anything is captured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

#: Classes whose tensors are plain.
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def special_kind(value: Any) -> str:
    """A noun phrase for a tensor that is not dense, or "" for a dense one and for
    what is no tensor. Looks at nothing that such a tensor may not have."""
    if isinstance(value, torch.ScriptObject):
        return "an object of TorchScript (packed weights of a quantised layer)"
    if not isinstance(value, torch.Tensor):
        return ""
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return "a tensor inside a torch.func transform (vmap, grad or jvp)"
    if value.is_nested:
        return "a nested tensor"
    if value.layout is not torch.strided:
        return f"a tensor of the layout {value.layout}"
    if value.is_quantized:
        return f"a quantised tensor ({value.dtype})"
    kind = type(value)
    if (
        kind not in _PLAIN
        and hasattr(kind, "__torch_dispatch__")
        and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    ):
        return f"a {kind.__name__}, a subclass of torch.Tensor with its own operators"
    return ""


def first_special(model: torch.nn.Module, arguments: Any) -> str:
    """A sentence's subject and verb, "its argument x[0] is a nested tensor", for the
    first special tensor of a call or of the model; "" if there is none.
    `arguments`: {name: value}, values may be nested."""
    for what, value in _named(model, arguments):
        if kind := special_kind(value):
            return f"its {what} is {kind}"
    return ""


def _named(model: torch.nn.Module, arguments: Any) -> Iterator[tuple[str, Any]]:
    for name, value in arguments.items():
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            yield f"argument {name}{pytree.keystr(path)}", leaf
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):  # refused by its own name
            continue
        dot = "." if path else ""
        for table, what in ((module._parameters, "parameter"), (module._buffers, "buffer")):
            for name, value in table.items():
                yield f"{what} {path}{dot}{name}", value
        for name, value in vars(module).items():
            if isinstance(value, (torch.Tensor, torch.ScriptObject)):
                yield f"attribute {path}{dot}{name}", value
