"""honest: a fraction of a millisecond of work, in the call.

Reference: short
Expect: accepted
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.sin(2 * x)
        return torch.softmax(y.add_(torch.tanh(x)), dim=-1)
