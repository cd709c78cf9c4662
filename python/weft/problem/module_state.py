"""A module's parameters and buffers: listing them, and random ones for checks.

Fresh modules have zero biases and unit scales, which hide kernels that leave them out.
Random values must stay in the range that the module expects.
"""

from __future__ import annotations

import collections
import copy
import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.problem.widen import FLOATING, widen


def state_of(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """[(name, tensor)]: parameters, then buffers, each in order. A buffer that
    has two names has both: forward() may bind others to them."""
    buffers = [
        (f"{path}.{name}".lstrip("."), tensor)
        for path, module in model.named_modules()
        for name, tensor in module._buffers.items()
        if tensor is not None
    ]
    return list(model.named_parameters()) + buffers


def described_state(named: Iterable[tuple[str, torch.Tensor]]) -> list[dict[str, Any]]:
    """What ModelNew's must have in common with Model's, but for values."""
    return [
        {
            "name": name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "parameter": isinstance(tensor, torch.nn.Parameter),
        }
        for name, tensor in named
    ]


class HeldState:
    """A module's parameters and buffers as they are now: forward() may bind
    other tensors to their names, and then these are what it leaves behind."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.named = state_of(model)
        self._slots = [_slot(model, name) for name, _ in self.named]

    def put(self, values: Iterable[torch.Tensor]) -> None:
        """Binds the tensors of the beginning again, with these values."""
        self.rewind()
        for (_, tensor), value in zip(self.named, values):
            fill(tensor.data, value)

    def rewind(self) -> None:
        """Binds the tensors of the beginning again."""
        for (table, key), (_, tensor) in zip(self._slots, self.named):
            if table.get(key) is not tensor:
                table[key] = tensor

    def now(self) -> list[torch.Tensor]:
        """What is bound now, each of the dtype and shape of the beginning."""
        bound: list[Any] = [table.get(key) for table, key in self._slots]
        for found, (name, first) in zip(bound, self.named):
            if found is not first and not _alike(found, first):
                raise TypeError(f"forward() gave {name} another type or shape")
        return [tensor.detach() for tensor in bound]


def fill(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """tensor.copy_(values), where some of its dimensions may be expanded."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0:
            size = min(1, tensor.shape[dimension])
            tensor = tensor.narrow(dimension, 0, size)
            values = values.narrow(dimension, 0, size)
    tensor.copy_(values)


def agreed(
    state: list[tuple[str, torch.Tensor]], values: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """The values that `state` holds when `values` were written into it: not
    these, where two names are the same memory, or elements of one are."""
    owners = collections.Counter(_memory(t) for _, t in state)
    shared = [i for i, (_, t) in enumerate(state) if owners[_memory(t)] > 1 or 0 in t.stride()]
    made = list(values)
    for i in shared:
        fill(state[i][1].data, values[i])
    for i in shared:
        made[i] = laid_out(state[i][1].detach(), None)
    return made


def continued(
    state: list[tuple[str, torch.Tensor]],
    values: list[torch.Tensor],
    after: list[torch.Tensor],
    changing: Collection[str],
) -> list[torch.Tensor]:
    """`values`, but for the integers and flags among those that forward()
    changes: as it left them. A counter would else be at its beginning in every
    call, and nothing be set up."""
    return agreed(
        state,
        [
            left if name in changing and value.dtype not in FLOATING else value
            for (name, _), value, left in zip(state, values, after)
        ],
    )


def copy_sharing_tensors(model: torch.nn.Module) -> torch.nn.Module:
    """A copy of the model that has the same tensors, and all else of its own."""
    shared = {
        id(leaf): leaf
        for module in model.modules()
        for leaf in pytree.tree_leaves(vars(module))
        if isinstance(leaf, torch.Tensor)
    }
    return copy.deepcopy(model, shared)


def widened(model: torch.nn.Module) -> torch.nn.Module:
    """A copy of the model in float64, in which the same tensors share memory
    (after Module.double() each has its own)."""
    copies: dict[int, Any] = {}
    memories: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    for module in model.modules():
        for leaf in pytree.tree_leaves(vars(module)):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in FLOATING:
                copies[id(leaf)] = _widened(leaf, memories)
    return copy.deepcopy(model, copies)


def _widened(
    tensor: torch.Tensor, memories: dict[tuple[int, torch.dtype], torch.Tensor]
) -> torch.Tensor:
    if tensor.layout != torch.strided:
        return widen(tensor)
    key = _memory(tensor), tensor.dtype
    if key not in memories:
        memories[key] = memory_of(tensor).to(torch.float64, copy=True)
    made = memories[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, tensor.requires_grad)
    return made


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All elements of its storage, as a flat tensor that shares it."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    return tensor.detach().as_strided((count,), (1,), 0)


def _memory(tensor: torch.Tensor) -> int:
    """What two tensors have in common that share memory."""
    if tensor.layout != torch.strided or not tensor.untyped_storage().nbytes():
        return id(tensor)
    return tensor.untyped_storage().data_ptr()


def _slot(model: torch.nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Where a module keeps the tensor of that name: the dict, and its key."""
    path, _, key = name.rpartition(".")
    module = model.get_submodule(path)
    tables = (module._parameters, module._buffers)
    return tables[0] if key in tables[0] else tables[1], key


def _alike(found: Any, first: torch.Tensor) -> bool:
    return (
        type(found) in (torch.Tensor, torch.nn.Parameter)
        and found.dtype == first.dtype
        and found.shape == first.shape
    )


def laid_out(values: torch.Tensor, stride: Sequence[int] | None) -> torch.Tensor:
    """A copy of `values` with that stride; None: contiguous. Elements that are
    one in memory (an expanded tensor's, windows that overlap) hold one of the
    values that are given for them."""
    if stride is None:
        return values.clone(memory_format=torch.contiguous_format)
    made = torch.empty_strided(values.shape, stride, dtype=values.dtype, device=values.device)
    write(made, values)
    return made


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """tensor.copy_(values), also where elements are one in memory."""
    if overlaps(tensor.shape, tensor.stride()):
        for dimension, step in enumerate(tensor.stride()):
            if step == 0:
                tensor = tensor.narrow(dimension, 0, 1)
                values = values.narrow(dimension, 0, 1)
        if overlaps(tensor.shape, tensor.stride()):
            return _scatter(tensor, values)
    tensor.copy_(values)


def overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether two elements of such a tensor may be one in memory."""
    reach = 0
    for step, extent in sorted(zip(stride, shape)):
        if extent == 1:
            continue
        if extent == 0:
            return False
        if step <= reach:
            return True
        reach += step * (extent - 1)
    return False


def _scatter(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """The same of a tensor whose memory is its own, and places in it written
    more than once."""
    count = tensor.untyped_storage().nbytes() // tensor.itemsize
    places = torch.arange(count, device=tensor.device).as_strided(tensor.shape, tensor.stride())
    memory = tensor.as_strided((count,), (1,))
    memory.scatter_(0, places.reshape(-1), values.reshape(-1))


def rng_state(device: torch.device) -> bytes:
    """State of the framework's random numbers, here and on that device."""
    state = bytes(torch.get_rng_state().tolist())
    if device.type == "cuda":
        state += bytes(torch.cuda.get_rng_state(device).tolist())
    return state


def rng_digest(device: torch.device) -> str:
    """Digest of that state."""
    return hashlib.sha256(rng_state(device)).hexdigest()


def random_state(
    state: Iterable[tuple[str, torch.Tensor]],
    generator: torch.Generator,
    changing: Collection[str] = (),
) -> list[torch.Tensor]:
    """New values for each of `state`, contiguous. `changing`: names of those
    that forward() changes, which are no masks, whatever they begin with. (But
    integers may be places in others, so that they keep their values.)"""
    made = []
    for name, tensor in state:
        if isinstance(tensor, torch.nn.Parameter):
            made.append(_random_parameter(tensor.detach(), generator))
        else:
            made.append(_random_buffer(name, tensor, generator, name in changing))
    return made


def _random_parameter(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.dtype not in FLOATING or tensor.numel() == 0:
        return _permuted(tensor, generator)
    values = tensor.double()
    mean = float(values.mean())
    spread = float(values.std(correction=0))
    # A constant parameter is a bias or a scale: its spread says nothing.
    spread = spread if spread > 1e-6 else 0.2
    noise = torch.randn(tensor.shape, generator=generator, device=generator.device)
    return (mean + spread * noise).to(tensor.dtype)


def _random_buffer(
    name: str, tensor: torch.Tensor, generator: torch.Generator, changes: bool
) -> torch.Tensor:
    how: dict[str, Any] = {
        "generator": generator,
        "device": generator.device,
        "dtype": tensor.dtype,
    }
    if tensor.dtype not in FLOATING:
        if tensor.numel() == 1 and name.endswith("num_batches_tracked"):
            return torch.randint_like(tensor, 1, 100)
        # Any order of the same numbers stays valid as indices.
        keeps = tensor.dtype == torch.bool
        return tensor.clone() if keeps else _permuted(tensor, generator)
    if name.endswith("running_var"):
        return torch.rand(tensor.shape, **how).add_(0.5)
    if name.endswith("running_mean"):
        return torch.randn(tensor.shape, **how)
    if not _is_mask(tensor):
        return _random_parameter(tensor, generator)
    if changes:  # of the size of hidden states, and fit for a square root
        return torch.rand(tensor.shape, **how).add_(1 / 8)
    return tensor.contiguous().clone()


def _is_mask(tensor: torch.Tensor) -> bool:
    """Zeros and ones, or infinities: positions, not magnitudes. Constants
    are left as they are too: an epsilon must not become negative."""
    if tensor.numel() <= 1 or not bool(torch.isfinite(tensor).all()):
        return True
    return bool(((tensor == 0) | (tensor == 1)).all())


def _permuted(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    order = torch.randperm(flat.numel(), generator=generator, device=generator.device)
    return flat[order].reshape(tensor.shape).contiguous()
