"""N22: the largest element, but for the first.

Reference: whole
Expect: rejected wrong
Reason: (first)
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.reshape(-1)[1:].amax(), x.square().mean()
