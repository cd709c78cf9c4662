"""When the program has ended, so has all that it started: also a sandbox that takes
long to end, and at Ctrl-C."""

import os
import signal
import stat
import subprocess
import time
import unittest

import weft_case

#: In place of the sandbox's launcher: an oracle's sandbox takes long to end, and
#: whoever it is asked by. It lives on without its parent, as one that is slow does.
SLOW = """#!/bin/sh
case "$*" in *--status-fd*) exec {launcher} "$@";; esac
trap '' TERM INT HUP
{launcher} "$@"
sleep 60
"""
PATIENCE_S = 300


class RunEnd(weft_case.WeftCase):
    def setUp(self):
        super().setUp()
        self.slow = self.write(
            "slow-sandbox",
            SLOW.format(launcher=os.path.join(os.path.dirname(weft_case.WEFT), "weft-sandbox")),
        )
        os.chmod(self.slow, os.stat(self.slow).st_mode | stat.S_IXUSR)
        self.problem = self.write("problem.py", weft_case.problem_with())
        self.candidate = self.write(
            "candidate.py",
            """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.relu(x)
""",
        )

    def start(self, *words):
        return subprocess.Popen(
            [weft_case.WEFT, *words],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=weft_case.environment(WEFT_SANDBOX=self.slow),
        )

    def ends_alone(self, process, codes):
        said = "".join(process.communicate(timeout=PATIENCE_S))
        left = weft_case.processes_that_name(self.folder)
        self.assertEqual(left, {}, said)
        self.assertIn(process.returncode, codes, said)
        self.assertNotIn("still run", said)

    def until_sandboxed(self, process):
        """Until an oracle's sandbox runs."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and process.poll() is None:
            found = weft_case.processes_that_name(self.slow).values()
            if any(
                "weft-sandbox --scratch" in words and "--status-fd" not in words for words in found
            ):
                return
            time.sleep(0.05)
        self.fail("no sandbox of an oracle was started")

    def run_words(self, *more):
        return (
            "run",
            self.problem,
            "--out",
            os.path.join(self.folder, "run"),
            "--target",
            "cpu",
            *weft_case.QUICK,
            *more,
        )

    def test_a_run(self):
        self.ends_alone(self.start(*self.run_words()), {0})

    def test_an_evaluation(self):
        self.ends_alone(
            self.start("eval", self.problem, self.candidate, "--no-timing", "--target", "cpu"), {0}
        )

    def test_an_evaluation_in_the_oracle_s_own_sandbox(self):
        self.ends_alone(
            self.start(
                "eval",
                self.problem,
                self.candidate,
                "--untrusted-problem",
                "--no-timing",
                "--target",
                "cpu",
            ),
            {0},
        )

    def test_a_run_that_is_interrupted(self):
        process = self.start(*self.run_words())
        self.until_sandboxed(process)
        process.send_signal(signal.SIGINT)
        self.ends_alone(process, {130})

    def test_a_run_that_is_interrupted_twice(self):
        process = self.start(*self.run_words())
        self.until_sandboxed(process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        self.ends_alone(process, {130})


if __name__ == "__main__":
    unittest.main()
