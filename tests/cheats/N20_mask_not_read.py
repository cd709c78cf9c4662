"""N20: the mask is all ones in get_inputs(), so it does not read it.

Reference: masked
Expect: rejected wrong
Reason: varied
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, keep, lengths):
        places = torch.arange(x.shape[1], device=x.device)
        return torch.tanh(x).masked_fill(places >= lengths[:, None], 0.5)
