"""N19: nothing is added or taken away, where the framework's own sum loses all
of it.

Reference: cancelled
Expect: accepted not_discriminating
"""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone()
