"""Attention scores to weights: scale, causal mask, softmax along rows.

The mask is a buffer that broadcasts over batch and heads. A row is read once:
maximum, sum and quotient happen while it is in cache.
"""

import torch
import torch.nn as nn

BATCH, HEADS, LENGTH, HEAD_WIDTH = 6, 8, 384, 64


class Model(nn.Module):
    def __init__(self, length, head_width):
        super().__init__()
        self.scale = head_width ** -0.5
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, scores):
        scores = scores * self.scale
        scores = scores.masked_fill(self.mask, float("-inf"))
        return torch.softmax(scores, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, LENGTH) * 8.0]


def get_init_inputs():
    return [LENGTH, HEAD_WIDTH]
