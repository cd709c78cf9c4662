"""A softmax that overflows: it forgets to subtract the maximum of the row."""

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(dim=-1, keepdim=True)
