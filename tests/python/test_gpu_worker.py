"""The Python side's GPU parts, as far as no GPU is needed for them."""

import base64
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [HERE, PACKAGES]

import oracle_samples as samples  # noqa: E402
from weft.device import cuda_driver, device  # noqa: E402
from weft.candidate import gpu_package, harness  # noqa: E402
from weft.device import clock as device_clock  # noqa: E402
from weft.oracle import oracle  # noqa: E402
from weft.candidate import zygote as candidate  # noqa: E402
from weft.expect import reference  # noqa: E402
from weft.candidate import slot  # noqa: E402
from weft.judge.limits import Limits  # noqa: E402
from weft.candidate.slot import CandidateFailed  # noqa: E402

import torch  # noqa: E402

TRITON_ADD = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_mul(a, b, o, N: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < N
    x = tl.load(a + at, inside)
    tl.store(o + at, (x OPERATOR tl.load(b + at, inside)) * 2.0, inside)


def kernel_function(a, b):
    o = torch.empty_like(a)
    add_mul[(triton.cdiv(a.numel(), 1024),)](a, b, o, a.numel(), 1024)
    return RESULT
"""

try:
    import triton  # noqa: F401

    HAS_TRITON = True
except ImportError:
    HAS_TRITON = False


class FakeFunction:
    """A driver call that is recorded and succeeds, or does not."""

    def __init__(self, library, name):
        self._library, self._name = library, name

    def __call__(self, *arguments):
        return self._library.called(self._name, arguments)


class FakeLibrary:
    """Stands for libcuda.so.1: hands out numbers, remembers all."""

    def __init__(self, fails=None):
        self.calls = []
        self.fails = fails or {}
        self._next = 0x1000

    def __getattr__(self, name):
        made = FakeFunction(self, name)
        setattr(self, name, made)
        return made

    def called(self, name, arguments):
        if name in ("cuGetErrorName", "cuGetErrorString"):
            arguments[1]._obj.value = b"CUDA_ERROR_SAMPLE"
            return 0
        self.calls.append((name, arguments))
        if name in self.fails:
            return self.fails[name]
        if arguments and hasattr(arguments[0], "_obj"):
            self._hand_out(name, arguments[0]._obj)
        return 0

    def _hand_out(self, name, place):
        if isinstance(place, ctypes.Array):
            return
        self._next += 0x1000
        place.value = 2 << 20 if name.endswith("Granularity") else self._next

    def names(self):
        return [name for name, _ in self.calls]

    def of(self, name):
        return [arguments for called, arguments in self.calls if called == name]


def fake_memory(library):
    made = cuda_driver.Driver(library, 0)
    return types.SimpleNamespace(driver=made, address=0x700000000000, device=torch.device("cpu"))


def write_package(case, **fields):
    folder = tempfile.mkdtemp()
    case.addCleanup(shutil.rmtree, folder)
    package = {
        "format": 1,
        "arch": "sm_90",
        "scratch": [4096],
        "modules": [{"cubin": base64.b64encode(b"cubin").decode()}],
        "launches": [
            {
                "module": 0,
                "function": "k",
                "grid": [7, 2, 1],
                "threads": 128,
                "shared_bytes": 65536,
                "arguments": ["in0", "s0", "out0", "null"],
            },
        ],
        **fields,
    }
    path = os.path.join(folder, "kernel.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(package, file)
    sets = [
        {"inputs": [{"offset": 256}], "outputs": [{"offset": offset}]} for offset in (1024, 2048)
    ]
    return {"kind": "cuda", "library": path, "sets": sets}


class Packages(unittest.TestCase):
    def test_a_launch_gets_the_addresses_of_its_own_buffer_set(self):
        library = FakeLibrary()
        memory = fake_memory(library)
        runner = gpu_package.load(write_package(self), memory)
        runner.run({"sets": [1]})
        (arguments,) = library.of("cuLaunchKernel")
        self.assertEqual(arguments[1:8], (7, 2, 1, 128, 1, 1, 65536))
        pointers = arguments[9]
        values = [ctypes.c_uint64.from_address(p).value for p in pointers]
        self.assertEqual(values[0], memory.address + 256)
        self.assertEqual(values[2], memory.address + 2048)
        self.assertEqual(values[3], 0)
        self.assertNotIn(values[1], (0, values[0], values[2]))

    def test_a_package_for_any_batch_launches_for_the_one_at_hand(self):
        told = {
            batch: {
                "scratch": [],
                "launches": [
                    {
                        "module": 0,
                        "function": "k",
                        "grid": [blocks, 1, 1],
                        "threads": 32,
                        "arguments": ["in0", int(batch), "null"],
                    }
                ],
            }
            for batch, blocks in (("8", 1), ("67", 5))
        }
        library = FakeLibrary()
        job = write_package(self, batches=told)
        runner = gpu_package.load({**job, "sizes": [67]}, fake_memory(library))
        runner.run({"sets": [0]})
        (arguments,) = library.of("cuLaunchKernel")
        self.assertEqual(arguments[1:4], (5, 1, 1))
        values = [ctypes.c_uint64.from_address(p).value for p in arguments[9]]
        self.assertEqual(values[1:], [67, 0])
        with self.assertRaisesRegex(gpu_package.BadPackage, "8, 67, not for 9"):
            gpu_package.load({**job, "sizes": [9]}, fake_memory(library))

    def test_much_shared_memory_is_asked_for(self):
        library = FakeLibrary()
        gpu_package.load(write_package(self), fake_memory(library))
        (asked,) = library.of("cuFuncSetAttribute")
        self.assertEqual(asked[1:], (8, 65536))

    def test_clusters_and_whole_grids_are_launched_as_such(self):
        launches = [
            {
                "module": 0,
                "function": "k",
                "grid": [32, 1, 1],
                "threads": 64,
                "cluster": 16,
                "arguments": ["in0"],
            },
            {
                "module": 0,
                "function": "k",
                "grid": [9, 1, 1],
                "threads": 64,
                "cooperative": True,
                "arguments": ["out0"],
            },
        ]
        library = FakeLibrary()
        runner = gpu_package.load(write_package(self, launches=launches), fake_memory(library))
        # More blocks than every device has in a cluster have to be allowed.
        (asked,) = library.of("cuFuncSetAttribute")
        self.assertEqual(asked[1:], (14, 1))
        runner.run({"sets": [0]})
        first, second = (arguments[0]._obj for arguments in library.of("cuLaunchKernelEx"))
        self.assertEqual(list(first.grid), [32, 1, 1])
        self.assertEqual(list(first.block), [64, 1, 1])
        self.assertEqual(first.attributes[0].id, 4)
        self.assertEqual(list(first.attributes[0].value[:3]), [16, 1, 1])
        self.assertEqual((first.count, second.count), (1, 1))
        self.assertEqual(second.attributes[0].id, 2)
        self.assertEqual(second.attributes[0].value[0], 1)

    def test_the_device_is_waited_for_before_an_answer(self):
        library = FakeLibrary()
        runner = gpu_package.load(write_package(self), fake_memory(library))
        runner.run({"sets": [0, 1]})
        self.assertEqual(
            library.names()[-3:], ["cuLaunchKernel", "cuLaunchKernel", "cuCtxSynchronize"]
        )

    def test_what_the_device_refuses_is_named(self):
        library = FakeLibrary(fails={"cuCtxSynchronize": 700})
        runner = gpu_package.load(write_package(self), fake_memory(library))
        with self.assertRaisesRegex(cuda_driver.CudaError, "CUDA_ERROR_SAMPLE"):
            runner.run({"sets": [0]})

    def test_a_timed_call_finds_no_line_in_the_cache(self):
        library = FakeLibrary()
        runner = gpu_package.load(write_package(self), fake_memory(library))
        answer = runner.run({"sets": [0, 1], "flush": True})
        self.assertEqual(len(answer["each_ns"]), 2)
        names = library.names()
        before = names[: names.index("cuLaunchKernel")]
        self.assertEqual(
            before[-3:], ["cuCtxResetPersistingL2Cache", "cuMemsetD32Async", "cuEventRecord"]
        )
        written = library.of("cuMemsetD32Async")
        self.assertGreaterEqual(4 * written[-1][2], 256 << 20)

    def test_nothing_is_left_for_the_next_job(self):
        library = FakeLibrary()
        runner = gpu_package.load(write_package(self), fake_memory(library))
        poisoned = library.of("cuMemsetD32Async")[0]
        self.assertEqual(poisoned[1:3], (0xFFFFFFFF, 1024))
        runner.close()
        self.assertEqual(len(library.of("cuModuleUnload")), 1)
        freed = library.of("cuMemFree_v2")[0][0]
        self.assertEqual(freed, poisoned[0].value)

    def test_an_unknown_buffer_is_a_bad_package(self):
        launch = {
            "module": 0,
            "function": "k",
            "grid": [1, 1, 1],
            "threads": 32,
            "arguments": ["in5"],
        }
        job = write_package(self, launches=[launch])
        with self.assertRaisesRegex(gpu_package.BadPackage, "in5"):
            gpu_package.load(job, fake_memory(FakeLibrary()))

    def test_another_format_is_refused(self):
        job = write_package(self, format=2)
        with self.assertRaisesRegex(gpu_package.BadPackage, "format 2"):
            gpu_package.load(job, fake_memory(FakeLibrary()))

    def test_no_forged_field_reaches_the_driver(self):
        good = {"module": 0, "function": "k", "grid": [1, 1, 1], "threads": 32, "arguments": []}
        launches = [
            {"grid": [2**32 + 1, 1, 1]},  # ctypes would launch one block
            {"grid": [1, 65536, 1]},
            {"grid": [0, 1, 1]},
            {"grid": [-1, 1, 1]},
            {"grid": [1.0, 1, 1]},
            {"grid": [True, 1, 1]},
            {"grid": [1, 1]},
            {"grid": [1, 1, 1, 32]},  # moves all later parameters by one
            {"grid": "111"},
            {"threads": 0},
            {"threads": 1025},
            {"threads": 2**32 + 32},
            {"shared_bytes": -1},
            {"shared_bytes": 2**32},
            {"shared_bytes": "1"},
            {"cluster": 0},
            {"cluster": 17},
            {"cooperative": 1},
            {"module": -1},  # Python's last one
            {"module": 1},
            {"module": None},
            {"function": "k\0x"},
            {"function": "\x1b[31m"},
            {"function": ["k"]},
            {"function": ""},
            {"arguments": [2**64]},
            {"arguments": [1.5]},
            {"arguments": [None]},
            {"arguments": [["in0"]]},
            {"arguments": ["in0"] * 100_000},
            {"arguments": ["in-1"]},
            {"arguments": ["address"]},
            {"arguments": {"in0": 1}},
        ]
        packages = [
            *({"launches": [good, {**good, **one}]} for one in launches),
            {"launches": {}},
            {"launches": [good] * 100_000},
            {"launches": [[]]},
            {"launches": None},
            {"scratch": [-1]},
            {"scratch": [2**62]},
            {"scratch": [4096] * 100_000},
            {"scratch": "4096"},
            {"modules": [{"cubin": "no base64!"}]},
            {"modules": [{"cubin": 5}]},
            {"modules": [{}]},
            {"modules": {"cubin": ""}},
            {"batches": "none"},
            {"batches": {"none": []}},
            {"batches": ["none"]},
            {"format": True},
            {"format": "1"},
            {"format": [1]},
        ]
        for fields in packages:
            shown = repr(fields)[:80]
            with self.subTest(shown):
                library = FakeLibrary()
                with self.assertRaises(gpu_package.BadPackage) as caught:
                    gpu_package.load(write_package(self, **fields), fake_memory(library))
                self.assertLess(len(str(caught.exception)), 300)
                self.assertTrue(str(caught.exception).isprintable())
                self.assertNotIn("cuLaunchKernel", library.names())

    def test_a_file_that_is_no_package_is_a_bad_package(self):
        for content in (b"[]", b"5", b"null", b"{", b"\xff", b"[" * 200_000, b'"format"'):
            with self.subTest(content[:8]):
                job = write_package(self)
                with open(job["library"], "wb") as file:
                    file.write(content)
                with self.assertRaises(gpu_package.BadPackage):
                    gpu_package.load(job, fake_memory(FakeLibrary()))

    def test_a_package_for_a_gpu_does_not_run_on_the_host(self):
        memory = types.SimpleNamespace(driver=None)
        with self.assertRaisesRegex(gpu_package.BadPackage, "--device"):
            gpu_package.load(write_package(self), memory)


class SharedMemory(unittest.TestCase):
    def test_what_is_made_is_whole_grains_and_kept_by_its_descriptor(self):
        library = FakeLibrary()
        made = cuda_driver.Driver(library, 0)
        _, size = made.create_shared(5 << 20)
        self.assertEqual(size, 6 << 20)
        self.assertEqual(
            library.names()[-3:], ["cuMemCreate", "cuMemExportToShareableHandle", "cuMemRelease"]
        )

    def test_it_is_mapped_for_reading_and_writing(self):
        library = FakeLibrary()
        made = cuda_driver.Driver(library, 0)
        address = made.map_shared(5, 6 << 20)
        (mapped,) = library.of("cuMemMap")
        self.assertEqual((mapped[0].value, mapped[1]), (address, 6 << 20))
        self.assertEqual(library.names()[-2:], ["cuMemSetAccess", "cuMemRelease"])

    def test_bytes_at_an_address_are_a_tensor_over_them(self):
        memory = ctypes.create_string_buffer(64)
        address = ctypes.addressof(memory)
        made = device.bytes_at(address, 64, torch.device("cpu"))
        made[5:9] = 7
        self.assertEqual(memory.raw[4:10], b"\0\7\7\7\7\0")
        self.assertEqual(made.data_ptr(), address)

    def test_a_machine_without_a_driver_says_so(self):
        with mock.patch.object(cuda_driver, "LIBRARY", "libnothing.so.1"):
            with self.assertRaisesRegex(cuda_driver.NoDriver, "--device cpu"):
                cuda_driver.open_driver(0)

    def test_a_device_that_others_fill_is_waited_for(self):
        full = cuda_driver.CudaError(
            "cuDevicePrimaryCtxRetain", "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"
        )
        with (
            mock.patch.object(cuda_driver.ctypes, "CDLL"),
            mock.patch.object(cuda_driver, "FULL_POLL_S", 0.0),
        ):
            with mock.patch.object(cuda_driver, "Driver", side_effect=[full, "it"]):
                self.assertEqual(cuda_driver.open_driver(0), "it")
            with (
                mock.patch.object(cuda_driver, "Driver", side_effect=full),
                mock.patch.object(cuda_driver, "FULL_WAIT_S", 0.0),
                self.assertRaisesRegex(cuda_driver.NoDriver, "others hold"),
            ):
                cuda_driver.open_driver(0)

    def test_devices_have_names(self):
        self.assertEqual(device.parse("cuda"), torch.device("cuda", 0))
        self.assertEqual(device.parse("cuda:3"), torch.device("cuda", 3))
        for name in ("gpu", "cuda:x", "cpu:0", ""):
            with self.assertRaises(ValueError):
                device.parse(name)


@unittest.skipUnless(HAS_TRITON, "triton is not installed")
class Interpreter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weft-gpu-worker-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        torch.set_grad_enabled(False)
        scratch = os.path.join(cls.folder, "scratch")
        cls.oracle = oracle.Oracle(scratch, [], 2)
        cls.addClassCleanup(cls.oracle.close)
        cls.graph = os.path.join(cls.folder, "graph.json")
        with open(cls.graph, "w", encoding="utf-8") as file:
            json.dump(samples.GRAPHS["add_mul"], file)

    def check(self, operator, result="o"):
        source = TRITON_ADD.replace("OPERATOR", operator)
        package = {"format": 1, "interpret": True, "source": source.replace("RESULT", result)}
        path = os.path.join(self.folder, "kernel.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(package, file)
        reply = self.oracle.answer(
            {
                "id": 1,
                "verb": "check",
                "subgraph": self.graph,
                "random_seed": 3,
                "candidate": {"kind": "triton", "library": path},
                "limits": {"wall_ms": 60_000, "memory_bytes": 4 << 30},
            }
        )
        self.assertTrue(reply["ok"], reply)
        return reply["verdict"]

    def test_an_honest_kernel_is_accepted(self):
        verdict = self.check("+")
        self.assertTrue(verdict["correct"], verdict)

    def test_a_wrong_kernel_is_wrong(self):
        self.assertEqual(self.check("-")["kind"], "wrong")

    def test_a_result_of_another_shape_is_the_kernels_fault(self):
        verdict = self.check("+", "o[0]")
        self.assertEqual(verdict["kind"], "crashed")
        self.assertIn("result 0", verdict["reason"])


class References(unittest.TestCase):
    def test_what_is_used_up_is_freed(self):
        made = reference.Reference(samples.GRAPHS["add_mul"])
        _, text = made.source()
        self.assertIn("del a\n", text)
        self.assertNotIn("del x0", text)
        self.assertNotIn("del m", text)

    def test_a_captured_device_is_replaced_by_ours(self):
        made = reference.Reference({"nodes": [], "outputs": []}, torch.device("cuda", 1))
        self.assertEqual(made._text({"device": "cpu"}, False), "torch.device('cuda:1')")


class FakeRunner:
    """Tells which process it runs in."""

    described = {}

    def __init__(self, job, memory):
        self._fails = job.get("fails_to_close")

    def run(self, call):
        return {"pid": os.getpid()}

    def close(self):
        if self._fails:
            raise RuntimeError("it does not let go")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


class Resting(unittest.TestCase):
    """Jobs of a slot whose zygote is a fork of this process."""

    def setUp(self):
        memory = types.SimpleNamespace(driver=None, close=lambda: None)
        for name, fake in (("load", FakeRunner), ("share", lambda fd, job: memory)):
            patch = mock.patch.object(harness, name, fake)
            patch.start()
            self.addCleanup(patch.stop)
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            try:
                candidate.Zygote(theirs, False, "cpu").serve()
            except OSError:  # the test is over
                pass
            finally:
                os._exit(0)
        theirs.close()
        self.zygote = pid
        self.addCleanup(os.waitpid, pid, 0)
        self.slot = slot.Slot([], 1, {}, device="cuda:0")
        self.slot._process = types.SimpleNamespace(is_alive=lambda: True)
        self.slot._link = ours
        self.addCleanup(ours.close)
        self.arena = types.SimpleNamespace(fd=os.memfd_create("arena"), described={})
        self.addCleanup(os.close, self.arena.fd)

    def pid_of(self, keep=True, kind="cuda", more=True, **job):
        """Of the child that has served a job, which then was let go."""
        limits = Limits(5000, 0, False)
        self.slot.begin({"kind": kind, **job}, self.arena, limits)
        answer, _ = self.slot.call(5000)
        self.slot.dismiss(keep=keep, more=more)
        return answer["pid"]

    def test_a_child_serves_one_package_after_the_other(self):
        self.assertEqual(self.pid_of(), self.pid_of())

    def test_one_whose_kernel_was_wrong_serves_no_other(self):
        self.assertNotEqual(self.pid_of(keep=False), self.pid_of())

    def test_one_that_ran_a_candidates_code_serves_no_other(self):
        first = self.pid_of()
        self.assertEqual(self.pid_of(kind="model"), first)
        self.assertNotEqual(self.pid_of(), first)

    def test_a_baseline_serves_one_subgraph_after_the_other(self):
        first = self.pid_of(kind="reference")
        self.assertEqual(self.pid_of(kind="reference"), first)

    def test_a_child_is_forked_ahead_if_another_job_is_likely(self):
        for more, is_there in ((True, 1), (False, 0)):
            with self.subTest(more=more):
                self.pid_of(kind="model", more=more)
                self.slot.settle()
                until = time.monotonic() + 2
                while len(children_of(self.zygote)) != is_there and time.monotonic() < until:
                    time.sleep(0.01)
                self.assertEqual(len(children_of(self.zygote)), is_there)
        self.assertGreater(self.pid_of(kind="model"), 0)

    def test_one_that_cannot_let_go_is_replaced(self):
        self.assertNotEqual(self.pid_of(fails_to_close=True), self.pid_of())

    def test_it_is_replaced_after_so_many_jobs(self):
        with mock.patch.object(slot, "JOBS_MAX", 3):
            pids = [self.pid_of() for _ in range(5)]
        self.assertEqual(len(set(pids[:3])), 1)
        self.assertEqual(len(set(pids)), 2)

    def test_a_hostile_call_ends_it(self):
        first = self.pid_of()
        limits = Limits(5000, 0, False)
        self.slot.begin({"kind": "cuda"}, self.arena, limits)
        with mock.patch.object(self.slot, "_call", 6):  # it answers another
            with self.assertRaises(CandidateFailed):
                self.slot._send({"do": "call", "call": 1})
                self.slot.call(5000)
        self.assertNotEqual(self.pid_of(), first)


class CompilersLoadedAhead(unittest.TestCase):
    def last_word(self, folder, device="cuda:0"):
        """A warm zygote's last; that folder may hold a libcuda.so.1."""
        place = slot.Slot([], 1, {**os.environ, "LD_LIBRARY_PATH": folder}, device=device)
        self.addCleanup(place.kill)
        place.start()
        with open(f"/proc/{place._process.process.pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[-2]

    def test_they_are_loaded_where_that_leaves_the_driver_alone(self):
        self.assertEqual(self.last_word(tempfile.gettempdir()), b"compilers")

    def test_the_host_has_none(self):
        self.assertEqual(self.last_word(tempfile.gettempdir(), "cpu"), b"")

    def test_a_process_that_used_the_driver_begins_anew_without_it(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        library = os.path.join(folder, "libcuda.so.1")
        text = "int cuDeviceGetCount(int *n) { *n = 1; return 0; }"
        subprocess.run(
            ["g++", "-xc", "-shared", "-o", library, "-"], input=text, text=True, check=True
        )
        self.assertEqual(self.last_word(folder), b"")

    def test_a_zygote_has_tritons_and_inductors(self):
        code = (
            "from weft.candidate import harness; import sys; "
            "harness.prepare(True); "
            "print('triton.backends.nvidia.compiler' in sys.modules, "
            "'torch._inductor.select_algorithm' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], text=True, cwd=PACKAGES, capture_output=True, check=True
        )
        self.assertEqual(done.stdout.strip(), "True True")


class OpenedAhead(unittest.TestCase):
    def setUp(self):
        cuda_driver.opened.cache_clear()
        self.addCleanup(cuda_driver.opened.cache_clear)

    def test_a_device_is_opened_before_there_is_a_job(self):
        with mock.patch.object(cuda_driver, "open_driver") as opened:
            harness.open_ahead("cuda:1")
            harness.open_ahead("cpu")
        opened.assert_called_once_with(1)

    def test_one_that_is_not_there_is_the_jobs_to_tell(self):
        missing = cuda_driver.NoDriver("none")
        with mock.patch.object(cuda_driver, "open_driver", side_effect=missing):
            harness.open_ahead("cuda:0")


class ClocksOfACall(unittest.TestCase):
    def test_a_call_that_may_hide_work_begins_on_an_idle_device(self):
        library = FakeLibrary()
        clock = device_clock.DeviceClock(cuda_driver.Driver(library, 0))
        clock.time([lambda: library.calls.append(("the call", ()))], waits=True)
        names = library.names()
        before = names[: names.index("the call")]
        self.assertEqual(before[-3:], ["cuMemsetD32Async", "cuCtxSynchronize", "cuEventRecord"])

    def test_the_whole_device_is_waited_for_after_it(self):
        library = FakeLibrary()
        clock = device_clock.DeviceClock(cuda_driver.Driver(library, 0))
        clock.time([lambda: library.calls.append(("the call", ()))], waits=False)
        names = library.names()
        after = names[names.index("the call") + 1 :]
        self.assertEqual(after[:3], ["cuEventRecord", "cuEventSynchronize", "cuCtxSynchronize"])


if __name__ == "__main__":
    unittest.main()
