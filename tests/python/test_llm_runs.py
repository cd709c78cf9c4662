"""Whole runs in which a language model writes the kernels: a scripted server
answers as models do, wrongly at first."""

import csv
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

from llm_case import (
    KERNEL,
    PATIENCE_S,
    RIGHT,
    TRITON,
    LlmCase,
    answers,
    fenced,
    kernel,
)
from llm_server import LlmServer, Reply
from weft_case import WEFT

#: Shows all that the sandbox could know of the key.
NOSY = KERNEL.replace("run = build()", "raise RuntimeError(f'has {os.environ}')")

#: What a model answers one call after the other, and a word of the prompt that
#: follows: the evidence.
WRONG_WAYS = [
    ("I would rather talk about kernels.", "no code block"),
    (fenced("import torch\n"), "defines kernel_function"),
    (fenced("def kernel_function(x:\n    return x\n"), "SyntaxError"),
    (
        fenced("import torch\n\n\ndef kernel_function(x):\n    return torch.relu(x) * 2\n"),
        "computes by PyTorch",
    ),
    (kernel("undeclared(v)"), "undeclared"),
    (kernel("v * 2.0f"), "wrong"),
    (kernel("(v > 0 ? v : 0.0f) * 2.0f"), "nan"),
    (kernel(RIGHT).replace("return y", "return y[:1]"), "result 0 is"),
    (
        kernel(RIGHT).replace("torch.empty_like(x)", "torch.empty(x.shape, dtype=torch.float64)"),
        "torch.float64",
    ),
    (kernel("*(volatile float*)8"), "SIGSEGV"),
    (kernel("((float*)x)[i] = 0.0f, " + RIGHT), "input"),
    (fenced(NOSY), "has environ({"),
    (kernel("v * 2.0f"), "proposed before"),
]

#: What a server can do instead of answering, as far as a call is made again.
FAILURES = [
    Reply(status=429, headers={"retry-after": "1"}),
    Reply(status=429),
    Reply(status=529),
    Reply(status=500),
    Reply(status=502, raw=b"<html>", content_type="text/html"),
    Reply(text="x" * 5000, cut=True),
    Reply(text="x", edit=lambda events: [events[0], b'data: {"choices": [\n\n', *events[1:]]),
    Reply(text="x" * 2000, error={"type": "server_error", "message": "no"}),
    Reply(raw=b""),
    Reply(raw="data: x\n\n".encode("utf-16")),
    Reply(text="x" * 9000, hang="before"),
    Reply(text="x" * 9000, hang="within"),
    Reply(text="x" * 9000, chunk_chars=1, event_delay_s=0.1),
]
#: Answers that are no kernel, but whole.
NO_KERNELS = [
    Reply(text=""),
    Reply(text="I won't", finish="refusal"),
    Reply(text="```python\nimport torch\n", finish="length"),
    kernel("v * 7.0f"),
]
#: Calls with one prompt before it is given up.
TRIES = 4


class LlmRuns(LlmCase):
    def test_wrong_in_many_ways_then_right(self):
        script = [text for text, _ in WRONG_WAYS] + [kernel(RIGHT)]
        with LlmServer(answers(script)) as server:
            done = self.run_weft(self.words(server, "--rounds", "15"))
            prompts = [call.prompt for call in server.calls]
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(len(prompts), len(script))
        for (_, evidence), prompt in zip(WRONG_WAYS, prompts[1:]):
            self.assertIn(evidence, prompt)
        # A right one is asked for more, unless it is at the floor already.
        if len(prompts) > len(script):
            self.assertIn("is correct. Make it faster", prompts[len(script)])
        self.assertIn("kernel_function", self.only_file("kernels/*/kernel.py"))
        self.it_replays()
        self.no_secret_lies_in(os.path.join(self.folder, "run"))
        self.evidence_is_measured(prompts, len(script))
        self.calls_are_told(len(prompts))
        self.session_is_written(len(script) - 1)

    def evidence_is_measured(self, prompts, first_right):
        """Elements of a wrong one, and what a right one was built into."""
        results = [
            event["body"] for event in self.shown("--events") if event["type"] == "SeedResult"
        ]
        wrong = next(one for one in results if one["verdict"]["kind"] == "wrong")
        for one in wrong["verdict"]["mismatches"]:
            index = ", ".join(map(str, one["index"]))
            self.assertTrue(
                any(
                    f"\n- {one['output']}[{index}] is {one['got']}, expected "
                    f"{one['expected']}, error {one['error']}\n" in prompt
                    for prompt in prompts
                )
            )
        self.assertLessEqual(1, len(wrong["verdict"]["mismatches"]))
        self.assertFalse(
            any(one["verdict"]["mismatches"] for one in results if one["verdict"]["correct"])
        )
        if len(prompts) > first_right and shutil.which("objdump"):
            self.assertRegex(prompts[first_right], r"The built code:\n- `run`: ")

    def calls_are_told(self, calls):
        with open(
            os.path.join(self.folder, "run", "results.csv"), newline="", encoding="utf-8"
        ) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["llm_calls"] for row in rows], [str(calls)] * 2)
        self.assertEqual(rows[0]["origin"], "llm")
        self.assertEqual(rows[1]["llm_tokens"], str(120 * calls))
        shown = self.run_weft([WEFT, "show", os.path.join(self.folder, "run")]).stdout
        self.assertIn(f"language model mini: {calls} calls\n", shown)
        self.assertIn(f"tokens in {100 * calls}, cached 0", shown)
        self.assertIn("What came of what", self.report())

    def session_is_written(self, files):
        [folder] = glob.glob(os.path.join(self.folder, "run", "kernels", "*", "session"))
        names = set(os.listdir(folder))
        self.assertLessEqual(
            {
                "problem.txt",
                "reference.py",
                "test.py",
                "final_kernel.py",
                "result.json",
                "seed_0.py",
            },
            names,
        )
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(result["success"])
        self.assertGreaterEqual(result["rounds"], len(result["history"]))
        self.assertTrue(result["history"][-1]["success"])
        self.assertIn("kernel_function", result["kernel_code"])
        with open(
            os.path.join(os.path.dirname(folder), "..", "summary.json"), encoding="utf-8"
        ) as file:
            [summary] = json.load(file)
        self.assertTrue(summary["success"])
        # The session's own test, as a person would run it.
        os.replace(os.path.join(folder, "final_kernel.py"), os.path.join(folder, "kernel.py"))
        done = subprocess.run(
            [sys.executable, "test.py"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=self.environment(),
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLessEqual(sum(name.startswith("seed_") for name in names), files + 1)

    def no_secret_lies_in(self, folder):
        for place, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    self.assertNotIn(b"sk-test-0123456789", file.read(), name)

    def test_a_server_that_fails_in_every_way(self):
        """The run ends well, no limit is exceeded, the journal replays."""
        failures, script = list(FAILURES), []
        for answer in [*NO_KERNELS, kernel(RIGHT)]:
            script += [failures.pop(0) for _ in range(min(TRIES - 1, len(failures)))]
            script.append(answer)
        self.assertEqual(failures, [])
        with LlmServer(answers(script)) as server:
            done = self.run_weft(
                self.words(
                    server,
                    "--rounds",
                    str(len(NO_KERNELS)),
                    idle_ms=700,
                    wall_ms=2000,
                    **{"limits.calls_at_once": 2},
                )
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(server.calls), len(script))
            self.assertLessEqual(server.at_once_max, 2)
        self.assertIn("kernel_function", self.only_file("kernels/*/kernel.py"))
        self.it_replays()

    def test_in_tritons_interpreter(self):
        try:
            import triton  # noqa: F401
        except ImportError:
            self.skipTest("no triton here")
        script = [
            kernel("v * 2", TRITON),
            kernel("tl.where(v != v, v, tl.where(v > 0, v, 0.0)) * 2", TRITON),
        ]
        with LlmServer(answers(script)) as server:
            done = self.run_weft(self.words(server, "--target", "triton", "--rounds", "3"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(server.calls), 2)
        self.assertIn("none can be timed", self.report())

    def test_prompts_of_the_users_own(self):
        prompts = os.path.join(self.folder, "prompts")
        written = self.run_weft([WEFT, "llm", "prompts", prompts])
        self.assertEqual(written.returncode, 0, written.stderr)
        for name in os.listdir(prompts):
            if name not in ("rules.md", "first.md"):
                os.unlink(os.path.join(prompts, name))
        self.write("prompts/rules.md", "Rules of the house.\n")
        with open(os.path.join(prompts, "first.md"), "a", encoding="utf-8") as file:
            file.write("Begin with {{bset}}.\n")
        with LlmServer(lambda call: kernel(RIGHT)) as server:
            words = self.words(server, "--rounds", "0", "--prompts", prompts)
            done = self.run_weft(words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("{{bset}}: it has {{unusable}}", done.stderr)
            self.write("prompts/first.md", "Begin.\n{{unusable}}\n")
            self.write("prompts/hints.md", "x\n")
            done = self.run_weft(words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("no prompt template 'hints'", done.stderr)
            os.unlink(os.path.join(prompts, "hints.md"))
            done = self.run_weft(words)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            [prompt] = [call.prompt for call in server.calls]
        self.assertTrue(prompt.lstrip().startswith("Rules of the house."), prompt[:99])
        self.assertTrue(prompt.rstrip().endswith("Begin."), prompt[-99:])
        self.assertNotIn("Answer with exactly one Python file", prompt)
        self.assertIn("Prompts of the user's own", self.report())
        # The journal has them.
        shutil.rmtree(prompts)
        self.it_replays()

    def test_no_call_that_could_exceed_the_budget(self):
        for flag, value, prices in (
            ("--budget-tokens", "4000", ""),
            ("--budget-usd", "0", "prices = { output = 1.0 }\n"),
        ):
            with self.subTest(flag), LlmServer(lambda call: kernel(RIGHT)) as server:
                words = self.words(server, flag, value, out=flag)
                with open(
                    os.path.join(self.folder, "settings.toml"), "a", encoding="utf-8"
                ) as file:
                    file.write(prices)
                done = self.run_weft(words)
                self.assertEqual(len(server.calls), 0)
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
                self.assertIn("budget", self.report(flag))

    def test_no_paid_call_twice_after_a_kill(self):
        script = answers([kernel("v * 3.0f"), WRONG_WAYS[0][0], kernel(RIGHT)])
        processes = []

        def answer(call):
            # Dies while the second answer is under way, and the third.
            if call.number in (2, 3) and processes:
                processes.pop().send_signal(signal.SIGKILL)
            return Reply(text=script(call))

        run = os.path.join(self.folder, "run")
        with LlmServer(answer) as server:
            first = subprocess.Popen(
                self.words(server, "--rounds", "3"),
                cwd=self.folder,
                env=self.environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            processes.append(first)
            first.wait(PATIENCE_S)
            self.assertEqual(first.returncode, -signal.SIGKILL)
            answered = server.finished
            self.what_is_known_of_it_is_told(run)
            # It finds the file of settings that the run was begun with.
            done = self.run_weft([WEFT, "resume", run, "--no-llm-cache"])
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            calls = [call.prompt for call in server.calls]
        # What was answered and read is never asked again: only the call that
        # died under way is.
        again = len(calls) - len(set(calls))
        self.assertLessEqual(again, 1, [len(call) for call in calls])
        self.assertGreaterEqual(answered, 1)
        self.the_lost_call_is_counted_once(again)

    def what_is_known_of_it_is_told(self, run):
        """Of a run that stopped; which does not go on without its key."""
        shown = self.run_weft([WEFT, "show", run]).stdout
        self.assertIn("a call of mini is under way: ", shown)
        self.assertIn("no verdict yet  1 seeds judged so far\n    llm-0 ", shown)
        before = self.shown()[-1]["events"]
        done = subprocess.run(
            [WEFT, "resume", run, "--config", os.path.join(self.folder, "settings.toml")],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=self.environment() | {"TEST_KEY": ""},
        )
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("TEST_KEY is not set", done.stderr)
        self.assertEqual(self.shown()[-1]["events"], before)

    def the_lost_call_is_counted_once(self, again):
        """At what was reserved for it; all others at what they cost."""
        events = self.shown("--events")
        asked = {
            event["body"]["ticket"]: event["body"]["tokens"]
            for event in events
            if event["type"] == "LlmCallRequest"
        }
        settled = [event["body"] for event in events if event["type"] == "LlmCallSettled"]
        lost = [one for one in settled if one["failure"] == "node_lost"]
        self.assertEqual(len(lost), again)
        for one in settled:
            expected = asked[one["ticket"]] if one["failure"] else 120
            self.assertEqual(one["tokens"], expected)


if __name__ == "__main__":
    unittest.main()
