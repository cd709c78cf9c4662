"""N22: the largest element, of full blocks alone.

Reference: whole
Expect: rejected wrong
Reason: (last)
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        whole = x.reshape(-1)[:x.numel() // 256 * 256]
        return whole.amax(), x.square().mean()
