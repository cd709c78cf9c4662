"""The problem that `weft doctor` runs: small, and with a kernel to find."""

import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * x


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(64, 64)]


def get_init_inputs() -> list[object]:
    return []
