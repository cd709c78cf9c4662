"""The Python side's GPU parts, as far as no GPU is needed for them."""

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
from fake_cuda import FakeLibrary  # noqa: E402
from weft.device import cuda_driver, device  # noqa: E402
from weft.candidate import harness  # noqa: E402
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
