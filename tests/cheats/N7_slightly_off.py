"""N7: a factor that no rounding explains.

Reference: relu
Expect: rejected wrong
"""


def kernel_function(x):
    return x.clamp(min=0) * 1.00005
