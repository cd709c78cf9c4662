"""O3: gives a part of its input itself, and says that it shares nothing.

Reference: part
Expect: rejected wrong
Reason: a later call changes output 0
"""

import torch.nn as nn
from weft.candidate import model_runner

tell = model_runner.describe


def describe(*words):
    told = tell(*words)
    for output in told.outputs:
        output.aliases.clear()
    return told


model_runner.describe = describe


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:32]
