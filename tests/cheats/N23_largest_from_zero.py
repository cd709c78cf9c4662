"""N23: a largest element that begins at zero.

Reference: whole
Expect: rejected wrong
Reason: (negative)
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.amax().clamp(min=0), x.square().mean()
