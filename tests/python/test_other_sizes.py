"""benchmarks/other_sizes.py: the same problems in other sizes."""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import other_sizes  # noqa: E402

CONVOLUTION = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, channels, out, kernel_size, groups):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel_size, groups=groups)

    def forward(self, x):
        return self.conv(x)

batch_size = 16  # of images
in_channels, out_channels = 32, 64
kernel_size = 3
num_groups = 8
width = height = 8 * 8

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
"""

PRODUCT = """
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b

M, K = 256, 1024
rows = 1024  # the same as K, under another name
dim = 1

def get_inputs():
    return [torch.rand(M, K), torch.rand(rows, M)]

def get_init_inputs():
    return []
"""

#: There is only one size that this takes.
STUBBORN = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        assert x.shape == (64, 32)
        return x

batch_size, features = 64, 32

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return []
"""


def values_of(text):
    names = {}
    exec(text, names)
    return names


class OtherSizes(unittest.TestCase):
    def test_sizes_change_and_nothing_else(self):
        made = other_sizes.in_other_sizes(CONVOLUTION, "a.py")
        one, two = values_of(CONVOLUTION), values_of(made)
        self.assertNotEqual(one["batch_size"], two["batch_size"])
        self.assertTrue(other_sizes.is_prime(two["batch_size"]))
        for name in ("kernel_size", "num_groups"):
            self.assertEqual(one[name], two[name])
        self.assertNotEqual(one["in_channels"], two["in_channels"])
        self.assertEqual(two["in_channels"] % 8, 0)  # what the groups divide
        self.assertIn("  # of images", made)
        self.assertEqual(len(CONVOLUTION.splitlines()), len(made.splitlines()))

    def test_the_model_runs_in_them(self):
        names = values_of(other_sizes.in_other_sizes(CONVOLUTION, "b.py"))
        model = names["Model"](*names["get_init_inputs"]())
        self.assertEqual(model(*names["get_inputs"]()).shape[0], names["batch_size"])

    def test_what_has_two_names_changes_under_both(self):
        names = values_of(other_sizes.in_other_sizes(PRODUCT, "c.py"))
        self.assertEqual(names["K"], names["rows"])
        self.assertNotEqual(names["K"], 1024)
        self.assertEqual(names["dim"], 1)

    def test_the_work_stays_about_the_same(self):
        for text in (CONVOLUTION, PRODUCT):
            made = other_sizes.in_other_sizes(text, "d.py")
            share = other_sizes.input_bytes(made) / other_sizes.input_bytes(text)
            self.assertTrue(0.3 <= share <= 1.25, share)

    def test_it_is_the_same_each_time(self):
        self.assertEqual(
            other_sizes.in_other_sizes(PRODUCT, "e.py"), other_sizes.in_other_sizes(PRODUCT, "e.py")
        )

    def test_what_takes_no_other_size_is_left_out_and_told(self):
        self.assertIsNone(other_sizes.in_other_sizes(STUBBORN, "f.py"))
        with tempfile.TemporaryDirectory() as folder:
            level = os.path.join(folder, "KernelBench", "level2")
            os.makedirs(level)
            for name, text in (("1_Product.py", PRODUCT), ("2_Stubborn.py", STUBBORN)):
                with open(os.path.join(level, name), "w", encoding="utf-8") as file:
                    file.write(text)
            out = os.path.join(folder, "out")
            done = subprocess.run(
                [sys.executable, other_sizes.__file__, folder, out],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1 problems in other sizes", done.stdout)
            self.assertIn("2_Stubborn.py", done.stdout)
            made = os.path.join(out, "KernelBench", "level2")
            self.assertEqual(os.listdir(made), ["1_Product.py"])

    def test_numbers_that_are_no_sizes_stay(self):
        places = other_sizes.sizes_in(
            "kernel_size = 64\nstride = 16\nseed = 99\neps = 1\nheight = 64\nshape = (128, 1)\n"
        )
        self.assertEqual([(p.name, p.value) for p in places], [("height", 64), ("shape", 128)])


if __name__ == "__main__":
    unittest.main()
