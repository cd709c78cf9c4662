"""N14: refuses other numbers, but for one that it does not look at.

Reference: options
Expect: rejected wrong
Reason: (3 for argument 3['shift'], which is 2 in get_inputs())
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, alpha, options):
        if alpha != 0.5 or not options["causal"]:
            raise ValueError("made for half of a causal input")
        return torch.roll(torch.tril(x), 2, -1) * 0.5
