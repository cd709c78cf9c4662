"""Several problems that one process captures, each by a copy of itself."""

import json
import os
import signal
import unittest

from capture_case import CaptureTest, simple


class CapturesInARow(CaptureTest):
    def captured(self, *texts, seconds=0):
        """(exit code, replies, standard error) of one process for all."""
        words = ["--seconds", str(seconds)]
        for number, text in enumerate(texts):
            problem = os.path.join(self.folder, f"{number}.py")
            with open(problem, "w", encoding="utf-8") as file:
                file.write(text)
            words += ["--problem", problem, "--out", problem + ".json"]
        done = self.command(*words)
        return (done.returncode, list(map(json.loads, done.stdout.splitlines())), done.stderr)

    def test_several_are_captured_each_as_if_alone(self):
        """The second is not in the first's data type, nor finds its module."""
        one = (
            "import sys\nimport torch\n"
            "assert 'left_behind' not in sys.modules\n"
            "sys.modules['left_behind'] = sys\n"
            "torch.set_default_dtype(torch.float64)\n" + simple("return x + 1")
        )
        code, replies, err = self.captured(one, simple("return x + 1"), one)
        self.assertEqual((code, len(replies)), (0, 3), err)
        types = []
        for number in range(3):
            with open(os.path.join(self.folder, f"{number}.py.json"), encoding="utf-8") as file:
                types.append(json.load(file)["nodes"][0]["values"][0]["dtype"])
        self.assertEqual(types, ["float64", "float32", "float64"])

    def test_none_is_captured_after_one_that_fails(self):
        good = simple("return x + 1")
        code, replies, _ = self.captured(good, "class Model: pass\n", good)
        self.assertEqual((code, [one["ok"] for one in replies]), (1, [True, False]))

    def test_one_that_dies_ends_the_process_likewise(self):
        good = simple("return x + 1")
        for bad, code in (
            ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", -11),
            ("import os\nos._exit(7)\n", 7),
        ):
            with self.subTest(bad):
                ended, replies, err = self.captured(good, bad, good)
                self.assertEqual((ended, len(replies)), (code, 1), err)
                self.assertEqual(err.count("Fatal Python error"), code == -11)
                if code == -11:
                    self.assertIn('1.py", line 2', err)

    def test_one_that_takes_too_long_is_ended(self):
        good = simple("return x + 1")
        hangs = simple("while True: pass")
        ended, replies, _ = self.captured(good, hangs, good, seconds=15)
        self.assertEqual((ended, len(replies)), (-signal.SIGALRM, 1))


if __name__ == "__main__":
    unittest.main()
