"""Every C++ file is as clang-format leaves it."""

import os
import shutil
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("actors", "benchmarks", "compiler", "config", "messages", "runtime", "tests", "tools")


def sources():
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in names:
                if name.endswith((".cpp", ".hpp")):
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


if __name__ == "__main__":
    unittest.main()
