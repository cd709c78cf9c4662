"""Shared by the tests of whole runs with a scripted language model."""

import glob
import json
import os
import subprocess
import tempfile
import unittest

import weft_case
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

TRITON = """
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
"""

RIGHT = "v != v ? v : (v > 0 ? v : 0.0f) * 2.0f"


def fenced(text):
    return f"Here it is:\n```python\n{text}```\n"


def kernel(body, text=KERNEL):
    return fenced(text.replace("BODY", body))


def answers(replies):
    """One after the other; the last one again and again."""
    left = list(replies)

    def answer(call):
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


class LlmCase(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def flags(self, server, *more, out="run", **settings):
        """Of a run that asks the server alone, and times for a moment."""
        told = {
            "dialect": "openai",
            "base_url": server.openai_url,
            "model": "m-1",
            "key_env": "TEST_KEY",
            "max_output_tokens": 4000,
        } | settings
        path = self.write(
            "settings.toml",
            "[llm.mini]\n"
            + "".join(f"{name} = {json.dumps(value)}\n" for name, value in told.items()),
        )
        return [
            "--out",
            os.path.join(self.folder, out),
            "--seeds",
            "llm",
            "--llm",
            "mini",
            "--config",
            path,
            "--no-library",
            "--no-llm-cache",
            "--no-compile-baseline",
            "--timing-ms",
            "50",
            "--final-timing-ms",
            "50",
            *more,
        ]

    def words(self, server, *more, problem=None, samples=1, **settings):
        path = self.write("problem.py", problem or problem_with())
        return [
            WEFT,
            "run",
            path,
            *self.flags(server, "--samples", str(samples), *more, **settings),
        ]

    def environment(self):
        kept = {
            name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")
        }
        return (
            kept
            | weft_case.ENVIRONMENT
            | {
                "HOME": self.folder,
                "XDG_CONFIG_HOME": self.folder,
                "TEST_KEY": "sk-test-0123456789",
            }
        )

    def run_weft(self, words, **more):
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=self.folder,
            check=False,
            env=self.environment(),
            **more,
        )

    def report(self, out="run"):
        with open(os.path.join(self.folder, out, "report.md"), encoding="utf-8") as file:
            return file.read()

    def it_replays(self, out="run"):
        replay = self.run_weft([WEFT, "replay", os.path.join(self.folder, out)])
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)

    def shown(self, *more, out="run"):
        """Objects that `weft show --json` tells."""
        done = self.run_weft([WEFT, "show", os.path.join(self.folder, out), "--json", *more])
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def only_file(self, pattern):
        [path] = glob.glob(os.path.join(self.folder, "run", pattern))
        with open(path, encoding="utf-8") as file:
            return file.read()
