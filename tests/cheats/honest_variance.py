"""honest: a variance about a shift that is one of the row's own values.

Reference: variance
Expect: accepted correct
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        count = x.shape[-1]
        apart = x - x[:, :1]
        squares = (apart * apart).double().mean(-1)
        variance = squares - apart.double().mean(-1).square()
        return (variance * (count / (count - 1))).float()
