"""Garbage collection in processes of weft's own: rare while they import, and as before in a
user's process."""

import subprocess
import sys
import unittest

from weft.device import garbage

#: Prints how a process collects.
SAY = "import gc; print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 0)"


def said_after(*statements: str) -> str:
    """By a process that does these first."""
    program = "\n".join([*statements, SAY])
    done = subprocess.run(
        [sys.executable, "-c", program],
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


class Garbage(unittest.TestCase):
    def test_nothing_is_collected_within_imports_and_what_they_made_stays(self) -> None:
        within = "with garbage.deferred_collection(): assert not gc.isenabled()"
        told = said_after("import gc", "from weft.device import garbage", within)
        self.assertEqual(told, "True 700 True")

    def test_an_import_that_fails_leaves_collections_on(self) -> None:
        told = said_after(
            "from weft.device import garbage",
            "try:\n    with garbage.deferred_collection(): import no_such_module",
            "except ImportError: pass",
        )
        self.assertEqual(told, "True 700 True")

    def test_a_capture_s_process_collects_rarely(self) -> None:
        told = said_after(
            "from weft.capture import capture",
            "capture.main = lambda tell: True",
            "capture.run()",
        )
        self.assertEqual(told, f"True {garbage.NEW_OBJECTS} False")

    def test_a_user_s_process_is_left_alone(self) -> None:
        told = said_after("import weft, weft.backend, weft.capture.capture")
        self.assertEqual(told, "True 700 False")


if __name__ == "__main__":
    unittest.main()
