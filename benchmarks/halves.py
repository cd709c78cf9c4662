#!/usr/bin/env python3
"""Streaming kernels in bfloat16: weft's Triton kernels against Inductor's, region by region.

    python3 benchmarks/halves.py --make FILE [--only PATTERN]   # captures and generates
    python3 benchmarks/halves.py --run FILE [--csv OUT] [--processes N] [--only PATTERN]

--make needs a build (build/triton_codegen_cli); FILE is JSON. --run needs a GPU. A
region is what a compiled program has between its matrix products. Examples are
norms, softmax, gated activations, rotary embeddings, and their gradients. Each implementation runs inside a CUDA graph, over copies of its tensors
that together exceed the L2 cache, so that each call reads from memory. All
implementations of a region are timed in turns, in one process, alone on the
device. Printed: microseconds of the best and of the first weft variant and of Inductor's
code (max-autotune without graphs), and their ratio. The share of the copy rate is not
to be trusted: the copy measured 2,667 GB/s where the device reaches 4,100 (H200).
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import fcntl
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import typing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "tests" / "python"))

from weft.shown_text import csv_cell  # noqa: E402

#: Facts of an H200: multiprocessors, most variants, bytes of shared memory, GB/s.
H200 = ("132", "6", str(227 << 10), "4300")
#: Bytes of the copies of a region's tensors: several times the L2 cache.
COPIES_BYTES = 256 << 20
COPIES_MAX = 512
ROUNDS = 15


class Region(typing.NamedTuple):
    """A function of tensors, and the shapes and types of these."""

    name: str
    function: typing.Callable[..., typing.Any]
    specs: list[tuple[tuple[int, ...], str]]
    #: The same with products as sums, as weft/regions/extraction.py writes them.
    summed: typing.Callable[..., typing.Any] | None = None


@dataclasses.dataclass
class Row:
    """One line of the table; times in microseconds."""

    region: str
    rows: int
    width: int
    weft_us: float
    first_us: float
    inductor_us: float
    copy_share: float
    variant: str
    error: str = ""
    #: Microseconds of every variant.
    times: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return self.inductor_us / self.weft_us if self.weft_us else 0.0


SHAPES = [
    (8192, 4096),
    (4096, 5120),
    (2048, 1000),
    (65536, 512),
    (512, 32768),
    (16, 4096),
    (1, 8192),
    (3001, 1736),
]


def regions() -> list[Region]:
    import torch
    import torch.nn.functional as F

    def rms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), w, 1e-6)

    def rms_backward(
        x: torch.Tensor, w: torch.Tensor, g: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        wide, slope = x.float(), g.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        normal, scaled = wide * scale, slope * w.float()
        inner = (scaled * normal).mean(-1, keepdim=True)
        return (((scaled - normal * inner) * scale).bfloat16(), (slope * normal).sum(0).bfloat16())

    def layer_backward(
        x: torch.Tensor, w: torch.Tensor, g: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        wide, slope = x.float(), g.float()
        mean = wide.mean(-1, keepdim=True)
        centred = wide - mean
        scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
        normal, scaled = centred * scale, slope * w.float()
        inner = (scaled * normal).mean(-1, keepdim=True)
        shift = scaled.mean(-1, keepdim=True)
        return (
            ((scaled - shift - normal * inner) * scale).bfloat16(),
            (slope * normal).sum(0).bfloat16(),
            slope.sum(0).bfloat16(),
        )

    def swiglu_backward(
        a: torch.Tensor, b: torch.Tensor, g: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        wide, gate, slope = a.float(), b.float(), g.float()
        sigmoid = torch.sigmoid(wide)
        grown = slope * gate * sigmoid * (1 + wide * (1 - sigmoid))
        return grown.bfloat16(), (slope * wide * sigmoid).bfloat16()

    def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    def adam(
        p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        m = 0.9 * m + 0.1 * g.float()
        v = 0.999 * v + 0.001 * g.float().square()
        return (p.float() - 1e-3 * m / (v.sqrt() + 1e-8)).bfloat16(), m, v

    half, single = "bfloat16", "float32"
    found = []
    for rows, width in SHAPES:
        x, w = ((rows, width), half), ((width,), half)
        found += [
            Region("rms_norm", rms, [x, w]),
            Region("residual_rms_norm", lambda x, r, w: (x + r, rms(x + r, w)), [x, x, w]),
            Region("layer_norm", lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), [x, w, w]),
            Region("softmax", lambda x: F.softmax(x, -1), [x]),
            Region("swiglu", lambda a, b: F.silu(a) * b, [x, x]),
            Region("gelu_bias", lambda x, b: F.gelu(x + b, approximate="tanh"), [x, w]),
            Region("log_sum_exp", lambda x: torch.logsumexp(x.float(), -1), [x]),
            Region("rms_norm_backward", rms_backward, [x, w, x]),
            Region("layer_norm_backward", layer_backward, [x, w, x]),
            Region("swiglu_backward", swiglu_backward, [x, x, x]),
        ]
        if width % 2 == 0:
            found.append(Region("rotary", rotated, [x, x, x]))
        if rows >= 512:
            found.append(
                Region("adam", adam, [x, x, ((rows, width), single), ((rows, width), single)])
            )
    return found + token_regions()


#: Widths of a decoder, and of its gated product.
WIDTHS = [(1024, 3072), (2048, 8192), (4096, 11008), (1736, 5208), (5120, 13824)]


def token_regions() -> list[Region]:
    """Products of one token by weights of shape (columns, terms)."""
    import torch
    import torch.nn.functional as F

    Product = typing.Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

    def summed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x.float().unsqueeze(2) * w.t().float().unsqueeze(0)).sum(1).bfloat16()

    def rms(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), g, 1e-6)

    def norm_of(product: Product) -> typing.Callable[..., torch.Tensor]:
        return lambda x, g, w: product(rms(x, g), w)

    def gated_of(product: Product) -> typing.Callable[..., torch.Tensor]:
        return lambda h, a, b: F.silu(product(h, a)) * product(h, b)

    def down_of(product: Product) -> typing.Callable[..., torch.Tensor]:
        return lambda x, h, w: x + product(h, w)

    def layer_of(product: Product) -> typing.Callable[..., tuple[torch.Tensor, ...]]:
        def layer(
            x: torch.Tensor,
            y: torch.Tensor,
            o: torch.Tensor,
            g: torch.Tensor,
            a: torch.Tensor,
            b: torch.Tensor,
            d: torch.Tensor,
            f: torch.Tensor,
            q: torch.Tensor,
            k: torch.Tensor,
        ) -> tuple[torch.Tensor, ...]:
            x = x + product(y, o)
            h = rms(x, g)
            x = x + product(F.silu(product(h, a)) * product(h, b), d)
            h = rms(x, f)
            return x, product(h, q), product(h, k)

        return layer

    found = []
    for width, wide in WIDTHS:

        def spec(*shape: int) -> tuple[tuple[int, ...], str]:
            return shape, "bfloat16"

        x, g, square = spec(1, width), spec(width), spec(width, width)
        up, down = spec(wide, width), spec(width, wide)
        for name, make_of, specs in (
            ("token_linear", lambda product: product, [x, square]),
            ("token_norm_linear", norm_of, [x, g, square]),
            ("token_gated", gated_of, [x, up, up]),
            ("token_down", down_of, [x, spec(1, wide), down]),
            (
                "token_layer",
                layer_of,
                [x, x, square, g, up, up, down, g, square, spec(width // 2, width)],
            ),
        ):
            found.append(Region(name, make_of(F.linear), specs, make_of(summed)))
    return found


def tensors(specs: list[tuple[tuple[int, ...], str]], device: str) -> list[typing.Any]:
    import torch

    made = []
    for shape, dtype in specs:
        values = torch.randn(shape, device=device, dtype=torch.float32)
        made.append(values.abs() if dtype == "float32" else values.to(getattr(torch, dtype)))
    return made


def make(path: str, only: str) -> None:
    """Writes each region's generated sources."""
    import captured_cases
    import torch

    torch.manual_seed(0)
    command = [captured_cases.program("triton_codegen_cli", "WEFT_TRITON_CODEGEN"), *H200]
    written = []
    for region in regions():
        if not re.search(only, region.name):
            continue
        specs = region.specs
        case = (region.name, region.summed or region.function, tensors(specs, "cpu"))
        [answer] = captured_cases.generate(captured_cases.graphs_of([case]), command)
        written.append(
            {
                "name": region.name,
                "specs": specs,
                "error": answer.get("error", ""),
                "variants": [
                    {"variant": one["variant"], "text": one["text"]}
                    for one in answer.get("variants", [])
                ],
            }
        )
    Path(path).write_text(json.dumps({"only": only, "regions": written}), encoding="utf-8")
    print(f"{len(written)} regions, {sum(not one['variants'] for one in written)} without kernels")


def bytes_of(values: typing.Any) -> int:
    import torch

    leaves = values if isinstance(values, (tuple, list)) else [values]
    return sum(one.numel() * one.element_size() for one in leaves if isinstance(one, torch.Tensor))


class Replay:
    """A CUDA graph of one call for each copy of the tensors."""

    def __init__(
        self, function: typing.Callable[..., typing.Any], copies: list[list[typing.Any]]
    ) -> None:
        import torch

        self.count = len(copies)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                function(*copies[0])
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        kept = []
        with torch.cuda.graph(self.graph):
            for copy in copies:
                kept.append(function(*copy))
        self.kept = kept

    def seconds(self) -> float:
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / self.count


def load(text: str, folder: str, number: int) -> typing.Callable[..., typing.Any]:
    import importlib.util

    path = Path(folder) / f"kernel_{os.getpid()}_{number}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel_function


def wrong(expected: typing.Any, got: typing.Any) -> str:
    """Why these results are not the same; "" if they are."""
    as_list = [list(one) if isinstance(one, (tuple, list)) else [one] for one in (expected, got)]
    for a, b in zip(*as_list, strict=True):
        error = (a.double() - b.double()).square().mean().sqrt()
        scale = a.double().square().mean().sqrt()
        if not error <= 0.02 * scale + 1e-6:
            return f"an RMS error of {float(error):.2g} in {float(scale):.2g}"
    return ""


def copy_gbps() -> float:
    import torch

    source = torch.empty(1 << 27, dtype=torch.int64, device="cuda")
    target = torch.empty_like(source)
    # A copy inside a CUDA graph is done by the copy engine, which is slower: an H200's
    # reached 2,667 GB/s.
    replay = Replay(lambda a, b: torch.neg(a, out=b), [[source, target]])
    taken = statistics.median(replay.seconds() for _ in range(ROUNDS))
    return 2 * source.nbytes / taken / 1e9


def measure(
    about: dict[str, typing.Any],
    function: typing.Callable[..., typing.Any],
    folder: str,
    lock: typing.IO[str],
) -> Row:
    import torch

    specs = [(tuple(shape), dtype) for shape, dtype in about["specs"]]
    rows, width = specs[0][0]
    row = Row(about["name"], rows, width, 0.0, 0.0, 0.0, 0.0, "")
    inputs = tensors(specs, "cuda")
    expected = function(*inputs)
    moved = bytes_of(inputs) + bytes_of(expected)
    torch._dynamo.reset()
    compiled = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    compiled(*inputs)
    kernels = {}
    for number, one in enumerate(about["variants"]):
        try:
            kernel = load(one["text"], folder, number)
            why = wrong(expected, kernel(*inputs))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:200]
        if why:
            row.error = row.error or f"{one['variant']}: {why}"
        else:
            kernels[one["variant"]] = kernel
    if not kernels:
        row.error = row.error or about["error"] or "no variant"
        return row
    count = max(1, min(COPIES_MAX, math.ceil(COPIES_BYTES / moved)))
    copies = [inputs] + [[one.clone() for one in inputs] for _ in range(count - 1)]
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        replays = {
            name: Replay(kernel, copies) for name, kernel in {"": compiled, **kernels}.items()
        }
        taken: dict[str, list[float]] = {name: [] for name in replays}
        for _ in range(ROUNDS):
            for name, replay in replays.items():
                taken[name].append(replay.seconds())
        del replays
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
    times = {name: statistics.median(one) * 1e6 for name, one in taken.items()}
    row.inductor_us = times.pop("")
    row.times = {name: round(one, 2) for name, one in times.items()}
    row.variant = min(times, key=times.__getitem__)
    row.weft_us = times[row.variant]
    row.first_us = times[next(iter(times))]
    row.copy_share = moved / (row.weft_us * 1e-6) / 1e9
    return row


def work(path: str, part: int, parts: int, out: str, only: str) -> None:
    """One process's share of the regions, as lines of JSON."""
    made = json.loads(Path(path).read_text(encoding="utf-8"))
    functions = [one.function for one in regions() if re.search(made["only"], one.name)]
    with (
        tempfile.TemporaryDirectory() as folder,
        open(path, encoding="utf-8") as lock,
        open(out, "w", encoding="utf-8") as file,
    ):
        for about, function in list(zip(made["regions"], functions, strict=True))[part::parts]:
            if not re.search(only, about["name"]):
                continue
            try:
                row = measure(about, function, folder, lock)
            except Exception as error:
                row = Row(
                    about["name"],
                    *about["specs"][0][0],
                    0.0,
                    0.0,
                    0.0,
                    0.0,
                    "",
                    f"{type(error).__name__}: {error}"[:200],
                )
            file.write(json.dumps(dataclasses.asdict(row)) + "\n")
            file.flush()


def run(path: str, processes: int, table: str, only: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outs = [str(Path(folder) / str(part)) for part in range(processes)]
        started = [
            subprocess.Popen(
                [
                    sys.executable,
                    __file__,
                    "--run",
                    path,
                    "--only",
                    only,
                    "--part",
                    f"{part}/{processes}",
                    "--out",
                    out,
                ]
            )
            for part, out in enumerate(outs)
        ]
        for one in started:
            one.wait()
        found = [
            Row(**json.loads(line))
            for out in outs
            if Path(out).exists()
            for line in Path(out).read_text(encoding="utf-8").splitlines()
        ]
    report(found, copy_gbps(), table)


def report(found: list[Row], gbps: float, table: str) -> None:
    found.sort(key=lambda one: (one.region, -one.rows))
    print(f"copy rate {gbps:.0f} GB/s")
    for one in found:
        one.copy_share /= gbps
        print(
            f"{one.region:20} {one.rows:6} x {one.width:6}  weft "
            f"{one.weft_us:8.1f} us (first {one.first_us:8.1f})  Inductor "
            f"{one.inductor_us:8.1f}  ratio {one.ratio:5.2f}  "
            f"copy {one.copy_share:4.0%}  {one.variant} {one.error}"
        )
    timed = [one for one in found if one.weft_us]
    if timed:
        mean = math.exp(statistics.fmean(math.log(one.ratio) for one in timed))
        equal = sum(one.ratio >= 0.98 for one in timed)
        print(
            f"{len(timed)} regions of {len(found)}: geometric mean {mean:.3f} over "
            f"Inductor; {equal} at least equal (0.98)"
        )
    if table:
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            names = [one.name for one in dataclasses.fields(Row)]
            writer.writerow([*names, "ratio"])
            writer.writerows(
                [
                    csv_cell(cell) if isinstance(cell, str) else cell
                    for cell in (*dataclasses.astuple(one), one.ratio)
                ]
                for one in found
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--make", metavar="FILE")
    parser.add_argument("--run", metavar="FILE")
    parser.add_argument("--csv", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--part", default="")
    parser.add_argument("--out", default="")
    words = parser.parse_args()
    if words.make:
        make(words.make, words.only)
    elif words.run and words.part:
        part, parts = map(int, words.part.split("/"))
        work(words.run, part, parts, words.out, words.only)
    elif words.run:
        run(words.run, words.processes, words.csv, words.only)
    else:
        parser.error("say --make FILE or --run FILE")


if __name__ == "__main__":
    main()
