"""Reports of a process that died of a fault."""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [PACKAGES]

from weft.candidate import fault  # noqa: E402

BEGIN = "import faulthandler; faulthandler.enable()\n"


def printed_by(text):
    """What a Python prints that runs it and dies."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + text], text=True, stderr=subprocess.PIPE, check=False
    )
    assert done.returncode < 0, done
    return done.stderr


class FaultTest(unittest.TestCase):
    def test_a_stack_that_is_full(self):
        told = fault.told(
            printed_by(
                "import functools, sys\n"
                "sys.setrecursionlimit(10**8)\n"
                "class Deep:\n"
                "    def __getattr__(self, name):\n"
                "        return functools.reduce(lambda a, b: self.more, [1, 2])\n"
                "Deep().more\n"
            )
        )
        self.assertIn("deeper than the stack holds", told)
        self.assertIn("<string>:6, in", told)

    def test_a_bad_address(self):
        told = fault.told(
            printed_by("import ctypes\ndef reads():\n    return ctypes.string_at(1)\nreads()\n")
        )
        self.assertIn("a fault in native code", told)

    def test_what_a_candidate_prints_is_no_fault(self):
        self.assertEqual(fault.told("42\nerror: none\n"), "")


if __name__ == "__main__":
    unittest.main()
