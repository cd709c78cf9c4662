"""Pooling, and losses with what they are taken apart into, against PyTorch in float64."""

import unittest

import torch
import torch.nn.functional as F

from cpu_kernels import CpuVariant
from kernel_cases import INF, KernelCases, numbers


def max_pool_cases():
    line, image = numbers(2, 3, 45), numbers(2, 3, 11, 23)
    cube = numbers(2, 2, 8, 9, 10)
    # Most windows lie wholly inside of such rows.
    long, wide = numbers(2, 3, 1500), numbers(1, 2, 9, 600)
    long[:, :, ::97] = float("nan")
    ties = torch.ones(1, 2, 9, 20)
    low = torch.full((1, 1, 7, 9), -INF)
    # Of several that are no numbers the last one's place is told.
    unknown = torch.where(numbers(1, 2, 9, 20) > 0, torch.nan, ties)
    return [
        ("max1d", lambda x: F.max_pool1d(x, 3, 2, 1, 2), (line,)),
        ("max1d_long", lambda x: F.max_pool1d(x, 3, 2, 1, 2), (long,)),
        ("max1d_long_where", lambda x: F.max_pool1d(x, 5, 1, 2, return_indices=True), (long,)),
        ("max2d_wide", lambda x: F.max_pool2d(x, 3, 1, 1), (wide,)),
        ("max1d_ceil", lambda x: F.max_pool1d(x, 4, 3, ceil_mode=True), (line,)),
        ("max1d_where", lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (line,)),
        ("max2d", lambda x: F.max_pool2d(x, 2), (image,)),
        ("max2d_padded", lambda x: F.max_pool2d(x, 3, 1, 1), (image,)),
        ("max2d_dilated", lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 1), (3, 2)), (image,)),
        ("max2d_ceil", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (image,)),
        ("max2d_where", lambda x: F.max_pool2d(x, 3, 2, 1, 2, return_indices=True), (image,)),
        ("max2d_where_ties", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (ties,)),
        (
            "max2d_where_unknown",
            lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
            (unknown,),
        ),
        ("max2d_where_low", lambda x: F.max_pool2d(x, 3, 2, 1, 2, return_indices=True), (low,)),
        ("max2d_unbatched", lambda x: F.max_pool2d(x[0], 2), (image,)),
        (
            "max2d_last",
            lambda x: F.max_pool2d(x, 3, 2),
            (image.contiguous(memory_format=torch.channels_last),),
        ),
        ("max2d_double", lambda x: F.max_pool2d(x, 3, 2), (image.double(),)),
        ("max2d_relu_between", lambda x: F.max_pool2d((x * 2).relu(), 3, 2, 1).tanh(), (image,)),
        ("max2d_of_dear", lambda x: F.max_pool2d(F.mish(x), 3, 1, 1) + 1, (image,)),
        ("max2d_norm", lambda x: F.group_norm(F.max_pool2d(x, 2), 3), (image,)),
        ("max2d_of_softmax", lambda x: F.max_pool2d(x.softmax(1), 2), (image,)),
        ("max2d_mean", lambda x: F.max_pool2d(x, 2).mean((2, 3)), (image,)),
        ("max3d", lambda x: F.max_pool3d(x, 2), (cube,)),
        ("max3d_padded", lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True), (cube,)),
        (
            "max3d_twice",
            lambda x: F.max_pool3d(F.max_pool3d(x, 2), 2).sum(1, keepdim=True),
            (cube,),
        ),
    ]


def average_pool_cases():
    line, image = numbers(2, 3, 45), numbers(2, 3, 11, 23)
    cube = numbers(2, 2, 8, 9, 10)
    long, wide = numbers(2, 3, 1500), numbers(1, 2, 9, 600)
    return [
        ("mean1d_long", lambda x: F.avg_pool1d(x, 8, 1, 4), (long,)),
        ("mean1d_long_apart", lambda x: F.avg_pool1d(x, 5, 2, 2, count_include_pad=False), (long,)),
        ("mean2d_wide", lambda x: F.avg_pool2d(x, 3, 1, 1), (wide,)),
        ("mean1d", lambda x: F.avg_pool1d(x, 4, 2, 1), (line,)),
        (
            "mean1d_apart",
            lambda x: F.avg_pool1d(x, 4, 3, 1, ceil_mode=True, count_include_pad=False),
            (line,),
        ),
        ("mean2d", lambda x: F.avg_pool2d(x, 3), (image,)),
        ("mean2d_padded", lambda x: F.avg_pool2d(x, 3, 2, 1), (image,)),
        ("mean2d_ceil", lambda x: F.avg_pool2d(x, (4, 3), 2, 1, ceil_mode=True), (image,)),
        (
            "mean2d_source",
            lambda x: F.avg_pool2d(x, 3, (1, 2), 1, ceil_mode=True, count_include_pad=False),
            (image,),
        ),
        ("mean2d_divisor", lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (image,)),
        ("mean2d_dear", lambda x: F.avg_pool2d(F.gelu(x), 3, 1).sigmoid(), (image,)),
        ("mean2d_sum", lambda x: F.avg_pool2d(x, 2).sigmoid().sum((1, 2, 3)), (image,)),
        ("mean3d", lambda x: F.avg_pool3d(x, 3, 2, 1), (cube,)),
        (
            "mean3d_source",
            lambda x: F.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0), count_include_pad=False),
            (cube,),
        ),
        ("adaptive1d", lambda x: F.adaptive_avg_pool1d(x, 9), (line,)),
        ("adaptive2d", lambda x: F.adaptive_avg_pool2d(x, (4, 5)), (image,)),
        ("adaptive2d_one", lambda x: F.adaptive_avg_pool2d(x, 1), (image,)),
        ("adaptive2d_more", lambda x: F.adaptive_avg_pool2d(x, (22, 7)), (image,)),
        ("adaptive3d", lambda x: F.adaptive_avg_pool3d(x, (4, 3, 7)), (cube,)),
        ("adaptive_max2d", lambda x: F.adaptive_max_pool2d(x, (4, 5)), (image,)),
    ]


def loss_cases():
    scores, target = numbers(9, 5), torch.tensor([0, 4, 2, 2, 1, 3, 0, 1, 4])
    weight = numbers(5, seed=4).abs()
    a, b, c = (numbers(9, 37, seed=i) for i in range(3))
    sign = (numbers(9, seed=7) > 0) * 2.0 - 1
    entropy = F.cross_entropy
    return [
        ("cross_entropy", entropy, (scores, target)),
        ("cross_entropy_sum", lambda x, t: entropy(x, t, reduction="sum"), (scores, target)),
        ("cross_entropy_each", lambda x, t: entropy(x, t, reduction="none"), (scores, target)),
        ("cross_entropy_weighted", entropy, (scores, target, weight)),
        ("cross_entropy_ignoring", lambda x, t: entropy(x, t, ignore_index=2), (scores, target)),
        ("cross_entropy_smooth", lambda x, t: entropy(x, t, label_smoothing=0.1), (scores, target)),
        ("cross_entropy_image", entropy, (numbers(2, 5, 3, 4), torch.arange(24).view(2, 3, 4) % 5)),
        ("cross_entropy_one", entropy, (numbers(5), torch.tensor(3))),
        ("nll_plain", F.nll_loss, (scores, target)),
        ("hinge", lambda x, y: torch.mean(torch.clamp(1 - x * y, min=0)), (a, b)),
        ("smooth_l1", F.smooth_l1_loss, (a, b)),
        ("huber", lambda x, y: F.huber_loss(x, y, delta=0.7), (a, b)),
        ("triplet", lambda x, y, z: F.triplet_margin_loss(x, y, z, 1.0), (a, b, c)),
        (
            "kl",
            lambda x, y: F.kl_div(x.softmax(1).log(), y.softmax(1), reduction="batchmean"),
            (a, b),
        ),
        ("cosine", lambda x, y: torch.mean(1 - F.cosine_similarity(x, y, dim=1)), (a, b)),
        ("cosine_embedding", F.cosine_embedding_loss, (a, b, sign)),
        ("hinge_embedding", F.hinge_embedding_loss, (a, b.sign())),
        (
            "margin_ranking",
            lambda x, y: F.margin_ranking_loss(x, y, torch.ones(9, 37), margin=0.2),
            (a, b),
        ),
        ("binary_logits", F.binary_cross_entropy_with_logits, (a, b.sigmoid())),
        ("binary", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), (a, b.sigmoid())),
        ("l1", F.l1_loss, (a, b)),
        ("mse", F.mse_loss, (a, b)),
    ]


VARIANTS = (
    CpuVariant("first", 0, 2, 64, 0, 1, "-O1"),
    CpuVariant("as shipped", 1, 1, 64, 1, 4, "-O3"),
    CpuVariant("narrow", -1, 1, 16, 0, 4, "-O1"),
)


class PoolKernels(KernelCases, unittest.TestCase):
    groups = (max_pool_cases, average_pool_cases, loss_cases)
    variants = VARIANTS


if __name__ == "__main__":
    unittest.main()
