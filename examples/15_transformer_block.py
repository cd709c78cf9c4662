"""A pre-norm transformer block with masked attention written out.

Ten or so pieces: norms, softmax, GELU and residuals get generated kernels; the matrix
products stay the library's.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, LENGTH, WIDTH, HEADS = 4, 256, 256, 8


class Model(nn.Module):
    def __init__(self, length, width, heads):
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.norm_attention = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        batch, length, width = x.shape
        queries, keys, values = (
            part.view(batch, length, self.heads, width // self.heads)
            .transpose(1, 2)
            for part in self.project(self.norm_attention(x)).chunk(3, dim=-1)
        )
        scores = queries @ keys.transpose(-2, -1) * self.scale
        scores = scores.masked_fill(self.mask, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ values
        x = x + self.merge(mixed.transpose(1, 2).reshape(x.shape))
        hidden = F.gelu(self.up(self.norm_feed(x)))
        return x + self.down(hidden)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [LENGTH, WIDTH, HEADS]
