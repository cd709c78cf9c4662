"""Runs a GPU kernel package (docs/explanation/timing.md): cubins and a list of launches.

Needs the driver and nothing else: no compiler, and no framework on the device.
Without a device a package holds the kernel's Python text instead, which
Triton's interpreter runs on host memory.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.build import built_code, triton_interpreter
from weft.candidate.package_format import BadPackage, Launch, read
from weft.device.cuda_driver import launch_config

if TYPE_CHECKING:
    import torch

    from weft.candidate.harness import SharedMemory
    from weft.candidate.package_format import Package
    from weft.device.device_arena import SharedDeviceMemory

#: Kinds of candidates that are built to such a package (docs/reference/gpu-package.md).
KINDS = ("triton", "cuda")


def load(job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> Launches | Interpreted:
    """The runner for the package that the job names."""
    package = read(job["library"], job.get("sizes"))
    if package.is_interpreted and memory.driver is not None:
        raise BadPackage(
            "a package for the interpreter, on a device: build it for the device's architecture"
        )
    if package.is_interpreted:
        return Interpreted(job, memory)
    if memory.driver is None:
        raise BadPackage(
            "a package for a GPU, on the host: run the oracle "
            "with --device cuda:0, or build it to be interpreted"
        )
    return Launches(package, job, memory)


def interpreted_source(content: bytes | str) -> str | None:
    """The Python text in the package, or None: it is for a device, or none."""
    try:
        package = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the kernel package is no JSON: {error}") from None
    if not isinstance(package, dict):
        raise ValueError("the kernel package is no JSON object")
    if not package.get("interpret"):
        return None
    if not isinstance(package.get("source"), str):
        raise ValueError("the kernel package has no text to interpret")
    return package["source"]


class Launches:
    """The package's kernels, loaded; their arguments for each buffer set."""

    described: dict[str, Any] = {}

    def __init__(
        self,
        package: Package,
        job: dict[str, Any],
        memory: SharedMemory | SharedDeviceMemory,
    ) -> None:
        from weft.device.clock import clock_of

        driver = memory.driver
        assert driver is not None
        self._driver = driver
        self._package = package
        self._modules = modules = [driver.load_module(cubin) for cubin in package.modules]
        self._keep: list[Any] = []
        self._scratch = [driver.allocate(n) for n in package.scratch]
        kernels = [
            driver.function(modules[one.module], one.function, one.shared_bytes, one.cluster)
            for one in package.launches
        ]
        self._calls = [
            [self._launch(kernel, one, pointers) for kernel, one in zip(kernels, package.launches)]
            for pointers in self._pointers(job, memory)
        ]
        self._clock = clock_of(driver)

    def close(self) -> None:
        """Leaves nothing on the device for the next job to find."""
        for module in self._modules:
            self._driver.unload_module(module)
        for address in self._scratch:
            self._driver.free(address)

    def built(self) -> dict[str, dict[str, int]]:
        return built_code.of_package(
            self._package.launches, self._package.modules, self._driver.multiprocessor()
        )

    def _pointers(
        self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory
    ) -> Iterator[dict[str, int]]:
        """{name in the package: address} for each buffer set."""
        fixed = {f"s{i}": address for i, address in enumerate(self._scratch)}
        for buffers in job["sets"]:
            named = {"null": 0, **fixed}
            for key, letters in (("inputs", "in"), ("outputs", "out")):
                for number, place in enumerate(buffers[key]):
                    address = memory.address + place["offset"]
                    named[f"{letters}{number}"] = address
            yield named

    def _launch(
        self, kernel: ctypes.c_void_p, one: Launch, pointers: dict[str, int]
    ) -> tuple[Any, ...]:
        """The call that launches and its arguments, made once."""
        try:
            values = [
                ctypes.c_int64(a)
                if isinstance(a, int)  # or its half
                else ctypes.c_void_p(pointers[a])
                for a in one.arguments
            ]
        except KeyError as error:
            raise BadPackage(f"{one.function} asks for the buffer {error}") from None
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self._keep.append(values)
        if one.cluster == 1 and not one.cooperative:
            shape = (*one.grid, one.threads, 1, 1, one.shared_bytes)
            return ("cuLaunchKernel", kernel, *shape, None, array, None)
        config = launch_config(
            one.grid, one.threads, one.shared_bytes, one.cluster, one.cooperative
        )
        self._keep.append(config)
        return ("cuLaunchKernelEx", ctypes.byref(config), kernel, array, None)

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        """Runs the package once for each of the named buffer sets."""
        if call.get("flush"):
            return self._clock.time([partial(self._run_once, s) for s in call["sets"]], waits=False)
        start = time.perf_counter_ns()
        for index in call["sets"]:
            self._run_once(index)
        # What went wrong on the device is told here, and ends this process.
        self._driver.synchronize()
        return {"ns": time.perf_counter_ns() - start}

    def _run_once(self, index: int) -> None:
        for arguments in self._calls[index]:
            self._driver.call(*arguments)


class Interpreted:
    """The package's Python text, run by Triton's interpreter. Proves, but
    says nothing about time."""

    described: dict[str, Any] = {}

    def __init__(self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> None:
        from weft.candidate.mapped_tensors import tensor_at

        # Read when triton is imported and when a kernel is decorated.
        os.environ["TRITON_INTERPRET"] = "1"
        triton_interpreter.mend()
        # A file, because Triton reads a kernel's source again.
        spec = importlib.util.spec_from_file_location("weft_kernel", job["source"])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["weft_kernel"] = module
        spec.loader.exec_module(module)
        self._function = module.kernel_function
        self._batch = job.get("sizes", ())
        self._sets = [
            [[tensor_at(memory, place) for place in buffers[key]] for key in ("inputs", "outputs")]
            for buffers in job["sets"]
        ]

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        start = time.perf_counter_ns()
        for index in call["sets"]:
            inputs, outputs = self._sets[index]
            with triton_interpreter.plainly():
                results = self._function(*inputs, *self._batch)
            if not isinstance(results, (tuple, list)):
                results = (results,)
            self._keep(results, outputs)
        return {"ns": time.perf_counter_ns() - start}

    def built(self) -> dict[str, dict[str, int]]:
        return {}  # an interpreter builds nothing

    def _keep(self, results: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Copies results out; what does not fit is the candidate's fault."""
        if len(results) != len(outputs):
            raise TypeError(f"kernel_function gave {len(results)} results, not {len(outputs)}")
        for number, (got, output) in enumerate(zip(results, outputs)):
            if got.dtype != output.dtype or got.shape != output.shape:
                raise TypeError(
                    f"result {number} is {got.dtype} {list(got.shape)}, not "
                    f"{output.dtype} {list(output.shape)}"
                )
            output.copy_(got)
