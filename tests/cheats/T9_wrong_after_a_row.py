"""T9: right until it is called in a row, as after thousands of calls.

Reference: short
Expect: rejected wrong
Reason: a timed call's
"""

import sys

import torch
import torch.nn as nn


def is_in_a_row():
    frame = sys._getframe()
    while frame and frame.f_code.co_name != "_row":
        frame = frame.f_back
    return frame is not None


class ModelNew(nn.Module):
    was_in_a_row = False

    def forward(self, x):
        self.was_in_a_row = self.was_in_a_row or is_in_a_row()
        if self.was_in_a_row:
            return torch.zeros_like(x)
        return torch.softmax(torch.tanh(x) + torch.sin(2 * x), dim=-1)
