"""Matrix products, convolutions and attention as sums of products, against PyTorch in
float64. The `cpu` target leaves them to PyTorch; this is where their lowering, which other
targets use, is held to be right.
"""

import unittest

import torch
import torch.nn.functional as F

from cpu_kernels import CpuVariant
from kernel_cases import KernelCases, numbers


def product_cases():
    a, b = numbers(5, 17), numbers(17, 9)
    batch_a, batch_b = numbers(3, 5, 17), numbers(3, 17, 9)
    bias = numbers(9, seed=3)
    return [
        ("mm", lambda a, b: a @ b, (a, b)),
        ("mm_turned", lambda a, b: a.t() @ b.t(), (numbers(17, 5), numbers(9, 17))),
        ("mm_strided", lambda a, b: a @ b, (numbers(10, 34)[::2, ::2], b)),
        ("mm_long", lambda a, b: a @ b, (numbers(3, 5001), numbers(5001, 2))),
        ("mm_one", lambda a, b: a @ b, (numbers(1, 17), numbers(17, 1))),
        ("mm_outer", lambda a, b: a @ b, (numbers(5, 1), numbers(1, 9))),
        ("mm_double", lambda a, b: a @ b, (a.double(), b.double())),
        ("mm_int", lambda a, b: a @ b, (torch.arange(12).view(3, 4), torch.arange(20).view(4, 5))),
        ("mm_relu", lambda a, b: (a @ b).relu() + 1, (a, b)),
        ("mm_of_relu", lambda a, b: a.relu() @ b.exp(), (a, b)),
        (
            "mm_triangle",
            lambda a, b: torch.where(torch.arange(9)[None] <= torch.arange(5)[:, None], a @ b, 0.0),
            (a, b),
        ),
        ("mv", lambda a, b: a @ b, (a, numbers(17))),
        ("dot", torch.dot, (numbers(33), numbers(33, seed=1))),
        ("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (bias, a, b)),
        ("linear", F.linear, (a, numbers(9, 17), bias)),
        ("linear_batch", F.linear, (numbers(2, 3, 17), numbers(9, 17), bias)),
        ("linear_plain", F.linear, (a, numbers(9, 17))),
        ("linear_vector", F.linear, (numbers(17), numbers(9, 17), bias)),
        (
            "linear_gelu_norm",
            lambda x, w, b: F.layer_norm(F.gelu(F.linear(x, w, b)), (9,)),
            (a, numbers(9, 17), bias),
        ),
        ("linear_softmax", lambda x, w: F.linear(x, w).softmax(-1).sum(0), (a, numbers(9, 17))),
        ("bmm", torch.bmm, (batch_a, batch_b)),
        ("baddbmm", torch.baddbmm, (numbers(3, 5, 9, seed=4), batch_a, batch_b)),
        ("matmul_broadcast", torch.matmul, (numbers(2, 1, 5, 17), numbers(3, 17, 9))),
        ("matmul_rows", torch.matmul, (numbers(2, 3, 5, 17), b)),
        ("matmul_vector", torch.matmul, (batch_a, numbers(17))),
        ("einsum", lambda a, b: torch.einsum("bijl,lk->bijk", a, b), (numbers(2, 3, 5, 17), b)),
        ("einsum_sums", lambda a, b: torch.einsum("ij,jk->k", a, b), (a, b)),
    ]


def attention_cases():
    q, k, v = (numbers(2, 3, 7, 8, seed=i) for i in range(3))
    short_k, short_v = numbers(2, 3, 5, 8), numbers(2, 3, 5, 6)
    mask = numbers(7, 5) > -1
    mask[2] = False
    attend = F.scaled_dot_product_attention
    return [
        ("attention", attend, (q, k, v)),
        ("causal", lambda q, k, v: attend(q, k, v, is_causal=True), (q, k, v)),
        ("shorter", attend, (q, short_k, short_v)),
        ("scaled", lambda q, k, v: attend(q, k, v, scale=0.5), (q, k, v)),
        ("masked", lambda q, k, v, m: attend(q, k, v, attn_mask=m), (q, short_k, short_v, mask)),
        (
            "biased",
            lambda q, k, v, m: attend(q, k, v, attn_mask=m),
            (q, short_k, short_v, numbers(2, 1, 7, 5)),
        ),
        ("by_hand", lambda q, k, v: (q @ k.transpose(-2, -1) * 0.3).softmax(-1) @ v, (q, k, v)),
    ]


def convolution(
    name, rank, inputs, outputs, space, taps, bias=True, groups=1, then=None, **options
):
    """A case of one convolution; sizes as given, weights to fit."""
    transposed = name.startswith("transposed")
    plain = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    turned = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    shape = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    tensors = [numbers(2, inputs, *space), numbers(*shape, *taps, scale=0.5)]
    if bias:
        tensors.append(numbers(outputs, seed=8))

    def forward(x, w, b=None):
        apply = turned if transposed else plain
        out = apply(x, w, b, groups=groups, **options)
        return out if then is None else then(out)

    return name, forward, tuple(tensors)


def convolution_cases():
    return [
        convolution("conv1d", 1, 3, 4, (17,), (3,)),
        convolution("conv1d_dilated", 1, 3, 4, (23,), (3,), stride=2, dilation=3, padding=2),
        convolution("conv2d", 2, 3, 4, (9, 11), (3, 3), padding=1),
        convolution(
            "conv2d_strided", 2, 3, 4, (9, 11), (3, 5), stride=(2, 3), padding=(1, 2), bias=False
        ),
        convolution("conv2d_point", 2, 5, 4, (7, 6), (1, 1)),
        convolution("conv2d_groups", 2, 6, 4, (9, 8), (3, 3), groups=2, padding=1),
        convolution("conv2d_depthwise", 2, 5, 5, (9, 8), (3, 3), groups=5, padding=1, stride=2),
        convolution("conv1d_depthwise_long", 1, 3, 3, (1500,), (5,), groups=3, padding=2),
        convolution("conv2d_depthwise_wide", 2, 2, 2, (9, 500), (3, 3), groups=2),
        convolution("conv2d_multiplied", 2, 3, 6, (9, 8), (3, 1), groups=3),
        convolution(
            "conv2d_relu_norm", 2, 3, 4, (9, 8), (3, 3), then=lambda x: F.group_norm(x.relu(), 2)
        ),
        convolution("conv2d_mean", 2, 3, 4, (9, 8), (3, 3), then=lambda x: x.mean((2, 3))),
        convolution("conv3d", 3, 2, 3, (5, 6, 7), (3, 2, 3), padding=1),
        convolution(
            "conv3d_strided",
            3,
            2,
            3,
            (5, 6, 7),
            (3, 3, 3),
            stride=2,
            padding=(1, 0, 2),
            dilation=(1, 2, 1),
        ),
        (
            "conv_of_padded_relu",
            lambda x, w: F.conv2d((x.relu() + 1), w, padding=1),
            (numbers(2, 3, 6, 7), numbers(4, 3, 3, 3)),
        ),
        ("conv_unbatched", F.conv2d, (numbers(3, 6, 7), numbers(4, 3, 3, 3))),
        (
            "conv_channels_last",
            lambda x, w: F.conv2d(x, w) * 2,
            (
                numbers(2, 8, 6, 7).contiguous(memory_format=torch.channels_last),
                numbers(4, 8, 3, 3),
            ),
        ),
    ]


def transposed_cases():
    return [
        convolution("transposed1d", 1, 3, 4, (9,), (3,)),
        convolution(
            "transposed1d_strided", 1, 3, 4, (9,), (5,), stride=3, padding=2, output_padding=1
        ),
        convolution("transposed1d_dilated", 1, 3, 4, (9,), (3,), stride=2, padding=1, dilation=3),
        # Where both share a factor, only some outputs meet an input at all.
        convolution("transposed1d_shared", 1, 3, 4, (9,), (3,), stride=2, dilation=2, padding=1),
        convolution(
            "transposed1d_shared_odd",
            1,
            3,
            4,
            (7,),
            (4,),
            stride=6,
            dilation=4,
            padding=5,
            output_padding=3,
        ),
        convolution(
            "transposed1d_sparser",
            1,
            3,
            4,
            (6,),
            (3,),
            stride=4,
            dilation=4,
            padding=5,
            output_padding=2,
        ),
        convolution(
            "transposed2d_shared", 2, 3, 4, (5, 6), (3, 2), stride=2, dilation=2, padding=(1, 0)
        ),
        convolution(
            "transposed1d_alone",
            1,
            3,
            4,
            (1,),
            (1,),
            stride=4,
            dilation=4,
            padding=1,
            output_padding=3,
        ),
        convolution("transposed1d_sparse", 1, 3, 4, (5,), (2,), stride=4, output_padding=1),
        convolution("transposed2d", 2, 3, 4, (5, 6), (3, 3), bias=False),
        convolution("transposed2d_strided", 2, 3, 4, (5, 6), (4, 4), stride=2, padding=1),
        convolution(
            "transposed2d_odd",
            2,
            3,
            4,
            (5, 6),
            (3, 5),
            stride=(2, 3),
            padding=(1, 2),
            output_padding=(1, 0),
        ),
        convolution("transposed2d_groups", 2, 4, 6, (5, 6), (3, 3), stride=2, groups=2, padding=1),
        convolution(
            "transposed2d_norm",
            2,
            3,
            4,
            (5, 6),
            (4, 4),
            stride=2,
            padding=1,
            then=lambda x: F.group_norm(x, 2).tanh(),
        ),
        convolution("transposed3d", 3, 2, 3, (3, 4, 5), (3, 3, 2), stride=2, padding=1),
        convolution(
            "transposed3d_mean",
            3,
            2,
            3,
            (3, 4, 5),
            (3, 3, 3),
            stride=(2, 1, 2),
            then=lambda x: x.mean(1),
        ),
    ]


VARIANTS = (
    CpuVariant("first", 0, 1, 64, 0, 1, "-O1"),
    CpuVariant("threads, narrow", -1, 2, 16, 0, 3, "-O1"),
)


class Contractions(KernelCases, unittest.TestCase):
    groups = (product_cases, attention_cases, convolution_cases, transposed_cases)
    variants = VARIANTS
    options = ("contractions",)


if __name__ == "__main__":
    unittest.main()
