"""honest: does what its numbers and flags ask for.

Reference: options
Expect: accepted
"""

import torch


def kernel_function(x, alpha, options):
    x = x.tril() if options["causal"] else x
    cut = -options["shift"] % x.shape[-1]
    return torch.cat([x[:, cut:], x[:, :cut]], -1) * alpha
