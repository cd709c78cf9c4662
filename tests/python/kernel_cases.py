"""What the tests of generated kernels share: cases, variants, and the check of
each kernel against the framework in float64.

Needs the program cpu_codegen_cli (tests/compiler/tools): its path is in
WEFT_CPU_CODEGEN, or it stands in build/.
"""

import ctypes
import os
import tempfile

import torch

import cpu_kernels as kernels

CLI = os.environ.get("WEFT_CPU_CODEGEN") or os.path.join(
    kernels.ROOT, "build", "cpu_codegen_cli")

INF = float("inf")
NAN = float("nan")


def numbers(*shape, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator) * scale


def special(*shape):
    """Numbers with NaN, infinities, zeros and ties among them."""
    values = numbers(*shape, seed=5)
    flat = values.view(-1)
    picks = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1.0, 1e-40, 90.0, -110.0, 3.0]
    for i, value in enumerate(picks):
        flat[(i * 7 + 3) % flat.numel()] = value
    return values


class Variant:
    """One way to build the cases from `first` on, in steps of `step`."""

    def __init__(self, label, which, cores, vector_bytes, first, step, level):
        self.label = label
        self.which = which
        self.cores = cores
        self.vector_bytes = vector_bytes
        self.cases = slice(first, None, step)
        self.level = level


def doubled(tensor):
    return tensor.double() if tensor.dtype == torch.float32 else tensor


class KernelCases:
    """A test of every case of `groups`, in each of `variants`."""

    groups = ()
    variants = ()
    options = ()  # of cpu_codegen_cli

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(CLI):
            raise FileNotFoundError(
                f"{CLI}: build cpu_codegen_cli, or set WEFT_CPU_CODEGEN")
        cls.cases = [case for group in cls.groups for case in group()]
        cls.graphs = kernels.graphs_of(cls.cases)
        cls.folder = tempfile.TemporaryDirectory()
        cls.libraries = []
        for variant in cls.variants:
            numbers = range(len(cls.cases))[variant.cases]
            answers = kernels.generate([cls.graphs[i] for i in numbers], CLI,
                                       variant.cores, variant.vector_bytes,
                                       options=cls.options)
            for i, answer in zip(numbers, answers):
                if "error" in answer:
                    raise AssertionError(
                        f"{cls.cases[i][0]}: {answer['error']}")
            cls.libraries.append((variant.label,
                                  cls.build(variant, numbers, answers)))

    @classmethod
    def build(cls, variant, numbers, answers):
        """One function a case; sources with one prelude share a library."""
        flags = [variant.level if flag == "-O3" else flag
                 for flag in answers[0]["flags"]]
        groups = {}
        for count, (i, answer) in enumerate(zip(numbers, answers)):
            texts = [source["text"] for source in answer["variants"]]
            chosen = texts[min(variant.which, len(texts) - 1)]
            prelude = chosen.split("#include", 1)[1].split(kernels.ENTRY)[0]
            groups.setdefault((prelude, count % 2), []).append((i, chosen))
        running = []
        label = "".join(c for c in variant.label if c.isalpha())
        for number, members in enumerate(groups.values()):
            process, path = kernels.build(
                [text for _, text in members], flags, cls.folder.name,
                f"{label}_{number}")
            running.append((process, path, members))
        functions = {}
        for process, path, members in running:
            errors = process.communicate()[1]
            if process.returncode != 0:
                raise AssertionError(errors[:20000])
            library = ctypes.CDLL(path)
            for number, (i, _) in enumerate(members):
                functions[i] = getattr(library, f"kernel_function_{number}")
        return functions

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_kernel_gives_what_the_framework_gives(self):
        for label, functions in self.libraries:
            for i, kernel in functions.items():
                name, function, inputs = self.cases[i]
                with self.subTest(variant=label, case=name):
                    self.check(kernel, self.graphs[i], function, inputs)

    def check(self, kernel, graph, function, inputs):
        got = kernels.run(kernel, graph, inputs)
        eager = kernels.as_list(function(*inputs))
        exact = kernels.as_list(function(*[doubled(t) for t in inputs]))
        self.assertEqual(len(got), len(eager))
        for mine, theirs, truth in zip(got, eager, exact):
            self.assertEqual(mine.dtype, theirs.dtype)
            self.assertEqual(mine.shape, theirs.shape)
            if not mine.dtype.is_floating_point:
                self.assertTrue(torch.equal(mine, theirs))
                continue
            # Where the framework itself is off, or rounds to infinity or to
            # zero, so may we.
            mine, theirs = mine.double(), theirs.double()
            same = (mine == theirs) | (mine.isnan() & theirs.isnan())
            same |= mine == truth
            off = (mine - truth).abs()
            theirs_off = (theirs - truth).abs().nan_to_num(0, 0, 0)
            scale = truth.abs().nan_to_num(0, 0, 0)
            limit = 2e-6 * scale + 3e-6 + 4 * theirs_off
            wrong = ~(same | (off <= limit))
            self.assertFalse(
                wrong.any(),
                f"{mine[wrong][:4].tolist()} for {truth[wrong][:4].tolist()}, "
                f"eager {theirs[wrong][:4].tolist()}")
