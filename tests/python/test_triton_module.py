"""The module that weft writes around a Triton kernel: Triton compiles it for
real, and who launches what is written down where a device would run it.
"""

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import torch

import captured_cases
import sized_cases
from driver_settings import settings_with
from kernel_cases import numbers
from loading_driver import LoadingDriver
from weft.backend.searches import module_store
from weft.build import triton as triton_build
from weft.modes import both_modes_run

ARCH = "sm_90"
MODEL_NEW = """

class ModelNew:
    training = False

    def forward(self, *inputs):
        return kernel_function(*inputs)
"""


class WritingDriver(LoadingDriver):
    """Stands for libcuda.so.1: writes down what it is to launch."""

    def __init__(self):
        super().__init__()
        self.launched, self.stream = [], 0
        self.captures = False
        self.threads = {threading.get_ident()}  # that have a context

    def cuCtxGetCurrent(self, context):
        has_one = threading.get_ident() in self.threads
        context._obj.value = 7 if has_one else None
        return 0

    def cuCtxSetCurrent(self, context):
        if context.value == 7:
            self.threads.add(threading.get_ident())
        return 0

    def cuGetErrorName(self, code, name):
        name._obj.value = b"CUDA_ERROR_INVALID_IMAGE"

    def cuLaunchKernelEx(self, config, function, places, extra):
        if threading.get_ident() not in self.threads:
            return 201
        how = config._obj
        pointers = [ctypes.c_uint64.from_address(p).value for p in places]
        self.launched.append(
            {
                "function": function.value,
                "grid": list(how.grid),
                "threads": how.block[0],
                "shared_bytes": how.shared_bytes,
                "pointers": pointers,
                "stream": how.stream or 0,
            }
        )
        return 0


class TritonLaunches:
    """In Triton's place: compiles what is launched, and counts it."""

    def __init__(self):
        self.count, self.functions = 0, {}

    def __call__(self, kernel, *tensors, grid, warmup, **options):
        self.count += 1
        made, _ = triton_build.compile_one(kernel, tensors, options, ARCH)
        self.functions[made.metadata.name] = len(self.functions) + 1
        return types.SimpleNamespace(
            metadata=made.metadata, asm=made.asm, function=len(self.functions)
        )


@contextlib.contextmanager
def in_place_of_a_gpu(driver, launches):
    from triton.runtime.jit import JITFunction

    real = ctypes.CDLL
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            mock.patch.object(
                JITFunction, "run", lambda kernel, *given, **how: launches(kernel, *given, **how)
            )
        )
        for name, stand_in in (
            (
                "ctypes.CDLL",
                lambda path, *rest: driver if path == "libcuda.so.1" else real(path, *rest),
            ),
            ("torch.cuda.get_device_capability", lambda: (9, 0)),
            ("torch.cuda.synchronize", lambda: None),
            ("torch.cuda.is_current_stream_capturing", lambda: driver.captures),
            ("torch._C._cuda_getDevice", lambda: -1),
            ("torch._C._cuda_getCurrentRawStream", lambda device: driver.stream),
        ):
            # The framework may have been built without CUDA.
            stack.enter_context(mock.patch(name, stand_in, create=True))
        yield


class ModuleCase(unittest.TestCase):
    """The module around the kernel of the graph that a class names."""

    @classmethod
    def setUpClass(cls):
        if os.environ.pop("TRITON_INTERPRET", None):
            raise unittest.SkipTest("another test has Triton interpret")
        cli = captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN")
        answers = captured_cases.generate([cls.graph()], [cli, "132", "1"])
        cls.source = answers[0]["variants"][0]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch.dict(os.environ, {"WEFT_KERNEL_CACHE": folder.name})
        patch.start()
        self.addCleanup(patch.stop)
        self.driver, self.launches = WritingDriver(), TritonLaunches()
        stack = contextlib.ExitStack()
        stack.enter_context(in_place_of_a_gpu(self.driver, self.launches))
        self.addCleanup(stack.close)
        space = {}
        exec(compile(self.source["module"], "kernel.py", "exec"), space)
        self.function = space["kernel_function"]

    def package(self):
        path = os.path.join(self.folder, "kernel.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.source["text"])
        return triton_build.package_of(path, ARCH)

    def built(self, package):
        """A run's folder with that package; the module in it."""
        run = tempfile.TemporaryDirectory()
        self.addCleanup(run.cleanup)
        key = hashlib.sha256(f"{self.source['text']}\0{ARCH}".encode()).hexdigest()[:32]
        for name, text in (
            ("composed/model_new.py", self.source["module"] + MODEL_NEW),
            (f"build/{key}.json", json.dumps(package)),
        ):
            path = os.path.join(run.name, name)
            os.makedirs(os.path.dirname(path))
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.package_path = path
        return os.path.join(run.name, "composed/model_new.py")

    def opened(self, path):
        """Its kernel_function."""
        spec = importlib.util.spec_from_file_location("composed", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["composed"] = module
        spec.loader.exec_module(module)
        return module.kernel_function


class Modules(ModuleCase):
    inputs = [numbers(2, 17_001)]

    @classmethod
    def graph(cls):
        case = ("few_softmax", lambda x: x.softmax(1), cls.inputs)
        return captured_cases.graphs_of([case])[0]

    def test_the_first_launch_is_tritons_and_the_next_ones_are_not(self):
        self.function(*self.inputs)
        number = self.launches.count
        self.assertGreater(number, 2)
        self.assertEqual(self.driver.launched, [])
        out = self.function(*self.inputs)
        self.assertEqual(self.launches.count, number)
        self.check_launched(out, self.launches.functions)

    def test_what_the_run_has_built_triton_does_not_make(self):
        function = self.opened(self.built(self.package()))
        out = function(*self.inputs)
        self.assertEqual(self.launches.count, 0)
        self.check_launched(
            out, {name: number + 1 for number, name in enumerate(self.driver.functions)}
        )

    def test_nothing_is_loaded_while_a_cuda_graph_is_recorded(self):
        function = self.opened(self.built(self.package()))
        self.driver.captures = True
        with mock.patch("torch.cuda.synchronize", self.fail):
            self.check_made(function)

    def test_what_the_run_has_built_is_kept_with_its_module(self):
        path = self.built(self.package())
        run = os.path.dirname(os.path.dirname(path))
        with open(
            os.path.join(run, "build", "0" * 32 + ".json"), "w", encoding="utf-8"
        ) as file:  # a variant that did not win
            json.dump({"arch": ARCH}, file)
        self.addCleanup(os.umask, os.umask(0o002))
        with mock.patch.dict(os.environ, {"WEFT_CACHE_DIR": self.folder}):
            kept = module_store.keep("key", run, {})
            self.assertEqual(module_store.find("key")[0], kept)
            # As weft.load does.
            saved = module_store.keep_files(module_store.texts_of(kept))
        for folder in (kept, saved):
            self.assertEqual(
                os.listdir(os.path.join(folder, "build")), [os.path.basename(self.package_path)]
            )
            self.opened(os.path.join(folder, "model_new.py"))(*self.inputs)
        self.assertEqual(self.launches.count, 0)

    def test_a_module_for_both_modes_finds_what_each_mode_s_run_has_built(self):
        run = os.path.dirname(os.path.dirname(self.built(self.package())))
        with tempfile.TemporaryDirectory() as out:
            for mode in ("eval", "train"):
                shutil.copytree(run, os.path.join(out, mode))
            os.makedirs(os.path.join(out, "composed"))
            results = {
                mode: {
                    "verdict": {"correct": True},
                    "kernelbench_module": None,
                    "why_no_kernel": "",
                    "timed": False,
                }
                for mode in ("eval", "train")
            }
            for result in results.values():
                result.update(timing={}, subgraphs=[], externs={})
            with mock.patch.object(both_modes_run, "judge", lambda *_: ({"correct": True}, None)):
                both_modes_run.compose(settings_with(out=out), results)
            path = os.path.join(out, "composed/model_new.py")
            self.opened(path)
            model = sys.modules["composed"].ModelNew()
            for model.training in (False, True):
                model.forward(*self.inputs)
        self.assertEqual(self.launches.count, 0)

    def test_what_others_could_have_written_triton_makes(self):
        for mode, where in ((0o622, str), (0o777, os.path.dirname)):
            function = self.opened(self.built(self.package()))
            os.chmod(where(self.package_path), mode)
            self.check_made(function)

    def test_half_a_package_another_gpus_and_another_kernels_are_none(self):
        whole = self.package()
        cubin = {"cubin": "AAAA"}
        for name, package in (
            ("half", {"format": 1, "arch": ARCH}),
            ("no JSON object", []),
            ("another GPU's", {**whole, "arch": "sm_80"}),
            ("a later format", {**whole, "format": 2}),
            ("no cubin", {**whole, "modules": [cubin] * len(whole["modules"])}),
            (
                "other arguments",
                {**whole, "launches": [{**one, "arguments": ["in0"]} for one in whole["launches"]]},
            ),
        ):
            with self.subTest(name):
                self.check_made(self.opened(self.built(package)))

    def check_made(self, function):
        """By Triton."""
        self.driver.launched.clear()
        before = self.launches.count
        function(*self.inputs)
        self.assertGreater(self.launches.count, before)
        self.assertEqual(self.driver.launched, [])

    def check_launched(self, out, functions):
        """As the package, which the oracle verifies, says."""
        told = self.package()["launches"]
        self.assertEqual(len(self.driver.launched), len(told))
        for done, one in zip(self.driver.launched, told):
            self.assertEqual(done["function"], functions[one["function"]])
            for key in ("grid", "threads", "shared_bytes"):
                self.assertEqual(done[key], one[key])
            self.assertEqual(len(done["pointers"]), len(one["arguments"]))
            for pointer, name in zip(done["pointers"], one["arguments"]):
                known = {"in0": self.inputs[0].data_ptr(), "out0": out.data_ptr(), "null": 0}
                self.assertEqual(pointer, known.get(name, pointer))

    def test_memory_at_odd_places_is_tritons(self):
        memory = torch.empty(self.inputs[0].numel() + 1)[1:]
        odd = memory.view(self.inputs[0].shape)
        self.function(odd)
        self.function(*self.inputs)
        by_triton = self.launches.count
        self.function(odd)
        self.assertGreater(self.launches.count, by_triton)
        by_triton = self.launches.count
        self.function(*self.inputs)
        self.assertEqual(self.launches.count, by_triton)

    def test_a_thread_without_a_context_is_given_one(self):
        self.function(*self.inputs)
        failed = []

        def call():
            try:
                self.function(*self.inputs)
            except RuntimeError as error:
                failed.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(len(self.driver.launched), self.launches.count)

    def test_kernels_go_to_the_stream_that_is_current(self):
        self.function(*self.inputs)
        for self.driver.stream in (0, 7, 7, 9, 0):
            self.driver.launched.clear()
            self.function(*self.inputs)
            self.assertEqual({one["stream"] for one in self.driver.launched}, {self.driver.stream})

    def test_what_triton_must_launch_it_launches(self):
        real = triton_build.compile_one

        def in_a_grid_that_meets(*given):
            made, tensors = real(*given)
            fields = {**made.metadata._asdict(), "launch_cooperative_grid": True}
            return types.SimpleNamespace(
                metadata=types.SimpleNamespace(**fields), asm=made.asm
            ), tensors

        with mock.patch.object(triton_build, "compile_one", in_a_grid_that_meets):
            self.function(*self.inputs)
            number = self.launches.count
            self.function(*self.inputs)
        self.assertEqual(self.launches.count, 2 * number)
        self.assertEqual(self.driver.launched, [])


class ModulesForAnyBatch(ModuleCase):
    @staticmethod
    def graph():
        ((_, graph),) = sized_cases.growing(
            lambda batch: [("softmax", lambda x: x.softmax(1), (numbers(batch, 48),))]
        )
        return graph

    def test_a_batch_is_an_argument_of_one_kernel(self):
        batches = (64, 1, 50, 13)
        for batch in batches:  # 4, 1, 4 and 1 programs
            out = self.function(numbers(batch, 48))
            self.assertEqual(out.shape, (batch, 48))
        self.assertEqual(self.launches.count, 2)
        self.assertEqual(
            [(one["grid"], one["pointers"][2]) for one in self.driver.launched],
            [([4, 1, 1], 50), ([1, 1, 1], 13)],
        )

    def test_a_thread_without_a_context_brings_a_batch_of_its_own(self):
        function, failed = self.opened(self.built(self.package())), []

        def call():
            try:
                function(numbers(13, 48))
            except RuntimeError as error:
                failed.append(error)

        function(numbers(64, 48))
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        self.assertEqual(failed, [])
        self.assertEqual([one["pointers"][2] for one in self.driver.launched], [64, 13])

    def test_what_is_built_is_for_every_batch_of_32_bits(self):
        function = self.opened(self.built(self.package()))
        for batch in (64, 1, 50, 1_031):
            function(numbers(batch, 48))
        self.assertEqual(self.launches.count, 0)
        self.assertEqual([one["pointers"][2] for one in self.driver.launched], [64, 1, 50, 1_031])
        rows = (1 << 30) // 48 + 1  # which only a look at their number costs
        function(torch.empty(rows, 48, device="meta"))
        self.assertEqual(self.launches.count, 1)


if __name__ == "__main__":
    unittest.main()
