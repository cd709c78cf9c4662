"""The child process of a job: loads one candidate, runs it on request, answers.

Nothing here is believed: the oracle looks at the shared memory and its own clock. `answer`
lines are JSON objects with the number of the call.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import mmap
import os
import resource
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from weft.device import gpu_lock, process
from weft.problem import precision, sentences
from weft.candidate.gpu_package import KINDS
from weft.candidate.mapped_tensors import MAPPED_BYTES, touch

if TYPE_CHECKING:
    from weft.device.cuda_driver import Driver
    from weft.device.device_arena import SharedDeviceMemory


def prepare(loads_compilers: bool) -> None:
    """What the zygote can do once for all its children."""
    keep_memory()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if loads_compilers:
        load_inductor()
        load_triton()
        let_go_of_nvml()


def load_inductor() -> None:
    """What torch.compile imports, and files of Inductor's: else every child that
    has one would, for 2 to 3 seconds."""
    with contextlib.suppress(ImportError):  # its jobs tell what is missing
        from torch._inductor import config

        config.compile_threads = 1  # before the rest, which would start processes
        import torch._inductor.compile_fx
        import torch._inductor.kernel.mm  # noqa: F401
        from torch._inductor.codecache import torch_key

        torch_key()  # reads all of Inductor


def load_triton() -> None:
    """What a module of Triton kernels imports, and asks for once in a process:
    else the first call of each that is checked or timed would, for most of a
    second."""
    with contextlib.suppress(ImportError):
        from triton.backends.nvidia import compiler  # noqa: F401
        from triton.experimental.gluon.nvidia import hopper  # noqa: F401
        from triton.runtime.cache import triton_key

        triton_key()  # reads all of Triton


def keep_memory() -> None:
    """Has glibc keep what is freed, for each party alike: else the history of
    a heap decides whether every result's pages are new (identical code had
    between 0.6 and 2.4 times its own speed)."""
    process.keep_freed_memory(MAPPED_BYTES)


def let_go_of_nvml() -> None:
    """PyTorch may have counted devices with it and leaves it open: a fork,
    whose descriptors are closed, could not open it any more."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return
    while library.nvmlShutdown() == 0:
        pass


class Line:
    """JSON lines: orders from a socket, answers to a descriptor."""

    def __init__(self, link: socket.socket, answers: int) -> None:
        self._in = link.makefile("rb")
        self._out = answers

    def read(self) -> dict[str, Any]:
        line = self._in.readline()
        if not line:
            os._exit(0)
        return json.loads(line)

    def answer(self, message: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(message).encode() + b"\n")


class SharedMemory:
    """The arena as this process sees it, on the host."""

    device = torch.device("cpu")
    driver: Driver | None = None

    def __init__(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        self._map = mmap.mmap(fd, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.all = torch.frombuffer(self._map, dtype=torch.uint8)

    def close(self) -> None:
        """It goes with the process: on the host each serves one job."""


def share(fd: int, job: dict[str, Any]) -> SharedMemory | SharedDeviceMemory:
    """The arena in whatever memory the job says it lies."""
    if "device" not in job:
        return SharedMemory(fd)
    from weft.device.device_arena import SharedDeviceMemory

    return SharedDeviceMemory(fd, job)


def open_ahead(device: str) -> None:
    """A GPU's context, while there is no job yet: it takes a good part of a
    second. The zygote may not: a fork cannot use its parent's context."""
    if device == "cpu":
        return
    from weft.device.device import parse
    from weft.device.cuda_driver import NoDriver, opened

    try:
        opened(parse(device).index)
    except NoDriver:
        pass  # the job opens it again, and answers why it cannot


def receive_arena(link: socket.socket) -> int:
    """The descriptor that goes before every job."""
    data, fds, _, _ = socket.recv_fds(link, 1, 1)
    if not data:
        os._exit(0)  # the zygote is gone
    os.set_inheritable(fds[0], False)
    return fds[0]


def run_job(commands: int, answers: int, device: str) -> NoReturn:
    """Serves jobs, mostly one, until its input ends. Never returns."""
    faulthandler.enable()  # of a fault, slot.py tells where it was
    open_ahead(device)
    link = socket.socket(fileno=commands)
    line = Line(link, answers)
    while True:
        # Nothing is read ahead: an order comes when the one before is done.
        arena = receive_arena(link)
        job = line.read()
        torch.set_num_threads(job["threads"])
        precision.apply(job.get("precision", "framework"))
        if job["memory_bytes"] and job["limit_address_space"]:
            limit = process.virtual_bytes() + job["memory_bytes"]
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            serve(line, arena, job)
        except BaseException as error:  # the candidate's own, whatever it is
            line.answer(_failure(error))
            os._exit(1)


def serve(line: Line, arena: int, job: dict[str, Any]) -> None:
    """One job, until it is told to rest: only those that run no code of a
    candidate's in this process are (slot.py)."""
    # In here: a GPU that cannot be opened is an answer, too. And named:
    # runners keep addresses into it, which do not hold it.
    memory = share(arena, job)
    os.close(arena)
    with device_for_loading(job, memory):
        runner = load(job, memory)
        if memory.driver is not None:
            memory.driver.synchronize()  # it has put its state into the arena
    line.answer({"call": 0, "ok": True, **runner.described})
    while (call := line.read())["do"] != "rest":
        told = {"built": runner.built()} if call.get("describes") else runner.run(call)
        line.answer({"call": call["call"], "ok": True, **told})
    runner.close()
    memory.close()
    line.answer({"rested": True})


def _failure(error: BaseException) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}"
    no_memory = isinstance(error, MemoryError) or is_out_of_memory(text)
    return {
        "call": -1,
        "ok": False,
        "message": sentences.whole_lines(text, 2000),
        "out_of_memory": no_memory,
    }


def is_out_of_memory(text: str) -> bool:
    return any(
        words in text
        for words in (
            "can't allocate",
            "CUDA out of memory",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "STATUS_ALLOC_FAILED",
        )
    )


def load(job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> Any:
    """The runner for that kind of candidate."""
    if job["kind"] in RUNNERS:
        return RUNNERS[job["kind"]](job, memory)
    if job["kind"] == "reference":
        from weft.candidate.baseline import ReferenceRunner

        return ReferenceRunner(job, memory)
    from weft.candidate import model_runner

    return model_runner.load(job, memory)


@contextlib.contextmanager
def device_for_loading(
    job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory
) -> Iterator[None]:
    """A baseline takes its share of the device itself: while it starts, the
    oracle has let go of it. A candidate cannot: it does not see the lock."""
    if job["kind"] not in BASELINE_KINDS:
        yield
        return
    with contextlib.closing(gpu_lock.lock_of(memory.driver)) as lock:
        with lock.shared():
            yield


class Library:
    """A shared library that exports kernel_function (compiler/cpu.hpp)."""

    described: dict[str, Any] = {}

    def __init__(self, job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> None:
        library = ctypes.CDLL(job["library"])
        self._function = library.kernel_function
        self._function.restype = None
        self._calls = []
        self._results = (
            [
                (place["shape"], place["stride"], getattr(torch, place["dtype"]))
                for place in job["sets"][0]["outputs"]
            ]
            if job["sets"]
            else []
        )
        for buffers in job["sets"]:
            places = buffers["inputs"] + buffers["outputs"]
            self._calls.append(
                (
                    *(ctypes.c_void_p(memory.address + place["offset"]) for place in places),
                    *map(ctypes.c_int64, job.get("sizes", ())),
                )
            )

    def run(self, call: dict[str, Any]) -> dict[str, Any]:
        """Calls the kernel once for each of the named buffer sets. A timed
        call allocates its results, as the framework's and a module's do."""
        calls = [self._calls[i] for i in call["sets"]]
        function, allocates = self._function, call.get("allocates")
        start = time.perf_counter_ns()
        for pointers in calls:
            if allocates:
                self._allocate()
            function(*pointers)
        return {"ns": time.perf_counter_ns() - start}

    def _allocate(self) -> None:
        """Takes what results take, and lets go of it: the kernel writes where
        the oracle looks."""
        made = [
            torch.empty_strided(shape, stride, dtype=dtype)
            for shape, stride, dtype in self._results
        ]
        for tensor in made:
            if tensor.nbytes > MAPPED_BYTES:
                touch(tensor)


def load_package(job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> Any:
    """The runner of a GPU kernel package (gpu_package.py)."""
    from weft.candidate import gpu_package

    return gpu_package.load(job, memory)


def load_python(job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> Any:
    """The runner of a Python file (python_kernel.py)."""
    from weft.candidate import python_kernel

    return python_kernel.PythonKernel(job, memory)


def load_inductors(job: dict[str, Any], memory: SharedMemory | SharedDeviceMemory) -> Any:
    """The runner of a file of TorchInductor's (inductor_kernel.py)."""
    from weft.candidate import inductor_kernel

    return inductor_kernel.InductorKernel(job, memory)


#: The framework's side, which runs outside the sandbox.
BASELINE_KINDS = ("reference", "model_reference")
#: What runs a candidate kernel, by its target. A new target adds a line.
RUNNERS = {
    "cpu": Library,
    "python": load_python,
    "inductor": load_inductors,
    **dict.fromkeys(KINDS, load_package),
}
#: Of them, what is a file with a kernel_function of tensors.
PYTHON_FILES = ("python", "inductor")
#: What builds itself when it is loaded.
BUILDS_WHEN_LOADED = (*PYTHON_FILES, "model")
#: Whose runner knows what was built (weft.build.built_code).
TELLS_BUILT_CODE = ("python", *KINDS)
