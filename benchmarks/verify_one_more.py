"""Compares the cost of checking one more candidate with a fresh `import torch`.

    python benchmarks/verify_one_more.py [build/weft]

Runs weft on a small problem for its kernels. Then checks them again and again through one
warm oracle, with candidates in the sandbox, in turns with `python -c "import torch"`. Run
it with the Python that has PyTorch.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 9
CHECKS = 4  # of one round
CHECKOUT = Path(__file__).resolve().parent.parent
WORKERS = CHECKOUT / "tools" / "python"
PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 0.5 + 1.0, dim=-1)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
"""


def run_weft(weft, folder):
    """The small problem's graph and built kernels."""
    problem = folder / "small.py"
    problem.write_text(PROBLEM)
    environment = {"WEFT_HOME": str(CHECKOUT), "WEFT_PYTHON": sys.executable}
    subprocess.run(
        [
            weft,
            "run",
            str(problem),
            "--out",
            str(folder / "run"),
            "--quiet",
            "--no-compile-baseline",
            "--no-library",
        ],
        check=True,
        env=os.environ | environment,
    )
    (graph,) = (folder / "run" / "kernels").glob("*/graph.json")
    return graph, sorted((folder / "run" / "build").glob("*.so"))


class Oracle:
    """A warm oracle, as runtime/verify_port.cpp starts it."""

    def __init__(self, weft, folder):
        launcher = Path(weft).resolve().parent / "weft-sandbox"
        scratch = folder / "scratch"
        scratch.mkdir()
        readable = {sys.prefix, sys.base_prefix, str(WORKERS)}
        box = [
            str(launcher),
            "--scratch",
            str(scratch),
            "--env",
            f"PYTHONPATH={WORKERS}",
            "--env",
            "PYTHONDONTWRITEBYTECODE=1",
        ]
        for path in sorted(readable - {"/usr"}):
            box += ["--read", path]
        box += ["--wall-ms", "0", "--cpu-s", "1000000", "--memory-bytes", str(4 << 30), "--"]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "weft.oracle.oracle",
                "--scratch",
                str(scratch),
                "--sandbox",
                json.dumps(box),
            ],
            env=os.environ | {"PYTHONPATH": str(WORKERS)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def check(self, graph, library):
        request = {
            "id": 1,
            "verb": "check",
            "subgraph": str(graph),
            "random_seed": 1,
            "candidate": {"kind": "cpu", "library": str(library)},
            "limits": {"wall_ms": 60_000, "memory_bytes": 4 << 30},
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        reply = json.loads(self._process.stdout.readline())
        if not reply["ok"] or not reply["verdict"]["correct"]:
            sys.exit(f"the check failed: {reply}")

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(oracle, graph, libraries):
    imports, checks = [], []
    turn = 0
    for _ in range(ROUNDS):
        imports.append(
            seconds(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True))
        )
        for _ in range(CHECKS):
            library = libraries[turn % len(libraries)]
            turn += 1
            checks.append(seconds(lambda: oracle.check(graph, library)))
    return statistics.median(imports), statistics.median(checks)


def main(weft):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph, libraries = run_weft(weft, folder)
        oracle = Oracle(weft, folder)
        for library in libraries:  # cold: imports torch, starts the zygote
            oracle.check(graph, library)
        fresh, one_more = measure(oracle, graph, libraries)
        oracle.close()
    print(
        f"one more check {one_more * 1e3:.1f} ms, import torch "
        f"{fresh * 1e3:.0f} ms, ratio {one_more / fresh:.3f} "
        f"(1/{fresh / one_more:.0f})"
    )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(CHECKOUT / "build/weft"))
