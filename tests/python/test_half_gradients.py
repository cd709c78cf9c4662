"""The gradients of test_gathered_gradients in 16 bits, which only GPUs' targets have:
Triton's kernels in its interpreter, CUDA's on the processor, against PyTorch's, which rounds
what each operator gives."""

import triton_kernels  # noqa: F401  first: it tells Triton to interpret

import unittest

import torch

import test_gathered_gradients as gathered
from cuda_on_host import CudaVariant
from kernel_cases import KernelCases
from test_triton_kernels import Interpreted
from triton_kernels import TritonVariant

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
#: Of every group: what differs in how it sums, reads, or chooses.
NAMES = (
    "d_replicate_2d",
    "d_reflect_2d",
    "d_reflect_cut",
    "d_replicate_then",
    "d_adaptive_mean_uneven",
    "d_adaptive_mean_even",
    "adaptive_max_uneven",
    "d_adaptive_max_uneven",
    "d_adaptive_max_ties",
    "d_upsample_nearest2d_odd",
    "d__upsample_nearest_exact2d_fewer",
    "d_upsample_bilinear2d_twice",
    "d_upsample_bilinear2d_odd_True",
    "d_upsample_bilinear2d_odd_False",
    "d_upsample_linear1d_twice",
    "d_embedding",
    "d_embedding_padded",
    "d_embedding_small",
    "d_embedding_frequency",
    "put_zeros",
    "put_one_over",
    "put",
    "put_relu",
    "put_two",
    "put_alike",
    "index_add",
    "index_add_last",
    "scatter_add",
    "scatter_add_last",
)


def half_cases():
    cases = {case[0]: case for group in gathered.GROUPS for case in group()}
    return [
        (
            f"{name}_{label}",
            cases[name][1],
            tuple(one.to(dtype) if one.is_floating_point() else one for one in cases[name][2]),
        )
        for name in NAMES
        for label, dtype in DTYPES.items()
    ]


class TritonHalfGradients(Interpreted, unittest.TestCase):
    groups = (half_cases,)
    variants = (TritonVariant("first", 0, 1, multiprocessors=132),)


class CudaHalfGradients(KernelCases, unittest.TestCase):
    groups = (half_cases,)
    variants = (CudaVariant("first", 0, 1, multiprocessors=132),)


if __name__ == "__main__":
    unittest.main()
