#!/usr/bin/env python3
"""Runs the last check of the user's process on a GPU: deep nets in half precision,
with Inductor's code in the place of kernels, forward and backward.

    python3 tests/gpu/last_check.py

needs PyTorch with CUDA and Triton; exit code 0 if exact code passes, in every kind of
attention, and wrong results do not.
"""

import os
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/python"), os.path.join(ROOT, "python")]

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import test_first_result_check as cases  # noqa: E402
from weft.backend.graphs import random_state
from weft.backend.implementations import first_result_check  # noqa: E402

WIDTH, HEADS, LENGTH, BATCH, DEPTH = 768, 12, 512, 4, 6
KINDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(x.shape))
        return x + self.down(
            torch.nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh")
        )


def net_and_inputs(dtype):
    torch.manual_seed(0)
    blocks = [Block() for _ in range(DEPTH)]
    net = torch.nn.Sequential(*blocks, torch.nn.LayerNorm(WIDTH)).cuda().to(dtype)
    return net, torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=dtype)


class OnGpu(cases.Checked):
    def check_with(self, function, *arguments, precision=""):
        arguments = [one.detach() for one in arguments]
        with torch.no_grad():
            graph = cases.make_fx(function, tracing_mode="fake")(*arguments)
            eager = list(graph(*arguments))
            compiled = torch.compile(lambda *given: graph(*given))
            got = [one.clone() for one in compiled(*arguments)]
        check = first_result_check.Check(graph, arguments, precision)
        before = random_state.random_states(arguments)
        torch.cuda.synchronize()
        begin, peak = time.monotonic(), torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        why = check.why_not(eager, got)
        print(
            f"{time.monotonic() - begin:.2f} s, "
            f"{(torch.cuda.max_memory_allocated() - peak) >> 20} MiB, "
            f"by slack alone: {first_result_check.difference(eager, got)!r}",
            file=sys.stderr,
        )
        self.assertEqual(why, "")
        after = random_state.random_states(arguments)
        self.assertTrue(torch.equal(before[0], after[0]))
        self.assertTrue(torch.equal(before[1][0][1], after[1][0][1]))
        wrong = [one.clone() for one in got]
        wrong[0] = wrong[0].roll(1, -1)
        self.assertIn("an error of", check.why_not(eager, wrong))
        self.assertIn("an error of", check.why_not(eager, [one * 1.1 for one in got]))

    def test_forward(self):
        for name, kind in KINDS.items():
            with self.subTest(name), sdpa_kernel(kind):
                net, x = net_and_inputs(torch.bfloat16)
                self.check_with(cases.flat(net), x, *net.parameters())

    def test_forward_and_backward(self):
        for name, kind in KINDS.items():
            with self.subTest(name), sdpa_kernel(kind):
                net, x = net_and_inputs(torch.bfloat16)
                self.check_with(cases.gradients(net), torch.randn_like(x), x, *net.parameters())

    def test_float32_products_that_may_be_tf32(self):
        def convolved(x, y):
            return [torch.relu(torch.nn.functional.conv2d(x, y)) @ x[0, 0, :30, :30]]

        self.check_with(
            convolved,
            torch.randn(8, 32, 32, 32, device="cuda"),
            torch.randn(32, 32, 3, 3, device="cuda"),
            precision="tf32",
        )


if __name__ == "__main__":
    unittest.main()
