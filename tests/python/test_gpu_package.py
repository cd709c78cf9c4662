"""Packages of GPU kernels, launched on a driver that only records its calls."""

import base64
import ctypes
import json
import os
import shutil
import tempfile
import types
import unittest

from fake_cuda import FakeLibrary, fake_memory

from weft.candidate import gpu_package
from weft.device import cuda_driver


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


if __name__ == "__main__":
    unittest.main()
