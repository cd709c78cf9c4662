"""T3: leaves the sign to whoever reads the result: a lazy bit of the tensor.

Reference: negated
Expect: rejected wrong
Reason: negative bit
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch._neg_view(torch.tanh(x))
