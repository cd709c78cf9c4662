"""N18: a variance as the mean of squares less the square of the mean: in one
pass, and right as long as the mean is not far from zero.

Reference: variance
Expect: rejected wrong
Reason: far
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        count = x.shape[-1]
        squares = (x * x).double().mean(-1)
        variance = squares - x.double().mean(-1).square()
        return (variance * (count / (count - 1))).float()
