"""A run whose graph was captured before it: by the process that wrote the problem file,
or by whoever names it with --graph. The run captures nothing."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import unittest

import torch
import weft
from backend_case import Net, RealSearches
from torch.fx.experimental.proxy_tensor import make_fx
from weft.backend.graphs.problem_source import source_of
from weft.backend.options import options_from
from weft.backend.searches import own_capture
from weft.problem.problem import MODULE_NAME
from weft_case import QUICK, ROOT, TINY, WEFT, WeftCase, environment, events_of, long


def captured_in_a_process_of_its_own(text):
    """The graph's text."""
    with tempfile.TemporaryDirectory() as folder:
        problem, graph = os.path.join(folder, "problem.py"), os.path.join(folder, "graph.json")
        with open(problem, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(
            [sys.executable, "-m", "weft.capture.capture", "--problem", problem, "--out", graph],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
        )
        with open(graph, encoding="utf-8") as file:
            return file.read()


class InTheUsersProcess(RealSearches):
    def source(self):
        """Of a graph of AOTAutograd's, and arguments for it."""
        x = torch.randn(4, 12)
        module = make_fx(Net(), decomposition_table={})(x)
        return source_of(module, [x], {}), [x]

    def options(self, **asked):
        return options_from({"wait": True, "budget_s": 5, "cache": False, **asked})

    def test_it_is_the_graph_that_a_process_of_its_own_captures(self):
        source, arguments = self.source()
        text = own_capture.captured(source, self.options(), arguments)
        self.assertTrue(text)
        self.assertEqual(
            json.loads(text), json.loads(captured_in_a_process_of_its_own(source.text))
        )

    def test_the_process_is_left_as_it_was(self):
        source, arguments = self.source()
        logger = logging.getLogger("torch")
        level, before = logger.level, torch.get_rng_state()
        sys.modules.pop(MODULE_NAME, None)
        self.assertTrue(own_capture.captured(source, self.options(), arguments))
        self.assertTrue(torch.equal(torch.get_rng_state(), before))
        self.assertEqual(logger.level, level)
        self.assertNotIn(MODULE_NAME, sys.modules)
        self.assertTrue(torch.is_grad_enabled())

    def test_only_for_who_waits_a_short_time(self):
        source, arguments = self.source()
        large = [torch.empty(own_capture.BYTES_MAX // 4 + 1)]
        for options, given in (
            (self.options(wait=False), arguments),
            (self.options(budget_s=300), arguments),
            (self.options(), large),
        ):
            self.assertEqual(own_capture.captured(source, options, given), "")
        with torch.inference_mode():
            self.assertEqual(own_capture.captured(source, self.options(), arguments), "")
        with torch.autocast("cpu"):
            self.assertEqual(own_capture.captured(source, self.options(), arguments), "")

    def test_what_it_cannot_capture_is_the_run_s_to_capture(self):
        source, arguments = self.source()
        source.text = source.text.replace("def forward", "def backward")
        self.assertEqual(own_capture.captured(source, self.options(), arguments), "")

    def test_a_waiting_call_hands_its_graph_over(self):
        x = torch.randn(4, 12)
        torch._dynamo.reset()
        mine = self.compiled(Net(), budget_s=30, cache=False, target="cpu")
        with torch.no_grad():
            mine(x)
        self.assertIn("--graph", self.searches[-1])
        weft.optimize(Net(), [x], budget_s=30, cache=False, target="cpu")
        self.assertIn("--graph", self.searches[-1])
        self.assertEqual(len(self.searches), 2)


class NamedByAFlag(WeftCase):
    def setUp(self):
        super().setUp()
        self.problem = self.write("tiny.py", TINY)
        self.graph = self.write("graph.json", captured_in_a_process_of_its_own(TINY))

    def test_a_run_captures_nothing_and_can_be_replayed_and_forked(self):
        run, fork = self.path("run"), self.path("fork")
        done = self.weft("run", self.problem, "--graph", self.graph, "--out", run, *QUICK)
        self.assert_ends(done, 0)
        os.remove(self.graph)  # the run directory has it
        kinds = [one["type"] for one in events_of(run)]
        self.assertNotIn("CaptureRequest", kinds)
        self.assertIn("captured before the run", done.stdout)
        self.assert_replays(run)
        seq = next(one["seq"] for one in events_of(run) if one["type"] == "BuildRequest")
        done = self.weft("fork", run, "--at", str(seq), "--out", fork)
        self.assert_ends(done, 0)
        self.assertNotIn("CaptureRequest", [one["type"] for one in events_of(fork)])

    @long
    def test_a_stopped_run_is_resumed(self):
        run = self.path("run")
        process = subprocess.Popen(
            [WEFT, "run", self.problem, "--graph", self.graph, "--out", run, *QUICK],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        for line in process.stdout:
            if "seeds" in line:
                break
        process.kill()
        process.communicate()
        self.assert_ends(self.weft("resume", run), 0)
        self.assertNotIn("CaptureRequest", [one["type"] for one in events_of(run)])
        self.assert_replays(run)

    def test_another_model_s_graph_gives_no_wrong_module(self):
        other = TINY.replace("torch.relu", "torch.tanh")
        self.assertNotEqual(other, TINY)
        graph = self.write("other.json", captured_in_a_process_of_its_own(other))
        run = self.path("run")
        done = self.weft("run", self.problem, "--graph", graph, "--out", run, *QUICK)
        with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual([one["id"] for one in result["subgraphs"] if one["ours"]], [])
        self.assertIn("PyTorch's forward", done.stdout + done.stderr)

    def test_what_is_no_graph_is_refused(self):
        for text in ("", "{}", "[1]", '{"nodes": [{"kind": "call"}]}', "\x00" * 100):
            with self.subTest(text):
                path = self.write("bad.json", text)
                done = self.weft("run", self.problem, "--graph", path, "--out", self.path("run"))
                self.assert_ends(done, 2, "--graph")
                self.assertFalse(os.path.exists(self.path("run")))

    def test_it_is_of_one_size_and_one_mode(self):
        for more in (["--dynamic-batch"], ["--mode", "eval"], ["--mode", "both"], ["--train"]):
            with self.subTest(more):
                done = self.weft(
                    "run", self.problem, "--graph", self.graph, "--out", self.path("run"), *more
                )
                self.assert_ends(done, 2, "--graph")


if __name__ == "__main__":
    unittest.main()
