"""A composed Triton module under plain TRITON_INTERPRET=1 rounds to bfloat16 as a
GPU does where the package weft is installed, and warns where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest

from weft_case import ROOT

LOADER = os.path.join(ROOT, "compiler", "triton", "python", "loader.py")
SCRIPT = """
import sys
with open(sys.argv[1], encoding="utf-8") as file:
    exec(file.read())
_weft_correct_interpreter(sys.argv[2])
from triton.runtime import interpreter
print("rounds" if hasattr(interpreter._convert_float, "func") else "truncates")
"""


def loaded(kernel: str, python_path: str) -> subprocess.CompletedProcess[str]:
    """The result of a process that opens such a kernel. Without a path it does not find
    the package weft, even if that is installed."""
    with tempfile.TemporaryDirectory() as folder:
        if not python_path:
            python_path = folder
            with open(os.path.join(folder, "weft.py"), "w", encoding="utf-8") as file:
                file.write("raise ModuleNotFoundError('no weft here')")
        return subprocess.run(
            [sys.executable, "-c", SCRIPT, LOADER, kernel],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": python_path},
        )


class InterpretedRounding(unittest.TestCase):
    def test_with_the_package_the_interpreter_rounds(self) -> None:
        done = loaded("x.to(tl.bfloat16)", os.path.join(ROOT, "python"))
        self.assertEqual((done.stdout, done.stderr), ("rounds\n", ""))

    def test_without_it_a_module_of_bfloat16_warns(self) -> None:
        done = loaded("x.to(tl.bfloat16)", "")
        self.assertEqual(done.stdout, "truncates\n")
        self.assertIn("truncates to bfloat16 where a GPU rounds", done.stderr)

    def test_other_modules_do_not_warn(self) -> None:
        self.assertEqual(loaded("x.to(tl.float16)", "").stderr, "")


if __name__ == "__main__":
    unittest.main()
