"""`weft run --train PROBLEM.py`: the step of training is captured as two graphs, each has
its own run, and the best of what they found becomes ModelNew.

    RUN/forward, RUN/backward      run directories, and problem.py in RUN
    RUN/step.py, RUN/descent.py    what `weft eval` holds ModelNew's steps against
    RUN/composed/model_new.py      one file, verified and timed as a whole
    RUN/result.json, RUN/report.md

The composed module is never loaded into this process: a language model may have written it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING

from weft.build import packages
from weft.runs import (
    EXIT_BUDGET,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_WRONG,
    DriverSettings,
    read_json,
    read_text,
    run,
    say,
    warn,
    write_text,
)

if TYPE_CHECKING:
    from weft.backend.graphs.problem_source import Source
    from weft.training.gradients import GradCheck
    from weft.training.joint import Step
    from weft.training.training_verdict import Trial

#: Of a budget: each graph's run; the rest is for the whole.
RUN_SHARE = 0.4


class Refused(Exception):
    """The problem cannot be trained, or not here; what to do."""


@dataclasses.dataclass
class Graph:
    """One of the two, and what became of its run."""

    name: str
    source: Source
    reason: str = ""  # why it is the framework's
    summary: str = ""
    composed: str | None = None


def captured(settings: DriverSettings) -> tuple[str, Step, list[Graph], GradCheck]:
    """The problem's text, the Step, the two Graphs, and the GradCheck."""
    from weft.backend.graphs.problem_source import Unsupported
    from weft.problem import problem as problems
    from weft.training import gradients, joint

    problem = problems.load_problem(settings.problem, settings.mode)
    device = settings.device
    model = problems.build_model(problem, device=device, adopts=False)
    inputs = problems.make_inputs(problem, device=device)
    problems.check_inputs_fit(problem, model, inputs)
    try:
        step = joint.capture(model, inputs)
        checked = gradients.check(model, step)
        step.lost, step.anchor = gradients.lost(step)
        checked = dataclasses.replace(checked, lost_in_rounding=step.lost)
        graphs = sources_of(step)
    except Unsupported as error:
        raise Refused(f"{problem.name} cannot be trained by kernels: {error}") from None
    return problems.read_source(problem.path).decode(), step, graphs, checked


def _on_its_device(settings: DriverSettings) -> DriverSettings:
    """With the device of the model: kernels for a GPU are interpreted without one."""
    import torch

    if settings.target == "cpu" or not torch.cuda.is_available():
        return dataclasses.replace(settings, device="cpu")
    return dataclasses.replace(settings, device=f"cuda:{settings.device}")


def sources_of(step: Step) -> list[Graph]:
    """The Graphs, whose problem files stand alone; of backward's arguments
    those are real that its file's draws are made like."""
    import torch

    from weft.backend.graphs.problem_source import source_of

    state = {
        i: "parameter" if one.kind == "parameter" else one.name
        for i, one in enumerate(step.captured.arguments)
        if one.kind in ("parameter", "buffer")
    }
    plain = [argument.detach() for argument in step.arguments]
    with torch.no_grad():
        torch.manual_seed(0)
        results = step.forward(*plain)
        kept = list(results[step.count :])
        tangents = [torch.randn_like(one) for one, has in zip(results, step.differentiable) if has]
    return [
        Graph("forward", source_of(step.forward, plain, state)),
        Graph("backward", source_of(step.backward, kept + tangents, {})),
    ]


def search(settings: DriverSettings, graph: Graph) -> None:
    """Runs weft on that graph's problem file; what it composed is kept."""
    folder = os.path.join(settings.out, graph.name)
    problem = os.path.join(settings.out, f"{graph.name}.py")
    write_text(graph.source.text, problem)
    words = ["run", problem, "--out", folder, *settings.run_flags]
    if settings.budget_s:
        words += ["--budget-s", str(max(1, settings.budget_s * RUN_SHARE))]
    say(settings, f"the {graph.name} pass: {graph.source.count} operators")
    code = run(settings, words)
    result = read_json(folder, "result.json")
    if result is None or code != 0 and (code != EXIT_BUDGET or not result["verdict"]["correct"]):
        graph.reason = f"its run ended with {code}: see {folder}"
        return
    graph.summary = result.get("summary", "")
    graph.reason = result["why_no_kernel"]
    if graph.reason:
        return
    graph.composed = read_text(folder, "composed", "model_new.py")


def ways(graphs: list[Graph]) -> list[list[str]]:
    """Which passes are by kernels: all that can be, then each alone."""
    ours = [graph.name for graph in graphs if graph.composed is not None]
    found = [ours] if ours else []
    if len(ours) > 1:
        found += [[name] for name in ours]
    return found


def compose(
    settings: DriverSettings, problem_text: str, step: Step, graphs: list[Graph]
) -> tuple[Trial | None, list[Trial]]:
    """(the Trial that is fastest of those that are right and faster than eager,
    or None; all of them)"""
    from weft.training import (
        step_text,
        trained_model_text,
        training_report,
        training_verdict,
    )

    trials = []
    one_step = os.path.join(settings.out, "step.py")
    steps = os.path.join(settings.out, "descent.py")
    write_text(step_text.write(problem_text, "Model", step, settings.with_compile), one_step)
    write_text(step_text.write_descent(problem_text, "Model", step), steps)
    for names in ways(graphs):
        say(settings, f"checking ModelNew with kernels for {training_report.joined(names)}")
        texts = [
            trained_model_text.GraphText(
                graph.source, graph.composed if graph.name in names else None
            )
            for graph in graphs
        ]
        made = training_verdict.Trial(names, trained_model_text.write(problem_text, step, *texts))
        made.check_step(settings, one_step, step)
        trials.append(made)
        _say_refused(settings, made)
    for made in sorted(trials, key=training_verdict.Trial.gain, reverse=True):
        if not made.is_faster:
            continue
        say(
            settings,
            f"a few steps of gradient descent by kernels for {training_report.joined(made.names)}",
        )
        made.check_descent(settings, steps, step)
        _say_refused(settings, made)
        if not made.reason:
            return made, trials
    return None, trials


def _say_refused(settings: DriverSettings, made: Trial) -> None:
    if made.reason:
        say(settings, f"refused: {made.reason}")


def _why_none(graphs: list[Graph], trials: list[Trial]) -> str:
    """Why the framework's own step stays."""
    if trials:
        return "no generated kernel was faster"
    return "; ".join(f"the {graph.name} pass: {graph.reason}" for graph in graphs)


def conclude(
    settings: DriverSettings,
    problem_text: str,
    graphs: list[Graph],
    checked: GradCheck,
    best: Trial | None,
    trials: list[Trial],
) -> int:
    """Writes what was found; the exit code."""
    from weft.training import training_report

    reasons = [trial.reason for trial in trials]
    is_right = best is not None or not reasons or not all(reasons)
    if best is not None:
        text = best.text
        summary = (
            f"verified: kernels for {training_report.joined(best.names)}, "
            f"{training_report.speed(best.timing)}"
        )
    else:
        text = (
            problem_text + "\n\nclass ModelNew(Model):\n"
            '    """PyTorch\'s own: no generated kernel was '
            'correct and faster."""\n'
        )
        summary = (
            f"{_why_none(graphs, trials)}: ModelNew is PyTorch's"
            if is_right
            else f"not verified: {reasons[0]}"
        )
    out = settings.out
    write_text(text, out, "composed", "model_new.py")
    for graph in graphs:
        if best is not None and graph.name in best.names and graph.composed is not None:
            # Where they cannot be copied, the module makes them again.
            with contextlib.suppress(OSError):
                packages.hand_on(
                    os.path.join(out, graph.name), graph.composed, os.path.join(out, "build")
                )
    result = training_report.Result(
        summary,
        is_right,
        best.names if best else [],
        best.timing if best else None,
        checked,
        [
            training_report.Pass(graph.name, graph.summary, graph.reason, graph.source.count)
            for graph in graphs
        ],
        [
            training_report.Tried(trial.names, trial.verdict, trial.timing, trial.descent)
            for trial in trials
        ],
    )
    as_json = dataclasses.asdict(result)
    write_text(json.dumps(as_json, indent=1), out, "result.json")
    write_text(training_report.text(os.path.basename(settings.problem), result), out, "report.md")
    if settings.json:
        print(json.dumps(as_json), flush=True)
    elif is_right:
        say(settings, summary)
    else:
        warn(summary)
    say(settings, f"report: {out}/report.md")
    return 0 if is_right else EXIT_FAILED


def work(settings: DriverSettings) -> int:
    from weft.problem.problem import ProblemError, import_torch

    try:
        import_torch()
        settings = _on_its_device(settings)
        problem_text, step, graphs, checked = captured(settings)
        os.makedirs(os.path.join(settings.out, "composed"), exist_ok=False)
        for graph in graphs:
            search(settings, graph)
        best, trials = compose(settings, problem_text, step, graphs)
        return conclude(settings, problem_text, graphs, checked, best, trials)
    except FileExistsError:
        warn(f"{settings.out} is there already: name another --out")
        return EXIT_WRONG
    except ProblemError as error:
        warn(error.message)
        return 3 if error.code == "missing" else EXIT_WRONG
    except Refused as error:
        warn(str(error))
        return EXIT_WRONG


def main(text: str) -> int:
    """The exit code of `weft run --train` with these settings, as JSON."""
    try:
        return work(DriverSettings.from_json(text))
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
