"""Facts that built code shows: by the compilers that build it, without a
GPU, and through the oracle."""

import os
import platform
import shutil
import subprocess
import tempfile
import unittest

from weft.build import built_code, cuda
from weft.candidate.package_format import Launch

#: A multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide,
#: "Compute Capabilities": 64 warps, 32 blocks, 64 K registers, 228 KiB).
HOPPER = {"threads": 2048, "blocks": 32, "registers": 65536, "shared_bytes": 228 << 10}

LOOP = """
extern "C" void run(const float* __restrict x, float* __restrict y, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i] * x[i] + 3.0f;
}
"""

#: More values than there are registers, all of them needed until the end.
CROWDED = """
extern "C" __global__ void __launch_bounds__(1024) crowded(float* x, int n) {
  float a[80];
#pragma unroll
  for (int i = 0; i < 80; ++i) a[i] = x[i * n + threadIdx.x];
  for (int k = 0; k < n; ++k) {
#pragma unroll
    for (int i = 0; i < 80; ++i) a[i] = a[i] * a[(i + 7) % 80] + 1.0f;
  }
#pragma unroll
  for (int i = 0; i < 80; ++i) x[i * n + threadIdx.x] = a[i];
}
extern "C" __global__ void plain(float* x) {
  __shared__ float shared[256];
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = shared[255 - threadIdx.x];
}
"""


def nvrtc():
    try:
        return cuda.Compiler()
    except cuda.NoCompiler:
        return None


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name


@unittest.skipUnless(
    platform.machine() == "x86_64" and shutil.which("objdump"), "no objdump for x86-64 here"
)
class Processors(Folder):
    def built(self, *flags):
        source = os.path.join(self.folder, "kernel.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(LOOP)
        subprocess.run(
            [
                "g++",
                *flags,
                "-shared",
                "-fPIC",
                source,
                "-o",
                os.path.join(self.folder, "kernel.so"),
            ],
            check=True,
        )
        return built_code.of_folder(self.folder)["run"]

    def test_a_loop_that_is_vectorised(self):
        run = self.built("-O3", "-mavx2", "-mfma")
        self.assertGreater(run["vector_instructions"], 0)
        self.assertEqual(run["vector_bits"], 256)
        self.assertEqual(run["vector_spills"], 0)

    def test_one_that_is_not(self):
        run = self.built("-O2", "-fno-tree-vectorize")
        self.assertEqual((run["vector_instructions"], run["vector_bits"]), (0, 0))
        self.assertGreater(run["scalar_instructions"], 0)

    def test_a_folder_with_nothing_in_it(self):
        self.assertEqual(built_code.of_folder(self.folder), {})
        with open(os.path.join(self.folder, "no.so"), "wb") as file:
            file.write(b"no library")
        self.assertEqual(built_code.of_folder(self.folder), {})


@unittest.skipUnless(
    shutil.which("cuobjdump") or built_code._of_cuda("cuobjdump"),
    "no cuobjdump here: it comes with Triton and with the CUDA toolkit",
)
class Gpus(Folder):
    @unittest.skipUnless(nvrtc(), "no NVRTC here")
    def test_a_package_of_nvrtcs(self):
        cubin = nvrtc().cubin(CROWDED, "sm_90")
        launches = [
            Launch(0, "crowded", (1, 1, 1), 1024, 0, 1, False, ()),
            Launch(0, "plain", (1, 1, 1), 256, 4096, 1, False, ()),
        ]
        told = built_code.of_package(launches, [cubin], HOPPER)
        # 1,024 threads leave 64 registers for each.
        self.assertLessEqual(told["crowded"]["registers"], 64)
        self.assertGreater(told["crowded"]["local_bytes"], 0)
        self.assertEqual(told["crowded"]["blocks"], 1)
        self.assertEqual(told["crowded"]["occupancy_percent"], 50)
        self.assertEqual(told["plain"]["local_bytes"], 0)
        # Its own kilobyte, the dynamic four, and what the device keeps of each.
        self.assertGreaterEqual(told["plain"]["shared_bytes"], 5 << 10)

    def compiled(self, **options):
        import triton
        import triton.language as tl
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        @triton.jit
        def rows(x, y, BLOCK: tl.constexpr):
            at = tl.arange(0, BLOCK)
            v = tl.load(x + at)
            tl.store(y + at, v * tl.sum(v * v, 0))

        os.environ["TRITON_CACHE_DIR"] = self.folder
        self.addCleanup(os.environ.pop, "TRITON_CACHE_DIR", None)
        rows.__globals__["tl"] = tl
        source = ASTSource(
            rows, {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, {(2,): 8192}, {}
        )
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)

    def test_what_triton_left_in_its_cache(self):
        try:
            import triton  # noqa: F401
        except ImportError:
            self.skipTest("no triton here")
        built = self.compiled(num_warps=8)
        rows = built_code.of_folder(self.folder, HOPPER)["rows"]
        self.assertEqual(rows["threads"], 256)
        self.assertGreaterEqual(rows["shared_bytes"], built.metadata.shared)
        self.assertGreater(rows["registers"], 8192 // 256)
        self.assertEqual(rows["local_bytes"], 0)
        # Another build of the same name is told beside it.
        self.compiled(num_warps=8, maxnreg=32)
        told = built_code.of_folder(self.folder, HOPPER)
        self.assertEqual(set(told), {"rows", "rows (2)"})
        crowded = min(told.values(), key=lambda one: one["registers"])
        self.assertGreater(crowded["local_bytes"], 0)


class Occupancy(unittest.TestCase):
    def test_as_the_calculator_of_cuda_has_it(self):
        for threads, registers, shared, blocks, percent in (
            (256, 32, 0, 8, 100),
            (256, 255, 0, 1, 12),
            (1024, 64, 0, 1, 50),
            (128, 72, 1040, 7, 44),
            (32, 16, 0, 32, 50),
            (256, 32, 100 << 10, 2, 25),
            (48, 32, 0, 32, 100),
        ):
            with self.subTest(f"{threads} {registers} {shared}"):
                told = built_code.occupancy(
                    {"threads": threads, "registers": registers, "shared_bytes": shared}, HOPPER
                )
                self.assertEqual((told["blocks"], told["occupancy_percent"]), (blocks, percent))


class Believed(unittest.TestCase):
    def test_names_and_numbers_alone(self):
        self.assertEqual(
            built_code.believed(
                {
                    "k": {"registers": 32, "lie": "text", "Bad key": 1, "more": -1, "true": True},
                    "bad\nname": {},
                    "other": 3,
                }
            ),
            {"k": {"registers": 32}},
        )
        for told in (None, [], "text", 7):
            self.assertEqual(built_code.believed(told), {})
        many = {f"k{i}": {"registers": 1} for i in range(100)}
        self.assertEqual(len(built_code.believed(many)), built_code.KERNELS_MAX)


if __name__ == "__main__":
    unittest.main()
