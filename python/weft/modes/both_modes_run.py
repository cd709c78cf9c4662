"""`weft run --mode both PROBLEM.py`: a run for each mode, unless nothing reads
the mode, and one ModelNew that takes the kernels of the mode that it is in.

    RUN/eval, RUN/train            run directories
    RUN/composed/model_new.py      one file, judged in each mode as a whole
    RUN/composed/kernelbench/       another, where that is not near to eager
    RUN/result.json, RUN/report.md

The same command again goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from weft.build import packages
from weft.modes import both_modes_text
from weft.modes.both_modes_text import MODES
from weft.runs import (
    EXIT_BUDGET,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_WRONG,
    DriverSettings,
    NotJudged,
    judge,
    read_json,
    read_text,
    run,
    say,
    warn,
    write_text,
)
from weft.shown_text import table_cell

#: Of a budget, each mode's; the rest is for judging the whole.
RUN_SHARE = 0.35
NEAR_PATH = os.path.join("composed", "kernelbench", "model_new.py")
#: Of a module that is, in a mode, the framework's own forward.
NO_KERNELS: dict[str, Any] = {"ours": [], "externs": {}}
UNTIMED = {"candidate": None, "over_eager": None, "over_compile": None}


class Ended(Exception):
    """With this exit code; what there is to say was said."""


def begin(settings: DriverSettings) -> None:
    """Makes the folder, or finds that it is this command's."""
    out, asked = settings.out, {"problem": settings.problem, "run_flags": settings.run_flags}
    found = read_json(out, "modes.json")
    if found is None and os.path.isdir(out) and os.listdir(out):
        raise Ended(EXIT_WRONG, f"{out} is not empty: name another --out")
    if found not in (None, asked):
        raise Ended(EXIT_WRONG, f"{out} holds what another command found: name another --out")
    os.makedirs(os.path.join(out, "composed"), exist_ok=True)
    write_text(json.dumps(asked), out, "modes.json")


def search(settings: DriverSettings, mode: str) -> dict[str, Any]:
    """The result.json of that mode's run."""
    folder = os.path.join(settings.out, mode)
    result = read_json(folder, "result.json")
    if result is not None:
        return result
    say(settings, f"{mode} mode")
    if os.path.exists(os.path.join(folder, "journal.db")):
        words = ["resume", folder, *settings.resume_flags]
    else:
        words = [
            "run",
            settings.problem,
            "--out",
            folder,
            "--mode",
            mode,
            *settings.run_flags,
        ]
        if settings.budget_s:
            words += ["--budget-s", str(max(1, settings.budget_s * RUN_SHARE))]
    code = run(settings, words)
    result = read_json(folder, "result.json")
    if code not in (0, EXIT_FAILED, EXIT_BUDGET) or result is None:
        raise Ended(code or EXIT_FAILED, f"the run in {mode} mode ended with exit code {code}")
    return result


def compose(settings: DriverSettings, results: dict[str, dict[str, Any]]) -> None:
    """Writes the module, with the kernels that hold in it as a whole; its
    verdict and timing are each result's from then on. So with the module near to
    eager, where a mode's kernels are not."""
    compose_own(settings, results)
    compose_near(settings, results)
    for mode in results:
        folder = os.path.join(settings.out, mode)
        for path in ("model_new.py", os.path.join("kernelbench", "model_new.py")):
            # Where they cannot be copied, the module makes them again.
            with contextlib.suppress(OSError):
                packages.hand_on(
                    folder,
                    read_text(folder, "composed", path),
                    os.path.join(settings.out, "build"),
                )


def compose_own(settings: DriverSettings, results: dict[str, dict[str, Any]]) -> None:
    texts = {
        mode: read_text(settings.out, mode, "composed", "model_new.py")
        for mode, result in results.items()
        if result["verdict"]["correct"]
    }
    for mode in results.keys() - texts.keys():
        drop_kernels(results[mode], results[mode]["verdict"]["reason"])
    ours = {mode: texts[mode] if has_kernels(result) else None for mode, result in results.items()}
    path = os.path.join(settings.out, "composed", "model_new.py")
    if len(results) == 1 or not any(ours.values()):
        for text in list(texts.values())[:1]:
            write_text(text, path)
        return
    judged, refused = hold(settings, results, ours, path, why_wrong)
    for mode, (verdict, timing) in judged.items():
        results[mode]["verdict"] = verdict
        results[mode]["timing"].update(timing or {})
    for mode, reason in refused.items():
        drop_kernels(results[mode], reason)
    if not any(ours.values()):
        raise Ended(
            EXIT_FAILED,
            "not verified: no mode's kernels hold in a "
            f"module for both: see {settings.out}/eval and train",
        )


def compose_near(settings: DriverSettings, results: dict[str, dict[str, Any]]) -> None:
    """One more module, where kernels of the first are far from eager: of each
    mode those that are near, its run's second module where the first is far.
    `kernelbench_module` of each result is what holds of it there; None: there is none."""
    found = {mode: near_in(settings, mode, result) for mode, result in results.items()}
    is_wanted = any(
        result["kernelbench_module"] and is_far(result["verdict"]) for result in results.values()
    )
    for result in results.values():
        result["kernelbench_module"] = None
    if not is_wanted:
        return
    path = os.path.join(settings.out, NEAR_PATH)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    texts = {mode: text for mode, (text, _) in found.items()}
    if len(results) == 1:
        ((mode, (text, module)),) = found.items()
        assert text is not None  # a module that is wanted is far, and has a second
        write_text(text, path)
        results[mode]["kernelbench_module"] = module
        return
    try:
        judged, refused = hold(settings, results, texts, path, why_far)
    except Ended as ended:  # the first module stays what it is
        os.remove(path)
        say(settings, f"no second module: {ended.args[1]}")
        return
    if not any(texts.values()):
        return
    for mode, (verdict, timing) in judged.items():
        _, module = found[mode]
        results[mode]["kernelbench_module"] = {
            **(NO_KERNELS if mode in refused else module),
            "file": NEAR_PATH,
            "verdict": verdict,
            "timing": timing or UNTIMED,
        }


def near_in(
    settings: DriverSettings, mode: str, result: dict[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """(text, kernelbench_module) of what that mode's run found near to eager: its first
    module, its second, or no text: the framework's own."""
    folder = (settings.out, mode, "composed")
    if result["kernelbench_module"] and is_far(result["verdict"]):
        return (read_text(*folder, "kernelbench", "model_new.py"), result["kernelbench_module"])
    if is_far(result["verdict"]) or not has_kernels(result):
        return None, NO_KERNELS
    return (
        read_text(*folder, "model_new.py"),
        {
            "ours": [one["id"] for one in result["subgraphs"] if one["ours"]],
            "externs": result["externs"],
        },
    )


def hold(
    settings: DriverSettings,
    results: dict[str, dict[str, Any]],
    texts: dict[str, str | None],
    path: str,
    why_not: Callable[[dict[str, Any]], str],
) -> tuple[dict[str, tuple[dict[str, Any], dict[str, Any] | None]], dict[str, str]]:
    """Writes the module of these texts and judges it in each mode. Texts leave
    for which `why_not` of their verdict has a reason, until the rest holds:
    ({mode: (verdict, timing or None)}, {mode: reason}). Where no text is left,
    there is no file."""
    judged: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {}
    refused: dict[str, str] = {}
    while any(texts.values()):
        write_text(both_modes_text.write(texts), path)
        before = len(refused)
        for mode, result in results.items():
            say(settings, f"checking ModelNew in {mode} mode")
            try:
                judged[mode] = judge(
                    settings, settings.problem, path, mode, bool(result["timed"] and texts[mode])
                )
            except NotJudged as error:
                raise Ended(
                    EXIT_FAILED, f"ModelNew could not be judged in {mode} mode: {error}"
                ) from None
            reason = why_not(judged[mode][0])
            if reason and texts[mode] is not None:
                say(settings, f"refused: {reason}")
                texts[mode], refused[mode] = None, reason
        if len(refused) == before:
            return judged, refused
    os.remove(path)
    return judged, refused


def why_wrong(verdict: dict[str, Any]) -> str:
    return "" if verdict["correct"] else verdict["reason"]


def why_far(verdict: dict[str, Any]) -> str:
    return why_wrong(verdict) or (verdict["kernelbench"]["reason"] if is_far(verdict) else "")


def is_far(verdict: dict[str, Any]) -> bool:
    """By KernelBench's own rule; of what is wrong, or older, nobody asks."""
    found = verdict.get("kernelbench")
    return found["outcome"] == "outside" if found else False


def drop_kernels(result: dict[str, Any], reason: str) -> None:
    """From there on the mode is the framework's own."""
    for one in result["subgraphs"]:
        one["ours"] = False
    result["why_no_kernel"] = f"the kernels were refused: {reason}"


def has_kernels(result: dict[str, Any]) -> bool:
    return not result["why_no_kernel"]


def over(result: dict[str, Any], party: str = "eager") -> float | None:
    """How many times faster its kernels are; None: not timed, or there are
    none."""
    found = result["timing"].get(f"over_{party}")
    return found["ratio"] if found and has_kernels(result) else None


def sentence(mode: str, result: dict[str, Any]) -> str:
    verdict = result["verdict"]
    if not verdict["correct"]:
        return f"{mode}: not verified: {verdict['reason']}"
    if not has_kernels(result):
        return f"{mode}: PyTorch's forward, {result['why_no_kernel']}"
    ratios = [
        f"{over(result, party):.2f}× over {name}"
        for party, name in (("eager", "eager"), ("compile", "torch.compile"))
        if over(result, party)
    ]
    return f"{mode}: {', '.join(ratios) or 'not timed'}"


def near_words(results: dict[str, dict[str, Any]]) -> str:
    """Words if the module is outside KernelBench's tolerance in a mode."""
    far = [mode for mode, one in results.items() if is_far(one["verdict"])]
    if not far:
        return ""
    said = f"; outside KernelBench's tolerance in {' and '.join(far)} mode"
    beside = {mode: one["kernelbench_module"] for mode, one in results.items()}
    if not all(beside.values()):
        return said
    ratios = [
        f"{mode} {one['timing']['over_eager']['ratio']:.2f}× over eager"
        for mode, one in beside.items()
        if one["timing"]["over_eager"]
    ]
    return f"{said}, {NEAR_PATH} is within{': ' if ratios else ''}{', '.join(ratios)}"


def conclude(settings: DriverSettings, results: dict[str, dict[str, Any]]) -> int:
    """Writes what was found; the exit code. Who asks for one number is told
    the mode that gains least."""
    is_right = all(result["verdict"]["correct"] for result in results.values())
    if len(results) == 1:
        said = (
            "nothing reads the mode, the kernels are for both: "
            + next(iter(results.values()))["summary"]
        )
    else:
        said = ("verified: " if is_right else "") + "; ".join(
            sentence(mode, one) for mode, one in results.items()
        )
        said += near_words(results)
    least = min(results, key=lambda mode: over(results[mode]) or 1.0)
    told = {**results[least], "mode": "both", "summary": said, "modes": results}
    far = [
        result["verdict"]["kernelbench"] for result in results.values() if is_far(result["verdict"])
    ]
    if far:
        told["verdict"] = {**told["verdict"], "kernelbench": far[0]}
    if not is_right:
        told["verdict"] = next(
            result["verdict"] for result in results.values() if not result["verdict"]["correct"]
        )
    out = settings.out
    write_text(report(settings, results, said), out, "report.md")
    write_text(json.dumps(told, indent=1) + "\n", out, "result.json")
    code = 0 if is_right else EXIT_FAILED
    if settings.json:
        print(
            json.dumps({"type": "RunFinished", "body": {"exit_code": code, "summary": said}}),
            flush=True,
        )
    elif is_right:
        say(settings, said)
    else:
        warn(said)
    say(settings, f"report: {out}/report.md")
    return code


def report(settings: DriverSettings, results: dict[str, dict[str, Any]], said: str) -> str:
    lines = [
        f"# {os.path.basename(settings.problem)}, in both modes",
        "",
        said,
        "",
        "| mode | verdict | ModelNew ms | eager ms | over eager | over torch.compile |",
        "|---|---|---|---|---|---|",
    ]
    for mode, result in results.items():
        timing, verdict = result["timing"], result["verdict"]
        times = [
            f"{timing[side]['median_us'] / 1e3:.3f}"
            if has_kernels(result) and timing.get(side)
            else ""
            for side in ("candidate", "eager")
        ]
        ratios = [
            f"{over(result, party):.2f}" if over(result, party) else ""
            for party in ("eager", "compile")
        ]
        lines.append(
            "| "
            + " | ".join(
                [
                    mode if len(results) > 1 else "eval and train",
                    "right" if verdict["correct"] else table_cell(verdict["reason"]),
                    *times,
                    *ratios,
                ]
            )
            + " |"
        )
    lines += [
        "",
        *(f"* [{mode}]({mode}/report.md): {one['summary']}" for mode, one in results.items()),
    ]
    return "\n".join(lines) + "\n"


def work(settings: DriverSettings) -> int:
    begin(settings)
    results = {}
    for mode in MODES:
        results[mode] = search(settings, mode)
        if not results[mode]["reads_mode"]:
            break
    compose(settings, results)
    return conclude(settings, results)


def main(text: str) -> int:
    """The exit code of `weft run --mode both` with these settings, as JSON."""
    settings = DriverSettings.from_json(text)
    try:
        return work(settings)
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Ended as ended:
        code, message = ended.args
        if settings.json:
            print(json.dumps({"error": message, "exit_code": code}), flush=True)
        warn(message)
        return code
    except OSError as error:
        warn(f"cannot write the results: {error}")
        return 3
