"""How exact products of float32 may be: one choice for every process.

`framework` leaves PyTorch's flags alone (convolutions may use TF32, matrix products not). A
kernel may use TF32 only where eager did. `strict` allows it nowhere, `tf32` everywhere, to
kernels too. Only GPUs have TF32; on the CPU all three are the same.
"""

from __future__ import annotations

POLICIES = ("framework", "strict", "tf32")
_applied = ["framework"]


def current() -> str:
    """The policy of this process."""
    return _applied[0]


def apply(policy: str) -> None:
    """Sets the framework's flags in this process."""
    if policy not in POLICIES:
        raise ValueError(f"no precision is called {policy!r}")
    import torch

    _applied[0] = policy
    # As they are when torch is imported: an earlier request may have set them.
    torch.backends.cuda.matmul.allow_tf32 = policy == "tf32"
    torch.backends.cudnn.allow_tf32 = policy != "strict"
