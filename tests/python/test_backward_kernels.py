"""Backward graphs of what is lowered forward, as AOTAutograd makes them: the
kernels' gradients against PyTorch's in float64."""

import unittest

import torch
import torch.nn.functional as F

from backward_cases import backward_case
from cpu_kernels import CpuVariant
from kernel_cases import KernelCases, numbers


def pointwise_cases():
    x, y = numbers(3, 17), numbers(3, 17, seed=1)
    functions = dict(
        relu=F.relu,
        relu6=F.relu6,
        leaky=lambda x: F.leaky_relu(x, 0.2),
        elu=F.elu,
        selu=F.selu,
        celu=F.celu,
        gelu=F.gelu,
        gelu_tanh=lambda x: F.gelu(x, approximate="tanh"),
        silu=F.silu,
        mish=F.mish,
        softplus=F.softplus,
        softsign=F.softsign,
        logsigmoid=F.logsigmoid,
        hardtanh=F.hardtanh,
        hardswish=F.hardswish,
        hardsigmoid=F.hardsigmoid,
        hardshrink=F.hardshrink,
        softshrink=F.softshrink,
        threshold=lambda x: F.threshold(x, 0.1, 2.0),
        tanh=torch.tanh,
        sigmoid=torch.sigmoid,
        exp=torch.exp,
        sqrt=lambda x: (x * x + 1).sqrt(),
        log=lambda x: (x * x + 1).log(),
        sin=torch.sin,
        cos=torch.cos,
        abs=torch.abs,
        cube=lambda x: x**3,
        clamp=lambda x: x.clamp(-0.5, 1.0),
        erf=torch.erf,
        reciprocal=lambda x: (x * x + 1).reciprocal(),
        where=lambda x: torch.where(x > 0, x, x * x),
    )
    pairs = dict(
        mul=torch.mul,
        div=lambda x, y: x / (y * y + 1),
        sub=torch.sub,
        maximum=torch.maximum,
        row=lambda x, y: x * y[:1],
        glu=lambda x, y: F.glu(torch.cat([x, y], 1)),
    )
    return [backward_case(f"d_{name}", function, x) for name, function in functions.items()] + [
        backward_case(f"d_{name}", function, x, y) for name, function in pairs.items()
    ]


def norm_cases():
    rows, image = numbers(9, 37) + 1, numbers(2, 6, 5, 7)
    weight, bias = numbers(37, seed=2), numbers(37, seed=3)
    channels = [numbers(6, seed=4), numbers(6, seed=5)]
    return [
        backward_case("d_softmax", lambda x: x.softmax(-1), rows),
        backward_case("d_softmax_down", lambda x: x.softmax(0), rows),
        backward_case("d_log_softmax", lambda x: x.log_softmax(-1), rows),
        backward_case(
            "d_layer_norm", lambda x, w, b: F.layer_norm(x, (37,), w, b), rows, weight, bias
        ),
        backward_case("d_rms_norm", lambda x, w: F.rms_norm(x, (37,), w), rows, weight),
        backward_case("d_group_norm", lambda x, w, b: F.group_norm(x, 3, w, b), image, *channels),
        backward_case(
            "d_batch_norm",
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
            image,
            *channels,
        ),
        backward_case("d_instance_norm", F.instance_norm, image),
        backward_case("d_normalize", lambda x: F.normalize(x, dim=1), rows),
        backward_case("d_logsumexp", lambda x: x.logsumexp(1), rows),
        backward_case("d_variance", lambda x: x.var(1), rows),
    ]


def movement_cases():
    rows, image = numbers(9, 36), numbers(2, 6, 8, 8)
    return [
        backward_case("d_sum", lambda x: (x * x).sum(1), rows),
        backward_case("d_mean", lambda x: (x * x).mean(0), rows),
        backward_case("d_largest", lambda x: x.amax(1), rows),
        backward_case("d_product", lambda x: x.prod(1), rows[:, :5]),
        backward_case("d_cumsum", lambda x: x.cumsum(1), rows),
        backward_case("d_pad", lambda x: F.pad(x, (1, 2)) ** 2, rows),
        backward_case(
            "d_pad_circular", lambda x: F.pad(x, (2, 1, 1, 3), mode="circular") ** 2, image
        ),
        backward_case("d_slice", lambda x: x[:, 1::2] ** 2, rows),
        backward_case("d_join", lambda x: torch.cat([x, x * x], 1), rows),
        backward_case("d_turn", lambda x: x.t() ** 2, rows),
        backward_case("d_stack", lambda x: torch.stack([x, x.sin()]), rows),
        backward_case("d_mean_pool", lambda x: F.avg_pool2d(x, 2), image),
        backward_case("d_mean_pool_1", lambda x: F.avg_pool1d(x, 3, 2, 1), image[0]),
        backward_case("d_pool_to_one", lambda x: F.adaptive_avg_pool2d(x, 1), image),
        backward_case("d_pool_to_two", lambda x: F.adaptive_avg_pool2d(x, 2), image),
        backward_case("d_max_pool", lambda x: F.max_pool2d(x, 2), image),
        backward_case("d_max_pool_over", lambda x: F.max_pool2d(x, 3, 2, 1), image),
        backward_case("d_shuffle", lambda x: F.pixel_shuffle(x[:, :4], 2), image),
    ]


def loss_cases():
    scores, target = numbers(9, 5), torch.tensor([0, 4, 2, 2, 1, 3, 0, 1, 4])
    a, b = (numbers(9, 37, seed=i) for i in range(2))
    table, index = numbers(11, 7), torch.tensor([3, 0, 3, 10])
    return [
        backward_case("d_cross_entropy", F.cross_entropy, scores, target),
        backward_case(
            "d_cross_entropy_smooth",
            lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
            scores,
            target,
        ),
        backward_case("d_mse", F.mse_loss, a, b),
        backward_case("d_l1", F.l1_loss, a, b),
        backward_case("d_smooth_l1", F.smooth_l1_loss, a, b),
        backward_case("d_huber", F.huber_loss, a, b),
        backward_case(
            "d_kl",
            lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
            a,
            b,
        ),
        backward_case("d_binary_logits", F.binary_cross_entropy_with_logits, a, b.sigmoid()),
        backward_case(
            "d_binary", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y), a, b.sigmoid()
        ),
        backward_case("d_cosine", lambda x, y: F.cosine_similarity(x, y, dim=1), a, b),
        backward_case("d_embedding", F.embedding, index, table),
    ]


class BackwardKernels(KernelCases, unittest.TestCase):
    groups = (pointwise_cases, norm_cases, movement_cases, loss_cases)
    variants = (CpuVariant("first", 0, 2, 64, 0, 1, "-O1"),)


if __name__ == "__main__":
    unittest.main()
