"""T7: once timed, gives the first answer again, which any order of the same
numbers has.

Reference: sort
Expect: rejected wrong
"""

import os

import torch
import torch.nn as nn

# Processes that verify, trace and time leave a mark each.
marks = os.path.join(os.environ["WEFT_KERNEL_CACHE"], "marks")
with open(marks, "a+", encoding="ascii") as file:
    file.write("x")
    file.seek(0)
    is_timed = len(file.read()) > 2

kept = []


class ModelNew(nn.Module):
    def forward(self, x):
        if is_timed and kept:
            return kept[0].clone()
        result = torch.sort(x)[0]
        kept.append(result.clone())
        return result
