"""Runs a Python file with a kernel_function of tensors, as language models write
them: Triton, or C++ or CUDA that it builds when it is loaded."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from weft.build import build_folders, built_code, triton_interpreter
from weft.candidate.allocations import Allocations
from weft.candidate.mapped_tensors import tensor_at
from weft.problem import operator_trace

if TYPE_CHECKING:
    from weft.candidate.harness import SharedMemory
    from weft.device.clock import DeviceClock
    from weft.device.device_arena import SharedDeviceMemory

NAME = "weft_kernel"


class PythonKernel:
    """The file's function, called on the buffers. Its results are allocated where
    they are compared (allocations.py). A result that is not, such as one that C++
    allocates, is copied there, and the copy counts as part of the kernel's time."""

    described: dict[str, Any] = {}

    def __init__(self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> None:
        self._driver = memory.driver
        self._clock: DeviceClock | None = None
        if memory.driver is not None:
            from weft.device.clock import clock_of

            torch.cuda.set_device(memory.device)
            self._clock = clock_of(memory.driver)
        for name in build_folders.VARIABLES:
            os.environ[name] = job["kernel_cache"]
        triton_interpreter.mend()
        self._allocations = Allocations()
        self._allocations.of_file(NAME)
        # A file, because Triton reads a kernel's source again.
        spec = importlib.util.spec_from_file_location(NAME, job["source"])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)
        self._module, self._function = module, module.kernel_function
        self._is_known = False
        self._built_in = job["kernel_cache"]
        self._sets = [
            [[tensor_at(memory, place) for place in buffers[key]] for key in ("inputs", "outputs")]
            for buffers in job["sets"]
        ]

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        self._allocations.pays = call.get("allocates", False)
        sets = [self._sets[index] for index in call["sets"]]
        if call.get("flush"):
            assert self._clock is not None, "only a device has caches to flush"
            return self._clock.time([partial(self._run_once, *set_) for set_ in sets], waits=False)
        if not self._is_known:
            self._is_known = True
            self.look_at(*sets[0])
        start = time.perf_counter_ns()
        for set_ in sets:
            self._run_once(*set_)
        if self._driver is not None:
            self._driver.synchronize()
        return {"ns": time.perf_counter_ns() - start}

    def look_at(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Before the first call that no device times."""
        refuse_the_frameworks(self._function, inputs)

    def built(self) -> dict[str, dict[str, int]]:
        limits = None if self._driver is None else self._driver.multiprocessor()
        return built_code.of_folder(self._built_in, limits)

    def _run_once(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        copy_out(self._called(inputs, outputs), outputs)

    def _called(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> Sequence[object]:
        self._allocations.begin(outputs)
        results = self._function(*inputs)
        if not isinstance(results, (tuple, list)):
            results = (results,)
        self._allocations.learn(results)
        return results


def refuse_the_frameworks(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> None:
    """A kernel beside which the framework's operators compute is a decoy. The
    parsed file shows what is called by name (weft.build.python_file); this
    shows methods and signs. Who knows of it can hide: then it is right or wrong
    as any other, and as fast."""
    _, called = operator_trace.run(function, inputs)
    # Triton's interpreter sets a tensor's storage; that computes nothing.
    own = [
        name
        for name in called
        if name.startswith(("aten.", "prims.")) and not name.startswith("aten.set_.")
    ]
    if own:
        raise TypeError(
            "kernel_function computes by PyTorch's own "
            f"operators ({', '.join(own[:5])}): that is the "
            "kernel's work"
        )


def copy_out(results: Sequence[object], outputs: Sequence[torch.Tensor]) -> None:
    """What does not fit is the candidate's fault."""
    if len(results) != len(outputs):
        raise TypeError(f"kernel_function gave {len(results)} results, not {len(outputs)}")
    for number, (got, output) in enumerate(zip(results, outputs)):
        if type(got) is not torch.Tensor:
            raise TypeError(f"result {number} is a {type(got).__name__}, no tensor")
        if got.dtype != output.dtype or got.shape != output.shape:
            raise TypeError(
                f"result {number} is {got.dtype} {list(got.shape)}, not "
                f"{output.dtype} {list(output.shape)}"
            )
        is_there = got.data_ptr() == output.data_ptr() and got.stride() == output.stride()
        if not is_there:
            output.copy_(got)
