"""The winning class of each row and by how much it wins over the row's mean:
an arg-reduction, a maximum and a mean of one tensor, with integer output.
"""

import torch
import torch.nn as nn

ROWS, CLASSES = 4096, 1000


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(classes) * 0.1)

    def forward(self, scores):
        scores = torch.tanh(scores + self.bias)
        margin = scores.amax(dim=-1) - scores.mean(dim=-1)
        return torch.argmax(scores, dim=-1), margin


def get_inputs():
    return [torch.randn(ROWS, CLASSES)]


def get_init_inputs():
    return [CLASSES]
