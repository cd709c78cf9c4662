"""Commands on the folder of a run that has ended, and messages about a damaged one."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

from weft_case import WEFT, WeftCase, environment, problem_with

FAST = ("--variants", "1", "--no-compile-baseline", "--timing-ms", "20", "--final-timing-ms", "20")


class FinishedRun(WeftCase):
    @classmethod
    def setUpClass(cls):
        cls.original = tempfile.mkdtemp(prefix="weft-case-")
        cls.addClassCleanup(shutil.rmtree, cls.original)
        problem = os.path.join(cls.original, "problem.py")
        with open(problem, "w", encoding="utf-8") as file:
            file.write(problem_with())
        done = subprocess.run(
            [WEFT, "run", problem, "--out", os.path.join(cls.original, "run"), *FAST],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        assert done.returncode == 0, done
        cls.said = done.stdout

    def setUp(self):
        super().setUp()
        self.run_folder = self.path("run")
        shutil.copytree(os.path.join(self.original, "run"), self.run_folder)
        self.journal = os.path.join(self.run_folder, "journal.db")

    def change(self, statement, values=()):
        with sqlite3.connect(self.journal) as database:
            found = database.execute(statement, values).fetchall()
        database.close()
        return found

    def test_the_report_that_is_named_is_there(self):
        self.assertIn("report.md", self.said)
        with open(os.path.join(self.run_folder, "report.md"), encoding="utf-8") as file:
            self.assertIn("* Mode: train, as its constructor leaves it", file.read())

    def test_deleted_files_are_written_again(self):
        report = os.path.join(self.run_folder, "report.md")
        with open(report, encoding="utf-8") as file:
            before = file.read()
        os.unlink(report)
        shutil.rmtree(os.path.join(self.run_folder, "composed"))
        done = self.weft("resume", self.run_folder)
        self.assert_ends(done, 0)
        with open(report, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        self.assertTrue(os.path.exists(os.path.join(self.run_folder, "composed", "model_new.py")))

    def test_a_run_on_top_of_it_is_refused(self):
        done = self.weft("run", self.write("problem.py", problem_with()), "--out", self.run_folder)
        self.assert_ends(done, 2, "holds a run already", "weft resume")

    def assert_not_vouched_for(self, *words):
        for verb in ("show", "resume"):
            with self.subTest(verb):
                done = self.weft(verb, self.run_folder)
                self.assert_ends(done, 2, *words)
                self.assertNotIn("verified", done.stdout + done.stderr)

    def test_a_damaged_page_is_told_before_any_verdict(self):
        (page,) = self.change(
            "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'blob'"
        )[0]
        (size,) = self.change("PRAGMA page_size")[0]
        self.change("PRAGMA wal_checkpoint(TRUNCATE)")
        with open(self.journal, "r+b") as file:
            file.seek((page - 1) * size + size // 2)
            file.write(b"\xff" * (size // 2))
        self.assert_not_vouched_for("journal.db")

    def test_a_deleted_blob_is_named(self):
        (hash_,) = self.change("SELECT hash FROM blob ORDER BY size DESC")[0]
        self.change("DELETE FROM blob WHERE hash = ?", (hash_,))
        self.assert_not_vouched_for(f"blob {hash_}", "is gone")

    def test_an_event_that_does_not_exist_is_not_waited_for(self):
        for until in ("-3", "0", "two"):
            done = self.weft("replay", self.run_folder, "--until", until)
            self.assert_ends(done, 2, "--until")
        done = self.weft("replay", self.run_folder, "--until", "3")
        self.assert_ends(done, 0)


class EndedInWrongInput(WeftCase):
    def test_the_mended_file_may_have_the_same_folder(self):
        run = self.path("run")
        broken = self.write("problem.py", "import torch\n")
        done = self.weft("run", broken, "--out", run, *FAST)
        self.assert_ends(done, 2, "has no Model")
        self.assertNotIn("report.md", done.stdout)
        self.assertIn("has no Model", self.weft("show", run).stdout)
        mended = self.write("problem.py", problem_with())
        self.assert_ends(self.weft("run", mended, "--out", run, *FAST), 0)
        self.assert_replays(run)

    def test_a_fault_names_its_cause(self):
        file = self.write(
            "problem.py",
            problem_with(head="import sys\nsys.setrecursionlimit(10**8)", forward="return self(x)"),
        )
        done = self.weft("run", file, "--out", self.path("run"), *FAST)
        self.assert_ends(done, 2, "problem.py:11", "deeper than the stack")


class KilledRun(WeftCase):
    def test_a_deleted_log_is_named(self):
        file = self.write("problem.py", problem_with())
        run = self.path("run")
        log = os.path.join(run, "journal.db-wal")
        process = subprocess.Popen(
            [WEFT, "run", file, "--out", run, *FAST],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until = time.monotonic() + 200
        while not self.has_events(run) and time.monotonic() < until:
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.unlink(log)
        for verb in ("show", "resume"):
            with self.subTest(verb):
                done = self.weft(verb, run)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("-wal", done.stderr)

    @staticmethod
    def has_events(run):
        file = os.path.join(run, "journal.db")
        try:
            # Open, it would keep others from seeing that the log is gone.
            with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
                return database.execute("SELECT count(*) FROM event").fetchone()[0] > 2
        except sqlite3.Error:
            return False


if __name__ == "__main__":
    unittest.main()
