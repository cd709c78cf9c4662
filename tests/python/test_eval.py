"""The command `weft eval`: its exit codes, what it prints, what it refuses."""

import json
import os
import sys
import unittest

from weft_case import ROOT, WeftCase, problem_with

CHEATS = os.path.join(ROOT, "tests", "cheats")
RELU = os.path.join(CHEATS, "references", "relu.py")
HONEST = os.path.join(CHEATS, "honest_function_of_inputs.py")
WRONG = os.path.join(CHEATS, "N3_identity.py")
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
        for words in ("accepted", "error", "zeros rejected", "speedup",
                      "aten.maximum.default"):
            self.assertIn(words, done.stdout)

    def test_a_rejected_kernel_exits_1_with_the_reason(self):
        done = self.weft("eval", RELU, WRONG, *QUICK)
        self.assert_ends(done, 1)
        self.assertIn("rejected (wrong): case", done.stdout)

    def test_a_factor_that_no_rounding_explains_exits_1(self):
        off = self.write("off.py", "def kernel_function(x):\n"
                         "    return x.relu() * 1.00005\n")
        done = self.weft("eval", RELU, off, *QUICK)
        self.assert_ends(done, 1)
        self.assertIn("rejected (wrong): case", done.stdout)

    def test_one_that_hangs_is_given_up_after_the_limit_of_one_call(self):
        # Asked again after that, it would say so. One hangs at once, the other
        # in the process after the one that checks it.
        texts = [f"""import os
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
""" for right in (0, 1)]
        files = [self.write(f"hangs{i}.py", text)
                 for i, text in enumerate(texts)]
        done = self.weft("eval", RELU, *files, *QUICK, "--json", "--call-ms",
                         "5000")
        self.assert_ends(done, 1)
        for line in map(json.loads, done.stdout.splitlines()):
            verdict = line["verdict"]
            self.assertFalse(line["accepted"])
            self.assertEqual((verdict["kind"], verdict["reason"]),
                             ("timed_out", "no answer within 5000 ms"))
            self.assertLess(verdict["wall_ms"], 15000)
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_several_candidates_get_a_line_each_and_the_worst_exit_code(self):
        done = self.weft("eval", RELU, HONEST, WRONG, "--json", "--no-timing",
                         "--target", "cpu")
        self.assert_ends(done, 1)
        first, second = map(json.loads, done.stdout.splitlines())
        self.assertTrue(first["accepted"])
        self.assertEqual(first["candidate"], HONEST)
        self.assertIsNone(first["timing"])
        self.assertFalse(second["accepted"])
        self.assertEqual(second["verdict"]["kind"], "wrong")

    def test_torch_compile_is_a_baseline_too(self):
        done = self.timed(RELU, HONEST, "--json", flags=(
            "--target", "cpu", "--timing-ms", "100"))
        self.assert_ends(done, 0)
        timing = json.loads(done.stdout)["timing"]
        told = timing["compile"] or timing["compile_error"]
        self.assertTrue(told, timing)

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
            init="self.loc = nn.Parameter(torch.zeros(16))")
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
        for words in ((parameter, infinity),
                      (parameter, "torch.finfo(torch.float32).max"),
                      ("register_buffer('w', torch.ones(16))", infinity)):
            text = problem_with("return torch.minimum(x * self.w, self.m)",
                                init=makes.format(*words))
            text = text if not files else text.replace("Model(", "ModelNew(", 1)
            files.append(self.write(f"made{len(files)}.py", text))
        done = self.timed(*files)
        self.assert_ends(done, 1)
        self.assertIn("constructor gives m other values", done.stdout)
        self.assertIn("'parameter': False", done.stdout)

    def test_a_candidate_that_does_not_parse_is_rejected(self):
        broken = self.write("broken.py", "def kernel_function(x:\n")
        done = self.weft("eval", RELU, broken)
        self.assert_ends(done, 1)
        self.assertIn("SyntaxError", done.stdout)
        absent = self.write("absent.py", "import no_such_package\n"
                            "def kernel_function(x):\n    return x\n")
        done = self.weft("eval", RELU, absent)
        self.assert_ends(done, 1)
        self.assertIn("No module named 'no_such_package'; it may import what "
                      f"this Python has: {sys.executable} (--python", done.stdout)

    def test_a_function_of_other_arguments_is_rejected(self):
        text = "def kernel_function(x, y, z):\n    return x\n"
        done = self.weft("eval", RELU, self.write("three.py", text))
        self.assert_ends(done, 1)
        self.assertIn("takes neither", done.stdout)

    def test_no_python_with_torch_exits_3(self):
        done = self.weft("eval", RELU, HONEST, "--python", "/nowhere/python")
        self.assert_ends(done, 3, "/nowhere/python")

    def test_an_unknown_target_exits_2(self):
        done = self.weft("eval", RELU, HONEST, "--target", "abacus")
        self.assertEqual(done.returncode, 2)

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU")
    def test_a_device_that_there_is_not_exits_2(self):
        done = self.weft("eval", RELU, HONEST, "--target", "triton",
                         "--device", "3")
        self.assert_ends(done, 2, "no GPU '3': there is none")

    def test_a_problem_that_cannot_tell_kernels_apart_is_named(self):
        one = self.write("one.py", problem_with(
            "return torch.softmax(x, -1)", inputs="[torch.rand(64, 1)]"))
        kernel = self.write("kernel.py", "def kernel_function(x):\n"
                            "    return x - x + 1\n")
        done = self.weft("eval", one, kernel, "--no-timing")
        self.assertIn("stale NOT rejected", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
