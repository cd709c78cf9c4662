"""error_sums.py on a GPU: each sum in one pass over the memory.

Every thread keeps separate sums, which PyTorch adds up. So the order of additions is the
same each time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence

import torch

from weft.build.cuda import BuildError, Compiler, NoCompiler
from weft.device.cuda_driver import CudaError, Driver, opened
from weft.device.gpu_facts import arch

THREADS = 256
#: At most so many threads at once …
THREADS_MAX = 1 << 19
#: … and no fewer elements for each.
ELEMENTS_MIN = 64
_KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}

SOURCE = (
    f"#define BLOCK {THREADS}\n"
    + r"""
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__

// As doubles: they are all small enough.
enum Fact { COUNT, THREADS, KIND, TRUTH_KIND, FRAMEWORK_KIND, SCALE, LOST,
            WIDTH, PARTS, IS_DIFFERENCE };

constexpr double largest = 1e140;

DEVICE double element(const void* data, int kind, long long i) {
  if (kind == 0) return static_cast<const float*>(data)[i];
  if (kind == 1) return static_cast<const double*>(data)[i];
  const int bits = static_cast<const unsigned short*>(data)[i];
  if (kind == 2) return __int_as_float(bits << 16);
  const bool is_finite = (bits & 0x7c00) != 0x7c00;
  const int moved = (bits & 0x7fff) << 13;
  const float size = is_finite ? __int_as_float(moved) * 0x1p112f
                               : __int_as_float(moved | 0x7f800000);
  return bits & 0x8000 ? -size : size;
}

// So many elements at a time, that the memory is asked for together.
constexpr int pack = 4;

struct Pack {
  double at[pack];
};

// Those in steps from i on; nan instead of what lies beyond the end.
DEVICE Pack elements(const void* data, int kind, long long i, long long step,
                     long long all) {
  Pack made;
  if (i + (pack - 1) * step >= all) {
    for (int j = 0; j < pack; ++j, i += step)
      made.at[j] = i < all ? element(data, kind, i) : __int_as_float(0x7fffffff);
  } else if (kind == 0) {
#pragma unroll
    for (int j = 0; j < pack; ++j) made.at[j] = element(data, 0, i + j * step);
  } else if (kind == 1) {
#pragma unroll
    for (int j = 0; j < pack; ++j) made.at[j] = element(data, 1, i + j * step);
  } else {
#pragma unroll
    for (int j = 0; j < pack; ++j)
      made.at[j] = element(data, kind, i + j * step);
  }
  return made;
}

DEVICE bool is_finite(double x) { return fabs(x) <= 1.7976931348623157e308; }
DEVICE bool is_nan(double x) { return x != x; }

DEVICE double square(double x) {
  const double size = fmin(fabs(x), largest);
  return size * size;
}

// Both the same infinity, or `other` nan and x not finite.
DEVICE bool is_same_kind(double x, double other) {
  return !is_finite(x) && (is_nan(other) || x == other);
}

DEVICE long long thread() {
  return static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
}

DEVICE void leave(double* out, const double* facts, int field, double value) {
  const long long threads = static_cast<long long>(facts[THREADS]);
  out[field * threads + thread()] = value;
}

extern "C" __global__ void squares(const void* tensor, const void* other,
                                   const double* facts, double* out) {
  const long long threads = facts[THREADS], all = facts[COUNT];
  const int kind = facts[KIND], other_kind = facts[TRUTH_KIND];
  double total = 0, count = 0;
  for (long long i = thread(); i < all; i += pack * threads) {
    const Pack x = elements(tensor, kind, i, threads, all);
    const Pack beside = elements(other, other_kind, i, threads, all);
#pragma unroll
    for (int j = 0; j < pack; ++j) {
      const bool counts = is_finite(x.at[j]) && is_finite(beside.at[j]);
      total += counts ? square(x.at[j]) : 0;
      count += counts;
    }
  }
  leave(out, facts, 0, total);
  leave(out, facts, 1, count);
}

extern "C" __global__ void squares_where_lost(const void* framework,
                                              const void* truth,
                                              const double* facts,
                                              double* out) {
  const long long threads = facts[THREADS], all = facts[COUNT];
  const int kind = facts[KIND], truth_kind = facts[TRUTH_KIND];
  double total = 0, count = 0;
  for (long long i = thread(); i < all; i += pack * threads) {
    const Pack x = elements(framework, kind, i, threads, all);
    const Pack want = elements(truth, truth_kind, i, threads, all);
#pragma unroll
    for (int j = 0; j < pack; ++j) {
      const bool counts = is_finite(x.at[j]) && !is_finite(want.at[j]);
      total += counts ? square(x.at[j]) : 0;
      count += counts;
    }
  }
  leave(out, facts, 0, total);
  leave(out, facts, 1, count);
}

extern "C" __global__ void errors(const void* result, const void* truth,
                                  const double* facts, double* out) {
  const long long threads = facts[THREADS], all = facts[COUNT];
  const int kind = facts[KIND], truth_kind = facts[TRUTH_KIND];
  const double scale = facts[SCALE];
  double worst = 0, total = 0, count = 0;
  for (long long i = thread(); i < all; i += pack * threads) {
    const Pack x = elements(result, kind, i, threads, all);
    const Pack want = elements(truth, truth_kind, i, threads, all);
#pragma unroll
    for (int j = 0; j < pack; ++j) {
      const bool counts = is_finite(x.at[j]) && is_finite(want.at[j]);
      const double size = fabs(want.at[j]) + scale;
      const double error = counts ? fabs(x.at[j] - want.at[j]) / size : 0;
      if (!(error <= worst) && !is_nan(worst)) worst = error;  // nan, too
      total += error * error;
      count += counts;
    }
  }
  leave(out, facts, 0, worst);
  leave(out, facts, 1, total);
  leave(out, facts, 2, count);
}

extern "C" __global__ void nearest(const void* result, const void* truth,
                                   const void* framework, const double* facts,
                                   double* out) {
  const long long threads = facts[THREADS], all = facts[COUNT];
  const int kind = facts[KIND], truth_kind = facts[TRUTH_KIND];
  const int framework_kind = facts[FRAMEWORK_KIND];
  const double infinity = __int_as_float(0x7f800000);
  double worst = -1, where = 0, total = 0;
  for (long long i = thread(); i < all; i += threads) {
    const double x = element(result, kind, i);
    const double want = element(truth, truth_kind, i);
    const double other = element(framework, framework_kind, i);
    const double scale = fabs(want) + facts[SCALE];
    const double near_scale =
        is_finite(want) ? scale : fabs(other) + facts[LOST];
    // fmin takes the number beside a nan.
    double error = fmin(infinity, fmin(fabs(x - want) / scale,
                                       fabs(x - other) / near_scale));
    if (!is_finite(x)) error = infinity;
    if (is_same_kind(x, want) || is_same_kind(x, other)) error = 0;
    total += error * error;
    if (error <= worst) continue;
    worst = error;
    where = i;
  }
  leave(out, facts, 0, worst);
  leave(out, facts, 1, where);
  leave(out, facts, 2, total);
}

// What slices.py sums: squares, or squared differences from the nearer of two
// answers. Nothing where one of the three is not finite.
struct Squared {
  const void *x, *want, *other;
  int kind, want_kind, other_kind;
  bool is_difference;

  DEVICE_MEMBER Squared(const void* x, const void* want, const void* other,
                        const double* facts)
      : x(x), want(want), other(other), kind(facts[KIND]),
        want_kind(facts[TRUTH_KIND]), other_kind(facts[FRAMEWORK_KIND]),
        is_difference(facts[IS_DIFFERENCE] != 0) {}

  // Their sum from i on, in steps, below `all`: as many as a Pack has.
  DEVICE_MEMBER double sum(long long i, long long step, long long all) const {
    const Pack a = elements(x, kind, i, step, all);
    const Pack b = elements(want, want_kind, i, step, all);
    const Pack c = elements(other, other_kind, i, step, all);
    double total = 0;
#pragma unroll
    for (int j = 0; j < pack; ++j) {
      const double value =
          is_difference ? fmin(fabs(a.at[j] - b.at[j]), fabs(a.at[j] - c.at[j]))
                        : a.at[j];
      const bool counts = is_finite(a.at[j]) && is_finite(b.at[j]) &&
                          is_finite(c.at[j]) && is_finite(value);
      total += counts ? square(value) : 0;
    }
    return total;
  }
};

// A warp sums a part of a row, and lies beside the others of that row's part.
extern "C" __global__ void rows(const void* x, const void* want,
                                const void* other, const double* facts,
                                double* out) {
  const long long width = facts[WIDTH], parts = facts[PARTS];
  const long long all = facts[COUNT], count = all / width;
  const long long warp = thread() / 32, lane = thread() % 32;
  const long long row = warp / parts, part = warp % parts;
  if (row >= count) return;
  const long long each = (width + parts - 1) / parts;
  const long long first = row * width + part * each;
  const long long end = (row + 1) * width;
  const long long last = first + each < end ? first + each : end;
  const Squared squared(x, want, other, facts);
  double total = 0;
  for (long long i = first + lane; i < last; i += pack * 32)
    total += squared.sum(i, 32, last);
  for (int far = 16; far > 0; far /= 2)
    total += __shfl_xor_sync(0xffffffff, total, far);
  if (lane == 0) out[row * parts + part] = total;
}

// A thread sums a column over every so many rows.
extern "C" __global__ void columns(const void* x, const void* want,
                                   const void* other, const double* facts,
                                   double* out) {
  const long long width = facts[WIDTH], parts = facts[PARTS];
  const long long all = facts[COUNT], step = parts * width;
  if (thread() >= step) return;
  const Squared squared(x, want, other, facts);
  double total = 0;
  for (long long i = thread(); i < all; i += pack * step)
    total += squared.sum(i, step, all);
  out[thread()] = total;
}
"""
)
#: How many numbers each thread leaves, of those kernels that sum all elements.
FIELDS = {"squares": 2, "squares_where_lost": 2, "errors": 3, "nearest": 3}
NAMES = (*FIELDS, "rows", "columns")
#: Of a row that several warps sum, each sums so many elements at least.
ROW_PART_MIN = 4096


def takes(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether they lie on one device, are of one size, and of known types."""
    first = tensors[0]
    return all(
        t.device == first.device and t.numel() == first.numel() and t.dtype in _KINDS
        for t in tensors
    )


@functools.cache
def of(ordinal: int) -> Kernels | None:
    """The kernels on that device; None where nothing can build them, or its
    driver is older than what has built them."""
    driver = opened(ordinal)
    try:
        cubin = Compiler().cubin(SOURCE, arch(driver))
        return Kernels(_Launcher(driver, cubin))
    except (NoCompiler, BuildError, CudaError) as error:
        if getattr(error, "name", "") == "CUDA_ERROR_OUT_OF_MEMORY":
            raise  # asked again when there is room
        print(f"weft: no kernels for the error model: {error}", file=sys.stderr, flush=True)
        return None


class _Launcher:
    def __init__(self, driver: Driver, cubin: bytes) -> None:
        self._driver = driver
        module = driver.load_module(cubin)
        self._functions = {name: driver.function(module, name, 0) for name in NAMES}

    def __call__(self, name: str, blocks: int, addresses: list[int]) -> None:
        """On the stream of the framework's own."""
        stream = torch.cuda.current_stream(self._driver.ordinal).cuda_stream
        self._driver.launch(self._functions[name], blocks, THREADS, addresses, stream)


class Kernels:
    """`launch(name, blocks, addresses)` runs one of SOURCE's kernels."""

    def __init__(
        self, launch: Callable[[str, int, list[int]], None], threads_max: int = THREADS_MAX
    ) -> None:
        self._launch, self._threads_max = launch, threads_max

    def squares(self, tensor: torch.Tensor, other: torch.Tensor) -> tuple[float, int]:
        total, count = self._run("squares", [tensor, other])
        return float(total.sum()), int(count.sum())

    def squares_where_lost(self, wide: torch.Tensor, framework: torch.Tensor) -> tuple[float, int]:
        total, count = self._run("squares_where_lost", [framework, wide])
        return float(total.sum()), int(count.sum())

    def errors(
        self, result: torch.Tensor, truth: torch.Tensor, scale: float
    ) -> tuple[float, float, int]:
        worst, total, count = self._run("errors", [result, truth], scale)
        return float(worst.max()), float(total.sum()), int(count.sum())

    def nearest(
        self,
        result: torch.Tensor,
        truth: torch.Tensor,
        framework: torch.Tensor,
        scale: float,
        lost_scale: float,
    ) -> tuple[float, float, int]:
        """(the largest error, sum of squares, place of the first of these)."""
        worst, where, total = self._run("nearest", [result, truth, framework], scale, lost_scale)
        most = worst.max()
        return float(most), float(total.sum()), int(where[worst == most].min())

    def rows_and_columns(
        self, tensors: Sequence[torch.Tensor], width: int, is_difference: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(sums of each row, sums of each column) of the squares of the first,
        or of its differences from the nearer of the others; all three are
        finite there, and `width` elements make a row."""
        count = tensors[0].numel() // width
        warps = self._threads_max // 32
        parts = max(1, min(warps // count, width // ROW_PART_MIN))
        rows = self._empty(tensors, (count, parts))
        self._start("rows", tensors, 32 * rows.numel(), rows, width, parts, float(is_difference))
        parts = max(1, min(self._threads_max // width, count))
        columns = self._empty(tensors, (parts, width))
        self._start(
            "columns", tensors, columns.numel(), columns, width, parts, float(is_difference)
        )
        return rows.sum(1), columns.sum(0)

    def _run(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        scale: float = 1.0,
        lost_scale: float = 1.0,
    ) -> torch.Tensor:
        threads = min(self._threads_max, tensors[0].numel() // ELEMENTS_MIN + 1)
        threads = -(-threads // THREADS) * THREADS
        out = self._empty(tensors, (FIELDS[name], threads))
        self._start(name, tensors, threads, out, scale=scale, lost_scale=lost_scale)
        return out

    @staticmethod
    def _empty(tensors: Sequence[torch.Tensor], shape: tuple[int, int]) -> torch.Tensor:
        return torch.full(shape, torch.nan, dtype=torch.float64, device=tensors[0].device)

    def _start(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        threads: int,
        out: torch.Tensor,
        *more: float,
        scale: float = 1.0,
        lost_scale: float = 1.0,
    ) -> None:
        if not takes(tensors):
            raise ValueError("tensors that are not alike")
        tensors = [t.resolve_neg().contiguous() for t in tensors]
        blocks = -(-threads // THREADS)
        kinds = [_KINDS[t.dtype] for t in tensors]
        facts = torch.tensor(
            [
                tensors[0].numel(),
                blocks * THREADS,
                *kinds,
                *[0] * (3 - len(kinds)),
                scale,
                lost_scale,
                *more,
            ],
            dtype=torch.float64,
            device=out.device,
        )
        self._launch(name, blocks, [t.data_ptr() for t in (*tensors, facts, out)])
