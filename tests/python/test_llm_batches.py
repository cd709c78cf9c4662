"""Whole runs whose language model answers by its batch API."""

import os
import signal
import subprocess
import time
import unittest

from llm_batches import ABSENT, ERRORED, EXPIRED, LlmBatches, prompt_of
from llm_case import PATIENCE_S, RIGHT, LlmCase, kernel
from llm_server import LlmServer
from weft_case import WEFT, long

RIGHT_KERNEL = kernel(RIGHT)

#: A run looks often, and waits for nothing.
SOON = {"batch": True, "batch_wait_s": 0, "batch_poll_ms": 200}


class BatchRuns(LlmCase):
    def begin(self, server, *more, **settings):
        return self.run_weft(self.words(server, "--rounds", "0", *more, **SOON, **settings))

    def resume(self, *more):
        return self.run_weft([WEFT, "resume", os.path.join(self.folder, "run"), *more])

    def assert_suspended(self, done, count):
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        answers = f"{count} answer" + "s" * (count > 1)
        self.assertIn(f"suspended: the run waits for {answers} of mini's batch", done.stderr)
        self.assertIn("weft resume", done.stderr)

    def assert_verified(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.it_replays()

    def test_a_run_is_suspended_until_its_batch_has_ended(self):
        batches = LlmBatches(lambda body: RIGHT_KERNEL)
        with LlmServer(None, batches=batches) as server:
            begun = self.words(server, "--rounds", "0", samples=3, **SOON)
            self.assert_suspended(self.run_weft(begun), 3)
            self.assertEqual((len(batches.batches), len(batches.calls)), (1, 3))
            looks = batches.looks()
            self.assert_suspended(self.resume(), 3)
            self.assertGreater(batches.looks(), looks)
            batches.end()
            self.assert_verified(self.resume())
        self.assertEqual((len(batches.batches), len(batches.calls)), (1, 3))
        self.assertIn("relu", prompt_of(batches.calls[0]))

    def test_anthropic_s_batches_and_a_killed_run(self):
        batches = LlmBatches(lambda body: RIGHT_KERNEL)
        with LlmServer(None, batches=batches) as server:
            settings = {**SOON, "batch_wait_s": 600, "dialect": "anthropic"}
            words = self.words(server, "--rounds", "0", base_url=server.anthropic_url, **settings)
            run = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self.environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)
            end = time.monotonic() + PATIENCE_S
            while batches.looks() < 2 and time.monotonic() < end:
                self.assertIsNone(run.poll())
                time.sleep(0.1)
            run.send_signal(signal.SIGKILL)
            run.wait()
            batches.end()
            self.assert_verified(self.resume())
        self.assertEqual((len(batches.batches), len(batches.calls)), (1, 1))

    def test_what_a_batch_does_not_answer_is_asked_in_the_next_one(self):
        told = iter([EXPIRED, ABSENT, RIGHT_KERNEL])
        given = {}

        def answer(body):
            batch = len(batches.batches)
            if batch not in given:
                given[batch] = next(told)
            return given[batch]

        batches = LlmBatches(answer)
        batches.ends_at_once = True
        with LlmServer(None, batches=batches) as server:
            self.assert_verified(self.begin(server, "--no-library"))
        self.assertEqual(len(batches.batches), 3)

    @long
    def test_what_no_batch_will_answer_ends_the_calls(self):
        wrong = [{"message": "no such model"}]
        for name, answer, refusals in (
            ("errored", lambda body: ERRORED, []),
            ("failed", lambda body: ABSENT, []),
            ("refused", lambda body: ABSENT, [(401, {"error": wrong[0]})] * 9),
        ):
            with self.subTest(name):
                batches = LlmBatches(answer)
                batches.ends_at_once = name != "failed"
                batches.refusals = list(refusals)
                with LlmServer(None, batches=batches) as server:
                    words = self.words(server, "--rounds", "0", out=name, **SOON)
                    if name == "failed":
                        self.assert_suspended(self.run_weft(words), 1)
                        batches.end("failed", errors={"data": wrong})
                        words = [WEFT, "resume", os.path.join(self.folder, name)]
                    done = self.run_weft(words)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("the language model was given up", done.stdout)
                self.assertIn("no such model", self.report(name))
                self.assertLessEqual(len(batches.batches), 1)

    def test_a_bench_is_suspended_with_its_problems(self):
        batches = LlmBatches(lambda body: RIGHT_KERNEL)
        with LlmServer(None, batches=batches) as server:
            words = self.words(server, "--rounds", "0", "--only", "problem", out="out", **SOON)
            words[1:3] = ["bench", self.folder]
            words.remove("--no-llm-cache")  # a bench has none
            done = self.run_weft(words)
            self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
            self.assertIn("the language model answers later: 1 problem", done.stderr)
            batches.end()
            done = self.run_weft(words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual((len(batches.batches), len(batches.calls)), (1, 1))

    def test_a_batch_that_is_gone_ends_its_calls(self):
        batches = LlmBatches(lambda body: RIGHT_KERNEL)
        with LlmServer(None, batches=batches) as server:
            self.assert_suspended(self.begin(server), 1)
            batches.refusals = [(404, {"error": {"message": "it was deleted"}})]
            done = self.resume()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("it was deleted", done.stdout)
        self.assertEqual(len(batches.batches), 1)

    def test_a_budget_of_seconds_and_a_batch_do_not_go_together(self):
        with LlmServer(None, batches=LlmBatches(lambda body: "")) as server:
            for words in (("--budget-s", "60"), ("--describe", "relu", "--yes")):
                begun = self.words(server, *words, **SOON)
                if "--describe" in words:
                    begun.pop(2)  # the problem's file
                done = self.run_weft(begun)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("(batch = true): leave one of them out", done.stderr)


if __name__ == "__main__":
    unittest.main()
