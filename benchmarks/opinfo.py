"""PyTorch's own operator tests as the judge of ours: each operator's samples in
several layouts, some with special numbers, as pieces of a model; a table of what a target
lowers, leaves to the framework, or computes otherwise.

    benchmarks/opinfo.py [--target cpu] [--dtypes float32,int64] [--out FILE]
        [--samples N | --cases-max N] [--gradients] [--processes N]
        [--cases FILE] [OPERATOR ...]

Targets: capture (no kernels: the whole capture, compared with eager), cpu (built
here), triton (in Triton's interpreter), cuda (the kernels' text, run on the host),
gpu and gpu-cuda (Triton's and CUDA's kernels on this machine's GPU). All but the
first want the code generators' test programs in build/. Exits with 1
where something differs, crashes or is refused with an error of Python's own.
"""

import argparse
import collections
import multiprocessing
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "python"), os.path.join(ROOT, "python")]

OUTCOMES = ("captured", "lowered", "framework", "differs", "refused", "internal", "crashed")
TARGETS = ("capture", "cpu", "triton", "cuda", "gpu", "gpu-cuda")
#: Of a process: what one of them leaves broken spoils no others.
OPERATORS_AT_ONCE = 12


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="only these (all)")
    parser.add_argument("--target", choices=TARGETS, default="cpu")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,int64")
    parser.add_argument(
        "--samples",
        type=int,
        help="of an operator, at most (all, and each again with "
        "gaps between its elements and with its channels last)",
    )
    parser.add_argument(
        "--cases-max", type=int, help="of an operator: samples in all layouts, evenly chosen"
    )
    parser.add_argument(
        "--gradients", action="store_true", help="the operators' derivatives instead"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", help="the table, as Markdown")
    parser.add_argument(
        "--cases", metavar="FILE", help="append a JSON line for each case when its part ends"
    )
    return parser.parse_args()


def table(dtype, found):
    """Markdown: how many of each, and every operator that differs."""
    counts = collections.Counter(outcome for _, outcome, _ in found)
    lines = [
        f"## {dtype}",
        "",
        "| " + " | ".join(OUTCOMES) + " |",
        "|---" * len(OUTCOMES) + "|",
        "| " + " | ".join(str(counts[o]) for o in OUTCOMES) + " |",
        "",
    ]
    for outcome in ("differs", "crashed", "internal", "refused", "framework"):
        names = collections.defaultdict(set)
        for name, got, reason in found:
            if got == outcome:
                names[name if outcome in ("differs", "crashed") else name.rsplit(".", 1)[0]].add(
                    reason
                )
        if names:
            lines += [f"### {outcome}", "", "| operator | why |", "|---|---|"]
            lines += [
                f"| {name} | {'; '.join(sorted(reasons))[:160]} |"
                for name, reasons in sorted(names.items())
            ] + [""]
    return "\n".join(lines)


def outcomes_of(target, name, operators, samples, threads, gradients, cases_max):
    """(case, outcome, reason) of those operators' samples of one type."""
    import torch

    import opinfo_cases

    torch.set_num_threads(threads)
    dtype = getattr(torch, name)
    cases = [
        case
        for op in opinfo_cases.operators(dtype, set(operators))
        for case in opinfo_cases.cases_of(
            op, dtype, samples, gradients=gradients, cases_max=cases_max
        )
    ]
    if target == "capture":
        import opinfo_capture

        return opinfo_capture.outcomes(cases)
    return opinfo_cases.outcomes(opinfo_cases.variant_of(target), cases)


def append_cases(path, target, dtype, found):
    import opinfo_capture

    opinfo_capture.append(
        path,
        (
            {"target": target, "dtype": dtype, "case": case, "outcome": outcome, "reason": reason}
            for case, outcome, reason in found
        ),
    )


def names_of(target, name, wanted):
    """Of the operators that take that type; some are there twice."""
    import torch

    import opinfo_cases

    left_out = opinfo_cases.LEFT_OUT if target != "capture" else ()
    return list(
        dict.fromkeys(
            op.name for op in opinfo_cases.operators(getattr(torch, name), wanted, left_out)
        )
    )


def main():
    options = arguments()
    if options.target == "triton":
        os.environ["TRITON_INTERPRET"] = "1"  # before torch asks for Triton
    import torch

    text = [f"# OpInfo, target {options.target}, PyTorch {torch.__version__}"]
    threads = max(1, (os.cpu_count() or 2) // options.processes)
    differing = 0
    # Each part in a process of its own: a GPU may be lost to one, and a process
    # that opened one cannot be forked.
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=1) as pool:
        for name in options.dtypes.split(","):
            names = names_of(options.target, name, set(options.operators) or None)
            parts = [
                names[i : i + OPERATORS_AT_ONCE] for i in range(0, len(names), OPERATORS_AT_ONCE)
            ]
            parts = [
                pool.apply_async(
                    outcomes_of,
                    (
                        options.target,
                        name,
                        part,
                        options.samples,
                        threads,
                        options.gradients,
                        options.cases_max,
                    ),
                )
                for part in parts
            ]
            found = []
            for number, part in enumerate(parts, 1):
                ended = part.get()
                found += ended
                if options.cases:
                    append_cases(options.cases, options.target, name, ended)
                print(f"{name}: {number} of {len(parts)} parts", file=sys.stderr, flush=True)
            differing += sum(
                outcome in ("differs", "crashed", "internal") for _, outcome, _ in found
            )
            text.append(table(name, found))
            print(text[-1], flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n\n".join(text) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
