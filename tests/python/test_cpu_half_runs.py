"""Whole runs for the `cpu` target in bfloat16 and float16: a model of halves, and one under
autocast, whose conversions are operators like any other.
"""

import csv
import os
import unittest

from weft_case import WeftCase, problem_with


# Odd rows of bfloat16; a second result in float16.
NORM = problem_with(
    init="self.norm = nn.LayerNorm(33).to(torch.bfloat16)",
    forward="return F.gelu(self.norm(x)) + x.softmax(-1), (x.half() * 3).tanh()",
    inputs="[torch.rand(60, 33).to(torch.bfloat16)]",
    head="import torch.nn.functional as F",
)

# Products in bfloat16 by PyTorch; the norm and the softmax in float32.
AUTOCAST = problem_with(
    init="self.norm = nn.LayerNorm(24); self.up = nn.Linear(24, 40); self.down = nn.Linear(40, 24)",
    forward="""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = F.silu(self.up(self.norm(x)))
            return x + self.down(y * y.softmax(-1))""",
    inputs="[torch.randn(50, 24)]",
    head="import torch.nn.functional as F",
)


class CpuHalfRuns(WeftCase):
    def kernels_of(self, problem):
        """The rows of the subgraphs' kernels, all of them right, and the kernels' texts."""
        run = self.path("run")
        done = self.weft(
            "run",
            self.write("tiny.py", problem),
            "--out",
            run,
            "--target",
            "cpu",
            "--variants",
            "1",
            "--timing-ms",
            "10",
            "--final-timing-ms",
            "0",
            "--no-compile-baseline",
            timeout=400,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(run, "results.csv"), newline="", encoding="utf-8") as file:
            rows = {row["id"]: row for row in csv.DictReader(file)}
        self.assertEqual(rows.pop("model")["verdict"], "correct")
        rows.pop("extern", None)
        self.assertTrue(rows)
        texts = []
        for name, row in rows.items():
            self.assertNotIn(row["verdict"], ("wrong", "failed", ""), row)
            source = os.path.join(run, "kernels", name, "kernel.py")
            with open(source, encoding="utf-8") as file:
                texts.append(file.read())
        return texts

    def test_a_model_of_halves(self):
        text = "".join(self.kernels_of(NORM))
        self.assertIn("uint16_t* __restrict out0", text)
        self.assertIn(" to_bfloat16(x", text)
        self.assertIn(" to_float16(x", text)

    def test_conversions_of_autocast_are_in_kernels(self):
        texts = self.kernels_of(AUTOCAST)
        self.assertTrue(any("nearest_bfloat16(x" in text for text in texts))


if __name__ == "__main__":
    unittest.main()
