"""Whole runs in which a language model writes the kernels: a scripted server
answers as models do, wrongly at first."""

import glob
import json
import os
import signal
import subprocess
import tempfile
import unittest

import weft_case
from llm_server import LlmServer, Reply
from weft_case import WEFT, problem_with

#: Far above what a run takes on a busy machine, far below what hangs.
PATIENCE_S = 500

KERNEL = '''
import ctypes
import os
import subprocess

import torch

SOURCE = r"""
extern "C" void run(const float* x, float* y, long n) {
  for (long i = 0; i < n; ++i) { float v = x[i]; y[i] = BODY; }
}
"""


def build():
    folder = os.environ["WEFT_KERNEL_CACHE"]
    source = os.path.join(folder, "kernel.cpp")
    library = os.path.join(folder, "kernel.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    done = subprocess.run(["g++", "-O2", "-shared", "-fPIC", source, "-o",
                           library], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    function = ctypes.CDLL(library).run
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    return function


run = build()


def kernel_function(x):
    y = torch.empty_like(x)
    run(x.data_ptr(), y.data_ptr(), x.numel())
    return y
'''

TRITON = '''
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, BODY, mask=at < n)


def kernel_function(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
'''

RIGHT = "v != v ? v : (v > 0 ? v : 0.0f) * 2.0f"


def fenced(text):
    return f"Here it is:\n```python\n{text}```\n"


def kernel(body, text=KERNEL):
    return fenced(text.replace("BODY", body))


#: What a model answers one call after the other, and a word of the prompt that
#: follows: the evidence.
WRONG_WAYS = [
    ("I would rather talk about kernels.", "no code block"),
    (fenced("def kernel_function(x:\n    return x\n"), "SyntaxError"),
    (fenced("import torch\n\n\ndef kernel_function(x):\n"
            "    return torch.relu(x) * 2\n"), "computes by the framework"),
    (kernel("undeclared(v)"), "undeclared"),
    (kernel("v * 2.0f"), "wrong"),
]


def answers(replies):
    """One after the other; the last one again and again."""
    left = list(replies)

    def answer(call):
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


class LlmRuns(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def words(self, server, *more, problem=None, out="run"):
        settings = self.write("settings.toml", "[llm.mini]\n" + "".join(
            f"{name} = {json.dumps(value)}\n" for name, value in {
                "dialect": "openai", "base_url": server.openai_url,
                "model": "m-1", "key_env": "TEST_KEY",
                "max_output_tokens": 4000}.items()))
        path = self.write("problem.py", problem or problem_with())
        return [WEFT, "run", path, "--out", os.path.join(self.folder, out),
                "--seeds", "llm", "--llm", "mini", "--config", settings,
                "--no-library", "--no-llm-cache", "--no-compile-baseline",
                "--timing-ms", "50", "--final-timing-ms", "50", "--samples",
                "1", *more]

    def environment(self):
        kept = {name: value for name, value in os.environ.items()
                if not name.upper().endswith("_PROXY")}
        return kept | weft_case.ENVIRONMENT | {
            "HOME": self.folder, "XDG_CONFIG_HOME": self.folder,
            "TEST_KEY": "sk-test-0123456789"}

    def run_weft(self, words):
        return subprocess.run(words, capture_output=True, text=True,
                              timeout=PATIENCE_S, cwd=self.folder,
                              check=False, env=self.environment())

    def report(self, out="run"):
        with open(os.path.join(self.folder, out, "report.md"),
                  encoding="utf-8") as file:
            return file.read()

    def test_wrong_in_many_ways_then_right(self):
        script = [text for text, _ in WRONG_WAYS] + [kernel(RIGHT)]
        with LlmServer(answers(script)) as server:
            done = self.run_weft(self.words(server, "--rounds", "9"))
            prompts = [call.prompt for call in server.calls]
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(len(prompts), len(script))
        for (_, evidence), prompt in zip(WRONG_WAYS, prompts[1:]):
            self.assertIn(evidence, prompt)
        # A right one is asked for more, unless it is at the floor already.
        if len(prompts) > len(script):
            self.assertIn("is right. Make it faster", prompts[len(script)])
        with open(glob.glob(os.path.join(
                self.folder, "run", "kernels", "*", "kernel.py"))[0],
                encoding="utf-8") as file:
            self.assertIn("extern \\\"C\\\"", file.read().replace(
                'extern "C"', 'extern \\"C\\"'))
        replay = self.run_weft([WEFT, "replay", os.path.join(
            self.folder, "run")])
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)
        self.no_secret_lies_in(os.path.join(self.folder, "run"))

    def no_secret_lies_in(self, folder):
        for place, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    self.assertNotIn(b"sk-test-0123456789", file.read(), name)

    def test_in_tritons_interpreter(self):
        try:
            import triton  # noqa: F401
        except ImportError:
            self.skipTest("no triton here")
        script = [kernel("v * 2", TRITON),
                  kernel("tl.where(v != v, v, tl.where(v > 0, v, 0.0)) * 2",
                         TRITON)]
        with LlmServer(answers(script)) as server:
            done = self.run_weft(self.words(
                server, "--target", "triton", "--rounds", "3"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(server.calls), 2)
        self.assertIn("none can be timed", self.report())

    def test_no_call_that_could_exceed_the_budget(self):
        with LlmServer(lambda call: kernel(RIGHT)) as server:
            done = self.run_weft(self.words(server, "--budget-tokens", "4000"))
            self.assertEqual(len(server.calls), 0)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("budget", self.report())

    def test_no_paid_call_twice_after_a_kill(self):
        script = answers([WRONG_WAYS[0][0], kernel("v * 3.0f"),
                          kernel(RIGHT)])
        processes = []

        def answer(call):
            # Dies while the second answer is under way, and the third.
            if call.number in (2, 3) and processes:
                processes.pop().send_signal(signal.SIGKILL)
            return Reply(text=script(call))

        run = os.path.join(self.folder, "run")
        with LlmServer(answer) as server:
            first = subprocess.Popen(
                self.words(server, "--rounds", "3"), cwd=self.folder,
                env=self.environment(), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
            processes.append(first)
            first.wait(PATIENCE_S)
            self.assertEqual(first.returncode, -signal.SIGKILL)
            answered = server.finished
            done = self.run_weft([WEFT, "resume", run, "--config",
                                  os.path.join(self.folder, "settings.toml"),
                                  "--no-llm-cache"])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            calls = [call.prompt for call in server.calls]
        # What was answered and read is never asked again: only the call that
        # died under way is.
        again = len(calls) - len(set(calls))
        self.assertLessEqual(again, 1, [len(call) for call in calls])
        self.assertGreaterEqual(answered, 1)


if __name__ == "__main__":
    unittest.main()
