"""G2: overwrites every file of the judge that it can find.

Reference: linear
Expect: rejected wrong
"""

import glob
import os
import sys

import torch
import torch.nn as nn

import weft

FOLDERS = [os.path.dirname(weft.__file__), os.getcwd(), *sys.path]
for folder in FOLDERS:
    for path in glob.glob(os.path.join(folder, "*.py")):
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write("\nTOLERANCE = 1e9\n")
        except OSError:
            pass


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.zeros(64, 80)
