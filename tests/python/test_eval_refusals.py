"""The command `weft eval` where nothing is timed: its exit codes, what it prints,
what it refuses."""

import json
import os
import re
import sys
import unittest

from test_eval import CHEATS, HONEST, QUICK, RELU
from weft_case import WeftCase, problem_with

WRONG = os.path.join(CHEATS, "N3_identity.py")


class EvalRefusals(WeftCase):
    def test_rejected_kernels_exit_1_with_the_reason(self):
        texts = {
            "off": "def kernel_function(x):\n    return x.relu() * 1.00005\n",
            "broken": "def kernel_function(x:\n",
            "absent": "import no_such_package\ndef kernel_function(x):\n    return x\n",
            "three": "def kernel_function(x, y, z):\n    return x\n",
        }
        files = [self.write(f"{name}.py", text) for name, text in texts.items()]
        done = self.weft("eval", RELU, WRONG, *files, *QUICK)
        self.assert_ends(done, 1)
        for path, reason in zip(
            [WRONG, *files],
            (
                r"rejected \(wrong\): case",
                r"rejected \(wrong\): case",
                "rejected .*SyntaxError",
                "rejected .*No module named 'no_such_package'; it may import what "
                rf"this Python has: {re.escape(sys.executable)} \(--python",
                "rejected .*takes neither",
            ),
        ):
            self.assertRegex(done.stdout, f"{re.escape(path)}: {reason}")

    def test_several_candidates_get_a_line_each_and_the_worst_exit_code(self):
        done = self.weft("eval", RELU, HONEST, WRONG, "--json", "--no-timing", "--target", "cpu")
        self.assert_ends(done, 1)
        first, second = map(json.loads, done.stdout.splitlines())
        self.assertTrue(first["accepted"])
        self.assertEqual(first["candidate"], HONEST)
        self.assertIsNone(first["timing"])
        self.assertFalse(second["accepted"])
        self.assertEqual(second["verdict"]["kind"], "wrong")

    def test_a_missing_file_exits_2(self):
        done = self.weft("eval", RELU, self.path("nothing.py"))
        self.assert_ends(done, 2, "no such file", "nothing.py")

    def test_a_candidate_without_either_name_exits_2(self):
        other = self.write("other.py", "def kernel(x):\n    return x\n")
        done = self.weft("eval", RELU, other)
        self.assert_ends(done, 2, "neither ModelNew nor kernel_function")

    def test_a_reference_that_is_no_problem_exits_2(self):
        bad = self.write("bad.py", "class Model:\n    pass\n")
        done = self.weft("eval", bad, HONEST)
        self.assert_ends(done, 2, "get_inputs")

    def test_a_reference_that_sets_its_parameters_exits_2(self):
        text = problem_with(
            "self.loc.data.copy_(x[0])\n        return x + self.loc",
            init="self.loc = nn.Parameter(torch.zeros(16))",
        )
        done = self.weft("eval", self.write("sets.py", text), HONEST)
        self.assert_ends(done, 2, "writes into its parameter loc")

    def test_a_reference_with_complex_results_exits_2(self):
        text = problem_with("return torch.fft.rfft(x)")
        done = self.weft("eval", self.write("turns.py", text), HONEST)
        self.assert_ends(done, 2, "result is complex64", "view_as_real")

    def test_what_is_constructed_must_be_the_same(self):
        makes = "self.{0}; self.register_buffer('m', torch.full((16,), {1}))"
        parameter = "w = nn.Parameter(torch.ones(16))"
        infinity = "float('inf')"
        files = []
        for words in (
            (parameter, infinity),
            (parameter, "torch.finfo(torch.float32).max"),
            ("register_buffer('w', torch.ones(16))", infinity),
        ):
            text = problem_with(
                "return torch.minimum(x * self.w, self.m)", init=makes.format(*words)
            )
            text = text if not files else text.replace("Model(", "ModelNew(", 1)
            files.append(self.write(f"made{len(files)}.py", text))
        done = self.weft("eval", *files, *QUICK)
        self.assert_ends(done, 1)
        self.assertIn("constructor gives m other values", done.stdout)
        self.assertIn("makes the buffer w", done.stdout)

    def test_no_python_with_torch_exits_3(self):
        done = self.weft("eval", RELU, HONEST, "--python", "/nowhere/python")
        self.assert_ends(done, 3, "/nowhere/python")

    def test_an_unknown_target_exits_2(self):
        done = self.weft("eval", RELU, HONEST, "--target", "abacus")
        self.assertEqual(done.returncode, 2)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_a_device_that_there_is_not_exits_2(self):
        done = self.weft("eval", RELU, HONEST, "--target", "triton", "--device", "3")
        self.assert_ends(done, 2, "no GPU '3': there is none")

    def test_a_problem_that_cannot_tell_kernels_apart_is_named(self):
        one = self.write(
            "one.py", problem_with("return torch.softmax(x, -1)", inputs="[torch.rand(64, 1)]")
        )
        kernel = self.write("kernel.py", "def kernel_function(x):\n    return x - x + 1\n")
        done = self.weft("eval", one, kernel, "--no-timing")
        self.assertIn("stale NOT rejected", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
