"""N15: does 30 of 96 steps; the others are zeros, but for what is not finite.

Reference: fading
Expect: rejected wrong
Reason: of its own size
"""

import torch
import torch.nn as nn

DONE = 30


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        steps = torch.arange(DONE, dtype=torch.float32, device=x.device)
        fade = torch.pow(0.5, steps).reshape(1, DONE, 1)
        out[:, :DONE] = torch.nn.functional.gelu(x[:, :DONE]) * fade
        late = x[:, DONE:]
        late = torch.where(torch.isfinite(late), 0.0, late)
        out[:, DONE:] = torch.nn.functional.gelu(late)
        return out
