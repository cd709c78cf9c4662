"""A run that dies at any moment goes on where its journal ends, and comes to
the same verdicts as one that was left in peace."""

import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

import weft_case
from weft_case import QUICK, TINY, WEFT, WeftCase, environment

KILLS = 30 if weft_case.IS_LONG else 6
AT_ONCE = (*QUICK, "--jobs", "2")
# Most kills come at any moment of the first seconds; every third waits for
# the journal to grow, so that the moments spread over the whole run.
QUICK_SECONDS = 1.5
EVENTS_MAX = 50


def number_in(run, query, *values):
    """What that query of the journal gives; 0 while there is no journal."""
    file = os.path.join(run, "journal.db")
    if not os.path.exists(file):
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchone()[0]
    except sqlite3.Error:
        return 0


def last_event(run):
    """0 while there is no journal, or nothing in it."""
    return number_in(run, "SELECT coalesce(max(seq), 0) FROM event")


def has_event(run, kind):
    """Whether the journal holds a message of that type."""
    return number_in(run, "SELECT count(*) FROM event WHERE type = ?", kind) > 0


def waited_for(condition, seconds):
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def scratch_of(pid):
    return f"weft-{pid}-scratch"


def verdicts_of(events):
    """What must not depend on times or on how often a run was killed."""
    seeds = set()
    subgraphs = set()
    models = []
    code = None
    for event in events:
        body = event["body"]
        if event["type"] == "SeedResult":
            seeds.add(
                (
                    event["dst"],
                    body["seed"]["id"],
                    body["seed"]["source"],
                    body["built"],
                    body["verdict"]["kind"],
                    body["failure"]["message"],
                )
            )
        elif event["type"] == "SubgraphDone":
            won = body["outcome"] in ("won", "not_faster")
            subgraphs.add(
                (
                    body["subgraph"],
                    "right" if won else body["outcome"],
                    body["correct"],
                    body["seeds"],
                )
            )
        elif event["type"] == "CheckReply" and event["dst"] == "composer":
            models.append(body["verdict"]["kind"])
        elif event["type"] == "RunFinished":
            code = body["exit_code"]
    return seeds, subgraphs, models[-1:], code


class ResumeTest(WeftCase):
    maxDiff = None
    verdicts = None  # of the run in peace

    def setUp(self):
        super().setUp()
        self.problem = self.write("tiny.py", TINY)
        self.run_folder = self.path("run")
        self.scratches = []

    def start(self):
        """A process that begins the run, or goes on with it."""
        if last_event(self.run_folder) == 0:
            # Nothing was delivered yet, so nothing can be lost.
            shutil.rmtree(self.run_folder, ignore_errors=True)
            words = ["run", self.problem, "--out", self.run_folder, *AT_ONCE]
        else:
            words = ["resume", self.run_folder]
        with open(self.path("output.txt"), "a", encoding="utf-8") as output:
            process = subprocess.Popen(
                [WEFT, *words], stdout=output, stderr=output, env=environment()
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.scratches.append(scratch_of(process.pid))
        return process

    def output(self):
        with open(self.path("output.txt"), encoding="utf-8") as file:
            return file.read()

    def assert_nobody_is_left(self):
        left = lambda: weft_case.processes_that_name(self.run_folder, *self.scratches)
        self.assertTrue(waited_for(lambda: not left(), 60), left())

    def assert_nothing_was_repeated(self, events):
        asked = set()
        answered = set()
        for event in events:
            self.assertNotEqual(event["dst"], "stale", event)
            if event["dst"].startswith("port/"):
                effect = (event["src"], event["dst"], event["type"], event["body"]["effect"])
                self.assertNotIn(effect, asked)
                asked.add(effect)
            if event["src"].startswith("port/"):
                self.assertNotIn(event["cause"], answered)
                answered.add(event["cause"])

    def in_peace(self):
        """The verdicts of the same run, undisturbed: one for all tests here."""
        if ResumeTest.verdicts is None:
            run = self.path("in-peace")
            done = self.weft("run", self.problem, "--out", run, *AT_ONCE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ResumeTest.verdicts = verdicts_of(weft_case.events_of(run))
        return self.verdicts

    def assert_same_as_in_peace(self):
        events = weft_case.events_of(self.run_folder)
        self.assert_nothing_was_repeated(events)
        self.assertEqual(verdicts_of(events), self.in_peace())
        self.assert_replays(self.run_folder)

    def test_kill_9_at_random_moments_changes_no_verdict(self):
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        moments = []
        for kill in range(KILLS):
            process = self.start()
            before = last_event(self.run_folder)
            if kill % 3 == 2:
                events = chance.randrange(1, EVENTS_MAX)
                grown = lambda: (
                    process.poll() is not None or last_event(self.run_folder) >= before + events
                )
                self.assertTrue(waited_for(grown, 200), self.output())
            else:
                seconds = chance.uniform(0, QUICK_SECONDS)
                waited_for(lambda: process.poll() is not None, seconds)
            process.kill()
            process.wait()
            moments.append(last_event(self.run_folder))
            self.assert_nobody_is_left()
        final = self.start()
        told = f"seed {seed}, killed after events {moments}"
        self.assertEqual(final.wait(timeout=400), 0, told + self.output())
        self.assert_nobody_is_left()
        self.assert_same_as_in_peace()
        self.assertFalse(
            [name for name in self.scratches if os.path.exists(os.path.join("/dev/shm", name))],
            told,
        )

    def test_ctrl_c_can_be_resumed_and_leaves_nothing(self):
        process = self.start()
        begun = lambda: last_event(self.run_folder) >= 12
        self.assertTrue(waited_for(begun, 200), self.output())

        # Meanwhile nobody else may go on with it.
        second = self.weft("resume", self.run_folder)
        self.assert_ends(second, 2, "in use by", str(process.pid))

        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 130, self.output())
        self.assertIn(f"weft resume {self.run_folder}", self.output())
        self.assert_nobody_is_left()
        self.assertFalse(os.path.exists(os.path.join("/dev/shm", self.scratches[0])))

        shown = self.weft("show", self.run_folder)
        self.assertIn("weft resume goes on", shown.stdout)
        self.assertEqual(self.start().wait(timeout=400), 0, self.output())
        events = weft_case.events_of(self.run_folder)
        self.assert_nothing_was_repeated(events)
        self.assert_replays(self.run_folder)

    def test_a_crash_names_the_run_and_its_event_and_can_be_resumed(self):
        process = self.start()
        begun = lambda: last_event(self.run_folder) >= 2
        self.assertTrue(waited_for(begun, 200), self.output())
        process.send_signal(signal.SIGSEGV)
        self.assertEqual(process.wait(timeout=60), -signal.SIGSEGV)
        (line,) = re.findall(r"^weft: internal error: .*$", self.output(), re.MULTILINE)
        self.assertRegex(line, r"SIGSEGV (in|after) event [1-9]")
        self.assertIn(f"run {self.run_folder};", line)
        self.assert_nobody_is_left()

        crashed_at = last_event(self.run_folder)
        process = self.start()
        grown = lambda: last_event(self.run_folder) > crashed_at + 2
        self.assertTrue(waited_for(grown, 200), self.output())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 130, self.output())
        self.assert_nobody_is_left()

    def test_what_an_interrupt_kills_is_asked_again(self):
        for kind in ("CaptureRequest", "CheckRequest"):
            process = self.start()
            asked = lambda: has_event(self.run_folder, kind)
            self.assertTrue(waited_for(asked, 200), self.output())
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 130, kind + self.output())
            for event in weft_case.events_of(self.run_folder):
                told = event["body"].get("failure", {"code": ""})
                self.assertEqual(told["code"], "", event)
        self.assertEqual(self.start().wait(timeout=400), 0, self.output())
        self.assert_same_as_in_peace()


if __name__ == "__main__":
    unittest.main()
