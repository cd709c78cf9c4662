"""`weft resume` of another user's journal: the journal can tighten the limits of this
user's settings, and change nothing else."""

import os
import sqlite3
import time
import unittest

from canaries import Canaries
from llm_case import RIGHT, LlmCase, answers, kernel
from llm_server import LlmServer, Reply
from made_journal import forged
from weft_case import QUICK, WEFT, WeftCase, environment, problem_with

NOT_OURS = "another user or machine"


class ForeignRuns(WeftCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.canaries = Canaries(self.path("canaries"))
        os.chmod(self.canaries.folder, 0o755)
        self.canaries.before = self.canaries.look()

    def forged(self, options=(), text=None, name="run", finished=False):
        """A run that has only begun, with its problem."""

        def start(journal):
            return {
                "problem": journal.blob(text or problem_with()),
                "options": {
                    "target": "cpu",
                    "seeds": ["compiler"],
                    "compile_baseline": False,
                    "variants_max": 1,
                    "timing_ms": 50,
                    "final_timing_ms": 50,
                }
                | dict(options),
            }

        return forged(self.path(name), start, finished=finished)

    def attack(self):
        """A problem that fails if it can reach one of the canaries."""
        return problem_with(
            head=f"""
import os
FOUND = []
for act in (lambda: open({self.canaries.folder!r} + "/secret").read(),
            lambda: open({self.canaries.folder!r} + "/new", "w"),
            lambda: os.environ["OPENAI_API_KEY"],
            lambda: os.environ["WEFT_TEST_OWN"]):
    try:
        act()
        FOUND.append(1)
    except Exception:
        pass
""",
            forward="assert not FOUND\n        return torch.relu(x) * 2",
        )

    def resume(self, run, *more, **variables):
        return self.weft(
            "resume", run, *more, **variables, OPENAI_API_KEY="sk-canary", WEFT_TEST_OWN="own"
        )

    def test_its_problem_and_its_library_reach_nothing(self):
        library = os.path.join(self.canaries.folder, "library.db")
        run = self.forged(
            {"library": library, "seeds": ["library", "compiler"], "memory_bytes": 1 << 45},
            self.attack(),
        )
        done = self.resume(run)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(NOT_OURS, done.stderr)
        self.assertIn("is not used", done.stderr)
        self.assertIn("memory limit", done.stderr)
        self.assertEqual(self.canaries.changed(), [])

    def test_a_library_that_is_named_is_used_and_a_kernel_s_timing_ends(self):
        run = self.forged(
            {
                "library": os.path.join(self.canaries.folder, "l.db"),
                "seeds": ["library", "compiler"],
                "timing_ms": 3600 * 1000,
                "final_timing_ms": 3600 * 1000,
            }
        )
        mine = self.path("mine.db")
        begun = time.monotonic()
        limits = {"WEFT_RUN_TIMING_MS": "60", "WEFT_RUN_FINAL_TIMING_MS": "60"}
        done = self.resume(run, "--library", mine, **limits)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLess(time.monotonic() - begun, 120)
        self.assertNotIn("is not used", done.stderr)
        self.assertTrue(os.path.exists(mine))
        self.assertEqual(self.canaries.changed(), [])

    def test_the_lower_budget_holds(self):
        run = self.forged({"budget_ms": 0}, problem_with(head="import time\ntime.sleep(300)"))
        begun = time.monotonic()
        done = self.resume(run, WEFT_RUN_BUDGET_S="3")
        self.assertEqual(done.returncode, 130, done.stdout + done.stderr)
        self.assertLess(time.monotonic() - begun, 60)
        done = self.resume(run, WEFT_RUN_BUDGET_S="soon")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_the_lower_limits_of_time_hold(self):
        year = 365 * 24 * 3600 * 1000
        run = self.forged(
            {"capture_ms": year, "call_ms": year, "timing_ms": year, "final_timing_ms": year},
            problem_with(head="import time\ntime.sleep(300)"),
        )
        begun = time.monotonic()
        done = self.resume(run, WEFT_RUN_CAPTURE_SECONDS="4")
        self.assertLess(time.monotonic() - begun, 60)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("did not return within 4 s", done.stdout + done.stderr)
        for word in ("limit of the capture", "limit of a call", "time for a timing"):
            self.assertIn(word, done.stderr)

    def test_it_is_not_resumed_without_a_sandbox(self):
        run = self.forged(text=self.attack())
        done = self.resume(run, "--sandbox", "none")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("needs the sandbox", done.stderr)
        self.assertEqual(self.canaries.changed(), [])

    def test_who_trusts_it_says_so(self):
        run = self.forged(finished=True)
        self.assertIn(NOT_OURS, self.resume(run).stderr)
        self.assertNotIn(NOT_OURS, self.resume(run, "--trusted").stderr)

    def test_a_run_of_one_s_own_is_known(self):
        problem, cache = self.write("problem.py", problem_with()), self.path("cache")
        own = self.path("own")
        done = self.weft(
            "run", problem, "--out", own, "--seeds", "compiler", *QUICK, XDG_CACHE_HOME=cache
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn(NOT_OURS, self.resume(own, XDG_CACHE_HOME=cache).stderr)
        self.assertEqual(os.stat(self.path("cache/weft/own-runs.key")).st_mode & 0o777, 0o600)
        # Another user's cache has another key.
        self.assertIn(NOT_OURS, self.resume(own, XDG_CACHE_HOME=self.path("other")).stderr)
        with sqlite3.connect(os.path.join(own, "journal.db")) as database:
            [[mark]] = database.execute(
                "SELECT value FROM meta WHERE key = 'begun_here'"
            ).fetchall()
        database.close()
        self.assertEqual(len(mark), 64)
        # A fork of it is known, too.
        fork = self.path("fork")
        done = self.weft(
            "fork",
            own,
            "--at",
            "1",
            "--only-make",
            "--set",
            "timing_ms=60",
            "--out",
            fork,
            XDG_CACHE_HOME=cache,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn(NOT_OURS, self.resume(fork, XDG_CACHE_HOME=cache).stderr)

    def test_a_mark_of_another_run_is_none(self):
        cache = self.path("cache")
        own = self.path("own")
        done = self.weft(
            "run", self.write("p.py", "raise SystemError"), "--out", own, XDG_CACHE_HOME=cache
        )
        self.assertNotEqual(done.returncode, 0)
        with sqlite3.connect(os.path.join(own, "journal.db")) as database:
            [[mark]] = database.execute(
                "SELECT value FROM meta WHERE key = 'begun_here'"
            ).fetchall()
        database.close()
        run = self.forged(finished=True)
        with sqlite3.connect(os.path.join(run, "journal.db")) as database:
            database.execute("INSERT INTO meta VALUES ('begun_here', ?)", (mark,))
        database.close()
        done = self.resume(run, XDG_CACHE_HOME=cache)
        # The digest of what a journal says of itself is not right any more, either.
        self.assertTrue(NOT_OURS in done.stderr or done.returncode == 2, done.stderr)


class ForeignBudgets(LlmCase):
    """A journal that asks a language model without a budget of this user's."""

    def resume(self, server, **variables):
        def start(journal):
            return {
                "problem": journal.blob(problem_with()),
                "options": {
                    "target": "cpu",
                    "seeds": ["llm"],
                    "compile_baseline": False,
                    "timing_ms": 50,
                    "final_timing_ms": 50,
                    "llm": {
                        "name": "mini",
                        "rounds": 0,
                        "samples": 3,
                        "edition": 2,
                        "budget_micro_usd": 10**12,
                        "budget_tokens": -1,
                        "providers": [
                            {
                                "name": "mini",
                                "dialect": "openai",
                                "model": "m-1",
                                "max_output_tokens": 4000,
                            }
                        ],
                    },
                },
            }

        run = forged(os.path.join(self.folder, "run"), start, finished=False)
        self.flags(server)  # writes settings.toml
        words = [
            WEFT,
            "resume",
            run,
            "--config",
            os.path.join(self.folder, "settings.toml"),
            "--no-llm-cache",
        ]
        own = self.environment
        self.environment = lambda: environment() | own() | variables
        return self.run_weft(words)

    def test_without_a_budget_of_one_s_own_nobody_is_asked(self):
        with LlmServer(answers([Reply(text=[kernel(RIGHT)])])) as server:
            done = self.resume(server)
            self.assertEqual(len(server.calls), 0, done.stderr)
        self.assertIn("no language model is asked", done.stderr)

    def test_calls_that_could_cost_more_are_not_made(self):
        with LlmServer(answers([Reply(text=[kernel(RIGHT)])])) as server:
            done = self.resume(server, WEFT_RUN_BUDGET_TOKENS="1000")
            self.assertEqual(len(server.calls), 0, done.stderr)
        self.assertIn(NOT_OURS, done.stderr)

    def test_within_one_s_own_budget_it_is_asked(self):
        with LlmServer(answers([Reply(text=[kernel(RIGHT)])])) as server:
            done = self.resume(server, WEFT_RUN_BUDGET_TOKENS="100000000")
            self.assertGreater(len(server.calls), 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
