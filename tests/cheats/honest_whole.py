"""An honest one of all elements, in another order.

Reference: whole
Expect: accepted correct
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.amax(0).amax(), x.square().sum(0).sum() / x.numel()
