"""honest: kernel_function, which gets the inputs, then parameters and buffers.

Reference: linear
Expect: accepted
"""

import torch


def kernel_function(x, weight, bias):
    return torch.clamp(torch.addmm(bias, x, weight.t()), min=0)
