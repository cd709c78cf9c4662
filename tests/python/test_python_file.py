"""Rules for a language model's file: what they forbid and allow."""

import unittest

from weft.build import python_file
from weft.build.python_file import Refused

HEAD = "import torch\nimport triton\n\n\n@triton.jit\ndef k(x):\n    pass\n\n\n"


class PythonFile(unittest.TestCase):
    def refused(self, text, words):
        with self.assertRaises(Refused) as raised:
            python_file.check(text)
        self.assertIn(words, str(raised.exception))

    def test_kernels_of_ones_own_pass(self):
        python_file.check(
            HEAD + "def kernel_function(x):\n    y = torch.empty_like(x)\n"
            "    k[(1,)](x)\n    return y.view(-1)\n"
        )
        python_file.check(
            "import torch\nfrom torch.utils.cpp_extension import load_inline\n"
            "kernel_function = load_inline('a', '').run\n"
        )
        python_file.check(
            "import ctypes\nrun = ctypes.CDLL('a.so').run\n"
            "def kernel_function(x):\n    return run(x)\n"
        )

    def test_the_frameworks_operators_by_any_name(self):
        for line in (
            "torch.relu(x)",
            "torch.nn.functional.relu(x)",
            "torch.matmul(x, x)",
            "torch.ops.aten.relu(x)",
            "torch.compile(k)(x)",
            "torch._C._nn.gelu(x)",
        ):
            self.refused(HEAD + f"def kernel_function(x):\n    return {line}\n", "line 11: torch.")
        for line, name in (
            ("from torch import matmul as m", "torch.matmul"),
            ("import torch.nn.functional as F", "torch.nn"),
            ("from torch.nn import functional", "torch.nn"),
        ):
            self.refused(HEAD + f"{line}\ndef kernel_function(x):\n    return x\n", name)

    def test_text_that_nobody_has_read(self):
        for word in ("eval", "exec", "__import__"):
            self.refused(HEAD + f"def kernel_function(x):\n    {word}('x')\n", f"{word} runs text")
        self.refused(
            HEAD + "import os\ndef kernel_function(x):\n    os._exit(0)\n", "ends the process"
        )

    def test_no_file_at_all(self):
        self.refused("def kernel_function(x:\n", "line 1: SyntaxError")
        self.refused(HEAD, "no kernel_function")
        self.refused("def kernel_function(x):\n    return x\n", "of its own")
        self.refused("\0", "Error")
        self.refused("x = 1\n" * 100_000, "longer than")

    def test_a_name_in_a_text_or_a_comment_is_none(self):
        python_file.check(
            HEAD + "# torch.relu\ndef kernel_function(x):\n    'torch.matmul'\n    return x\n"
        )


if __name__ == "__main__":
    unittest.main()
