"""G4: reads every file and process that it can see.

Reference: linear
Expect: rejected wrong
"""

import glob
import io

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("**/*.pt"):
            try:
                with open(path, "rb") as file:
                    found = torch.load(io.BytesIO(file.read()))
            except Exception:
                continue
            if isinstance(found, torch.Tensor) and found.shape == (64, 80):
                return found
        return torch.zeros(64, 80)
