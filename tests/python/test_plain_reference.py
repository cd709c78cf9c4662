"""Which references of a language model's pass the first filter."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

from weft.problem import plain_reference  # noqa: E402

HEAD = """import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from typing import Optional

class Model(nn.Module):
    \"\"\"What it computes.\"\"\"
    def __init__(self, size: int = 4):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.scale = nn.Parameter(torch.ones(size))
        self.register_buffer("mask", torch.zeros(size, dtype=torch.bool))
        self._eps = 1e-5

    def forward(self, x, y: Optional[torch.Tensor] = None):
"""
TAIL = """

def get_inputs():
    return [torch.randn(4, 4)]

def get_init_inputs():
    return [4]
"""
PLAIN = [
    "return F.softmax(self.linear(x) * self.scale, dim=-1)",
    "return x.masked_fill(self.mask, float('-inf')).max(dim=-1).values",
    "return torch.fft.rfft(x).abs().to(torch.float16).contiguous()",
    "return torch.linalg.vector_norm(x, dim=1) / math.sqrt(x.shape[-1]) + self._eps",
    "a, b = [t.view(t.size(0), -1) for t in (x, x)]; return torch.cat([a, b], dim=0)",
    "assert x.dim() == 2, f'{x.shape}'\n        return x.add_(1) if self.training else x",
    "with torch.no_grad():\n            return torch.zeros_like(x, device=x.device)",
    "return nn.functional.gelu(x) + torch.nn.functional.relu(x)",
]
#: As bodies of forward().
FOREIGN = [
    # Names that the file binds elsewhere, and attributes that it calls its own.
    "eval = 1; return x",
    "for open in []: pass\n        open('/tmp/x', 'w'); return x",
    "return [getattr for getattr in x]",
    "self.gi_frame = self.f_builtins = 1\n"
    "        return (a for a in x).gi_frame.f_builtins['eval']('1')",
    "self.from_file = 1; x.untyped_storage().from_file('/tmp/x', True, 9); return x",
    "self.tofile = 1; x.numpy().tofile('/tmp/x'); return x",
    "self.format = 1; return '{0.__class__}'.format(x)",
    "self.format_map = 1; return '{x.__class__}'.format_map({'x': x})",
    "torch.os.system('id'); return x",
    "torch.sys.modules; return x",
    "torch.hub.load('a', 'b'); return x",
    "torch.load('x'); return x",
    "torch.save(x, '/tmp/x'); return x",
    "torch.ops.aten.relu(x); return x",
    "torch.utils.cpp_extension.load('x'); return x",
    "nn.modules.module.torch.os.system('id'); return x",
    "F.torch.os.system('id'); return x",
    "F.os.system('id'); return x",
    "math.__loader__; return x",
    "return x.__class__.__base__.__subclasses__()",
    "return (lambda: 0).__globals__",
    "return self.forward.__func__",
    "return getattr(torch, 'os')",
    "return eval('1')",
    "return open('/etc/passwd')",
    "return __import__('os')",
    "import os; return x",
    "from os import system; return x",
    "import torch.os as o; return x",
    "from torch import os; return x",
    "from torch import *; return x",
    "from . import secrets; return x",
    "t = torch; return t.os.system('id')",
    "for t in [torch]: t.os.system('id')",
    "return [m for m in (torch, math)]",
    "torch.relu = print; return x",
    "return torch.from_file('/etc/passwd', size=1)",
    "return x.storage().from_file('/etc/passwd')",
    "return '{0.__class__}'.format(x)",
    "return f'{x.__class__}'",
    "global Model; return x",
    "try:\n            return x\n        except Exception:\n            return x",
    "yield x",
    "return torch.compile(self)(x)",
    "return torch.jit.script(self)",
    "return x.map_(x, lambda a, b: a)",
    "return torch.classes.x",
    "return self.system(x)",
    "del torch.os; return x",
    "match x:\n            case torch.os: return x",
]
WHOLE = [
    "",
    "\0",
    "(" * 3000,
    "def f(:\n",
    "x = 1\n" * 60_000,
    "-" * 100_000 + "1",
    "import torch as __builtins__\n",
]


class PlainReference(unittest.TestCase):
    def test_what_computes_is_plain(self):
        for body in PLAIN:
            with self.subTest(body):
                self.assertEqual(plain_reference.fault_of(f"{HEAD}        {body}{TAIL}"), "")

    def test_the_examples_are_plain(self):
        folder = os.path.join(ROOT, "examples")
        names = [name for name in os.listdir(folder) if name.endswith(".py")]
        self.assertGreater(len(names), 5)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            if "def get_inputs" not in text:
                continue
            with self.subTest(name):
                self.assertEqual(plain_reference.fault_of(text), "")

    def test_what_reaches_beyond_is_not(self):
        for body in FOREIGN:
            with self.subTest(body):
                self.assertNotEqual(plain_reference.fault_of(f"{HEAD}        {body}{TAIL}"), "")

    def test_files_that_are_hard_to_parse_end_nothing(self):
        for text in WHOLE:
            with self.subTest(text[:20]):
                plain_reference.fault_of(text)  # an answer, whichever

    def test_the_fault_names_its_line(self):
        fault = plain_reference.fault_of(f"{HEAD}        torch.os.abort(){TAIL}")
        self.assertIn("line 17 uses torch.os", fault)


class Imports(unittest.TestCase):
    def test_only_types_are_imported_to_annotate_with(self):
        for line in (
            "from typing import sys",
            "from typing import get_type_hints",
            "from typing import _eval_type",
            "from typing import re as eval",
            "from collections.abc import _sys",
            "from typing import List as open",
            "from torch import relu as eval",
        ):
            with self.subTest(line):
                self.assertTrue(plain_reference.fault_of(line + "\n"))
        for line in (
            "from typing import List, Optional",
            "from __future__ import annotations",
            "from collections.abc import Sequence",
        ):
            self.assertEqual(plain_reference.fault_of(line + "\n"), "")


if __name__ == "__main__":
    unittest.main()
