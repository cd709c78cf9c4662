"""Folders that a killed process left are removed by the next one."""

import os
import signal
import subprocess
import sys
import time
from unittest import mock

from backend_case import FAKE, WAIT_S, BackendCase

import weft
from weft.backend import options
from weft.backend.searches import search, work_folders

#: Makes a folder, says which, and stays.
SCRIPT = """
import time
from weft.backend.searches import work_folders
with work_folders.made("verdict-") as path:
    print(path, flush=True)
    time.sleep(600)
"""


class Workspaces(BackendCase):
    def setUp(self):
        super().setUp()
        self.patch(work_folders, "_swept", set())

    def begin(self):
        """(another process, the folder that it works in)"""
        paths = [os.path.dirname(os.path.dirname(weft.__file__)), os.path.dirname(FAKE)]
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline().strip()

    def test_what_killed_processes_left_goes_and_what_others_use_stays(self):
        begun = [self.begin() for _ in range(3)]
        *killed, used = [path for _, path in begun]
        for sign, (process, _) in zip((signal.SIGTERM, signal.SIGKILL), begun):
            process.send_signal(sign)
            process.wait(WAIT_S)
        for path in (*killed, used):
            self.assertTrue(os.path.isdir(path), path)
        asked = options.options_from({"cache": True})
        source = mock.Mock(key="none", spec=["key"])
        self.assertIsNone(search.known(source, asked))
        self.assertEqual([os.path.isdir(path) for path in (*killed, used)], [False, False, True])

    def test_a_folder_goes_with_its_work(self):
        with work_folders.made("verdict-") as path:
            work_folders._swept.clear()
            work_folders.sweep()
            self.assertTrue(os.path.isdir(path))
        self.assertFalse(os.path.exists(path))

    def test_what_is_kept_for_a_person_stays(self):
        with work_folders.made("run-", is_kept=True) as path:
            pass
        work_folders._swept.clear()
        work_folders.sweep()
        self.assertTrue(os.path.isdir(path))

    def test_without_a_lock_s_file_only_old_verdicts_go(self):
        old, new, run = (
            os.path.join(work_folders.place(), name)
            for name in ("verdict-old", "verdict-new", "run-kept")
        )
        long_ago = time.time() - 2 * work_folders.UNLOCKED_S
        for path in (old, new, run):
            os.mkdir(path)
            if path != new:
                os.utime(path, (long_ago, long_ago))
        work_folders.sweep()
        self.assertEqual([os.path.isdir(path) for path in (old, new, run)], [False, True, True])

    def test_one_that_cannot_be_made_says_what_to_set(self):
        for named in ("/dev/null/cache", "/proc/cache"):
            self.set_environment(WEFT_CACHE_DIR=named)
            with (
                self.assertRaisesRegex(
                    OSError, f"set WEFT_CACHE_DIR to a folder that can be written: '{named}"
                ),
                work_folders.made("run-"),
            ):
                pass
