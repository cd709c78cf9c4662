#!/usr/bin/env python3
"""Compares every case of the generated CUDA kernels with PyTorch in float64, on a
GPU, in every variant, through the module that weft writes around a kernel. Where
rounding is all that there is, they must be equal.

    WEFT_CUDA_CODEGEN=build/cuda_codegen_cli python3 tests/gpu/cuda_kernels.py

needs PyTorch with CUDA and NVRTC; exit code 0 if all are right. Where there is
no build: `--write FILE` elsewhere, then `--read FILE` here. `--part 0/8` takes
each eighth case from the first on (NVRTC takes most of the time, on one core).
"""

import argparse
import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/python"), os.path.join(ROOT, "python")]

import torch  # noqa: E402

import captured_cases  # noqa: E402
import cuda_cases  # noqa: E402
import test_equal_to_eager as equal  # noqa: E402
from kernel_cases import KernelCases  # noqa: E402

SCANS = {case[0] for case in cuda_cases.movement.scan_cases()}
#: How names begin of what must be PyTorch's own number, on the processor
#: too, and of what may be PyTorch's, where there is no code for it.
ROUNDED, LOOKUP = "rounded_", "lookup_"


def all_cases():
    groups = (
        *cuda_cases.GROUPS,
        cuda_cases.moment_cases,
        cuda_cases.logarithm_cases,
        cuda_cases.movement.scan_cases,
    )
    cases = [case for group in groups for case in group()]
    for start, of in ((ROUNDED, equal.InCuda), (LOOKUP, equal.LookupsInCuda)):
        cases += [
            (start + name, function, inputs)
            for group in of.groups
            for name, function, inputs in group()
        ]
    return cases


def answers_of(cases, multiprocessors):
    cli = captured_cases.program("cuda_codegen_cli", "WEFT_CUDA_CODEGEN")
    return captured_cases.generate(
        captured_cases.graphs_of(cases), [cli, str(multiprocessors), "8", "232448"]
    )


class OnGpu(KernelCases, unittest.TestCase):
    computed = {}

    @classmethod
    def setUpClass(cls):
        """Cases are checked one by one below."""


class EqualOnGpu(equal.EqualToEager, unittest.TestCase):
    setUpClass = OnGpu.setUpClass


def run(module, inputs):
    space = {}
    exec(compile(module, "kernel.py", "exec"), space)  # noqa: S102
    results = space["kernel_function"](*[t.cuda() for t in inputs])
    torch.cuda.synchronize()
    return [t.cpu() for t in captured_cases.as_list(results)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write")
    parser.add_argument("--read")
    parser.add_argument("--part", default="0/1", metavar="I/N")
    parser.add_argument("--multiprocessors", type=int, default=132)
    options = parser.parse_args()
    cases = all_cases()
    if options.read:
        with open(options.read, encoding="utf-8") as file:
            answers = json.load(file)
    else:
        answers = answers_of(cases, options.multiprocessors)
    if options.write:
        with open(options.write, "w", encoding="utf-8") as file:
            json.dump(answers, file)
        return 0
    first, step = (int(number) for number in options.part.split("/"))
    cases, answers = cases[first::step], answers[first::step]
    test = "test_every_kernel_gives_what_the_framework_gives"
    near, same = OnGpu(test).check, EqualOnGpu(test).check
    tried = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_KERNEL_CACHE"] = folder
        for (name, function, inputs), answer in zip(cases, answers):
            OnGpu.rounding = 20 if name in SCANS else 1
            check = same if name.startswith(ROUNDED) else near
            if "error" in answer:
                wrong += not name.startswith(LOOKUP)
                print(f"{name}: {answer['error']}")
            for one in answer.get("variants", ()):
                tried += 1
                try:
                    check(lambda given, one=one: run(one["module"], given), function, inputs)
                except (AssertionError, RuntimeError) as error:
                    wrong += 1
                    print(f"{name}, {one['variant']}: {error}")
    print(f"{tried} kernels, {wrong} wrong")
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
