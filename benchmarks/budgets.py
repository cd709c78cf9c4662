"""Measures what searches with small budgets find, and how long they take.

    PYTHONPATH=python python benchmarks/budgets.py [--budgets 5,20,60] [--busy N] [--repeat N]
        [--ways run,wait,optimize] [--models tiny,pair,block] [--realtime]

Three ways to search: `weft run --budget-s`, a call of torch.compile(backend="weft",
options={"wait": True}), and weft.optimize. Each search is a separate process with an empty
cache and no kernel library. Its time begins when PyTorch is loaded, and for a call when the
model runs in eager mode through Dynamo. --busy: the number of processes that keep
processors busy meanwhile. --realtime (root only): the measured processes come before all
others of the machine, as on a quiet one.

Prints a row for each search: model, way, budget, seconds, kernels in the module, of how
many subgraphs, and the reason if there are none.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEFT = os.environ.get("WEFT_BIN", os.path.join(ROOT, "build", "weft"))

MODELS = {
    "tiny": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(128, 256)
        self.norm = torch.nn.LayerNorm(256)

    def forward(self, x):
        return self.norm(torch.nn.functional.gelu(self.linear(x)))


def get_inputs():
    return [torch.randn(64, 128)]
""",
    "pair": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(256, 256), torch.nn.Linear(256, 256)
        self.norm = torch.nn.LayerNorm(256)

    def forward(self, x):
        return self.norm(self.second(torch.nn.functional.gelu(self.first(x))))


def get_inputs():
    return [torch.randn(256, 256)]
""",
    "block": """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(128), torch.nn.LayerNorm(128)
        self.mixed = torch.nn.Linear(128, 384)
        self.joined = torch.nn.Linear(128, 128)
        self.wide, self.narrow = torch.nn.Linear(128, 512), torch.nn.Linear(512, 128)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (4, -1)).transpose(1, 2)
            for part in self.mixed(self.first(x)).chunk(3, -1)
        )
        y = torch.softmax(q @ k.transpose(-1, -2) / 32**0.5, -1) @ v
        x = x + self.joined(y.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.second(x))))


def get_inputs():
    return [torch.randn(2, 64, 128)]
""",
}
HEAD = "import torch\n"
TAIL = "\n\ndef get_init_inputs():\n    return []\n"
#: A program that searches by one of the two ways of Python.
PROGRAM = """
import importlib.util, json, sys, time, torch, weft, weft.backend
way, path, budget_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
spec = importlib.util.spec_from_file_location("problem", path)
problem = importlib.util.module_from_spec(spec)
spec.loader.exec_module(problem)
model, inputs = problem.Model(), problem.get_inputs()
with torch.no_grad():
    expected = model(*inputs)
    if way == "wait":
        torch.compile(problem.Model(), backend="eager")(*inputs)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=weft.backend.compile, options={
            "budget_s": budget_s, "wait": True, "cache": False, "target": "cpu"})
        begin = time.monotonic()
        result = compiled(*inputs)
        seconds = time.monotonic() - begin
        told = str(weft.explain())
    else:
        begin = time.monotonic()
        made, report = weft.optimize(
            model, inputs, budget_s=budget_s, cache=False, target="cpu")
        seconds = time.monotonic() - begin
        result, told = made(*inputs), str(report)
torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)
print(json.dumps({"seconds": seconds, "told": told}))
"""
#: In a process that keeps a processor busy.
SPIN = "while True: pass"
#: The longest that is waited for a search, as a multiple of its budget, and besides.
LIMIT_FACTOR, LIMIT_S = 2, 120


def command_of(words, is_realtime):
    return (["chrt", "--rr", "1"] if is_realtime else []) + words


def measured_run(problem, folder, budget_s, environment, is_realtime):
    run = os.path.join(folder, "run")
    begin = time.monotonic()
    done = subprocess.run(
        command_of(
            [WEFT, "run", problem, "--out", run, "--budget-s", str(budget_s), "-q"], is_realtime
        ),
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_FACTOR * budget_s + LIMIT_S,
    )
    return found_in(run, time.monotonic() - begin, done.stderr.strip())


def found_in(run, seconds, told):
    """A row's last columns, by the run's result."""
    try:
        with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
    except OSError:
        return seconds, 0, 0, told.splitlines()[-1] if told else ""
    subgraphs = result["subgraphs"]
    return seconds, sum(bool(one["ours"]) for one in subgraphs), len(subgraphs), result["summary"]


def measured_call(way, problem, folder, budget_s, environment, is_realtime):
    environment = {**environment, "WEFT_KEEP_RUNS": "1"}
    done = subprocess.run(
        command_of(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, way, problem, str(budget_s)],
            is_realtime,
        ),
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_FACTOR * budget_s + LIMIT_S,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    answer = json.loads(done.stdout.splitlines()[-1])
    runs = os.path.join(environment["WEFT_CACHE_DIR"], "runs")
    names = [one for one in os.listdir(runs) if one.startswith("run-")]
    run = os.path.join(runs, names[0], "run") if names else folder
    row = found_in(run, answer["seconds"], answer["told"])
    return (*row[:3], " ".join(answer["told"].split()))


def measured(way, model, budget_s, is_realtime):
    with tempfile.TemporaryDirectory(prefix="weft-budget-") as folder:
        problem = os.path.join(folder, f"{model}.py")
        with open(problem, "w", encoding="utf-8") as file:
            file.write(HEAD + MODELS[model] + TAIL)
        environment = {
            **os.environ,
            "WEFT_CACHE_DIR": os.path.join(folder, "cache"),
            "WEFT_LIBRARY": "",
            "WEFT_PYTHON": sys.executable,
            "WEFT_BIN": WEFT,
            "WEFT_NICE": "0",
            "PYTHONPATH": os.path.join(ROOT, "python"),
        }
        if way == "run":
            return measured_run(problem, folder, budget_s, environment, is_realtime)
        return measured_call(way, problem, folder, budget_s, environment, is_realtime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budgets", default="5,20,60")
    parser.add_argument("--ways", default="run,wait,optimize")
    parser.add_argument("--models", default="tiny,block")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--realtime", action="store_true")
    options = parser.parse_args()
    spinning = [
        subprocess.Popen(command_of([sys.executable, "-c", SPIN], options.realtime))
        for _ in range(options.busy)
    ]
    try:
        print("model\tway\tbudget\tseconds\tkernels\tsubgraphs\ttold")
        for budget_s in map(float, options.budgets.split(",")):
            for model in options.models.split(","):
                for way in options.ways.split(","):
                    for _ in range(options.repeat):
                        row = measured(way, model, budget_s, options.realtime)
                        seconds, kernels, subgraphs, told = row
                        print(
                            f"{model}\t{way}\t{budget_s:g}\t{seconds:.1f}\t{kernels}\t"
                            f"{subgraphs}\t{told[:150]}",
                            flush=True,
                        )
    finally:
        for one in spinning:
            one.kill()
            one.wait()


if __name__ == "__main__":
    main()
