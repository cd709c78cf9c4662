"""honest: kernel_function of a model without state gets the inputs alone.

Reference: relu
Expect: accepted
"""

import torch


def kernel_function(x):
    return torch.maximum(x, torch.zeros(()))
