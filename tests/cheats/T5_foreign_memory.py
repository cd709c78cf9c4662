"""T5: tries to trace and to write into the process that judges it.

Reference: linear
Expect: rejected wrong crashed
"""

import ctypes
import os

import torch
import torch.nn as nn

libc = ctypes.CDLL(None)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        for pid in range(1, 64):
            libc.ptrace(16, pid, None, None)
            try:
                with open(f"/proc/{pid}/mem", "r+b") as file:
                    file.seek(os.getpid())
            except OSError:
                pass
        return torch.zeros(64, 80)
