"""A model in the mode that is asked for: captured, judged and run in it."""

import json
import os
import subprocess
import sys
import unittest

from capture_case import CaptureTest, simple
from weft_case import LOAD_BOTH, WeftCase, problem_with

from weft.capture import capture
from weft.judge.whole_model import WholeModel

DROPS = simple(
    "return torch.tanh(self.drop(self.norm(x))) * 2",
    init="self.drop = nn.Dropout(0.5)\nself.norm = nn.BatchNorm1d(6)",
)

#: Whether ModelNew's kernels run in each mode, without a gradient.
USES = (
    LOAD_BOTH
    + """
import warnings
torch.manual_seed(1)
ours = new.ModelNew()
torch.manual_seed(1)
model = old.Model()
x = old.get_inputs()[0]
told = {}
with torch.no_grad(), warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for mode in (False, True):
        ours.train(mode), model.train(mode)
        new._weft_passed_on = ""
        torch.manual_seed(2)
        got = ours(x)
        torch.manual_seed(2)
        torch.testing.assert_close(got, model(x))
        told["train" if mode else "eval"] = new._weft_passed_on
told["warnings"] = len(warned)
import json
print(json.dumps(told))
"""
)


class Captured(CaptureTest):
    def graph_in(self, mode):
        reply = capture.reply_of(self.write(DROPS), self.out, mode=mode)
        self.assertTrue(reply["ok"], reply)
        with open(self.out, encoding="utf-8") as file:
            return json.load(file)

    def test_each_mode_is_in_its_graph(self):
        for mode, training in (("as-is", True), ("eval", False)):
            with self.subTest(mode):
                graph = self.graph_in(mode)
                self.assertIs(graph["training"], training)
                drawn = [
                    t
                    for t in self.targets(graph)
                    if "rand" in t or "dropout" in t or "bernoulli" in t
                ]
                self.assertEqual(bool(drawn), training)
                self.assertEqual(bool(graph["mutations"]), training)

    def test_the_judge_s_model_is_in_it(self):
        path = self.write(DROPS)
        for mode, training in (("as-is", True), ("eval", False), ("train", True)):
            whole = WholeModel(path, 1, mode=mode)
            self.assertIs(whole.model.training, training)
            self.assertEqual(whole.job()["mode"], mode)


class Run(WeftCase):
    def test_kernels_are_for_the_mode_that_is_asked_for(self):
        file = self.write(
            "problem.py",
            problem_with(
                init="self.norm = nn.BatchNorm1d(64)",
                forward="return torch.tanh(torch.exp(self.norm(x)) * 2 + 1)",
                inputs="[torch.randn(512, 64)]",
            ),
        )
        run = self.path("run")
        done = self.weft(
            "run",
            file,
            "--out",
            run,
            "--mode",
            "eval",
            "--variants",
            "2",
            "--no-compile-baseline",
            "--timing-ms",
            "100",
            "--final-timing-ms",
            "200",
        )
        self.assert_ends(done, 0)
        self.assert_replays(run)
        with open(os.path.join(run, "report.md"), encoding="utf-8") as report:
            self.assertIn("* Mode: eval, as asked", report.read())
        with open(os.path.join(run, "result.json"), encoding="utf-8") as told:
            result = json.load(told)
        self.assertEqual((result["mode"], result["training"]), ("eval", False))
        if not any(one["ours"] for one in result["subgraphs"]):
            self.skipTest("no kernel of ours was faster")
        script = self.write("uses.py", USES)
        used = subprocess.run(
            [sys.executable, script, file, os.path.join(run, "composed", "model_new.py")],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(used.returncode, 0, used.stderr)
        told = json.loads(used.stdout)
        self.assertEqual(told["eval"], "")
        self.assertIn("in eval mode", told["train"])
        self.assertEqual(told["warnings"], 1)


if __name__ == "__main__":
    unittest.main()
