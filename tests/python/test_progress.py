"""Output while a run goes on: bars on a terminal, with the time
left where earlier runs tell it, and plain lines anywhere else."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from made_journal import MadeRun
from weft_case import WEFT, WeftCase, environment, events_of, problem_with

SHORT = (
    "--variants",
    "1",
    "--no-compile-baseline",
    "--timing-ms",
    "20",
    "--final-timing-ms",
    "20",
    "--fast-sync",
    "--jobs",
    "1",
)
WIPED = "\x1b[1A\x1b[2K"


class ProgressTest(WeftCase):
    def on_a_terminal(self, *words, rows=40, columns=100):
        """(exit code, all that a terminal of that size was told)."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        told = b""
        with subprocess.Popen(
            [WEFT, *words],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=environment(),
        ) as process:
            os.close(theirs)
            while True:
                try:
                    data = os.read(ours, 65536)
                except OSError:  # nobody has the other end any more
                    break
                if not data:
                    break
                told += data
            process.stderr.read()
            code = process.wait(timeout=300)
        os.close(ours)
        return code, told.decode()

    def test_bars_on_a_terminal_and_lines_elsewhere(self):
        problem = self.write("problem.py", problem_with())
        first = self.weft("run", problem, "--out", self.path("first"), *SHORT)
        self.assertIn(first.returncode, (0, 1), first.stderr)
        self.assertNotIn("\x1b", first.stdout)
        self.assertNotRegex(first.stdout, r"\[[#.]{24}\]")
        composing = next(
            event["seq"] for event in events_of(self.path("first")) if event["type"] == "Compose"
        )
        # With a run beside it that tells how long this takes, and without.
        os.mkdir(self.path("apart"))
        for out, is_known in (("again", True), ("apart/again", False)):
            self.make_fork(composing, out)
            code, told = self.on_a_terminal("resume", self.path(out))
            self.assertIn(code, (0, 1), told)
            self.assertRegex(told, r"capture  \[#{24}\]  \d+\.\d s")
            self.assertRegex(told, r"kernels  \[#{24}\]  .*\d s  1 of 1 subgraph, \d verdict")
            # Nothing is counted there: what fills it is the time.
            if is_known:
                self.assertRegex(told, r"compose  \[#+\.+\]")
            else:
                self.assertRegex(told, r"compose  \[\.{24}\]")
                self.assertNotRegex(told, r"compose  \[#")
                self.assertNotIn(" left, by", told)
            self.nothing_is_left(told)

    def make_fork(self, at, out):
        made = self.weft(
            "fork", self.path("first"), "--at", str(at), "--out", self.path(out), "--only-make"
        )
        self.assertEqual(made.returncode, 0, made.stderr)

    def nothing_is_left(self, told):
        """Of the bars, once the run is over; each that was drawn is gone."""
        screen = []
        for part in re.split("(" + re.escape(WIPED) + "|\r?\n)", told):
            if part == WIPED:
                screen.pop()
            elif part.strip("\r\n"):
                screen.append(part)
        self.assertNotRegex("\n".join(screen), r"\[[#.]{24}\]")

    def test_a_run_s_json_is_the_same_on_a_terminal_as_in_a_pipe(self):
        problem = self.write("problem.py", problem_with())
        code, told = self.on_a_terminal(
            "run", problem, "--json", "--out", self.path("seen"), *SHORT
        )
        self.assertIn(code, (0, 1), told)
        self.assertNotIn("\x1b", told)
        # A terminal makes \r\n of each line's end; nothing else returns.
        self.assertEqual(told.count("\r"), told.count("\r\n"))
        self.assertEqual(told.splitlines(), self.said_to_the_user("seen"))
        piped = self.weft("run", problem, "--json", "--out", self.path("piped"), *SHORT)
        self.assertIn(piped.returncode, (0, 1), piped.stderr)
        self.assertEqual(piped.stdout.splitlines(), self.said_to_the_user("piped"))

    def said_to_the_user(self, run):
        """The lines that a run's journal has of that."""
        shown = self.weft("show", self.path(run), "--events", "--json")
        return [line for line in shown.stdout.splitlines() if json.loads(line)["dst"] == "user"]

    def test_json_is_an_object_a_line_on_a_terminal_too(self):
        MadeRun(self.path("run"))
        code, told = self.on_a_terminal("show", self.path("run"), "--json")
        self.assertEqual(code, 0)
        for line in told.splitlines():
            json.loads(line)


if __name__ == "__main__":
    unittest.main()
