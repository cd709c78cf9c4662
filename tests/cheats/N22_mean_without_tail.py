"""N22: a mean over so many that its last block does not tell.

Reference: whole
Expect: rejected wrong
Reason: (last)
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        whole = x.reshape(-1)[:x.numel() // 256 * 256]
        return x.amax(), whole.square().sum() / x.numel()
