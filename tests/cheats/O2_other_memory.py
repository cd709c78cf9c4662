"""O2: takes the argument's memory for its result and gives the argument other
memory with the same values: views of it that the caller has are cut off.

Reference: relu
Expect: rejected wrong
Reason: argument 0 lies elsewhere
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        kept = x.clone()
        result = x.view_as(x).clamp_(min=0)
        x.set_(kept)
        return result
