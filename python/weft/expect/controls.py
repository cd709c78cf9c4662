"""Controls: wrong outputs that the comparison of a subgraph's cases has to reject."""

import math
from functools import partial

import torch

from weft.expect import compare


class Controls:
    """Holds wrong outputs against case after case; `rejected` says for each
    kind whether it was rejected once, None where it never applied.

    A control that passes everywhere means that this comparison cannot tell a
    kernel from an imposter.
    """

    def __init__(self):
        self.rejected = {
            "zeros": None, "constant": None, "input": None, "stale": None,
            "noise": None,
        }
        self._before = None

    def hold(self, views, wants, is_finite):
        """`views`: the case's input tensors; `wants`: its expectations."""
        for name, outputs in _imposters(views, wants, self._before, is_finite):
            if self.rejected[name] is not True:
                self.rejected[name] = any(
                    compare.compare(make(), want).reason
                    for make, want in zip(outputs, wants)
                )
        self._hold_noise(wants, is_finite)
        if is_finite:  # nan would give away whoever gives the answer of before
            self._before = [want.framework for want in wants]

    def _hold_noise(self, wants, is_finite):
        """Of the first case, which is the problem's own: noise as large as the
        output. Where the framework itself errs by that much, what another case
        rejects says nothing of what the problem asks."""
        floating = [w for w in wants if w.framework.is_floating_point()
                    and w.framework.isfinite().any()
                    and (w.framework.any() or w.truth.any())]
        if self.rejected["noise"] is None and is_finite and floating:
            # One output that tells nothing is not made good by another.
            self.rejected["noise"] = all(
                compare.compare(_noisy(want), want).reason
                and not compare.is_lost(want) for want in floating)

    def rest(self):
        """Nothing of a case is kept: the next one is held against none."""
        self._before = None


def _imposters(views, wants, before, is_finite):
    """(control's name, what makes each output) for every one that applies.

    Cases with nan count only where nan does not give every imposter away.
    """
    if is_finite or not any(w.framework.is_floating_point() for w in wants):
        yield "zeros", [partial(torch.zeros_like, w.framework) for w in wants]
        if before is not None:
            # Of another case: the mean of a single element is the answer.
            yield "constant", [partial(_mean_of, x) for x in before]
            yield "stale", [partial(_same, x) for x in before]
    for view in views:
        fits = [
            view.shape == w.framework.shape and view.dtype == w.framework.dtype
            for w in wants
        ]
        if any(fits):
            yield "input", [
                partial(_same, view if fit else w.framework)
                for fit, w in zip(fits, wants)
            ]


def _noisy(want):
    """The answer, each element off by the output's scale, up or down in turn."""
    made = want.framework.reshape(-1).clone()
    made[::2] += want.scale
    made[1::2] -= want.scale
    return made.reshape(want.framework.shape)


def _same(tensor):
    return tensor


def _mean_of(tensor):
    if not tensor.dtype.is_floating_point:
        if tensor.numel() == 0:
            return tensor
        return torch.full_like(tensor, tensor.flatten().mode().values.item())
    mean = tensor.mean(dtype=torch.float64).item() if tensor.numel() else 0.0
    if not math.isfinite(mean):
        finite = tensor[torch.isfinite(tensor)]
        mean = finite.double().mean().item() if finite.numel() else 0.0
    return torch.full_like(tensor, mean)
