"""G6: changes the reference's own class, which it has for its state.

Reference: linear
Expect: rejected wrong
"""

import sys

import torch


def kernel_function(x, weight, bias):
    model = sys.modules["weft_problem"].Model
    model.forward = lambda self, x: torch.zeros(64, 80)
    return torch.zeros(64, 80)
