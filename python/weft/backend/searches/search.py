"""The search for one graph's kernels, as a run of the weft program."""

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import time
import typing
from typing import Any

from weft.backend.graphs.problem_source import USER_LINE, Source, at_user_lines
from weft.backend.options import Options, log
from weft.backend.searches import (
    head_messages,
    head_search,
    module_store,
    search_ownership,
    weft_process,
    work_folders,
)
from weft.backend.searches.search_ownership import Event
from weft.shown_text import terminal_line

#: Shares of the budget for timing one kernel, for timing one if the program itself
#: times the module, and for timing the best kernel.
TIMING_SHARE, BRIEF_SHARE, FINAL_SHARE = 0.01, 0.004, 0.03
TIMING_MS, FINAL_MS = (50, 1500), (100, 4000)
#: Parts of the budget that are reserved for building the composed module here.
LOAD_SHARE, LOAD_S = 0.05, 0.5
#: A run ends when its budget is over, with the best so far. So much later it is
#: stopped: a user is promised 10 % or 5 s, of which a call's own work takes a part.
LATE_SHARE, LATE_S = 0.08, 4.0
#: To end a search that was stopped.
END_S = 0.7
#: Kernels tried for a subgraph, by the seconds that there are; the run itself limits
#: them where the program times the module.
VARIANTS, VARIANTS_MAX = ((60, 2), (180, 4)), 6
#: A run takes Inductor's code for each subgraph besides, where its budget times
#: the cores is so much: PyTorch's compiler and what is built of its code took 6
#: to 7 s of a core a subgraph (2026-11-26), and must not take what our own
#: compiler's kernels need to be verified.
INDUCTOR_CORE_S_MIN = 240
#: Mean and deviation of a tensor in a problem file.
DRAWN = re.compile(r'("(?:normal|positive)"), ([-+.\deinfa]+), ([-+.\deinfa]+)')
#: A search whose time was over before it had a kernel is made anew by so many
#: processes: the first in a new installation loads PyTorch slowly.
TRIES_MAX = 3


@dataclasses.dataclass
class Outcome:
    """What a search came to. `path`: the entry in the store (or a folder of
    the same form); `has_kernels`: whether anything of ours is in it that is
    worth being called, and `reason` why not."""

    path: str
    has_kernels: bool
    summary: str
    reason: str
    from_store: bool = False


class OneBatch(Exception):
    """Why a graph has no kernels for any batch. It may have some for each."""


class SearchFailed(Exception):
    """Why there are no kernels; `again`: whether another try may give some."""


def key_of(source: Any, options: Options) -> Any:
    """Of the store: what the result depends on besides the graph."""
    from weft import __version__

    text = json.dumps(
        [
            source.key,
            options.target,
            options.fallback,
            options.seeds,
            __version__,
            platform.machine(),
            processor(),
            devices(source),
            *([options.head] if options.head else []),
        ]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def known(source: Source, options: Options, since: float = float("inf")) -> Outcome | None:
    """The Outcome of another process's search, or None: there is none, or
    its time was over before it was done, and it is worth another. What was stored
    after `since` (time.time()) is taken as it is: this process waited for it."""
    work_folders.sweep()
    found = module_store.find(key_of(source, options)) if options.cache else None
    if found is None:
        return None
    path, about = found
    is_awaited = about.get("stored", 0) >= since
    if (
        not is_awaited
        and not about.get("has_kernels")
        and "inductor" in (set(_seeds(options)) - set(about.get("seeds", ())))
    ):
        return None  # there was too little time to ask it
    if (
        not is_awaited
        and about.get("cut_short")
        and (
            about.get("budget_s", 0) < options.budget_s
            or not about.get("has_kernels")
            and _tries(about) < TRIES_MAX
        )
    ):
        return None
    return Outcome(
        path,
        bool(about.get("has_kernels")),
        str(about.get("summary", "")),
        str(about.get("reason", "")),
        from_store=True,
    )


def _tries(about: Any) -> Any:
    """How many searches there have been for what that tells of."""
    tries = about.get("tries")
    return tries if isinstance(tries, int) else 1


def found(
    source: Source,
    options: Options,
    ends: Event | None = None,
    spent_s: float = 0.0,
    around: typing.Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
    times_module: bool = True,
    graph: str = "",
) -> Outcome:
    """The Outcome of another process's search, or of this one's; SearchFailed,
    OneBatch. One process on this machine searches for a graph, the others wait for its
    end. `around` is entered for a search of this process's. `times_module`: whether the
    run times the composed module, too. `graph`: the source's, if it is captured."""

    def searched() -> Outcome:
        with around():
            return search(source, options, ends, spent_s, times_module, graph)

    outcome = known(source, options)
    if outcome is not None:
        return outcome
    since, may_search = time.time(), search_ownership.may_search(options)
    if not options.cache:  # nothing of another process is taken
        if not may_search:
            raise SearchFailed(search_ownership.WORKER)
        return searched()
    key = key_of(source, options)
    with search_ownership.turn(key, not may_search, ends) as is_ours:
        outcome = known(source, options, since)
        if outcome is not None:
            return outcome
        _raise_failure(key, options)
        if not is_ours:
            raise SearchFailed(search_ownership.WORKER)
        try:
            return searched()
        except (SearchFailed, OneBatch) as error:
            if not (ends and ends.is_set()):  # a stopped search proves nothing
                module_store.keep_failure(
                    key,
                    reason=str(error),
                    budget_s=options.budget_s,
                    is_one_batch=isinstance(error, OneBatch),
                )
            raise


def _raise_failure(key: str, options: Options) -> None:
    """Raises the failure of another process's search. It counts if this program began
    before the failure, and has no larger budget."""
    failure = module_store.failure_of(key)
    if (
        failure is None
        or failure.get("stored", 0) < search_ownership.BEGUN_S
        or (failure.get("budget_s", 0) < options.budget_s)
    ):
        return
    reason = str(failure.get("reason", ""))
    if failure.get("is_one_batch"):
        raise OneBatch(reason)
    raise SearchFailed(reason)


def search(
    source: Any,
    options: Options,
    cancelled: Event | None = None,
    spent_s: float = 0.0,
    times_module: bool = True,
    graph: str = "",
) -> Any:
    """The Outcome of a run of weft on that source; SearchFailed says why there
    is none. `spent_s` seconds of the budget are gone already. Blocks until the
    budget is over, or as much longer as late_s() says."""
    if spent_s >= options.budget_s:
        raise SearchFailed(
            f"its budget_s of {options.budget_s:g} was over before the graph was written down"
        )
    with work_folders.made("run-", _keeps_runs()) as folder:
        return _search(source, options, cancelled, folder, spent_s, times_module, graph)


def _keeps_runs() -> bool:
    """Whether run directories stay, for a person to look at."""
    return bool(os.environ.get("WEFT_KEEP_RUNS"))


def kernel_seconds(path: str) -> dict[str, float]:
    """{subgraph: seconds of one call of its kernel}, of the result that is kept there."""
    found: dict[str, float] = {}
    for one in (_result(path) or {}).get("subgraphs", []):
        times = (one.get("timing") or {}).get("candidate") or {}
        if one.get("ours") and times.get("median_us"):
            found[str(one["id"])] = times["median_us"] / 1e6
    return found


def precision_in(path: str) -> Any:
    """Of the framework's products, by the verdict on the module that is kept
    there; "" where it does not say."""
    verdict = (_result(path) or {}).get("verdict")
    found = verdict.get("framework_precision") if isinstance(verdict, dict) else ""
    return found if isinstance(found, str) else ""


def limit_s(options: Options) -> float:
    """When a search is stopped that goes on beyond its budget."""
    return options.budget_s + late_s(options)


def late_s(options: Options) -> float:
    """So much later than its budget a search is stopped, and waited for."""
    return max(options.budget_s * LATE_SHARE, LATE_S)


def run_budget_s(options: Options, spent_s: float) -> float:
    """What a run is given, which takes as long as it is told, and a second or two
    to end: the rest is for what comes before and after it."""
    load_s = options.budget_s * LOAD_SHARE + LOAD_S
    return max(1.0, options.budget_s - spent_s - load_s)


def _search(
    source: Any,
    options: Any,
    cancelled: Any,
    folder: Any,
    spent_s: Any,
    times_module: bool,
    graph: str,
) -> Any:
    problem = os.path.join(folder, "problem.py")
    with open(problem, "w", encoding="utf-8") as file:
        file.write(source.text)
    captured = []
    if graph:
        captured = ["--graph", os.path.join(folder, "graph.json")]
        with open(captured[1], "w", encoding="utf-8") as file:
            file.write(graph)
    run = os.path.join(folder, "run")
    begin = time.monotonic()
    limit_s = max(1.0, options.budget_s - spent_s) + late_s(options)
    budget_s = run_budget_s(options, spent_s)
    code: int | None
    if options.head:
        request = _request(source, options, times_module)
        try:
            code, told = head_search.search(
                request,
                options.head,
                options.keys,
                options.target,
                budget_s,
                limit_s,
                cancelled,
                run,
            )
        except head_search.Failed as error:
            raise SearchFailed(str(error)) from None
    else:
        code, told = weft_process.run(
            [
                "run",
                problem,
                *captured,
                "--out",
                run,
                "--fast-sync",
                "-q",
                *_words(options, source.any_size, budget_s, times_module),
            ],
            limit_s,
            cancelled,
            removed="" if _keeps_runs() else folder,
        )
    seconds = time.monotonic() - begin
    told = _by_the_option(at_user_lines(told, source.text), options)
    log.info("search of %.1f s ended with %s %s", seconds, code, told)
    if code is None:
        raise SearchFailed(
            f"the search was stopped after {seconds:.0f} s, before its module "
            f"was verified: its budget_s was {options.budget_s:g}"
        )
    result = _result(run)
    if code == 2 and source.any_size:
        raise OneBatch(told)
    is_cut_short = result is not None and module_store.is_cut_short(result)
    if result is None or code != 0 and not (code == 1 and is_cut_short):
        raise SearchFailed(told or f"weft run ended with the code {code}")
    # explain() and the log show both; a candidate's own words are in them.
    summary = _by_the_option(terminal_line(str(result["summary"])), options)
    reason = (
        at_user_lines(terminal_line(_why_none(result)), source.text) or _too_slow(result, options)
        if code == 0
        else summary
    )
    shutil.copyfile(problem, os.path.join(run, "problem.py"))
    about = {
        "has_kernels": not reason,
        "summary": summary,
        "reason": reason,
        "seconds": round(seconds, 1),
        "budget_s": options.budget_s,
        "stored": time.time(),
        "seeds": _seeds(options, source.any_size),
        "cut_short": is_cut_short,
    }
    key = key_of(source, options)
    earlier = module_store.find(key)
    about["tries"] = _tries(earlier[1]) + 1 if earlier else 1
    path = module_store.keep(key, run, about)
    # A head's result is verified once more, as those of other processes.
    return Outcome(path, about["has_kernels"], summary, reason, from_store=bool(options.head))


def _request(source: Source, options: Options, times_module: bool) -> head_messages.Request:
    """Without the lines of the user's files, and with roughly the numbers that tensors
    had: programs with equal graphs share a search."""
    return head_messages.Request(
        DRAWN.sub(_rounded, re.sub(USER_LINE + ".*", "", source.text)),
        options.fallback,
        tuple(_seeds(options, source.any_size)),
        options.variants or _variants(options, times_module),
        source.any_size,
        times_module,
    )


def _rounded(drawn: re.Match[str]) -> str:
    """A deviation that is a power of two, and a mean in halves of the deviation."""
    mean, deviation = float(drawn[2]), float(drawn[3])
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation > 0):
        return drawn[0]
    deviation = 2.0 ** round(math.log2(deviation))
    return f"{drawn[1]}, {round(2 * mean / deviation) * deviation / 2}, {deviation}"


def _variants(options: Options, times_module: bool) -> int:
    return next(
        (count for seconds, count in VARIANTS if times_module and options.budget_s < seconds),
        VARIANTS_MAX,
    )


def _by_the_option(told: str, options: Options) -> str:
    """A run's words about its budget, which is a part of the user's, with the option that
    the user gave."""
    told = re.sub(
        r"(?:weft: )?the budget of \S+ s was over before (problem\.py)?",
        lambda found: (
            f"its budget_s of {options.budget_s:g} was over before "
            + ("the model" if found[1] else "")
        ),
        told,
    )
    return re.sub(r"give (it|the run) more with --budget-s", "give it more", told)


def _words(options: Options, any_size: Any, budget_s: float, times_module: bool) -> Any:
    """The run's flags, by what the user's budget allows."""

    def share(part: Any, limits: Any) -> str:
        return str(int(min(max(options.budget_s * 1000 * part, limits[0]), limits[1])))

    variants = options.variants or _variants(options, times_module)
    words = [
        "--target",
        options.target,
        "--variants",
        str(int(variants)),
        "--budget-s",
        f"{budget_s:.1f}",
        "--timing-ms",
        share(TIMING_SHARE if times_module else BRIEF_SHARE, TIMING_MS),
        "--final-timing-ms",
        share(FINAL_SHARE, FINAL_MS) if times_module else "0",
    ]
    words += ["--seeds", ",".join(_seeds(options, any_size))]
    for place in filter(None, any_size.split(",")):
        words += ["--dynamic-dim", place]
    # Whoever has Inductor already wants what is faster than that.
    if options.fallback != "inductor":
        words.append("--no-compile-baseline")
    return words


def _seeds(options: Options, any_size: str = "") -> Any:
    """The sources that a run is told."""
    if options.seeds != "auto":
        return options.seeds.split(",")
    if (
        not any_size
        and _has_inductor(options.target)
        and options.budget_s * _cores() >= INDUCTOR_CORE_S_MIN
    ):
        return ["library", "compiler", "inductor"]
    return ["library", "compiler"]


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _has_inductor(target: Any) -> bool:
    """Whether PyTorch's compiler has what it needs here: Triton for a GPU, a
    C++ compiler else. Where kernels are interpreted, none is timed."""
    import torch

    if target != "cpu" and torch.cuda.is_available():
        return importlib.util.find_spec("triton") is not None
    return target in ("auto", "cpu") and shutil.which(os.environ.get("CXX") or "g++") is not None


def _why_none(result: Any) -> Any:
    """ "" where there are kernels; else why not, by the word on one subgraph."""
    why = result["why_no_kernel"]
    reasons = [one["reason"] for one in result["subgraphs"] if one.get("reason")]
    return f"{why}: {reasons[0]}" if why and reasons else why


def _too_slow(result: Any, options: Options) -> str:
    """ "" unless the fallback is as fast as what was composed."""
    if options.fallback != "inductor" or not result.get("timed"):
        return ""
    over = (result.get("timing") or {}).get("over_compile")
    factor = over.get("ratio") if isinstance(over, dict) else over
    if not factor or factor > 1:
        return ""
    return f"no faster than Inductor ({factor:.2f})"


def _result(run: Any) -> Any:
    try:
        with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError):
        return None
    return result if isinstance(result.get("subgraphs"), list) else None


def processor() -> Any:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line for line in file if line.startswith("model name")), "").strip()
    except OSError:
        return ""


def devices(source: Any) -> list[Any]:
    """The GPUs' names, where there are any: kernels were chosen for them."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
