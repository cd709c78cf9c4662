"""clang-format changes no C++ file, and ruff no Python file. ruff finds no fault either, also
in the Python that weft prints or runs from its programs."""

import os
import re
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


def ruff(*words):
    """What it prints where it finds something, else ""."""
    tool = os.path.join(os.path.dirname(sys.executable), "ruff")
    if not os.path.exists(tool):
        return "pip install ruff (tools/setup does)"
    done = subprocess.run(
        [tool, *words, "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout[:4000] + done.stderr[:4000] if done.returncode else ""


class Format(unittest.TestCase):
    def test_nothing_would_change(self):
        tool = shutil.which("clang-format-19")
        self.assertIsNotNone(tool, "install clang-format-19 (tools/setup does)")
        done = subprocess.run(
            [tool, "--dry-run", "--Werror", *sorted(sources())],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def test_ruff_finds_nothing(self):
        self.assertEqual(ruff("check", "--no-cache"), "")

    def test_ruff_would_change_nothing(self):
        self.assertEqual(ruff("format", "--no-cache", "--check"), "")

    def test_the_hooks_before_a_commit_have_the_same_ruff(self):
        with open(os.path.join(ROOT, ".pre-commit-config.yaml"), encoding="utf-8") as file:
            hooks = file.read()
        with open(os.path.join(ROOT, "tools", "setup"), encoding="utf-8") as file:
            installed = re.findall(r"ruff==([\d.]+)", file.read())
        self.assertEqual(re.findall(r"ruff-pre-commit\n\s+rev: v(.*)", hooks), installed)
        self.assertIn("id: ruff-format", hooks)


if __name__ == "__main__":
    unittest.main()
