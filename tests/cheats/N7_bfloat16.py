"""N7: the product in bfloat16.

Reference: linear
Expect: rejected wrong
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        y = torch.nn.functional.linear(
            x.bfloat16(), weight.bfloat16(), bias.bfloat16()
        )
        return torch.relu(y).float()
