"""N13: the sum of a softmax is 1, but not where there is a nan.

Reference: softmax_sum
Expect: rejected wrong
Reason: special
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.ones(x.shape[0])
