"""The cases that tests of CUDA kernels share: all that the target has code for."""

import torch
import torch.nn.functional as F

import test_cpu_kernels as operators
import test_movement_kernels as movement
import test_pool_kernels as pools
from kernel_cases import channels_last_cases, long_row_cases, numbers, special

# Where a thread of the GPU is a fiber these take seconds each.
SLOW = {
    "large_softmax",
    "large_softmax0",
    "large_var",
    "large_var0",
    "batch_large",
    "large_sum",
    "large_rows",
    "large_argmax",
    "large_argmax0",
    "large_two_results",
}


def row_cases():
    """Rows held by a block, by a cluster, by all blocks; and rows that begin
    anywhere."""
    return [
        *long_row_cases(),
        *channels_last_cases(),
        ("odd_softmax", lambda x: x.softmax(1), (numbers(5, 9999),)),
        ("odd_long", lambda x: x / x.abs().mean(1, keepdim=True), (numbers(5, 70_003),)),
        ("odd_argmax", lambda x: x.argmax(1), (numbers(7, 20_001),)),
        ("odd_sum", lambda x, y: (x * y).sum(1), (numbers(6, 10_003), numbers(6, 10_003, seed=4))),
        (
            "column_norm",
            lambda x: x / (x**2).mean(1, keepdim=True).sqrt(),
            (numbers(3, 48, 20, 20),),
        ),
        ("long_log_softmax", lambda x: x.log_softmax(1), (numbers(3, 120_000),)),
        (
            "weighted_norm",
            lambda x, w: F.layer_norm(x, (40_000,), w),
            (numbers(4, 40_000), numbers(40_000)),
        ),
    ]


def scaled_and_sum(x):
    total = x.abs().sum(1, keepdim=True)
    return [x / total, total]


def share_and_quotient(x):
    most = x.amax(1, keepdim=True)
    powers = (x - most).exp()
    total = powers.sum(1, keepdim=True)
    return [powers / total, most / total]


def stream_cases():
    """Long rows, read once: so many that a ring of slots goes round often."""
    rows = numbers(23, 33_000)
    return [
        ("stream_softmax", lambda x: x.softmax(1), (rows,)),
        (
            "stream_norm",
            lambda x, w, b: F.layer_norm(x, (33_000,), w, b),
            (rows + 7, numbers(33_000), numbers(33_000, seed=2)),
        ),
        (
            "stream_group_norm",
            lambda x, w, b: F.group_norm(x, 2, w, b).relu(),
            (numbers(5, 8, 96, 96) - 10, numbers(8), numbers(8, seed=2)),
        ),
        ("stream_of_two", lambda x, y: (x * y).log_softmax(1), (rows, numbers(23, 33_000, seed=4))),
        ("stream_and_sum", scaled_and_sum, (rows,)),
        ("stream_from_largest", lambda x: x - x.amax(1, keepdim=True), (special(6, 40_000),)),
        ("stream_special", lambda x: x.softmax(1), (special(6, 40_000),)),
        (
            "stream_integers",
            lambda x: x - x.sum(1, keepdim=True),
            (numbers(9, 36_000, scale=100.0).long(),),
        ),
        ("stream_down_sum", lambda x: x.sum(1), (numbers(6, 44, 515),)),
        ("stream_down_argmin", lambda x: x.argmin(1), (special(3, 44, 515),)),
        ("stream_down_mean", lambda x: x.relu().mean(1) + 1, (numbers(5, 40, 1031),)),
        ("stream_down_largest", lambda x: x.amax(1, keepdim=True), (special(3, 36, 517),)),
        ("stream_down_doubles", lambda x: x.sum(1), (numbers(3, 32, 601).double(),)),
        ("stream_down_truths", lambda x: [x.sum(1), x.any(1)], (numbers(3, 192, 515) > 1,)),
        ("stream_down_sum_of_truths", lambda x: x.sum(1), (numbers(3, 192, 515) > 1,)),
        (
            "stream_down_losses",
            lambda x, t: F.cross_entropy(x, t, reduction="none"),
            (numbers(3, 44, 515), torch.arange(1545).view(3, 515) % 44),
        ),
        (
            "stream_down_loss",
            F.cross_entropy,
            (numbers(3, 44, 515), torch.arange(1545).view(3, 515) % 44),
        ),
        ("stream_down_one_share", lambda x: x.softmax(1)[:, 3], (special(3, 44, 515),)),
        (
            "stream_down_and_more",
            lambda x, w, b, i: (x.amax(1) + w[i]).masked_fill(b, 0),
            (numbers(3, 44, 515), numbers(77), numbers(3, 515) > 1, torch.arange(515) % 77),
        ),
        (
            "stream_down_and_each_thrice",
            lambda x, w: x.amax(1) + w.view(-1, 1).expand(-1, 3).reshape(-1)[:1033],
            (numbers(3, 44, 1033), numbers(345)),
        ),
        ("stream_doubles", lambda x: x.softmax(1), (numbers(3, 40_000).double(),)),
        ("stream_beyond_registers", lambda x: x.softmax(1), (numbers(20, 60_000, scale=9.0),)),
        ("stream_and_other_quotients", share_and_quotient, (rows,)),
        (
            "stream_of_denormals",
            lambda x: x.softmax(1).log(),
            (torch.cat([numbers(5, 33_000, scale=0.3), torch.full((5, 8), 89.0)], 1),),
        ),
        (
            "stream_spread_of_doubles",
            lambda x: F.layer_norm(x, (40_000,)),
            (numbers(5, 40_000).double() + 100,),
        ),
    ]


def window_cases():
    """Windows that a thread keeps in registers, four side by side and some
    below each other, where multiprocessors are few."""
    image, strange = numbers(2, 8, 64, 64), special(2, 8, 64, 64)
    volume = numbers(2, 4, 24, 20, 64)
    taps, tall = numbers(8, 1, 3, 3, scale=0.5), numbers(8, 1, 5, 1, scale=0.5)
    two_of_each, bias = numbers(16, 1, 3, 3, scale=0.5), numbers(8)
    return [
        ("window_max", lambda x: F.max_pool2d(x, 4, 1, 1), (strange,)),
        ("window_max_by_two", lambda x: F.max_pool2d(x, 3, 2, 1), (strange,)),
        ("window_max_spread", lambda x: F.max_pool2d(x, 3, 1, 1, 2), (strange,)),
        ("window_max_apart", lambda x: F.max_pool2d(x, 3, 2, 1, 3), (numbers(3, 8, 128, 64),)),
        ("window_max_row", lambda x: F.max_pool1d(x, 8, 1, 4, 3), (special(3, 5, 1028),)),
        ("window_mean", lambda x: F.avg_pool2d(x, 3, 1, 1).relu(), (image,)),
        ("window_mean_ragged", lambda x: F.avg_pool2d(x, 3, 1), (image,)),
        (
            "window_mean_of_volume",
            lambda x: F.avg_pool3d(x, 3, 2, 1),
            (numbers(4, 4, 24, 40, 128),),
        ),
        ("window_mean_of_halves", lambda x: F.avg_pool3d(x, 2, 2), (volume,)),
        (
            "window_mean_and_more",
            lambda x, y: F.avg_pool2d(x * 2 + 1, 3, 1, 1) * y,
            (image, numbers(2, 8, 64, 64, seed=3)),
        ),
        (
            "window_mean_of_product",
            lambda x, y: F.avg_pool2d(x * y, 5, 1, 2),
            (image, numbers(2, 8, 64, 64, seed=3)),
        ),
        (
            "window_mean_of_one_image",
            lambda x: F.avg_pool2d(x.expand(4, 8, 64, 64), 3, 1),
            (numbers(1, 8, 64, 64),),
        ),
        ("window_depthwise", lambda x, w: F.conv2d(x, w, groups=8), (strange, taps)),
        (
            "window_depthwise_padded",
            lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=8).relu(),
            (image, taps, bias),
        ),
        (
            "window_depthwise_tall",
            lambda x, w: F.conv2d(x, w, padding=(2, 0), groups=8),
            (image, tall),
        ),
        (
            "window_depthwise_by_two",
            lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=8),
            (numbers(4, 8, 128, 64), taps),
        ),
        (
            "window_depthwise_spread",
            lambda x, w: F.conv2d(x, w, dilation=2, groups=8),
            (image, taps),
        ),
        (
            "window_depthwise_twice",
            lambda x, w: F.conv2d(x, w, padding=1, groups=8),
            (image, two_of_each),
        ),
        (
            "window_depthwise_odd",
            lambda x, w: F.conv2d(x, w, padding=1, groups=8),
            (numbers(2, 8, 63, 61), taps),
        ),
        (
            "window_depthwise_volume",
            lambda x, w: F.conv3d(x, w, padding=1, groups=4),
            (volume, numbers(4, 1, 3, 3, 3, scale=0.25)),
        ),
    ]


def strip_cases():
    """Pools whose windows share planes, on a device of one multiprocessor."""
    volume = numbers(2, 4, 24, 48, 128)
    return [
        ("strip_mean_of_volume", lambda x: F.avg_pool3d(x, 3, 2, 1), (volume,)),
        (
            "strip_mean_of_wide_volume",
            lambda x: F.avg_pool3d(x, 3, 2, 1),
            (numbers(2, 4, 24, 24, 256),),
        ),
        ("strip_max_apart", lambda x: F.max_pool3d(x, 3, 2, 1, 3), (special(2, 4, 26, 40, 128),)),
        ("strip_mean_by_one", lambda x: F.avg_pool3d(x, 3, 1, 1), (numbers(1, 4, 20, 24, 256),)),
        (
            "strip_max_by_one",
            lambda x: F.max_pool3d(x, (4, 2, 5), 1, (2, 1, 2)),
            (special(1, 4, 20, 24, 256),),
        ),
        (
            "strip_max_spread",
            lambda x: F.max_pool3d(x, 3, 1, 1, (3, 2, 1)),
            (special(1, 4, 24, 24, 256),),
        ),
        ("strip_max_by_four", lambda x: F.max_pool2d(x, 5, 4, 2), (special(4, 16, 256, 128),)),
        (
            "strip_max_by_four_of_halves",
            lambda x: F.max_pool2d(x, 5, 4, 2).half(),
            (numbers(4, 16, 256, 128),),
        ),
        ("strip_mean_of_halves", lambda x: F.avg_pool3d(x, 3, 2, 1).bfloat16(), (volume,)),
        ("strip_max_of_small_rows", lambda x: F.max_pool2d(x, 3, 2, 1), (special(64, 8, 48, 16),)),
        (
            "strip_mean_unpadded",
            lambda x: F.avg_pool2d(x, (3, 5), (1, 4)),
            (numbers(8, 16, 96, 128),),
        ),
        (
            "strip_mean_and_more",
            lambda x, y: F.avg_pool3d(x, 3, 2, 1).relu() * y,
            (volume, numbers(2, 4, 12, 24, 64)),
        ),
    ]


def mean_where_spread(x):
    variance, mean = torch.var_mean(x, 1)
    return torch.where(variance > 1e30, mean * 1e-36, variance)


def moment_cases():
    """Numbers whose squares no float holds; their sums it does, as neighbours
    cancel. For kernels that fold both in one walk: of two walks an infinity is
    taken from another, unless a compiler fuses the product."""
    rows = numbers(7, 4099) * 1e36
    rows[:, 1::2] = -rows[:, :-1:2]
    return [("mean_where_squares_overflow", mean_where_spread, (rows,))]


def logarithm_cases():
    """Numbers of every size and sign, and more of those about 1."""
    bits = torch.cat(
        [torch.arange(-(1 << 31), 1 << 31, 40_961), torch.arange(0x3F000000, 0x40000000, 149)]
    )
    every = bits.to(torch.int32).view(torch.float32)
    return [("log", torch.log, (every,)), ("xlogy", lambda x: torch.xlogy(1.0, x), (every,))]


GROUPS = (
    *operators.ALL,
    movement.movement_cases,
    movement.lookup_cases,
    pools.max_pool_cases,
    pools.average_pool_cases,
    pools.loss_cases,
    row_cases,
    stream_cases,
    window_cases,
)


def without_slow(group):
    return lambda: [case for case in group() if case[0] not in SLOW]
