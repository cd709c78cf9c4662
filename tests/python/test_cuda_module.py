"""The module that weft writes around a CUDA kernel: NVRTC builds it for real,
and the processor stands in for the device behind the driver's calls.
"""

import contextlib
import ctypes
import json
import os
import tempfile
import unittest
from unittest import mock

import captured_cases
import torch

import cuda_cases
import cuda_on_host
from loading_driver import LoadingDriver
from test_cuda_build import compiler_or_skip

CLUSTER, COOPERATIVE = 4, 2  # CUlaunchAttributeID
NAMES = ("few_group_norm", "odd_long", "weighted_norm")


class HostDriver(LoadingDriver):
    """Stands for libcuda.so.1: launches what was built for the host."""

    def __init__(self, library, prefix):
        super().__init__()
        self.real, self.prefix = library, prefix
        self.has_context = False  # as in a thread of one's own

    def cuCtxGetCurrent(self, context):
        context._obj.value = 7
        return 0

    def cuCtxSetCurrent(self, context):
        self.has_context = context.value == 7
        return 0

    def cuLaunchKernelEx(self, config, function, arguments, extra):
        how = config._obj
        found = {one.id: one.value[0] for one in how.attributes[: how.count]}
        return self.launch(
            cuda_on_host.Launch(
                how.grid[0],
                how.block[0],
                found.get(CLUSTER, 1),
                COOPERATIVE in found,
                how.shared_bytes,
            ),
            function,
            arguments,
        )

    def launch(self, launch, function, arguments):
        if not self.has_context:
            return 201
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.c_uint64.from_address(place).value for place in arguments)
        )
        name = self.functions[function.value - 1]
        getattr(self.real, f"{self.prefix}_{name}")(ctypes.byref(launch), pointers)
        return 0


@contextlib.contextmanager
def in_place_of_a_gpu(driver):
    real = ctypes.CDLL
    with contextlib.ExitStack() as stack:
        for name, stand_in in (
            (
                "ctypes.CDLL",
                lambda path, *rest: driver if path == "libcuda.so.1" else real(path, *rest),
            ),
            ("torch.cuda.get_device_capability", lambda: (9, 0)),
            ("torch.cuda.synchronize", lambda: None),
            ("torch._C._cuda_getDevice", lambda: -1),
            (
                "torch._C._dynamo.guards._empty_strided_cuda",
                torch._C._dynamo.guards._empty_strided_cpu,
            ),
            ("torch.cuda.device", lambda d: contextlib.nullcontext()),
            ("torch._C._cuda_getCurrentRawStream", lambda device: 0),
        ):
            # The framework may have been built without CUDA.
            stack.enter_context(mock.patch(name, stand_in, create=True))
        yield


class Modules(unittest.TestCase):
    def test_a_module_builds_and_launches_its_kernels(self):
        compiler_or_skip()
        cases = [c for c in cuda_cases.row_cases() if c[0] in NAMES]
        cli = captured_cases.program("cuda_codegen_cli", "WEFT_CUDA_CODEGEN")
        answers = captured_cases.generate(
            captured_cases.graphs_of(cases), [cli, "132", "3", "232448"]
        )
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, {"WEFT_KERNEL_CACHE": folder}),
        ):
            for (name, function, inputs), answer in zip(cases, answers):
                exact = function(*[tensor.double() for tensor in inputs])
                sources = answer["variants"]
                built = cuda_on_host.load(sources, folder)
                for source, (library, prefix, _) in zip(sources, built):
                    space = {}
                    with in_place_of_a_gpu(HostDriver(library, prefix)):
                        exec(compile(source["module"], "kernel.py", "exec"), space)
                        got = space["kernel_function"](*inputs)
                        shifted = space["kernel_function"](
                            *[self.elsewhere(tensor) for tensor in inputs]
                        )
                    with self.subTest(case=name, variant=source["variant"]):
                        self.assertLess((got - exact).abs().max(), 1e-5)
                        self.assertTrue(torch.equal(shifted, got))
                self.check_realigned(space["_weft_realigned"])
            with in_place_of_a_gpu(HostDriver(library, prefix)):
                version = space["_weft_nvrtc_version"](space["_weft_nvrtc"]())
                packages = os.path.join(space["_weft_cache"](), "nvrtc-" + version)
                self.check_built(source, inputs, got, packages)

    def check_built(self, source, inputs, wanted, folder):
        """What was built is taken from there, and NVRTC is not asked."""
        os.environ["WEFT_BUILT_KERNELS"] = folder
        os.environ["WEFT_KERNEL_CACHE"] = os.path.join(folder, "empty")
        space = {}
        exec(compile(source["module"], "kernel.py", "exec"), space)
        space["_weft_nvrtc"] = lambda: self.fail("it is there")
        got = space["kernel_function"](*inputs)
        self.assertTrue(torch.equal(got, wanted))
        self.assertFalse(os.path.exists(os.environ["WEFT_KERNEL_CACHE"]))
        for name in os.listdir(folder):
            if name.endswith(".json"):  # none that serves: NVRTC builds it
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    json.dump({"format": 1, "arch": "sm_90"}, file)
        space = {}
        exec(compile(source["module"], "kernel.py", "exec"), space)
        got = space["kernel_function"](*inputs)
        self.assertTrue(torch.equal(got, wanted))
        self.assertTrue(os.listdir(os.environ["WEFT_KERNEL_CACHE"]))

    def elsewhere(self, tensor):
        """The same, but not at a multiple of 16 bytes."""
        memory = torch.empty(tensor.numel() + 1)[1:]
        return memory.view(tensor.shape).copy_(tensor)

    def check_realigned(self, realigned):
        base = torch.rand(1000)
        for tensor in (
            base.as_strided((40, 8), (10, 1), 1),
            base[1:9].expand(5, 8),
            base[3:4].reshape(()),
        ):
            copy = realigned(tensor)
            self.assertEqual(copy.stride(), tensor.stride())
            self.assertEqual(copy.data_ptr() % 16, 0)
            self.assertTrue(torch.equal(copy, tensor))


if __name__ == "__main__":
    unittest.main()
