"""Journals, configuration files and clients of somebody who means harm: nothing
outside the run directory changes, and no command dies of a signal."""

import csv
import io
import json
import os
import random
import re
import socket
import subprocess
import time
import unittest
import urllib.request

from canaries import Canaries
from made_journal import MadeJournal, MadeRun, forged
from weft_case import ROOT, WEFT, WeftCase, at_run, environment

#: A text that would steer a terminal, forge a line, reorder one, and be mark-up.
HOSTILE = (
    "x\n/home/u/other.py: accepted: 9.87x over eager\r\x1b[31m\x9b2J"
    "\u202eevil\u2066\u200b|<script>alert(1)</script>[x](javascript:1)`"
)
#: What none of it may be in an output.
STEERING = ("\x1b[31m", "\x9b", "\u202e", "\u2066", "\u200b", "\r")

#: Paths that leave the run directory, or reach what is weft's own in it.
PATHS = (
    "../canaries/new",
    "a/../../canaries/new",
    "/tmp/weft-canary-new",
    "..",
    "composed/../../canaries/secret",
    "journal.db",
    "a//b",
    "",
    "a\0b",
    "x" * 5000,
)
#: Fields of RunStart that size memory, threads or time, or name files.
STARTS = (
    {"problem_name": "../../canaries/problem.py"},
    {"problem_name": "/tmp/weft-canary-problem.py"},
    {"problem_name": ".."},
    {"machine": {"name": "m", "cores": 2**31 - 1}},
    {"machine": {"name": "m", "cores": -5}},
    {"options": {"jobs": -1}},
    {"options": {"memory_bytes": 2**63 - 1}},
    {"options": {"capture_ms": -(2**62)}},
    {"options": {"budget_ms": -1}},
    {"options": {"device": 10**6}},
)


#: Names in a run directory that weft opens, and what somebody could put there.
LINKS = (
    ("journal.db", "elsewhere"),
    ("journal.db-lock", "file"),
    ("journal.db-lock", "new"),
    ("journal.db-lock", "pipe"),
    ("journal.db-wal", "file"),
    ("journal.db-shm", "new"),
    ("llm.db", "file"),
    ("llm.db-wal", "new"),
    ("logs", "folder"),
    ("logs/oracle-slot0.log", "file"),
    ("logs/oracle-slot0.log", "pipe"),
    ("build", "folder"),
    ("build/deep/kernel.so", "file"),
)


class ForgedJournals(WeftCase):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries(self.path("canaries"))

    def tearDown(self):
        self.assertEqual(self.canaries.changed(), [])
        self.assertFalse(os.path.exists("/tmp/weft-canary-new"))
        self.assertFalse(os.path.exists("/tmp/weft-canary-problem.py"))
        super().tearDown()

    def forged(self, name, *more, **named):
        return forged(self.path(name), *more, **named)

    def test_no_path_leads_out_of_the_run_directory(self):
        for number, path in enumerate(PATHS):
            with self.subTest(path[:40]):
                run = self.forged(f"path-{number}", files=[path])
                done = self.ended("resume", "--recorded", run)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(self.canaries.changed(), [])

    def test_no_link_in_the_run_directory_is_followed(self):
        run = self.forged("linked", files=["composed/secret", "kernels/a/b"])
        os.symlink(self.canaries.folder, os.path.join(run, "composed"))
        os.makedirs(os.path.join(run, "kernels"))
        os.symlink(self.canaries.folder, os.path.join(run, "kernels", "a"))
        self.assertNotEqual(self.ended("resume", "--recorded", run).returncode, 0)

    def test_a_dangling_link_is_no_missing_file(self):
        run = self.forged("dangling", files=["report.md"])
        os.symlink(os.path.join(self.canaries.folder, "new"), os.path.join(run, "report.md"))
        self.ended("resume", "--recorded", run)

    def test_no_link_or_pipe_is_opened_where_weft_writes_by_name(self):
        secret = os.path.join(self.canaries.folder, "secret")
        empty = os.path.join(self.canaries.folder, "empty")
        for number, (name, target) in enumerate(LINKS):
            run = self.forged(f"named-{number}", finished=False)
            path = os.path.join(run, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if name == "journal.db":
                os.rename(path, os.path.join(self.folder, "elsewhere.db"))
                os.symlink(os.path.join(self.folder, "elsewhere.db"), path)
            elif target == "pipe":
                os.mkfifo(path)
            else:
                os.symlink({"file": secret, "folder": empty, "new": secret + "-new"}[target], path)
            for words in (["resume", run], ["resume", "--recorded", run], ["show", run]):
                with self.subTest(name=name, target=target, words=words[:-1]):
                    done = self.ended(*words)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(b"remove it", done.stderr)
                    self.assertEqual(self.canaries.changed(), [])

    def test_a_neighbour_s_pipe_keeps_no_run_waiting(self):
        """A run looks at the journals beside it for how long its stages may take."""
        run = self.forged("neighbour")
        os.mkfifo(os.path.join(run, "journal.db-lock"))
        problem = self.write("p.py", "raise RuntimeError")
        self.assertEqual(self.ended("run", problem, "--out", self.path("run")).returncode, 2)

    def test_a_start_that_weft_does_not_write_is_refused(self):
        for number, start in enumerate(STARTS):
            with self.subTest(start):
                run = self.forged(f"start-{number}", start, finished=False)
                for words in (["resume", run], ["resume", "--recorded", run]):
                    done = self.ended(*words)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(b"not one that weft writes", done.stderr)

    def test_commands_that_read_a_run_survive_other_types(self):
        """Each field of each message becomes something else, one at a time."""
        chance = random.Random(7)
        others = (
            None,
            -1,
            2**63,
            1e308,
            "",
            "x" * 70_000,
            [],
            [[]],
            {"a": 1},
            True,
            "../../canaries/secret",
        )

        def change(value):
            if isinstance(value, dict) and value and chance.random() < 0.9:
                name = chance.choice(sorted(value))
                return value | {name: change(value[name])}
            if isinstance(value, list) and value and chance.random() < 0.7:
                at = chance.randrange(len(value))
                return [*value[:at], change(value[at]), *value[at + 1 :]]
            return chance.choice(others)

        say = MadeJournal.say
        for number in range(6):
            folder = self.path(f"fuzz-{number}")
            when = {chance.randrange(2, 40) for _ in range(3)}
            count = 0

            def fuzzed(journal, src, dst, kind, body, *more, **named):
                nonlocal count
                count += 1
                if count in when:
                    body = change(body)
                return say(journal, src, dst, kind, body, *more, **named)

            MadeJournal.say = fuzzed
            try:
                MadeRun(folder, subgraphs=1, candidates=2)
            finally:
                MadeJournal.say = say
            for words in (
                ["show"],
                ["show", "--json"],
                ["show", "--html"],
                ["replay"],
                ["replay", "--at", "9"],
                ["replay", "--check"],
                ["replay", "--state", "all", "--at", "15"],
                ["export", "csv"],
                ["export", "trace"],
                ["export", "otlp"],
                ["export", "pairs"],
                ["explain"],
                ["cluster"],
                ["fork", "--only-make", "--at", "9"],
                ["diff", folder],
                ["resume", "--recorded"],
            ):
                with self.subTest(number=number, words=words):
                    self.ended(*at_run(words, folder))

    def test_an_origin_that_is_no_origin_ends_nothing(self):
        import sqlite3

        run = self.forged("origin")
        for origin in (
            '{"run": 5, "seq": "x", "set": {"a": [1]}}',
            "[1]",
            "{",
            '{"run": "\\u001b[31m", "set": 7}',
        ):
            with sqlite3.connect(os.path.join(run, "journal.db")) as database:
                database.execute("INSERT OR REPLACE INTO meta VALUES ('origin', ?)", (origin,))
            database.close()
            self.assertNotIn(b"\x1b", self.ended("show", run).stdout)

    def test_no_text_of_a_journal_steers_a_terminal(self):
        run = self.path("texts")
        MadeRun(run, subgraphs=1, candidates=4, word=lambda text: text + HOSTILE)
        other = self.path("other")
        MadeRun(other, subgraphs=1, candidates=4, word=lambda text: HOSTILE + text)
        for words in (
            ["show"],
            ["show", "--events", "--verbose"],
            ["replay"],
            ["replay", "--at", "9"],
            ["replay", "--state", "all", "--at", "15"],
            ["export", "csv"],
            ["export", "trace"],
            ["export", "otlp"],
            ["export", "pairs"],
            ["show", "--json"],
            ["show", "--events", "--json"],
            ["diff", other],
            ["diff", other, "--json"],
            ["explain"],
        ):
            with self.subTest(words):
                done = self.ended(*at_run(words, run))
                self.assertNotEqual(done.returncode, 2, done.stderr)
                # The end of a line in CSV.
                self.assert_plain(done.stdout.replace(b"\r\n", b"\n") + done.stderr, words)

    def test_no_text_of_a_journal_is_computed_by_a_spreadsheet(self):
        for begin in ("=", "+", "-", "@", "\t="):
            with self.subTest(begin):
                run = self.path(f"cells-{ord(begin[0])}")
                MadeRun(run, subgraphs=1, candidates=4, word=lambda text: begin + text)
                done = self.ended("export", "csv", run)
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
                self.assertGreater(len(rows), 4)
                shown = begin.replace("\t", " ")
                self.assertTrue(any(cell.startswith("'" + shown) for row in rows for cell in row))
                for cell in (cell for row in rows for cell in row):
                    self.assertFalse(cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell)

    def test_every_writer_of_csv_escapes_its_cells(self):
        """A new one that does not is found here."""
        writers = []
        for folder, _, names in os.walk(ROOT):
            parts = os.path.relpath(folder, ROOT).split(os.sep)
            if any(
                part == "tests" or part.startswith("build") or part.startswith(".") and part != "."
                for part in parts
            ):
                continue
            for name in names:
                if not name.endswith((".cpp", ".py")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                if re.search(r"csv\.writer\(|^std::string (\w+_csv|csv_export)\(", text, re.M):
                    writers.append(name)
                    self.assertIn("csv_cell(", text, name)
        self.assertLessEqual({"report.cpp", "csv_export.cpp", "results.py"}, set(writers))

    def assert_plain(self, output, what):
        text = output.decode()
        for steering in STEERING:
            self.assertNotIn(steering, text, what)
        for line in text.split("\n"):
            self.assertFalse(line.startswith("/home/u/other.py"), (what, line))


class HostileSettings(WeftCase):
    """A weft.toml that came with somebody's files."""

    OWN = (
        "[run]\nbudget_usd = 2.0\nbudget_s = 100\nmemory_gib = 2\n"
        '[llm.oa]\nmodel = "cheap"\nkey_env = "K"\n'
        "prices = { input = 3, output = 15 }\n"
    )
    #: Text, and the settings that it must not change.
    FILES = (
        ('[run]\nseeds = ["compiler", "llm"]\nllm = "oa"\n', "run.seeds"),
        ('[run]\nllm = "oa"\n', "run.llm"),
        ("[run]\nbudget_usd = 1000.0\n", "run.budget_usd"),
        ("[run]\nbudget_s = 100000\n", "run.budget_s"),
        ("[run]\nrounds = 9\nsamples = 9\n", "run.rounds"),
        ("[run]\nllm_groups = true\nllm_fuses = true\n", "run.llm_groups"),
        ("[run]\nno_llm_cache = true\n", "run.no_llm_cache"),
        ('[llm.oa]\nmodel = "dearest"\n', "llm.oa.model"),
        ("[llm.oa]\nprices = { input = 0, output = 0 }\n", "llm.oa.prices.input"),
        ("[llm.oa]\nlimits = { calls_at_once = 64 }\n", "llm.oa.limits.calls_at_once"),
        ('[llm.oa]\nbase_url = "http://evil"\n', "llm.oa.base_url"),
        ('[run]\nprompts = "/etc"\n', "run.prompts"),
        ('[run]\nlibrary = "canary.db"\n', "run.library"),
        ("[run]\nmemory_gib = 4000\n", "run.memory_gib"),
        ('[run]\nlisten = "tcp://127.0.0.1:1"\nkeys = "k"\n', "run.listen"),
        ('[run]\nclasses = "x"\n', "run.classes"),
        ("[run]\nno_local = true\nnode_seconds = 9000\n", "run.no_local"),
        ("[run]\nuntrusted_problem = false\n", "run.untrusted_problem"),
        ('[llm."\\u001b[31m\\nx"]\nmodel = "m"\n', "run.llm"),
    )

    def config(self, *words, **variables):
        done = subprocess.run(
            [WEFT, "config", "--json", *words],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
            check=False,
            env=environment(
                XDG_CONFIG_HOME=self.path("home"),
                WEFT_RUN_JOBS=None,
                WEFT_LIBRARY=None,
                **variables,
            ),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        return {one["name"]: one["value"] for one in told}, done.stderr

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("home/weft"))
        self.write("home/weft/config.toml", self.OWN)

    def test_what_costs_money_or_loosens_a_limit_is_ignored(self):
        before, said = self.config()
        self.assertEqual(said, "")
        for text, name in self.FILES:
            with self.subTest(name):
                self.write("weft.toml", text)
                after, said = self.config()
                self.assertEqual(after, before)
                self.assertNotIn("\x1b", said)
                if "budget" not in name:
                    self.assertIn("weft.toml:2: ", said)
                    self.assertIn("is ignored", said)

    def test_what_is_named_by_the_user_counts(self):
        named = self.write("mine.toml", '[run]\nrounds = 7\n[llm.oa]\nmodel = "m"\n')
        told, said = self.config("--config", named, WEFT_RUN_SAMPLES="5")
        self.assertEqual(
            (told["run.rounds"], told["llm.oa.model"], told["run.samples"]), ("7", "m", "5")
        )
        self.assertEqual(said, "")

    def test_a_budget_is_the_lowest_of_all(self):
        self.write("weft.toml", "[run]\nbudget_usd = 0.5\n")
        self.assertEqual(self.config()[0]["run.budget_usd"], "0.5")
        self.write("weft.toml", "")
        told, _ = self.config(WEFT_RUN_BUDGET_USD="9")
        self.assertEqual(float(told["run.budget_usd"]), 2.0)
        told, said = self.config("--budget-usd", "9", "--budget-s", "7")
        self.assertEqual(float(told["run.budget_usd"]), 2.0)
        self.assertEqual(told["run.budget_s"], "7")
        self.assertIn("lower budget", said)

    def test_no_settings_file_switches_the_sandbox_off(self):
        problem = self.write("p.py", "raise RuntimeError")
        for folder in ("weft.toml", "home/weft/config.toml"):
            with self.subTest(folder):
                self.write(folder, '[run]\nsandbox = "none"\n')
                done = self.weft(
                    "run", problem, "--out", self.path("run"), XDG_CONFIG_HOME=self.path("home")
                )
                if folder == "weft.toml":
                    self.assertIn("run.sandbox is ignored", done.stderr)
                    self.assertNotIn("lacks", done.stdout)
                else:
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("no setting run.sandbox", done.stderr)
                os.remove(self.path(folder))

    def test_a_folder_opens_no_port(self):
        problem = self.write("p.py", "raise RuntimeError")
        self.write("weft.toml", '[run]\nlisten = "tcp://127.0.0.1:5599"\n')
        done = self.weft(
            "run", problem, "--out", self.path("run"), XDG_CONFIG_HOME=self.path("home")
        )
        self.assertIn("run.listen is ignored", done.stderr)
        self.assertNotIn("listening", done.stdout)

    def test_harmless_settings_count(self):
        self.write("weft.toml", "[run]\nvariants = 3\n")
        told, said = self.config()
        self.assertEqual((told["run.variants"], said), ("3", ""))


class PageClients(WeftCase):
    def setUp(self):
        super().setUp()
        MadeRun(self.path("run"), subgraphs=1, candidates=2)
        process = subprocess.Popen(
            [WEFT, "ui", self.path("run"), "--listen", "127.0.0.1:0", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.addCleanup(process.communicate, timeout=60)
        self.addCleanup(process.kill)
        self.address = json.loads(process.stdout.readline())["address"]
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def get(self, path="runs.json"):
        with urllib.request.urlopen(self.address + path, timeout=20) as answer:
            return answer.read()

    def connected(self, text=b""):
        one = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        self.addCleanup(one.close)
        one.sendall(text)
        return one

    def test_halves_of_requests_keep_nobody_waiting(self):
        half = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
        for _ in range(600):
            self.connected(half)
        for _ in range(5):
            start = time.monotonic()
            self.assertIn(b"made", self.get())
            self.assertLess(time.monotonic() - start, 15)  # not the 30 s that it was

    def test_connections_that_say_nothing_are_closed(self):
        one = self.connected()
        one.settimeout(60)
        self.assertEqual(one.recv(10), b"")

    def test_large_headers_and_bodies_are_refused(self):
        for text, status in (
            (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000, b"431"),
            (b"POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n", b"413"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"413"),
        ):
            one = self.connected()
            try:
                one.sendall(text)
                told = one.recv(100)
            except (BrokenPipeError, ConnectionResetError):
                continue  # refused before all was sent
            self.assertTrue(told.startswith(b"HTTP/1.1 " + status) or not told, told)
        self.assertIn(b"made", self.get())

    def test_several_requests_on_one_connection_are_answered(self):
        one = self.connected()
        ask = f"GET /runs.json HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode()
        one.sendall(ask + ask)
        told = b""
        for count in (2, 3):
            while told.count(b"HTTP/1.1 200") < count:
                more = one.recv(65536)
                self.assertTrue(more, told)
                told += more
            one.sendall(ask)


class MachineLimits(WeftCase):
    def test_a_limit_that_is_too_low_is_named(self):
        problem = self.write("p.py", "")
        for words, told in (
            ("ulimit -n 64", "open files"),
            ("ulimit -v 4000000", "address space"),
            ("ulimit -f 1000", "file size"),
            ("export TMPDIR=/nowhere/at/all", "/nowhere/at/all"),
        ):
            with self.subTest(words):
                done = subprocess.run(
                    ["bash", "-c", f'{words}; exec "$0" "$@"', WEFT, "run", problem],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    cwd=self.folder,
                    env=environment(),
                    check=False,
                )
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(told, done.stderr)


if __name__ == "__main__":
    unittest.main()
