"""T1: the work goes to a stream of its own, which nobody waits for.

Reference: product
Expect: rejected wrong cheated
"""

import torch
import torch.nn as nn

stream = torch.cuda.Stream()


class ModelNew(nn.Module):
    def forward(self, a, b):
        result = torch.empty_like(a)
        with torch.cuda.stream(stream):
            for _ in range(20):
                torch.mm(a, b, out=result)
        return result
