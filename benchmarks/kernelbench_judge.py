"""Asks KernelBench's own evaluator what weft's own check of its rule (`kernelbench` in the
verdict) predicts.

    python benchmarks/kernelbench_judge.py KERNELBENCH RESULTS
        [--only PATTERN,…] [--compiled] [--device cuda:0|cpu]

KERNELBENCH is a checkout of it, RESULTS what `weft bench KERNELBENCH` wrote. Each composed
module is judged in a separate process by the checkout's code (eval.py: five trials, its own
tolerance). The answer is compared with the run's verdict. Prints a line a module, then how
many agree; the exit code is 1 if some do not. --compiled: torch.compile's modules, too. On
the cpu its evaluator does not begin, but the function in it that judges does, given a
stand-in for torch.cuda.synchronize. Packages that it imports and does not use for judging
may be missing.
"""

import argparse
import fnmatch
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import types
from pathlib import Path

#: What it imports for language models, data sets and progress bars.
STAND_INS = {
    "datasets",
    "dotenv",
    "huggingface_hub",
    "litellm",
    "openai",
    "pydantic",
    "requests",
    "tomli",
    "tqdm",
}
TIME_LIMIT_S = 900
COMPILED = """

class ModelNew(Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.compile()
"""


class Record:
    """Stands for pydantic's BaseModel: fields with their defaults."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules for those that are not installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        made = types.ModuleType(spec.name)
        made.BaseModel = Record
        made.__getattr__ = lambda name: _refuse_dunder(name)
        return made

    def exec_module(self, module):
        pass


def _refuse_dunder(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *args, **named: None


def judge_here(checkout, reference, candidate, device):
    """What its evaluator says of two texts: {"accepted", "why"}."""
    sys.meta_path.append(StandIns())  # last: what is installed goes before
    sys.path.insert(0, str(Path(checkout) / "src"))
    import torch
    from kernelbench import eval as evaluator

    if device == "cpu":
        found = _on_cpu(evaluator, torch, reference, candidate)
    else:
        found = evaluator.eval_kernel_against_ref(
            reference,
            candidate,
            num_correct_trials=5,
            measure_performance=False,
            backend="triton",
            precision=torch.float32,
            device=torch.device(device),
        )
    if found is None:
        return {"accepted": False, "why": "no result"}
    metadata = getattr(found, "metadata", None) or {}
    why = "; ".join(
        f"{key} {value}"
        for key, value in metadata.items()
        if key in ("correctness_issue", "runtime_error", "compilation_error", "max_difference")
    )
    return {"accepted": bool(getattr(found, "correctness", False)), "why": why[:300]}


def _on_cpu(evaluator, torch, reference, candidate):
    """Its steps around the function that judges, without its device."""
    torch.cuda.synchronize = lambda device=None: None
    context = {}
    model, init_inputs, inputs = evaluator.load_original_model_and_inputs(reference, context)
    new, _ = evaluator.load_custom_model_with_tempfile(candidate, entry_point="ModelNew")
    evaluator.set_seed(42)
    arguments = [evaluator._process_input_tensor(x, "cpu") for x in init_inputs()]
    with torch.no_grad():
        made = []
        for kind in (model, new):
            evaluator.set_seed(42)
            made.append(kind(*arguments))
    return evaluator.run_and_check_correctness(
        *made,
        inputs,
        metadata={},
        num_correct_trials=5,
        seed=42,
        device=torch.device("cpu"),
        backend="triton",
    )


def judge(checkout, reference, candidate, device):
    """The same in a process of its own."""
    question = json.dumps(
        {
            "checkout": str(checkout),
            "reference": reference,
            "candidate": candidate,
            "device": device,
        }
    )
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--one"],
            input=question,
            text=True,
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"accepted": False, "why": f"not done after {TIME_LIMIT_S} s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return {"accepted": False, "why": done.stderr.strip()[-300:]}


def modules(checkout, results, only):
    """(label, reference's text, {module: (its text, what weft foretells)})."""
    for result in sorted(results.glob("runs/level_*/result.json")):
        told = json.loads(result.read_text(encoding="utf-8"))
        _, level, _, _ = result.parent.name.split("_")
        name = told["problem"]
        label = f"{level}/{name.removesuffix('.py')}"
        if only and not any(
            fnmatch.fnmatchcase(label, o) or fnmatch.fnmatchcase(name, o) for o in only
        ):
            continue
        reference = checkout / "KernelBench" / f"level{level}" / name
        found = told["verdict"].get("kernelbench")
        if not told["verdict"]["correct"] or not found:
            continue
        text = reference.read_text(encoding="utf-8")
        composed = result.parent / "composed"
        made = {
            "weft's": ((composed / "model_new.py").read_text(encoding="utf-8"), found["outcome"])
        }
        beside = told.get("kernelbench_module")
        if beside:
            made["near"] = (
                (result.parent / beside["file"]).read_text(encoding="utf-8"),
                beside["verdict"]["kernelbench"]["outcome"],
            )
        if found["compiled"]:
            made["torch.compile's"] = (text + COMPILED, found["compiled"])
        yield label, text, made


def main():
    if sys.argv[1:] == ["--one"]:
        asked = json.loads(sys.stdin.read())
        print(json.dumps(judge_here(**asked)), flush=True)
        os._exit(0)
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", default="", help="patterns, with commas")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    if not (options.kernelbench / "src" / "kernelbench" / "eval.py").exists():
        sys.exit(
            f"{options.kernelbench} is no checkout of KernelBench: it has "
            "no src/kernelbench/eval.py"
        )
    only = [pattern for pattern in options.only.split(",") if pattern]
    agree, accepted, counts = {}, {}, {}
    for label, reference, made in modules(options.kernelbench, options.results, only):
        for module, (text, foretold) in made.items():
            if module == "torch.compile's" and not options.compiled:
                continue
            found = judge(options.kernelbench, reference, text, options.device)
            same = found["accepted"] == (foretold == "within")
            counts[module] = counts.get(module, 0) + 1
            agree[module] = agree.get(module, 0) + same
            accepted[module] = accepted.get(module, 0) + found["accepted"]
            print(
                f"{label}, {module}: "
                f"{'accepted' if found['accepted'] else 'refused'}, weft "
                f"says {foretold}{'' if same else ', NOT THE SAME'}"
                + (f" ({found['why']})" if found["why"] else ""),
                flush=True,
            )
    if not counts:
        sys.exit(
            f"{options.results} has no verified module with a verdict "
            "within KernelBench's tolerance"
        )
    for module, count in counts.items():
        print(
            f"{module}: {accepted[module]} of {count} accepted by KernelBench, "
            f"weft foretold {agree[module]}"
        )
    sys.exit(0 if agree == counts else 1)


if __name__ == "__main__":
    main()
