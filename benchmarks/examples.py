"""Runs weft over the examples and tells how much faster their modules are.

    python benchmarks/examples.py [--weft build/weft] [--out DIR] [--dtype bfloat16] [FILE...]

One run a file; runs that DIR already holds are read, not made again. The table
is Markdown. Geometric means are over the examples whose work is all weft's
(01 to 13: no matrix product or convolution).
"""

import argparse
import csv
import math
import os
import subprocess
import sys
from pathlib import Path

from overhead import own_share

CHECKOUT = Path(__file__).resolve().parent.parent
LAST_OF_OURS = 13
#: A median this far below eager's is noise, not a loss.
NOISE = 0.97


#: Behind an example: its parameters and inputs in another type.
CAST = """

Float32Model, float32_inputs = Model, get_inputs


class Model(Float32Model):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.to(torch.{dtype})


def get_inputs():
    return [x.to(torch.{dtype}) if x.is_floating_point() else x for x in float32_inputs()]
"""


def cast(problem: Path, dtype: str, folder: Path) -> Path:
    """The problem in that type, as a file of that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / problem.name
    written.write_text(problem.read_text() + CAST.format(dtype=dtype))
    return written


def run(weft, problem, folder):
    """Makes the run unless it is there; None when it did not verify."""
    if not (folder / "results.csv").exists():
        environment = {"WEFT_HOME": str(CHECKOUT)}
        done = subprocess.run(
            [weft, "run", str(problem), "--out", str(folder), "--quiet", "--no-library"],
            env=environment | dict(os.environ),
        )
        if done.returncode != 0:
            print(f"{problem.name}: exit code {done.returncode}", file=sys.stderr)
            return None
    with open(folder / "results.csv", newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text else float("nan")


def model_row(rows):
    (row,) = [row for row in rows if row["id"] == "model"]
    return row


def ours(name):
    return name[:2].isdigit() and int(name[:2]) <= LAST_OF_OURS


def geometric_mean(values):
    values = [value for value in values if value > 0]
    if not values:
        return float("nan")
    return math.exp(sum(map(math.log, values)) / len(values))


def table_line(name, rows, folder):
    row = model_row(rows)
    kernels = [r for r in rows if r["id"] != "model" and r["what"]]
    won = sum(r["kernel"] == "ours" for r in kernels)
    own, wall, _ = own_share(folder)
    return (
        f"| {name} | {number(row['eager_median_us']) / 1e3:.2f} "
        f"| {number(row['compile_median_us']) / 1e3:.2f} "
        f"| {number(row['ours_median_us']) / 1e3:.2f} "
        f"| {number(row['over_eager']):.2f} "
        f"| {number(row['over_compile']):.2f} | {won} "
        f"| {own / wall:.1%} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", default=str(CHECKOUT / "build/weft"))
    parser.add_argument("--out", type=Path, default=Path("weft-runs/examples"))
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("files", nargs="*", type=Path)
    flags = parser.parse_args()
    files = flags.files or sorted((CHECKOUT / "examples").glob("*.py"))

    print(
        "| example | eager ms | compile ms | ModelNew ms | over eager "
        "| over compile | kernels won | weft's own share |"
    )
    print("|---|---|---|---|---|---|---|---|")
    eager, compiled, slower, failed = [], [], [], []
    for problem in files:
        folder = flags.out / problem.stem
        if flags.dtype != "float32":
            folder = flags.out / flags.dtype / problem.stem
            problem = cast(problem, flags.dtype, flags.out / flags.dtype / "problems")
        rows = run(flags.weft, problem, folder)
        if rows is None:
            failed.append(problem.name)
            continue
        print(table_line(problem.name, rows, folder), flush=True)
        row = model_row(rows)
        if number(row["over_eager"]) < NOISE:
            slower.append(problem.name)
        if ours(problem.name):
            eager.append(number(row["over_eager"]))
            compiled.append(number(row["over_compile"]))
    print(
        f"\nGeometric mean over {len(eager)} examples: "
        f"{geometric_mean(eager):.2f} over eager, "
        f"{geometric_mean(compiled):.2f} over torch.compile."
    )
    print(
        f"Slower than eager: {', '.join(slower) or 'none'}. "
        f"Not verified: {', '.join(failed) or 'none'}."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
