"""weft run --mode both: a run for each mode, and one module of what they found."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from driver_settings import settings_with
from test_modes import DROPS, USES
from weft_case import WEFT, WeftCase, environment, long, problem_with

from weft.modes import both_modes_run, both_modes_text
from weft.runs import judge, write_text

#: Kernels for Triton, without a GPU interpreted: every right one is taken,
#: whatever else this machine does.
INTERPRETED = ("--target", "triton", "--variants", "1", "--no-compile-baseline")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def nearness(is_near):
    return {"outcome": "within" if is_near else "outside", "reason": "by 0.1"}


@unittest.skipIf(os.path.exists("/dev/nvidiactl"), "kernels would be timed")
class InBench(WeftCase):
    """A problem of a bench is a run as any other."""

    @classmethod
    def setUpClass(cls):
        cls.bench = tempfile.mkdtemp(prefix="weft-case-")
        cls.addClassCleanup(shutil.rmtree, cls.bench)
        cls.problem = os.path.join(cls.bench, "1_Drops.py")
        with open(cls.problem, "w", encoding="utf-8") as file:
            file.write(DROPS)
        cls.words = [
            WEFT,
            "bench",
            cls.bench,
            "--only",
            "1_*",
            "--out",
            os.path.join(cls.bench, "out"),
            "--mode",
            "both",
            "--jobs",
            "1",
            *INTERPRETED,
        ]
        done = subprocess.run(
            cls.words, capture_output=True, text=True, check=False, env=environment()
        )
        assert done.returncode == 0, done
        runs = os.path.join(cls.bench, "out", "runs")
        cls.run_folder = os.path.join(runs, *os.listdir(runs))
        cls.result = json.loads(read(cls.run_folder, "result.json"))

    def test_each_mode_is_a_run_of_its_own_and_right_in_the_whole(self):
        self.assertIn("verified: eval: ", self.result["summary"])
        self.assertIn("; train: ", self.result["summary"])
        report = read(self.run_folder, "report.md")
        for mode in ("eval", "train"):
            with self.subTest(mode):
                self.assert_replays(os.path.join(self.run_folder, mode))
                found = self.result["modes"][mode]
                self.assertEqual((found["mode"], found["training"]), (mode, mode == "train"))
                self.assertTrue(found["verdict"]["correct"])
                self.assertTrue(any(s["ours"] for s in found["subgraphs"]))
                self.assertIn(f"| {mode} | right |", report)

    def test_one_module_takes_each_mode_s_kernels(self):
        script = self.write("uses.py", USES)
        used = subprocess.run(
            [
                sys.executable,
                script,
                self.problem,
                os.path.join(self.run_folder, "composed", "model_new.py"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment(TRITON_INTERPRET="1"),
        )
        self.assertEqual(used.returncode, 0, used.stderr)
        self.assertEqual(json.loads(used.stdout), {"eval": "", "train": "", "warnings": 0})

    def test_the_bench_has_its_row_and_finds_it_again(self):
        with open(
            os.path.join(self.bench, "out", "results.csv"), encoding="utf-8", newline=""
        ) as file:
            (row,) = csv.DictReader(file)
        self.assertEqual(row["verdict"], "verified")
        before = os.stat(os.path.join(self.run_folder, "result.json"))
        done = subprocess.run(
            self.words, capture_output=True, text=True, check=False, env=environment()
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            os.stat(os.path.join(self.run_folder, "result.json")).st_mtime_ns, before.st_mtime_ns
        )


class Whole(WeftCase):
    """What is composed of two runs' results."""

    def composed(self, verdicts, judged, far=(), beside=(), is_near=None):
        """(results, the module's text or None); `judged` says of a text and a
        mode whether the whole is right. The runs' modules are `far` from eager
        in these modes, and have another `beside` them, which is near; so they
        are in the whole, where `is_near` does not say otherwise."""
        is_near = is_near or (
            lambda text, mode: mode not in far or f"# kernels for {mode}" not in text
        )
        out = self.path("out")
        os.makedirs(os.path.join(out, "composed"))
        results = {}
        for mode, is_right in verdicts.items():
            results[mode] = {
                "verdict": {
                    "correct": is_right,
                    "reason": "off by 1",
                    "kernelbench": nearness(mode not in far),
                },
                "subgraphs": [],
                "why_no_kernel": "",
                "timing": {},
                "timed": False,
                "externs": {},
                "summary": "",
                "kernelbench_module": {"ours": ["sg_1"], "externs": {}, "timing": {}}
                if mode in beside
                else None,
            }
            os.makedirs(os.path.join(out, mode, "composed", "kernelbench"))
            write_text(f"# near in {mode}\n", out, mode, "composed", "kernelbench", "model_new.py")
            if is_right:
                write_text(f"# kernels for {mode}\n", out, mode, "composed", "model_new.py")
        path = os.path.join(out, "composed", "model_new.py")
        with mock.patch.object(
            both_modes_run,
            "judge",
            lambda *words: (
                {
                    "correct": judged(read(words[2]), words[3]),
                    "reason": "no",
                    "kernelbench": nearness(is_near(read(words[2]), words[3])),
                },
                None,
            ),
        ):
            both_modes_run.compose(settings_with(out=out), results)
        return results, read(path) if os.path.exists(path) else None

    def test_one_mode_s_kernels_stay_where_the_other_s_are_wrong(self):
        results, text = self.composed({"eval": True, "train": False}, lambda text, mode: True)
        self.assertIn("# kernels for eval", text)
        self.assertIn("refused: off by 1", both_modes_run.sentence("train", results["train"]))
        self.assertTrue(both_modes_run.has_kernels(results["eval"]))

    def test_so_where_they_are_wrong_in_the_whole(self):
        results, text = self.composed(
            {"eval": True, "train": True},
            lambda text, mode: mode == "train" or "kernels for eval" not in text,
        )
        self.assertNotIn("# kernels for eval", text)
        self.assertIn("# kernels for train", text)
        self.assertIn("refused: no", both_modes_run.sentence("eval", results["eval"]))

    def test_a_run_s_own_words_say_why_there_is_no_kernel(self):
        result = {"verdict": {"correct": True}, "why_no_kernel": "no generated kernel was correct"}
        self.assertEqual(
            both_modes_run.sentence("eval", result),
            "eval: PyTorch's forward, no generated kernel was correct",
        )

    def test_a_mode_far_from_eager_has_its_second_module_in_another_whole(self):
        results, text = self.composed(
            {"eval": True, "train": True}, lambda text, mode: True, far=["train"], beside=["train"]
        )
        self.assertIn("# kernels for train", text)
        beside = read(self.path("out"), both_modes_run.NEAR_PATH)
        self.assertIn("# kernels for eval", beside)
        self.assertIn("# near in train", beside)
        self.assertEqual(
            [
                one["kernelbench_module"]["verdict"]["kernelbench"]["outcome"]
                for one in results.values()
            ],
            ["within", "within"],
        )
        self.assertEqual(results["train"]["kernelbench_module"]["ours"], ["sg_1"])
        self.assertEqual(
            both_modes_run.near_words(results),
            "; outside KernelBench's tolerance in train mode, composed/kernelbench/model_new.py is within",
        )
        both_modes_run.conclude(settings_with(out=self.path("out"), problem="p.py"), results)
        told = json.loads(read(self.path("out"), "result.json"))
        self.assertEqual(told["verdict"]["kernelbench"]["outcome"], "outside")
        self.assertTrue(told["kernelbench_module"])

    def test_what_is_far_in_the_whole_leaves_the_second_one(self):
        for name in ("wrong", "far"):
            with self.subTest(name):

                def is_right(text, mode):
                    return mode == "eval" or "# near in train" not in text

                def is_near(text, mode):
                    return is_right(text, mode) and (
                        mode == "eval" or "# kernels for train" not in text
                    )

                results, _ = self.composed(
                    {"eval": True, "train": True},
                    is_right if name == "wrong" else lambda text, mode: True,
                    ["train"],
                    ["train"],
                    is_near if name == "far" else None,
                )
                self.assertIn(
                    "# kernels for eval", read(self.path("out"), both_modes_run.NEAR_PATH)
                )
                self.assertEqual(results["train"]["kernelbench_module"]["ours"], [])
                shutil.rmtree(self.path("out"))

    def test_the_first_stays_where_nobody_can_judge_the_second(self):
        def judged(text, mode):
            if "# near in train" in text:
                raise both_modes_run.NotJudged("no memory")
            return True

        results, text = self.composed(
            {"eval": True, "train": True}, judged, far=["train"], beside=["train"]
        )
        self.assertIn("# kernels for train", text)
        self.assertIsNone(results["eval"]["kernelbench_module"])
        self.assertFalse(os.path.exists(os.path.join(self.path("out"), both_modes_run.NEAR_PATH)))

    def test_no_second_whole_where_nothing_near_was_found(self):
        for far, beside in (((), ()), (["train"], ())):
            with self.subTest(far=far):
                results, _ = self.composed(
                    {"eval": True, "train": True}, lambda text, mode: True, far, beside
                )
                self.assertFalse(
                    os.path.exists(os.path.join(self.path("out"), both_modes_run.NEAR_PATH))
                )
                self.assertIsNone(results["eval"]["kernelbench_module"])
                shutil.rmtree(self.path("out"))

    def test_a_model_that_reads_no_mode_keeps_its_second_module(self):
        results, _ = self.composed(
            {"eval": True}, lambda text, mode: True, far=["eval"], beside=["eval"]
        )
        self.assertEqual(read(self.path("out"), both_modes_run.NEAR_PATH), "# near in eval\n")
        self.assertEqual(results["eval"]["kernelbench_module"]["ours"], ["sg_1"])

    def test_what_a_candidate_says_ends_no_table(self):
        results = {
            mode: {
                "verdict": {"correct": False, "reason": "a |\n<b>"},
                "why_no_kernel": "",
                "timing": {},
                "summary": "",
            }
            for mode in ("eval", "train")
        }
        self.assertIn(
            "| eval | a \\| \\<b> |",
            both_modes_run.report(settings_with(problem="p.py"), results, ""),
        )

    def test_no_module_is_left_where_neither_s_hold(self):
        with self.assertRaisesRegex(both_modes_run.Ended, "not verified"):
            self.composed({"eval": True, "train": True}, lambda text, mode: False)
        self.assertFalse(os.listdir(self.path("out/composed")))


class Both(WeftCase):
    def run_both(self, text, *words):
        """(what it ended with, its folder)"""
        file, run = self.write("problem.py", text), self.path("run")
        return self.weft(
            "run", file, "--out", run, "--mode", "both", "--no-library", *INTERPRETED, *words
        ), run

    def test_what_reads_no_mode_has_one_run(self):
        done, run = self.run_both(problem_with())
        self.assert_ends(done, 0, "nothing reads the mode")
        self.assertFalse(os.path.exists(os.path.join(run, "train")))
        self.assertEqual(list(json.loads(read(run, "result.json"))["modes"]), ["eval"])
        self.assertIn("nothing reads it: the kernels are for both", read(run, "eval", "report.md"))
        # The same command again finds it; another one is refused.
        again, _ = self.run_both(problem_with())
        self.assert_ends(again, 0, "nothing reads the mode")
        self.assertNotIn("eval mode", again.stderr)
        self.assert_ends(
            self.run_both(problem_with(), "--random-seed", "7")[0], 2, "what another command found"
        )

    @long
    def test_modules_that_are_not_timed_are_judged(self):
        done, run = self.run_both(DROPS, "--final-timing-ms", "0")
        self.assert_ends(done, 0)
        modes = json.loads(read(run, "result.json"))["modes"]
        self.assertEqual(
            {mode: one["verdict"]["correct"] for mode, one in modes.items()},
            {"eval": True, "train": True},
        )

    def test_a_wrong_kernel_in_one_mode_is_found_in_the_whole(self):
        kernel = problem_with() + (
            "_weft_passed_on = ''\n\n\nclass ModelNew(Model):\n"
            "    def forward_reference(self, x):\n"
            "        return Model.forward(self, x)\n\n"
            "    def forward(self, x):\n        return {}\n"
        )
        right = kernel.format("torch.relu(x) + torch.relu(x)")
        wrong = kernel.format("torch.relu(x) * 2.01")
        settings = settings_with(weft=WEFT)
        problem = self.write("problem.py", problem_with())
        for texts, accepted in (
            ({"eval": right, "train": wrong}, ["eval"]),
            ({"eval": None, "train": wrong}, ["eval"]),
            ({"eval": wrong, "train": right}, ["train"]),
        ):
            module = self.write("new.py", both_modes_text.write(texts))
            self.assertEqual(
                accepted,
                [
                    mode
                    for mode in texts
                    if judge(settings, problem, module, mode, False)[0]["correct"]
                ],
            )

    def test_wrong_input_is_said(self):
        done, _ = self.run_both("import torch\n")
        self.assert_ends(done, 2, "has no Model")

    def test_what_is_one_run_takes_one_mode(self):
        file = self.write("problem.py", DROPS)
        for words in (["run", file, "--train"], ["tune", file, "--try", "cpu.block=64"]):
            self.assert_ends(self.weft(*words, "--mode", "both"), 2, "name eval or train")


if __name__ == "__main__":
    unittest.main()
