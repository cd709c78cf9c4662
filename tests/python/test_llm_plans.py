"""Decisions of a language model other than kernels, by the user's choice: how a
model is cut, which kernels become one, and what a description means."""

import os
import subprocess
import unittest

from llm_case import RIGHT, TRITON, LlmCase, kernel
from llm_server import LlmServer
from weft_case import WEFT

RELU = "tl.where(v != v, v, tl.where(v > 0, v, 0.0))"

REFERENCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * FACTOR


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return []
"""


def reference(factor, text=REFERENCE):
    return f"```python\n{text.replace('FACTOR', str(factor))}```\n"


class LlmPlans(LlmCase):
    def test_cut_by_the_model_and_fused_again(self):
        try:
            import triton  # noqa: F401
        except ImportError:
            self.skipTest("no triton here")
        cuts = [
            '{"groups": [["relu", "nobody"]]}',
            'So:\n```json\n{"groups": [["relu"], ["mul"]]}\n```\n',
        ]
        prompts = []

        def answer(call):
            prompts.append(call.prompt)
            if "Partition a PyTorch model" in call.prompt:
                return cuts.pop(0)
            asked = call.prompt.split("The subgraph to replace")[1]
            if "aten.relu" in asked and "aten.mul" in asked:
                return kernel(RELU + " * 2", TRITON)
            body = RELU if "aten.relu" in asked else "v * 2"
            return kernel(body, TRITON)

        with LlmServer(answer) as server:
            done = self.run_weft(
                self.words(
                    server, "--target", "triton", "--rounds", "1", "--llm-groups", "--llm-fuses"
                )
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("names 'nobody'", prompts[1])
        self.assertIn('{"groups": [["relu", "nobody"]]}', prompts[1])
        # Scalars of calls are shown.
        self.assertIn("aten.mul.Tensor(relu, 2)", prompts[0])
        self.assertIn("2 subgraphs (2 distinct)", done.stdout + done.stderr)
        self.assertIn("These 2 kernels do the work now", prompts[-1])
        self.assertEqual(len(prompts), 5)
        # One kernel is what is left, and the report tells of all calls.
        self.assertIn("generated kernels for 1 of 1 distinct subgraphs", self.report())
        self.assertIn("In all: 3 calls", self.report())
        self.it_replays()

    def describe(self, server, *more):
        return [
            WEFT,
            "run",
            "--describe",
            "twice the positive part of an 8 by 16 matrix",
            *self.flags(server, "--samples", "1", "--rounds", "0", *more),
        ]

    def test_a_model_in_plain_words(self):
        texts = [reference(2), reference(3), reference(2), reference(2)]
        prompts = []

        def answer(call):
            if "Write the reference for a computation" in call.prompt:
                prompts.append(call.prompt)
                return texts.pop(0)
            return kernel(RIGHT)

        with LlmServer(answer) as server:
            done = self.run_weft(self.describe(server, "--yes"))
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("independent reference disagrees", said)
        self.assertIn("torch.relu(x) * 2", done.stdout)
        self.assertEqual(len(prompts), 4)
        self.assertIn("did not agree", prompts[2])
        self.assertIn("verified", self.report())
        self.it_replays("run/describe-1")

    def test_nothing_runs_that_nobody_has_read(self):
        texts = [reference(2, "import os\n" + REFERENCE)] * 2

        def answer(call):
            return texts.pop() if texts else reference(2)

        with LlmServer(answer) as server:
            done = self.run_weft(self.describe(server), stdin=subprocess.DEVNULL)
            self.assertEqual(len(server.calls), 4)
            self.assertIn("imports os", server.calls[2].prompt)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("pass --yes", done.stderr)
        self.assertTrue(
            os.path.exists(os.path.join(self.folder, "run", "describe-2", "problem.py"))
        )
        self.assertFalse(os.path.exists(os.path.join(self.folder, "run", "journal.db")))


if __name__ == "__main__":
    unittest.main()
