"""N24: skips a mask of which nothing is set, as none of get_inputs() is.

Reference: masked
Expect: rejected wrong
Reason: (none set)
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, keep, lengths):
        places = torch.arange(x.shape[1], device=x.device)
        taken = (keep | ~keep.any()) & (places < lengths[:, None])
        return torch.where(taken, torch.tanh(x), 0.5)
