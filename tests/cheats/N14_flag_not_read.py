"""N14: does what get_inputs()' flag asks for, whatever the flag.

Reference: options
Expect: rejected wrong
Reason: (False for argument 3['causal'], which is True in get_inputs())
"""

import torch


def kernel_function(x, alpha, options):
    return torch.roll(torch.tril(x), options["shift"], -1) * alpha
