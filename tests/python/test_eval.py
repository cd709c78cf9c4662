"""The command `weft eval` where it judges by time, or waits for it; the rest is
in test_eval_refusals."""

import json
import os
import sys
import unittest

from weft_case import ROOT, WeftCase

CHEATS = os.path.join(ROOT, "tests", "cheats")
RELU = os.path.join(CHEATS, "references", "relu.py")
HONEST = os.path.join(CHEATS, "honest_function_of_inputs.py")
QUICK = ("--target", "cpu", "--no-compile-baseline", "--timing-ms", "100")


class EvalTest(WeftCase):
    def timed(self, *words, flags=QUICK, tries=5):
        """weft eval with these; asked again where the machine was too busy."""
        for _ in range(tries):
            done = self.weft("eval", *words, *flags)
            if "too busy" not in done.stdout:
                break
            print(f"asked again: {done.stdout}", file=sys.stderr)
        return done

    def test_an_accepted_kernel_is_timed_and_exits_0(self):
        done = self.timed(RELU, HONEST)
        self.assert_ends(done, 0)
        for words in ("accepted", "error", "zeros rejected", "speedup", "aten.maximum.default"):
            self.assertIn(words, done.stdout)

    def test_one_that_hangs_is_given_up_after_the_limit_of_one_call(self):
        # Asked again after that, it would say so. One hangs at once, the other
        # in the process after the one that checks it.
        texts = [
            f"""import os
import time

MARKS = os.path.join(os.environ["WEFT_KERNEL_CACHE"], "marks")


def kernel_function(x):
    global mine
    if "mine" not in globals():
        with open(MARKS, "a+", encoding="utf-8") as file:
            file.write(".")
            mine = file.tell()
    if mine > {right + 1}:
        raise ValueError("asked again")
    while mine > {right}:
        time.sleep(1)
    return x.relu()
"""
            for right in (0, 1)
        ]
        files = [self.write(f"hangs{i}.py", text) for i, text in enumerate(texts)]
        done = self.weft("eval", RELU, *files, *QUICK, "--json", "--call-ms", "5000")
        self.assert_ends(done, 1)
        for line in map(json.loads, done.stdout.splitlines()):
            verdict = line["verdict"]
            self.assertFalse(line["accepted"])
            self.assertEqual(
                (verdict["kind"], verdict["reason"]), ("timed_out", "no answer within 5 s")
            )
            self.assertLess(verdict["wall_ms"], 15000)
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_torch_compile_is_a_baseline_too(self):
        done = self.timed(RELU, HONEST, "--json", flags=("--target", "cpu", "--timing-ms", "100"))
        self.assert_ends(done, 0)
        timing = json.loads(done.stdout)["timing"]
        told = timing["compile"] or timing["compile_error"]
        self.assertTrue(told, timing)


if __name__ == "__main__":
    unittest.main()
