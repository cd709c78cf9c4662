"""CUDA sources built ahead of time, without a GPU, into kernel packages."""

import base64
import contextlib
import io
import json
import os
import tempfile
import unittest
from concurrent.futures import ProcessPoolExecutor

import captured_cases
import cuda_cases
from kernel_cases import half_cases
from weft.build import cuda as cuda_build
from weft.candidate import package_format

LAUNCHES = {
    "scratch": [64],
    "launches": [
        {
            "function": "twice",
            "grid": [4, 1, 1],
            "threads": 32,
            "cluster": 2,
            "arguments": ["in0", "s0", "out0"],
        }
    ],
}
SOURCE = """// Twice its input.
extern "C" __global__ void twice(const float* x, float* s, float* y) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  y[i] = 2 * x[i];
}
"""


def compiler_or_skip():
    try:
        return cuda_build.Compiler()
    except cuda_build.NoCompiler as error:
        raise unittest.SkipTest(str(error)) from None


def first_error(sources):
    """What is wrong with the first of these sources that does not compile."""
    compiler = cuda_build.Compiler()
    for name, source in sources:
        try:
            compiler.cubin(source, "sm_90")
        except cuda_build.BuildError as error:
            return f"{name}: {error}"
    return None


class Packages(unittest.TestCase):
    def build(self, source, arch="sm_90"):
        with tempfile.TemporaryDirectory() as folder:
            text = os.path.join(folder, "kernel.cu")
            launches = os.path.join(folder, "launches.json")
            package = os.path.join(folder, "kernel.json")
            with open(text, "w", encoding="utf-8") as file:
                file.write(source)
            with open(launches, "w", encoding="utf-8") as file:
                json.dump(LAUNCHES, file)
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                code = cuda_build.main([text, launches, package, "--arch", arch])
            if code != 0:
                self.assertFalse(os.path.exists(package))
                return code, said.getvalue()
            package_format.read(package)
            with open(package, encoding="utf-8") as file:
                return code, json.load(file)

    def test_a_package_says_what_is_launched(self):
        compiler_or_skip()
        code, package = self.build(SOURCE)
        self.assertEqual(code, 0)
        self.assertEqual(package["format"], 1)
        self.assertEqual(package["arch"], "sm_90")
        self.assertEqual(package["scratch"], [64])
        self.assertEqual(
            package["launches"],
            [
                {
                    "module": 0,
                    "function": "twice",
                    "grid": [4, 1, 1],
                    "threads": 32,
                    "cluster": 2,
                    "arguments": ["in0", "s0", "out0"],
                }
            ],
        )
        cubin = base64.b64decode(package["modules"][0]["cubin"])
        self.assertTrue(cubin.startswith(b"\x7fELF"))

    def test_an_error_names_the_line(self):
        compiler_or_skip()
        code, said = self.build(SOURCE.replace("2 * x[i]", "2 * z[i]"))
        self.assertEqual(code, 1)
        self.assertIn('kernel.cu(4): error: identifier "z" is undefined', said)


class EveryCase(unittest.TestCase):
    def test_the_compiler_takes_every_source(self):
        compiler_or_skip()
        # Sources of one operator are much alike: the pointwise ones are
        # compiled as they are on the host, in test_cuda_kernels.py.
        groups = [g for g in cuda_cases.GROUPS if g not in (cuda_cases.operators.binary_cases,)]
        cases = [case for group in groups for case in group()]
        cases += cuda_cases.movement.scan_cases() + half_cases()
        cli = captured_cases.program("cuda_codegen_cli", "WEFT_CUDA_CODEGEN")
        answers = captured_cases.generate(
            captured_cases.graphs_of(cases), [cli, "132", "2", "232448"]
        )
        sources = [
            (name, one["text"])
            for (name, _, _), answer in zip(cases, answers)
            for one in answer["variants"]
        ]
        self.assertGreater(len(sources), 300)
        workers = os.cpu_count() or 1
        with ProcessPoolExecutor(workers) as pool:
            for error in pool.map(first_error, [sources[i::workers] for i in range(workers)]):
                self.assertIsNone(error)


if __name__ == "__main__":
    unittest.main()
