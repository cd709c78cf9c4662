"""N19: as in N19_lost_in_rounding, beside an output that tells.

Reference: cancelled_beside
Expect: accepted not_discriminating
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tanh(x), x.clone()
