"""The cases that tests of CUDA kernels share: all that the target has code for.
"""

import torch.nn.functional as F

import test_cpu_kernels as operators
import test_movement_kernels as movement
import test_pool_kernels as pools
from kernel_cases import channels_last_cases, long_row_cases, numbers

# Where a thread of the GPU is a fiber these take seconds each.
SLOW = {"large_softmax", "large_softmax0", "large_var", "large_var0",
        "batch_large", "large_sum", "large_rows", "large_argmax",
        "large_argmax0", "large_two_results"}


def row_cases():
    """Rows held by a block, by a cluster, by all blocks; and rows that begin
    anywhere."""
    return [
        *long_row_cases(),
        *channels_last_cases(),
        ("odd_softmax", lambda x: x.softmax(1), (numbers(5, 9999),)),
        ("odd_long", lambda x: x / x.abs().mean(1, keepdim=True),
         (numbers(5, 70_003),)),
        ("odd_argmax", lambda x: x.argmax(1), (numbers(7, 20_001),)),
        ("odd_sum", lambda x, y: (x * y).sum(1),
         (numbers(6, 10_003), numbers(6, 10_003, seed=4))),
        ("column_norm", lambda x: x / (x ** 2).mean(1, keepdim=True).sqrt(),
         (numbers(3, 48, 20, 20),)),
        ("long_log_softmax", lambda x: x.log_softmax(1),
         (numbers(3, 120_000),)),
        ("weighted_norm", lambda x, w: F.layer_norm(x, (40_000,), w),
         (numbers(4, 40_000), numbers(40_000))),
    ]


GROUPS = (*operators.ALL, movement.movement_cases, movement.lookup_cases,
          pools.max_pool_cases, pools.average_pool_cases, pools.loss_cases,
          row_cases)


def without_slow(group):
    return lambda: [case for case in group() if case[0] not in SLOW]
