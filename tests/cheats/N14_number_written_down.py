"""N14: the number that get_inputs() gives, whichever is given.

Reference: options
Expect: rejected wrong
Reason: (0.375 for argument 2, which is 0.5 in get_inputs())
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, alpha, options):
        if options["causal"]:
            x = torch.tril(x)
        return torch.roll(x, options["shift"], -1) * 0.5
