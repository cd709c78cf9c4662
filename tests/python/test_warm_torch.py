"""A suite that a warm process is asked for ends as one that loads PyTorch itself."""

import os
import subprocess
import sys
import time
import unittest

from weft_case import WeftCase

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = """import os, signal, sys, time, unittest
class One(unittest.TestCase):
    def test_it(self):
        {}
"""


class WarmTorch(WeftCase):
    def setUp(self):
        super().setUp()
        self.place = self.path("place")
        self.environment = {**os.environ, "WEFT_WARM_TORCH": self.place,
                            "PYTHONPATH": self.folder}
        self.write("torch.py", "")  # loaded in no time

    def warm(self, *words):
        subprocess.run([sys.executable, "-B", "warm_torch.py", self.place, *words],
                       cwd=HERE, env=self.environment, check=True, timeout=60)

    def begun(self, does):
        """run_suite.py with a suite that does that."""
        self.write("test_one.py", SUITE.format(does))
        return subprocess.Popen(
            [sys.executable, "-B", "run_suite.py", "test_one"], cwd=HERE,
            env=self.environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def ended(self, does):
        """(whether all is well, what it says)"""
        process = self.begun(does)
        told, _ = process.communicate(timeout=60)
        return process.returncode == 0, told

    def ends_as_it_should(self, is_warm):
        parent = f"self.assertEqual(os.getppid() == {os.getpid()}, {not is_warm})"
        self.assertEqual(self.ended(parent)[0], True)
        self.assertIn("OK", self.ended("pass")[1])
        is_well, told = self.ended("self.fail('it says why')")
        self.assertFalse(is_well)
        self.assertIn("it says why", told)
        self.assertFalse(self.ended("os.kill(os.getpid(), signal.SIGKILL)")[0])

    def test_it_is_told_how_a_suite_ended(self):
        self.warm()
        self.addCleanup(self.warm, "end")
        self.ends_as_it_should(is_warm=True)

    def test_without_a_warm_process_it_runs_itself(self):
        self.ends_as_it_should(is_warm=False)
        self.warm()
        self.warm("end")
        self.ends_as_it_should(is_warm=False)

    def test_what_a_suite_opens_stays_open(self):
        """Whatever the process that it is forked of had open, and forgets."""
        self.warm()
        self.addCleanup(self.warm, "end")
        others = [self.begun("time.sleep(600)") for _ in range(3)]
        self.addCleanup(lambda: [(one.kill(), one.communicate()) for one in others])
        time.sleep(1)
        self.assertEqual(self.ended(
            "import gc; opened = [os.pipe() for _ in range(9)]; gc.collect(); "
            "[os.fstat(fd) for pair in opened for fd in pair]")[1].count("OK"), 1)

    def test_a_suite_ends_with_who_asked_for_it(self):
        self.warm()
        self.addCleanup(self.warm, "end")
        pid = self.path("pid")
        process = self.begun(f"print(os.getpid(), file=open({pid!r}, 'w'), "
                             "flush=True); time.sleep(600)")
        end = time.monotonic() + 60
        while not os.path.exists(pid) or not os.path.getsize(pid):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        with open(pid, encoding="utf-8") as file:
            suite = f"/proc/{int(file.read())}"
        self.assertTrue(os.path.exists(suite))
        process.kill()
        process.communicate()
        while os.path.exists(suite):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
