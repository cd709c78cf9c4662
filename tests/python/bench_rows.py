"""Rows of `weft bench` for tests, made from results that no run computed."""

from weft.bench import problems, records, results
from weft.bench.bench_settings import BenchSettings

SETTINGS = BenchSettings(
    weft="weft",
    version="0.1.0",
    python="python3",
    folder="/somewhere/KernelBench",
    levels=[],
    only=[],
    out="",
    limit_s=0,
    problem_s=60,
    jobs=4,
    rerun=False,
    rerun_failed=False,
    target="triton",
    gpu="NVIDIA H200",
    devices=[],
    timed=True,
    run_flags=["--precision", "framework"],
    json=False,
    quiet=False,
)


def times(median_us):
    return {
        "median_us": median_us,
        "p10_us": 0.9 * median_us,
        "p90_us": 1.1 * median_us,
        "runs": 30,
        "mean_us": median_us + 1,
        "std_us": 2.0,
        "min_us": 0.8 * median_us,
        "max_us": 1.4 * median_us,
    }


def over(ratio, reach=0.05):
    return {"ratio": ratio, "low": ratio - reach, "high": ratio + reach}


def result_of(ours_us=100.0, eager=2.0, compiled=1.5, **changes):
    """A run's result.json."""
    timing = {
        "candidate": times(ours_us),
        "eager": times(ours_us * eager),
        "compile": times(ours_us * compiled) if compiled else None,
        "compile_autotune": None,
        "over_eager": over(eager),
        "over_compile": over(compiled) if compiled else None,
        "over_compile_autotune": None,
        "compile_error": "" if compiled else "it broke",
        "compile_autotune_error": "",
        "bytes_floor": 200_000_000,
        "sm_mhz": {"candidate": 1980, "eager": 1965},
        "throttled": ["power cap"],
    }
    told = {
        "verdict": {
            "correct": True,
            "kind": "correct",
            "reason": "",
            "cases": 6,
            "max_error": 1e-7,
            "framework_error": 2e-7,
            "tolerance": 1e-5,
            "controls": {"zeros": True, "stale": False},
        },
        "timing": timing,
        "precision": "framework",
        "matrix_operations": 0,
        "convolution_operations": 0,
        "machine": {
            "gpu": "NVIDIA H200",
            "processor": "a processor",
            "torch": "2.11",
            "copy_gbps": 100.0,
            "gpu_measured": {
                "copy_gbps": 4000.0,
                "fp32_tflops": 50.0,
                "tf32_tflops": 400.0,
                "half_tflops": 800.0,
            },
        },
        "subgraphs": [
            {"ours": True, "count": 2, "variant": "rows"},
            {"ours": False, "count": 1, "variant": "split"},
        ],
        "externs": {"aten.mm.default": 3},
    }
    told.update(changes)
    return told


def row_of(number, result=None, level=1, state=records.FINISHED, reason=""):
    problem = problems.Problem(level, number, f"/p/{number}_Some_Name.py")
    record = records.Record("digest", state, 0, reason, [[10.0, 25.5]])
    return results.row(problem, record, result)


def judged(outcome, compiled="within", beside=None, **changes):
    """The same with the result of KernelBench's own rule. `beside`: the speedup over
    eager of a second module, which that rule accepts."""
    told = result_of(**changes)
    told["verdict"].update(
        precision="float32",
        framework_precision="tf32",
        kernelbench={
            "outcome": outcome,
            "compiled": compiled,
            "draws": 5,
            "reason": "" if outcome == "within" else "draw 1: 3 of 4 elements",
            "max_difference": 0.1,
            "tolerance": 1e-4,
            "compiled_reason": "",
        },
    )
    told["kernelbench_module"] = beside and {
        "file": "composed/kernelbench/model_new.py",
        "ours": ["sg_1"],
        "verdict": told["verdict"],
        "timing": {
            **told["timing"],
            "candidate": times(150.0),
            "over_eager": over(beside),
            "over_compile": over(beside),
        },
    }
    return told


def wrong(reason="case 2: not equal"):
    told = result_of()
    told["verdict"].update(correct=False, kind="wrong", reason=reason)
    return told
