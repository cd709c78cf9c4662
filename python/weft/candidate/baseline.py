"""The framework's side of a timing: the reference, eager and compiled.

Runs in the same kind of child, over the same protocol, as the candidate, so
that what the way there and back costs is the same for both.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from weft.device import gpu_lock
from weft.candidate.mapped_tensors import tensor_at
from weft.expect.reference import Reference, load_graph
from weft.problem import sentences

if TYPE_CHECKING:
    from weft.candidate.harness import SharedMemory
    from weft.device.clock import DeviceClock
    from weft.device.cuda_driver import Driver
    from weft.device.device_arena import SharedDeviceMemory
    from weft.device.gpu_lock import DeviceLock, NoLock


class ReferenceRunner:
    """The reference of a subgraph; reads its inputs from shared memory."""

    described: dict[str, Any] = {}

    def __init__(self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> None:
        reference = Reference(load_graph(job["graph"]), memory.device)
        self._functions = {"eager": reference.function()}
        self._driver = memory.driver
        self._clock: DeviceClock | None = None
        if memory.driver is not None:
            from weft.device.clock import clock_of

            self._clock = clock_of(memory.driver)
        self._inputs = [
            [tensor_at(memory, place) for place in buffers["inputs"]] for buffers in job["sets"]
        ]

    def close(self) -> None:
        """For the next job in this process: nothing of this one is kept."""
        self._functions, self._inputs = {}, []
        gc.collect()  # before the memory that inputs lie in is unmapped
        rest(self._driver)

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        if call.get("rest"):
            return rest(self._driver)
        if call["function"] not in self._functions:
            try:
                self._compile(call["function"])
            except Exception as error:  # whatever the compiler may raise
                text = f"{type(error).__name__}: {error}"
                return {"ns": 0, "compile_error": sentences.whole_lines(text, 2000)}
        function = self._functions[call["function"]]
        calls = [self._inputs[i] for i in call["sets"]]
        if call.get("flush"):
            assert self._clock is not None, "only a device has caches to flush"
            return self._clock.time(
                [partial(_run_and_drop, function, inputs) for inputs in calls], waits=False
            )
        start = time.perf_counter_ns()
        for inputs in calls:
            function(*inputs)
        if self._driver is not None:
            self._driver.synchronize()
        return {"ns": time.perf_counter_ns() - start}

    def _compile(self, name: str) -> None:
        with first_calls(name, self._driver) as compiled_as:
            compiled = compiled_as(self._functions["eager"])
            compiled(*self._inputs[0])
        self._functions[name] = compiled


#: Of torch.compile, by the name of the baseline.
COMPILE_MODES = {"compile": "default", "compile-autotune": "max-autotune"}


@contextlib.contextmanager
def first_calls(name: str, driver: Driver | None) -> Iterator[Callable[..., Any]]:
    """Gives what compiles a function in the mode of that baseline, for it to be
    called within. A GPU is shared with others from the moment that the
    compiler is done with the processor: the oracle has let go of it, and what
    compiling takes, nobody has to wait for.
    """
    import torch._inductor.config as settings

    settings.compile_threads = 1
    mode = COMPILE_MODES[name]
    inductor = torch._TorchCompileInductorWrapper(mode, None, False)
    lock = gpu_lock.lock_of(driver)
    is_first = True
    with contextlib.closing(lock), contextlib.ExitStack() as held:

        def backend(graph: Any, inputs: list[Any]) -> Any:
            if not is_first:  # again, for a later call: the oracle holds it
                return inductor(graph, inputs)
            if mode != "default":  # its search times kernels
                held.enter_context(lock.shared())
            with padding_measured_under(lock):
                made = inductor(graph, inputs)
            held.enter_context(lock.shared())
            return made

        try:
            yield partial(torch.compile, dynamic=False, backend=backend)
            if driver is not None:
                driver.synchronize()
        finally:
            is_first = False


def padding_measured_under(lock: DeviceLock | NoLock) -> contextlib.AbstractContextManager[Any]:
    """The compiler times products to decide whether to pad them: with its
    share of the device."""
    from torch._inductor.fx_passes import pad_mm

    names = ("_should_pad", "should_pad_bench")  # by version
    name = next((name for name in names if hasattr(pad_mm, name)), None)
    if name is None:
        return lock.shared()
    measure = getattr(pad_mm, name)

    def shared(*arguments: Any, **named: Any) -> Any:
        with lock.shared():
            return measure(*arguments, **named)

    return mock.patch.object(pad_mm, name, shared)


def rest(driver: Driver | None) -> dict[str, Any]:
    """Gives memory back that the framework keeps for later."""
    if driver is not None:
        torch.cuda.empty_cache()
    return {"ns": 0}


def _run_and_drop(function: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
    function(*inputs)
