"""Reads its mask and its lengths, though they never differ in get_inputs().

Reference: masked
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, keep, lengths):
        places = torch.arange(x.shape[1], device=x.device)
        taken = keep & (places < lengths[:, None])
        return torch.where(taken, torch.tanh(x), 0.5)
