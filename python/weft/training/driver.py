"""`weft run --train PROBLEM.py`: the step of training is captured as two graphs,
each is a run of its own, and the best of what they found becomes ModelNew.

    RUN/forward, RUN/backward      run directories, problem.py beside them
    RUN/composed/model_new.py      one file, verified and timed as a whole
    RUN/result.json, RUN/report.md
"""

import dataclasses
import json
import os
import subprocess
import sys
import traceback

from weft.runs import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_WRONG, read_json, \
    read_text, run, say, write_text

#: Of a budget: each graph's run; the rest is for the whole.
RUN_SHARE = 0.4
#: The judge loads, compares and times; torch.compile may take minutes.
JUDGE_S = 3600
PARTS = ("forward", "backward")


class Refused(Exception):
    """The problem cannot be trained, or not here; what to do."""


@dataclasses.dataclass
class Graph:
    """One of the two, and what became of its run."""

    name: str
    source: object  # graph_source.Source; None: it computes nothing
    reason: str = ""  # why it is the framework's
    summary: str = ""
    composed: str | None = None


def captured(settings):
    """(the problem's text, the Step, the two Graphs)"""
    from weft.backend.graph_source import Unsupported
    from weft.problem import problem as problems
    from weft.training import joint

    problem = problems.load_problem(settings["problem"], settings["mode"])
    device = settings["device"] = _device(settings)
    model = problems.build_model(problem, device=device, adopts=False)
    inputs = problems.make_inputs(problem, device=device)
    problems.check_inputs_fit(problem, model, inputs)
    try:
        step = joint.capture(model, inputs)
        graphs = sources_of(step)
    except Unsupported as error:
        raise Refused(f"{problem.name} cannot be trained by kernels: "
                      f"{error}") from None
    return problems.read_source(problem.path).decode(), step, graphs


def _device(settings):
    """Where the model is: kernels for a GPU are interpreted without one."""
    import torch

    if settings["target"] == "cpu" or not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{settings['device']}"


def sources_of(step):
    """The Graphs, whose problem files stand alone; of backward's arguments
    those are real that its file's draws are made like."""
    import torch

    from weft.backend.graph_source import source_of

    state = {i: "parameter" if one.kind == "parameter" else one.name
             for i, one in enumerate(step.captured.arguments)
             if one.kind in ("parameter", "buffer")}
    plain = [one.detach() for one in step.arguments]
    with torch.no_grad():
        torch.manual_seed(0)
        results = step.forward(*plain)
        kept = list(results[step.count:])
        tangents = [torch.randn_like(one) for one, has in zip(
            results, step.differentiable) if has]
    return [Graph("forward", source_of(step.forward, plain, state)),
            Graph("backward", source_of(step.backward, kept + tangents, {}))]


def search(settings, graph):
    """Runs weft on that graph's problem file; what it composed is kept."""
    folder = os.path.join(settings["out"], graph.name)
    problem = os.path.join(settings["out"], f"{graph.name}.py")
    write_text(graph.source.text, problem)
    words = ["run", problem, "--out", folder, *settings["run_flags"]]
    if settings["budget_s"]:
        words += ["--budget-s", str(max(1, settings["budget_s"] * RUN_SHARE))]
    say(settings, f"the {graph.name} pass: {graph.source.count} operators")
    code = run(settings, words)
    result = read_json(folder, "result.json")
    if code != 0 or result is None:
        graph.reason = f"its run ended with {code}: see {folder}"
        return
    graph.summary = result.get("summary", "")
    if not any(one.get("ours") for one in result.get("subgraphs", [])):
        graph.reason = "no kernel was faster"
        return
    graph.composed = read_text(folder, "composed", "model_new.py")


def judge(settings, step, name, path):
    """What the judge's process says of that file."""
    out = os.path.join(settings["out"], "composed", f"{name}.json")
    asked = {"problem": settings["problem"], "module": path,
             "mode": settings["mode"], "device": settings["device"],
             "draws": step.draws, "timing_s": settings["timing_s"],
             "with_compile": settings["with_compile"], "out": out}
    program = ("import sys\nsys.path[:] = [sys.argv[1]] + [p for p in sys.path "
               "if p]\nfrom weft.training.judge import main\n"
               "sys.exit(main(sys.argv[2]))\n")
    package = os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__))))
    try:
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, package, json.dumps(asked)],
            check=False, timeout=JUDGE_S, stdout=sys.stderr)
    except subprocess.TimeoutExpired:
        return {"correct": False,
                "reason": f"judging it took more than {JUDGE_S} s"}
    told = read_json(out)
    if told is None:
        return {"correct": False, "reason": "the process that judged it ended "
                f"with {done.returncode}"}
    return told


def ways(graphs):
    """Which passes are by kernels: all that can be, then each alone."""
    ours = [graph.name for graph in graphs if graph.composed is not None]
    found = [ours] if ours else []
    if len(ours) > 1:
        found += [[name] for name in ours]
    return found


def compose(settings, problem_text, step, graphs):
    """(path, which passes are kernels, verdict) of the fastest that is right;
    None where none is, or none is faster than eager, with all verdicts."""
    from weft.training import module_text

    best, verdicts = None, []
    for names in ways(graphs):
        say(settings, f"checking ModelNew with kernels for {_joined(names)}")
        texts = [module_text.GraphText(
            graph.source, graph.composed if graph.name in names else None)
            for graph in graphs]
        name = "_".join(names)
        path = os.path.join(settings["out"], "composed", f"{name}.py")
        write_text(module_text.write(problem_text, step, *texts), path)
        verdict = judge(settings, step, name, path)
        verdicts.append((names, verdict))
        if not verdict["correct"]:
            say(settings, f"refused: {verdict['reason']}")
            continue
        seconds = verdict["seconds"]
        if seconds["ours"] < seconds["eager"] and (
                best is None or gain_of(verdict) > gain_of(best[2])):
            best = (path, names, verdict)
    return best, verdicts


def gain_of(verdict, over="eager"):
    seconds = verdict["seconds"]
    return seconds[over] / seconds["ours"] if over in seconds else 0.0


def conclude(settings, problem_text, graphs, best, verdicts):
    """Writes what was found; the exit code."""
    composed = os.path.join(settings["out"], "composed", "model_new.py")
    if best is not None:
        os.replace(best[0], composed)
        names, verdict = best[1], best[2]
        summary = (f"verified: kernels for {_joined(names)}, "
                   f"{gain_of(verdict):.2f}× over eager")
        if "compile" in verdict["seconds"]:
            summary += f", {gain_of(verdict, 'compile'):.2f}× over torch.compile"
    else:
        wrong = [one for _, one in verdicts if not one["correct"]]
        verdict = wrong[0] if wrong and len(wrong) == len(verdicts) else None
        write_text(problem_text + "\n\nclass ModelNew(Model):\n"
                   "    \"\"\"The framework's own: no kernel of ours was "
                   "right and faster.\"\"\"\n", composed)
        summary = ("no kernel of ours was faster: ModelNew is the framework's"
                   if verdict is None else
                   f"not verified: {verdict['reason']}")
    is_right = best is not None or verdict is None
    result = {"summary": summary, "verified": is_right,
              "kernels": best[1] if best else [],
              "verdict": best[2] if best else verdict,
              "passes": [{"name": graph.name, "summary": graph.summary,
                          "reason": graph.reason,
                          "operators": graph.source.count}
                         for graph in graphs],
              "tried": [{"kernels": names, **one} for names, one in verdicts]}
    write_text(json.dumps(result, indent=1), settings["out"], "result.json")
    write_text(report(settings, result), settings["out"], "report.md")
    if settings["json"]:
        print(json.dumps(result), flush=True)
    elif is_right:
        say(settings, summary)
    else:
        print(f"weft: {summary}", file=sys.stderr)
    say(settings, f"report: {settings['out']}/report.md")
    return 0 if is_right else EXIT_FAILED


def report(settings, result):
    name = os.path.basename(settings["problem"])
    lines = [f"# {name}, trained", "", result["summary"], "",
             "| kernels for | verdict | ours ms | eager ms | torch.compile ms |",
             "|---|---|---|---|---|"]
    for one in result["tried"]:
        seconds = one.get("seconds", {})
        shown = [f"{seconds[party] * 1e3:.3f}" if party in seconds else ""
                 for party in ("ours", "eager", "compile")]
        verdict = "right" if one["correct"] else one["reason"]
        lines.append(f"| {_joined(one['kernels'])} | {verdict} | "
                     + " | ".join(shown) + " |")
    lines += ["", "Times are medians of a forward and a backward pass, all in "
              "turns, in one process.", ""]
    for one in result["passes"]:
        lines.append(f"* the {one['name']} pass, {one['operators']} operators: "
                     f"{one['summary'] or one['reason']} "
                     f"([report]({one['name']}/report.md))")
    verdict = result["verdict"]
    if verdict and verdict.get("losses"):
        lines += ["", "Losses of the first steps of training, ours and eager's:",
                  "", *(f"* {a:.7g} {b:.7g}" for a, b in zip(
                      verdict["losses"], verdict["eager_losses"]))]
    return "\n".join(lines) + "\n"


def _joined(names):
    return " and ".join(names) + " pass" + ("es" if len(names) > 1 else "")


def work(settings):
    from weft.problem.problem import ProblemError, import_torch

    try:
        import_torch()
        problem_text, step, graphs = captured(settings)
        os.makedirs(os.path.join(settings["out"], "composed"), exist_ok=False)
        for graph in graphs:
            search(settings, graph)
        best, verdicts = compose(settings, problem_text, step, graphs)
        return conclude(settings, problem_text, graphs, best, verdicts)
    except FileExistsError:
        print(f"weft: {settings['out']} is there already: name another --out",
              file=sys.stderr)
        return EXIT_WRONG
    except ProblemError as error:
        print(f"weft: {error.message}", file=sys.stderr)
        return 3 if error.code == "missing" else EXIT_WRONG
    except Refused as error:
        print(f"weft: {error}", file=sys.stderr)
        return EXIT_WRONG


def main(text):
    """The exit code of `weft run --train` with these settings, as JSON."""
    try:
        return work(json.loads(text))
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
