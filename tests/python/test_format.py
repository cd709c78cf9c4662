"""Every C++ file is as clang-format leaves it; no Python file has a fault that
ruff sees, those that weft prints or runs from its programs included."""

import os
import shutil
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("actors", "benchmarks", "compiler", "config", "messages", "runtime", "tests", "tools")


def sources():
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in names:
                if name.endswith((".cpp", ".hpp", ".cuh")):
                    yield os.path.join(folder, name)


class Format(unittest.TestCase):
    def test_nothing_would_change(self):
        tool = shutil.which("clang-format-19")
        self.assertIsNotNone(tool, "install clang-format-19 (tools/setup does)")
        done = subprocess.run(
            [tool, "--dry-run", "--Werror", *sorted(sources())],
            capture_output=True, text=True, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def test_ruff_finds_nothing(self):
        tool = os.path.join(os.path.dirname(sys.executable), "ruff")
        self.assertTrue(os.path.exists(tool), "pip install ruff (tools/setup does)")
        done = subprocess.run([tool, "check", "--no-cache", "."], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[:4000])


if __name__ == "__main__":
    unittest.main()
