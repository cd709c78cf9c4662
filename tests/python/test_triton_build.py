"""Triton sources built ahead of time, without a GPU, into kernel packages.

Run it in a separate process: Triton must not have been told to interpret.
"""

import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

import captured_cases
import sized_cases
from weft.build import triton as triton_build
from weft.candidate import package_format

# Two kernels with memory between them, two outputs.
TWO_STEPS = """
import torch
import triton
import triton.language as tl

INPUTS = [((4, 100), (100, 1), torch.float32), ((4,), (1,), torch.int64)]


@triton.jit
def sums(x, total, halves):
    row = tl.program_id(0)
    lane = tl.arange(0, 128)
    value = tl.load(x + row * 100 + lane, mask=lane < 100, other=0.0)
    tl.store(total + row, tl.sum(value, axis=0))
    tl.store(halves + row, tl.sum(value, axis=0).to(tl.float16))


@triton.jit
def counts(number, total, halves, out, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    inside = lane < 4
    value = tl.load(total + lane, mask=inside, other=0.0)
    value += tl.load(halves + lane, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(number + lane, mask=inside, other=0).to(tl.float32)
    tl.store(out + lane, value, mask=inside)


def kernel_function(x, number):
    total = torch.empty(4, device=x.device)
    halves = torch.empty(4, dtype=torch.float16, device=x.device)
    out = torch.empty_strided((4,), (1,), device=x.device)
    again = torch.empty_like(out)
    sums[(4,)](x, total, halves, num_warps=2)
    counts[(1,)](number, total, halves, out, BLOCK=16, num_warps=1)
    counts[lambda meta: (meta["BLOCK"] // 16,)](
        number, total, halves, again, BLOCK=32, num_warps=1)
    return out, again
"""

ONE_STEP = """
import torch
import triton
import triton.language as tl

INPUTS = [((64,), (1,), torch.float32)]


@triton.jit
def twice(x, out):
    lane = tl.arange(0, 64)
    tl.store(out + lane, tl.load(x + lane) * 2)


def kernel_function(x):
    out = torch.empty_like(x)
    twice[(1,)](x, out)
    return out
"""


QUOTIENTS = ("quotients", lambda x, y: [x / y, 1 / x], (torch.ones(70, 33), torch.ones(70, 33)))
SOFTMAX = ("softmax", lambda x: [x.softmax(1), x.sum(0)], (torch.ones(70, 33),))
# What is normalised is padded after: the scale, one number, has its guard.
SCALED = (
    "scaled",
    lambda x, s, w: F.conv2d(x * s[:, None, None], w, padding=1, groups=8),
    (torch.ones(2, 8, 64, 64), torch.ones(8), torch.ones(8, 1, 3, 3)),
)
# A single number under a guard of its own: that of a lookup.
LOOKUP = (
    "lookup",
    lambda x, i: x.index_select(0, i),
    (torch.ones(1), torch.zeros(1, dtype=torch.int64)),
)
# Of 16 bits: on the matrix units, with what comes before and after.
HALVES = (
    "halves",
    lambda x, w, y: [F.gelu(x.softmax(1) @ w), x + y],
    (torch.ones(64, 128).half(), torch.ones(128, 64).half(), torch.ones(128).bfloat16()),
)


def generated_sources(count, case=SOFTMAX):
    """So many of the code generator's, for one subgraph."""
    cli = captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN")
    (answer,) = captured_cases.generate(captured_cases.graphs_of([case]), [cli, "4", str(count)])
    return [source["text"] for source in answer["variants"]]


class TritonBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.environ.get("TRITON_INTERPRET"):
            raise unittest.SkipTest("Triton interprets in this process")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        before = os.environ.get("TRITON_CACHE_DIR")
        os.environ["TRITON_CACHE_DIR"] = os.path.join(cls.folder, "cache")
        cls.addClassCleanup(
            lambda: (
                os.environ.pop("TRITON_CACHE_DIR")
                if before is None
                else os.environ.update(TRITON_CACHE_DIR=before)
            )
        )

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, text):
        with open(self.path("kernel.py"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("kernel.py")

    def build(self, text, arch="sm_90"):
        built = self.path(f"{self.id()}.json")
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            code = triton_build.main([self.write(text), built, "--arch", arch])
        self.assertEqual(code, 0, told.getvalue())
        with open(built, encoding="utf-8") as file:
            package = json.load(file)
        for batch in package.get("batches", {"1": {}}):
            package_format.parse(package, batch.split(","))
        return package

    def assert_refused(self, text, *words):
        built = self.path(f"{self.id()}.json")
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            code = triton_build.main([self.write(text), built, "--arch", "sm_90"])
        self.assertEqual(code, 1)
        self.assertFalse(os.path.exists(built))
        for word in words:
            self.assertIn(word, told.getvalue())

    def test_a_package_has_the_fields_of_its_format(self):
        for arch in ("sm_90", "sm_80"):
            with self.subTest(arch):
                package = self.build(TWO_STEPS, arch)
                self.assertEqual(set(package), {"format", "arch", "scratch", "modules", "launches"})
                self.assertEqual(package["format"], 1)
                self.assertEqual(package["arch"], arch)
                for module in package["modules"]:
                    cubin = base64.b64decode(module["cubin"], validate=True)
                    self.assertEqual(cubin[:4], b"\x7fELF")
                for launch in package["launches"]:
                    self.assertEqual(
                        set(launch),
                        {"module", "function", "grid", "threads", "shared_bytes", "arguments"},
                    )
                    cubin = package["modules"][launch["module"]]["cubin"]
                    self.assertIn(launch["function"].encode(), base64.b64decode(cubin))

    def test_architectures_get_code_of_their_own(self):
        new, old = (
            self.build(ONE_STEP, arch)["modules"][0]["cubin"] for arch in ("sm_90", "sm_80")
        )
        self.assertNotEqual(new, old)

    def test_launches_are_those_of_the_source_in_its_order(self):
        launches = self.build(TWO_STEPS)["launches"]
        self.assertEqual([one["function"] for one in launches], ["sums", "counts", "counts"])
        self.assertEqual([one["grid"] for one in launches], [[4, 1, 1], [1, 1, 1], [2, 1, 1]])
        self.assertEqual([one["threads"] for one in launches], [64, 32, 32])

    def test_scratch_is_named_in_the_order_of_its_first_use(self):
        package = self.build(TWO_STEPS)
        self.assertEqual(package["scratch"], [16, 8])
        named = [[a for a in one["arguments"] if a != "null"] for one in package["launches"]]
        self.assertEqual(
            named, [["in0", "s0", "s1"], ["in1", "s0", "s1", "out0"], ["in1", "s0", "s1", "out1"]]
        )

    def test_parameters_that_triton_hides_are_null_pointers(self):
        module = triton_build.load(self.write(ONE_STEP))
        launches, _, _ = triton_build.record(module, module.INPUTS)
        kernel, args, _, options = launches[0]
        compiled, tensors = triton_build.compile_one(kernel, args, options, "sm_90")
        entry = compiled.asm["ptx"].split(".entry")[1].split(")")[0]
        arguments = self.build(ONE_STEP)["launches"][0]["arguments"]
        self.assertEqual(len(arguments), entry.count(".param"))
        self.assertEqual(arguments[: len(tensors)], ["in0", "out0"])
        self.assertEqual(set(arguments[len(tensors) :]) - {"null"}, set())

    def test_a_quotient_is_rounded_as_the_framework_s(self):
        text = generated_sources(1, QUOTIENTS)[0]
        module = triton_build.load(self.write(text))
        launches, _, _ = triton_build.record(module, module.INPUTS)
        for kernel, args, _, options in launches:
            compiled, _ = triton_build.compile_one(kernel, args, options, "sm_90")
            ptx = compiled.asm["ptx"]
            self.assertIn(".rn.f32", ptx)  # div or rcp
            self.assertNotIn("div.full", ptx)

    def test_a_generated_sources_launches_are_its_packages(self):
        for text in generated_sources(2):
            table = re.findall(r"(\w+)\[\((\d+),\)\]\((.*?), num_warps=(\d+)", text)
            launches = self.build(text)["launches"]
            self.assertEqual(len(table), len(launches))
            for (kernel, programs, names, warps), one in zip(table, launches):
                self.assertEqual(one["function"], kernel)
                self.assertEqual(one["grid"], [int(programs), 1, 1])
                self.assertEqual(one["threads"], 32 * int(warps))
                given = [name for name in names.split(", ") if name.startswith(("in", "out"))]
                kept = [name for name in one["arguments"] if name.startswith(("in", "out"))]
                self.assertEqual(kept, given)

    def test_a_package_for_any_batch_has_one_kernel_for_those_it_is_judged_at(self):
        ((_, graph),) = sized_cases.growing(
            lambda batch: [("rows", lambda x: x.softmax(1).sum(1), (torch.ones(batch, 48),))]
        )
        cli = captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN")
        (answer,) = captured_cases.generate([graph], [cli, "4", "1"])
        package = self.build(answer["variants"][0]["text"])
        self.assertEqual(set(package), {"format", "arch", "modules", "batches"})
        self.assertEqual(list(package["batches"]), ["8", "1", "13", "72"])
        self.assertEqual(len(package["modules"]), 1)
        for batch, told in package["batches"].items():
            (launch,) = told["launches"]
            self.assertEqual(launch["arguments"][:3], ["in0", "out0", int(batch)])
            self.assertEqual(launch["grid"], [-(-int(batch) // 16), 1, 1])

    def test_a_package_for_two_sizes_has_a_launch_for_each_pair(self):
        ((_, graph),) = sized_cases.growing(
            lambda batch, length: [
                ("rows", lambda x: x.softmax(2), (torch.ones(batch, length, 48),))
            ],
            symbols=2,
        )
        cli = captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN")
        (answer,) = captured_cases.generate([graph], [cli, "4", "1"])
        package = self.build(answer["variants"][0]["text"])
        self.assertEqual(list(package["batches"]), ["8,10", "1,1", "1,17", "13,1", "13,8", "24,72"])
        self.assertEqual(len(package["modules"]), 1)
        for pair, told in package["batches"].items():
            batch, length = map(int, pair.split(","))
            (launch,) = told["launches"]
            self.assertEqual(launch["arguments"][:4], ["in0", "out0", batch, length])
            self.assertEqual(launch["grid"], [-(-batch * length // 16), 1, 1])

    def test_one_number_under_the_guard_of_a_block_builds(self):
        sources = generated_sources(3, SCALED)
        self.assertTrue(any(", 0, 0), mask=" in text for text in sources))
        for text in sources:
            self.build(text)

    def test_a_lookup_in_a_single_number_builds(self):
        for text in generated_sources(1, LOOKUP):
            self.assertIn("mask=", text)
            self.build(text)

    def test_halves_build(self):
        for text in generated_sources(3, HALVES):
            self.assertIn("tl.dot(", text)
            self.build(text)

    def test_with_and_without_torch_the_package_is_the_same(self):
        (text,) = generated_sources(1)
        built = self.path("apart.json")
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys\n"
                "from weft.build import triton as triton_build\n"
                "code = triton_build.main()\n"
                "assert 'torch' not in sys.modules\n"
                "sys.exit(code)",
                self.write(text),
                built,
                "--arch",
                "sm_90",
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(built, encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.build(text))

    def test_the_frameworks_arithmetic_is_refused(self):
        self.assert_refused(
            ONE_STEP.replace("    return out\n", "    return out + 1\n"),
            "kernel_function calls aten.add",
            "only hold kernels",
        )

    def test_a_syntax_error_is_told(self):
        self.assert_refused(ONE_STEP + "\ndef broken(:\n", "SyntaxError", "kernel.py, line")

    def test_a_source_without_what_a_source_has_is_refused(self):
        self.assert_refused(
            ONE_STEP.replace("kernel_function", "other"), "defines no kernel_function"
        )
        self.assert_refused(ONE_STEP.replace("INPUTS", "OTHERS"), "defines no INPUTS")

    def test_a_source_that_launches_nothing_is_refused(self):
        self.assert_refused(ONE_STEP.replace("    twice[(1,)](x, out)\n", ""), "launches nothing")

    def test_a_kernel_that_does_not_compile_is_told(self):
        self.assert_refused(
            ONE_STEP.replace("lane) * 2", "nowhere) * 2"), "CompilationError", "nowhere"
        )

    def test_for_the_interpreter_the_package_is_the_source(self):
        built = self.path("interpreted.json")
        subprocess.run(
            [sys.executable, "-m", "weft.build.triton", self.write(ONE_STEP), built, "--interpret"],
            check=True,
            timeout=120,
        )
        with open(built, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"format": 1, "interpret": True, "source": ONE_STEP})

    def test_an_architecture_or_the_interpreter_must_be_named(self):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "weft.build.triton",
                self.write(ONE_STEP),
                self.path("none.json"),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("--interpret", done.stderr)


if __name__ == "__main__":
    unittest.main()
