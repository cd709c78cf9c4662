"""Cross entropy with label smoothing, written out: log-softmax, a weighted sum
along each row, then a mean. The log-probabilities never reach memory.
"""

import torch
import torch.nn as nn

SAMPLES, CLASSES = 4096, 1600


class Model(nn.Module):
    def __init__(self, temperature, smoothing):
        super().__init__()
        self.temperature = temperature
        self.smoothing = smoothing

    def forward(self, logits, targets):
        log_probabilities = torch.log_softmax(logits / self.temperature, dim=-1)
        smoothed = targets * (1.0 - self.smoothing) + self.smoothing / CLASSES
        return -(log_probabilities * smoothed).sum(dim=-1).mean()


def get_inputs():
    return [
        torch.randn(SAMPLES, CLASSES) * 3.0,
        torch.softmax(torch.randn(SAMPLES, CLASSES) * 4.0, dim=-1),
    ]


def get_init_inputs():
    return [1.5, 0.1]
