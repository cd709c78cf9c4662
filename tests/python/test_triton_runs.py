"""Whole runs for the `triton` target on a machine without a GPU: Triton's
interpreter proves the kernels, and nothing is timed.
"""

import csv
import os
import unittest

import weft_case
from weft_case import WeftCase, problem_with

NORM = problem_with(
    init="self.norm = nn.LayerNorm(33)",
    forward="return F.gelu(self.norm(x)) + x.softmax(-1)",
    inputs="[torch.rand(6, 33)]",
    head="import torch.nn.functional as F",
)

PRODUCT = problem_with(
    init="self.linear = nn.Linear(24, 17)",
    forward="return torch.relu(self.linear(x)).sum(1)",
    inputs="[torch.rand(18, 24)]",
)

CONVOLUTION = problem_with(
    init="self.conv = nn.Conv2d(3, 3, 3, padding=1, groups=3)",
    forward="return torch.amax(torch.tanh(self.conv(x)), (2, 3))",
    inputs="[torch.rand(2, 3, 6, 5)]",
)

# Large enough for the library to be given them channels last in TF32; the second
# with its window turned round.
TWO_CONVOLUTIONS = problem_with(
    init="self.first = nn.Conv3d(2, 4, 3, padding=1); "
    "self.second = nn.ConvTranspose3d(4, 4, (2, 3, 3), padding=(0, 1, 1))",
    forward="return torch.relu(self.second(torch.relu(self.first(x))))",
    inputs="[torch.randn(1, 2, 16, 32, 32)]",
)

# The library's convolution in bfloat16, statistics in float32, and a result
# that is widened again.
MIXED = problem_with(
    init="self.conv = nn.Conv2d(3, 4, 3); self.norm = nn.BatchNorm2d(4); "
    "self.head = nn.Linear(4, 5)",
    forward="""
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            x = F.gelu(self.norm(self.conv(x)))
            return self.head(x.mean((2, 3))).float()""",
    inputs="[torch.randn(2, 3, 12, 12)]",
    head="import torch.nn.functional as F",
)

# Float32 outside, bfloat16 inside: its own rounding is not the measure.
CAST = problem_with(
    forward="y = x.bfloat16(); return (F.gelu(y * y + y) * 3).float()",
    inputs="[torch.randn(13, 24)]",
    head="import torch.nn.functional as F",
)


# The second piece's inputs have three times the batch as their first dimension.
ROWS = problem_with(
    init="self.norm = nn.LayerNorm(11)",
    forward="""
        y = (x.tanh() * 2).reshape(-1, 11).sort(-1).values
        return (self.norm(y).softmax(-1) + y).reshape(x.shape)""",
    inputs="[torch.rand(16, 33)]",
)

# A sequence's rows are those of two products, and are what a third folds, which
# is the framework's. Its batch is that of all.
PRODUCTS = problem_with(
    init="self.first = nn.Linear(24, 18); self.second = nn.Linear(18, 20)",
    forward="""
        y = F.gelu(self.first(x.tanh()))
        context = (x * 2).transpose(1, 2) @ y
        return torch.relu(self.second(y)) + context.tanh().mean((1, 2))[
            :, None, None]""",
    inputs="[torch.rand(3, 19, 24)]",
    head="import torch.nn.functional as F",
)


class TritonRuns(WeftCase):
    def run_of(self, problem, *flags, name="run"):
        run = self.path(name)
        done = self.weft(
            "run",
            self.write("tiny.py", problem),
            "--out",
            run,
            "--target",
            "triton",
            "--variants",
            "1",
            "--no-compile-baseline",
            *flags,
            timeout=400,
            CUDA_VISIBLE_DEVICES="",
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return run

    def assert_proven(self, run):
        """Every kernel is right, and nobody claims to know how fast it is."""
        with open(os.path.join(run, "results.csv"), newline="", encoding="utf-8") as file:
            rows = {row["id"]: row for row in csv.DictReader(file)}
        self.assertEqual(rows.pop("model")["verdict"], "correct")
        rows.pop("extern", None)
        self.assertTrue(rows)
        with open(os.path.join(run, "report.md"), encoding="utf-8") as file:
            report = file.read()
        self.assertIn("not timed", report)
        for name in rows:
            source = os.path.join(run, "kernels", name, "kernel.py")
            with open(source, encoding="utf-8") as file:
                self.assertIn("triton.jit", file.read())
        return rows

    def kernels_of(self, run, names):
        """Their texts, one after the other."""
        texts = ""
        for name in names:
            source = os.path.join(run, "kernels", name, "kernel.py")
            with open(source, encoding="utf-8") as file:
                texts += file.read()
        return texts

    def test_a_norm_is_proven_in_the_interpreter(self):
        run = self.run_of(NORM)
        for row in self.assert_proven(run).values():
            self.assertEqual(row["eager_median_us"], "")
        self.assert_replays(run)

    def test_mixed_precision_is_proven(self):
        run = self.run_of(MIXED)
        rows = self.assert_proven(run)
        self.assertEqual({row["verdict"] for row in rows.values()}, {"proven"})
        texts = self.kernels_of(run, rows)
        self.assertIn(".to(tl.bfloat16)", texts)
        self.assertNotIn("tl.dot(", texts)

    def test_what_a_model_casts_is_held_against_float64(self):
        rows = self.assert_proven(self.run_of(CAST))
        self.assertEqual([row["kernel"] for row in rows.values()], ["ours"])

    def test_between_two_of_the_librarys_convolutions_channels_stay_last(self):
        run = self.run_of(TWO_CONVOLUTIONS, "--precision", "tf32")
        self.assertEqual(len(self.assert_proven(run)), 3)
        composed = os.path.join(run, "composed", "model_new.py")
        with open(composed, encoding="utf-8") as file:
            steps = [
                line.split(" = ")[0].strip() for line in file if line.startswith("            _t_")
            ]
        self.assertEqual(
            [step for step in steps if "weight" not in step and "window" not in step],
            [
                "_t_x_channels_last",
                "_t_convolution_without_bias_channels_last",
                "_t_relu_channels_last",
                "_t_convolution_1_without_bias_channels_last",
                "_t_relu_1",
            ],
        )
        self.assert_replays(run)

    @weft_case.long
    def test_kernels_for_any_batch_are_proven_at_several(self):
        run = self.run_of(ROWS, "--dynamic-batch")
        self.assertEqual(len(self.assert_proven(run)), 2)
        against = weft_case.held_against(run, "source")
        # Two kernels, and the module of them.
        self.assertEqual([len(each) for each in against.values()], [4, 4, 4])
        self.assert_replays(run)

    def test_products_for_any_batch_or_sequence_are_proven(self):
        # Along the sequence, one of them sums over it.
        for size in ("--dynamic-dim 1", "--dynamic-batch")[: 2 if weft_case.IS_LONG else 1]:
            with self.subTest(size):
                run = self.run_of(PRODUCTS, *size.split(), name=size.split()[0])
                rows = self.assert_proven(run)
                self.assertEqual({row["kernel"] for row in rows.values()}, {"ours"})
                texts = self.kernels_of(run, rows)
                self.assertIn("do_not_specialize", texts)
                self.assertEqual(texts.count("sums = tl.dot("), 3)
                with open(os.path.join(run, "composed", "model_new.py"), encoding="utf-8") as file:
                    text = file.read()
                self.assertNotIn("_matmul_default(", text)
                self.assert_replays(run)

    @weft_case.long
    def test_a_product_is_proven_in_the_interpreter(self):
        run = self.run_of(PRODUCT)
        self.assert_proven(run)
        self.assert_replays(run)

    @weft_case.long
    def test_a_convolution_is_proven_in_the_interpreter(self):
        run = self.run_of(CONVOLUTION)
        self.assert_proven(run)
        self.assert_replays(run)


if __name__ == "__main__":
    unittest.main()
