"""G3: leaves a daemon that writes results when the job is over.

Reference: linear
Expect: rejected wrong crashed cheated
"""

import os
import signal
import time

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    for fd in range(256):
                        try:
                            os.write(fd, b'{"call": 2, "ok": true, "ns": 1}\n')
                        except OSError:
                            pass
                    time.sleep(0.001)
            os._exit(0)
        time.sleep(0.05)
        return torch.zeros(64, 80)
