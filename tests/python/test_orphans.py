"""A search ends with the process that started it, however that ends: nothing of it
runs three seconds later, and its folder is gone."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from weft_case import (
    ENVIRONMENT,
    ROOT,
    WEFT,
    WeftCase,
    events_of,
    long,
    processes_that_name,
)

#: What is promised.
GONE_S = 3.0
#: For a search to come to one of its stages on a busy machine.
STAGE_S = 240
#: The message that begins each stage.
STAGES = {
    "capture": "CaptureRequest",
    "build": "BuildRequest",
    "check": "CheckRequest",
    "time": "TimeRequest",
}
#: In the program that searches, once it is told to end.
WAYS = {
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "os._exit": "os._exit(1)",
    "abort": "os.abort()",
    "exit": "sys.exit()",
}
#: Calls a compiled module, whose search then goes on, and ends when it is told. A
#: child process that is there before, and one that is forked meanwhile, live on.
PROGRAM = """
import os, signal, subprocess, sys, time, torch
compiled = torch.compile(torch.nn.Sequential(
    torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)),
    backend="weft", options={"budget_s": 600, "cache": False, "target": "cpu"})
with torch.no_grad():
    compiled(torch.randn(4, 8))
print("called", flush=True)
time.sleep(0.5)
pid = os.fork() if "fork" in sys.argv else None
if pid == 0:
    time.sleep(600)
    os._exit(0)
if pid is not None:
    print(pid, flush=True)
sys.stdin.readline()
%s
"""


class Orphans(WeftCase):
    def begin(self, way, *words):
        """A program whose search is under way."""
        self.cache = os.path.join(self.folder, "cache")
        environment = {
            **os.environ,
            **ENVIRONMENT,
            "WEFT_CACHE_DIR": self.cache,
            "WEFT_BIN": WEFT,
            "WEFT_NICE": "0",
            "PYTHONPATH": os.path.join(ROOT, "python"),
        }
        process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                PROGRAM.replace(
                    '"weft", options', '__import__("weft.backend").backend.compile, options'
                )
                % WAYS[way],
                *words,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline().strip(), "called")
        return process

    def run_folder(self):
        """Of the search."""
        runs = os.path.join(self.cache, "runs")
        found = [
            one
            for one in (os.listdir(runs) if os.path.isdir(runs) else ())
            if one.startswith("run-")
        ]
        return os.path.join(runs, found[0], "run") if found else ""

    def until_stage(self, stage):
        until = time.monotonic() + STAGE_S
        while time.monotonic() < until:
            run = self.run_folder()
            if run and os.path.exists(os.path.join(run, "journal.db")):
                try:
                    events = events_of(run)
                except subprocess.CalledProcessError:
                    events = []
                if any(one["type"] == STAGES[stage] for one in events):
                    # What runs in a box does not say more of whose it is.
                    self.boxes = [
                        name for name in os.listdir("/dev/shm") if name.startswith("weft-")
                    ]
                    return
            time.sleep(0.1)
        self.fail(f"the search did not come to its stage {stage}")

    def scratch(self):
        """Of runs in memory, whose owner is gone."""
        return [
            name
            for name in self.boxes
            if name in os.listdir("/dev/shm") and not os.path.exists("/proc/" + name.split("-")[1])
        ]

    def processes(self, spared):
        """Of the search: those that name its folder, and its boxes'."""
        dead = [name for name in self.boxes if not os.path.exists("/proc/" + name.split("-")[1])]
        return {
            pid: words
            for pid, words in processes_that_name(self.folder, *dead).items()
            if pid not in spared
        }

    def assert_gone(self, spared=()):
        begin, left = time.monotonic(), {}
        while time.monotonic() < begin + GONE_S:
            left = self.processes(spared)
            if not left and not self.run_folder():
                break
            time.sleep(0.05)
        self.assertEqual(left, {})
        self.assertEqual(self.run_folder(), "")

    def check(self, way, stage):
        with self.subTest(way=way, stage=stage):
            self.folder = tempfile.mkdtemp(prefix="weft-orphan-", dir=self.root)
            process = self.begin(way)
            self.until_stage(stage)
            process.stdin.close()
            process.wait(60)
            self.assert_gone()
            self.assertEqual(self.scratch(), [])

    def setUp(self):
        super().setUp()
        self.root = self.folder

    def test_a_search_ends_with_its_program(self):
        self.check("SIGKILL", "capture")
        self.check("os._exit", "check")
        self.check("exit", "build")

    @long
    def test_a_search_ends_with_its_program_in_each_stage(self):
        for way in WAYS:
            for stage in STAGES:
                self.check(way, stage)

    def test_a_forked_child_does_not_keep_its_parent_s_search_alive(self):
        process = self.begin("SIGKILL", "fork")
        child = int(process.stdout.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.until_stage("capture")
        process.stdin.close()
        process.wait(60)
        self.assert_gone(spared=(child,))
        os.kill(child, 0)  # it is there

    @long
    def test_a_killed_keeper_takes_the_search_along(self):
        """Of `weft attached`, which is killed instead of the program."""
        process = self.begin("exit")
        self.until_stage("check")
        keepers = [
            pid for pid, words in processes_that_name(self.folder).items() if " attached " in words
        ]
        self.assertEqual(len(keepers), 1)
        os.kill(keepers[0], signal.SIGKILL)
        self.assert_gone(spared=(process.pid,))
        process.stdin.close()
        process.wait(60)


if __name__ == "__main__":
    unittest.main()
