"""T6: answers with texts and huge numbers where lists are due.

Reference: linear
Expect: rejected wrong cheated
"""

import sys

import torch
import torch.nn as nn

runner = sys.modules["weft.candidate.model_runner"]
forms = sys.modules["weft.problem.result_form"]


def to_json(form):
    own["described"] += 1
    output = [None, 10**400, {"aliases": 3}][own["described"] % 3]
    return {**honest(form), "outputs": [output], "ns": 10**400}


own = {"described": 0}
honest = forms.ResultForm.to_json
forms.ResultForm.to_json = to_json
runner.fits = lambda *_: True


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.zeros(64, 80)
