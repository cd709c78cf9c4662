"""The full verdict on kernels of the store, in the background.

A module of an earlier process computes calls after a quick check (compiled_graph.py).
Meanwhile `weft eval` judges the module as the search did: in the sandbox, against float64,
on many kinds of data, with a secret random seed. The store keeps which modules were
correct, and with which software, so that this is not repeated at every start. A wrong
module is withdrawn: no later call uses its kernels.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import json
import os
import platform
import queue
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from weft.backend.implementations import composed_module
from weft.backend.options import is_disabled, log
from weft.backend.searches import module_store, search, weft_process, work_folders
from weft.expect.perturbed_runs import NEAR
from weft.shown_text import terminal_line

#: Verdicts that say that kernels are not right. After any other nothing is
#: known of them: the machine was too busy, or too small.
REFUSED = ("wrong", "crashed", "cheated")
#: A verdict that did not come to an end is asked for by so many processes.
TRIES_MAX = 3
#: Kernels for any sizes are judged at these besides, by the number of symbols, and
#: at larger ones, as the search judges them (docs/how-to/dynamic-shapes.md).
SIZES = {
    1: ("1", "13", "({0} // 12 + 1) * 24"),
    2: ("1, 1", "1, 17", "13, 1", "13, 8", "({0} // 12 + 1) * 24, ({1} // 12 + 2) * 24"),
}

WAITS = "its full verdict is under way"
RIGHT = "right by a full verdict"
RIGHT_BEFORE = "right by a full verdict in an earlier process"


class _NotJudged(Exception):
    """Why nothing is known."""


class Rechecks:
    """One thread that has one module after the other judged, while no search is
    under way."""

    def __init__(self) -> None:
        self.queue: queue.Queue[_Task] = queue.Queue()
        self._told: dict[Any, Any] = {}  # (path, digest) of a module → what explain() says
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()  # whose program runs
        self._is_wanted = threading.Event()  # by a search
        self._ends = threading.Event()

    def begin(self, kernels: Any, composed: Any, options: Any) -> None:
        """Has these Kernels (compiled_graph.py), whose module is `composed`, judged if
        this process did not yet. Blocks nobody."""
        with self._lock:
            if composed.identity in self._told:
                return
            self._told[composed.identity] = WAITS
            self.queue.put(_Task(kernels, composed, options))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="weft-recheck", daemon=True)
                self._thread.start()

    def told(self, composed: Any) -> Any:
        """Of a ComposedModule, for people; "" of one that this process had
        searched for."""
        return self._told.get(getattr(composed, "identity", None), "")

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Around a search: who waits for kernels does not wait for a verdict.
        One that is under way is stopped, and begun anew after it."""
        self._is_wanted.set()
        with self._turn:
            self._is_wanted.clear()
            yield

    def end(self) -> None:
        """At the end of the process; what is not judged then, the next does."""
        self._ends.set()

    def run(self, words: Any, limit_s: Any, answer: Any, removed: Any) -> Any:
        """(exit code, end of standard error, seconds) as program.run() has
        them; the code is None too if the process ends."""
        while True:
            while self._is_wanted.is_set() and not self._ends.wait(0.1):
                pass
            answer.seek(0)
            answer.truncate()
            with self._turn:
                if self._ends.is_set():
                    return None, "", 0
                begin = time.monotonic()
                code, said = weft_process.run(words, limit_s, self, answer, removed)
                seconds = time.monotonic() - begin
                gave_way = code is None and self._is_wanted.is_set()
            if not gave_way or self._ends.is_set():
                return code, said, seconds

    def is_set(self) -> Any:
        """Whether the program is to stop, as program.run() asks."""
        return self._ends.is_set() or self._is_wanted.is_set()

    def is_ending(self) -> Any:
        return self._ends.is_set()

    def _work(self) -> None:
        while not self._ends.is_set():
            task = self.queue.get()
            try:
                told = task.judge(self)
            except Exception as error:
                log.info("no full verdict: %s", error)
                told = f"there is no full verdict: {error}"
            with self._lock:
                self._told[task.identity] = told
                if not told:
                    del self._told[task.identity]
            del task
            self.queue.task_done()


@dataclasses.dataclass
class _Found:
    """What one verdict found; `kind` and `reason` are empty of right kernels."""

    seconds: float
    kind: str = ""
    reason: str = ""
    beyond: float = 0.0  #: of refused numbers, how many times their bound

    @property
    def needs_another(self) -> Any:
        """Whether it counts only where a second one, by another seed, says so
        too: the machine may have lacked room, and near a bound a draw decides."""
        return self.kind == "crashed" or (self.kind == "wrong" and 0 < self.beyond < NEAR)

    def confirms(self, before: Any) -> Any:
        return self.kind == before.kind or (self.kind != "" and not self.needs_another)


class _Task:
    """One module of the store that this process has loaded."""

    def __init__(self, kernels: Any, composed: Any, options: Any) -> None:
        self.source = kernels.source
        self.options = options
        self.identity = composed.identity
        self.path, self.digest = composed.identity
        self.text = composed.text
        self._kernels = weakref.ref(kernels)

    def judge(self, turns: Any) -> Any:
        """Has it judged, and does what follows from that; what is to be said of
        it. Raises where nothing is known."""
        if is_disabled():
            return ""
        with module_store.claimed(self.path, turns.is_ending):
            facts = facts_of(self.source)
            known = module_store.verdict_of(self.path, self.digest, facts)
            if known.get("accepted"):
                return RIGHT_BEFORE
            tries = known.get("tries", 0)
            if tries >= TRIES_MAX:
                raise _NotJudged(f"{known.get('reason')} ({tries} times)")
            try:
                reason = self._judged(turns)
            except Exception as error:
                if not turns.is_ending():
                    module_store.remember_verdict(
                        self.path,
                        self.digest,
                        facts,
                        accepted=False,
                        tries=tries + 1,
                        reason=str(error),
                    )
                raise
            if reason:
                return self._withdraw(reason)
            module_store.remember_verdict(self.path, self.digest, facts, accepted=True)
            return RIGHT

    def _withdraw(self, reason: str) -> Any:
        told = f"kernels that an earlier process found were withdrawn by a full verdict: {reason}"
        composed_module.revoke(self.digest, told)
        kernels = self._kernels()
        if kernels is not None:
            kernels.settle("pytorch", told)
        module_store.remove_module(self.path, self.digest)
        log.warning("%s; calls until now may have taken them", told)
        return told

    def _judged(self, turns: Any) -> Any:
        """ "" of right kernels, else why not; _NotJudged."""
        with work_folders.made("verdict-") as folder:
            candidate = os.path.join(folder, "model_new.py")
            _write(candidate, constructed_as(self.text, self.source.text))
            left_s = self.options.budget_s
            for number, text in enumerate(_problems(self.source)):
                problem = os.path.join(folder, f"problem_{number}.py")
                _write(problem, text)
                found = self._verdict(turns, problem, candidate, left_s)
                left_s = max(0, left_s - found.seconds)
                if found.needs_another:
                    again = self._verdict(turns, problem, candidate, left_s)
                    left_s = max(0, left_s - again.seconds)
                    if not again.confirms(found):
                        raise _NotJudged(f"{found.reason}; not so a second time")
                if found.kind:
                    return found.reason
        return ""

    def _verdict(self, turns: Any, problem: Any, candidate: Any, limit_s: float) -> _Found:
        """The _Found of one draw; _NotJudged."""
        words = [
            "eval",
            problem,
            candidate,
            "--target",
            self.options.target,
            "--json",
            "--no-timing",
        ]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as answer:
            code, said, seconds = turns.run(words, limit_s, answer, os.path.dirname(candidate))
            answer.seek(0)
            lines = answer.read().splitlines()
        log.info("full verdict of %.1f s ended with %s %s", seconds, code, said)
        if code is None:
            raise _NotJudged(
                f"it was stopped when its time was over: its budget_s was {self.options.budget_s:g}"
            )
        try:
            found = json.loads(lines[-1])
            verdict = found["verdict"]
            kind, reason = (terminal_line(str(verdict[name])) for name in ("kind", "reason"))
            beyond = float(verdict.get("beyond", 0))
        except (ValueError, LookupError, TypeError):
            raise _NotJudged(said or f"weft eval ended with the code {code}") from None
        if found.get("accepted") is True:
            return _Found(seconds)
        if kind not in REFUSED:
            raise _NotJudged(f"{kind}: {reason}")
        return _Found(seconds, kind, f"{kind}: {reason}", beyond)


def constructed_as(text: str, problem: Any) -> Any:
    """A composed module's text with the constructor that the problem's model
    has: both draw weights that look like those of the program that they were
    written by, and this one's may be others (trained further, say). Calls run
    no constructor (composed_module.py)."""
    ours, theirs = (
        _constructor(one, name) for one, name in ((text, "ModelNew"), (problem, "Model"))
    )
    if ours is None or theirs is None:
        return text
    lines, other = text.splitlines(), problem.splitlines()
    return "\n".join(
        [
            *lines[: ours.lineno - 1],
            *other[theirs.lineno - 1 : theirs.end_lineno],
            *lines[ours.end_lineno :],
            "",
        ]
    )


def _constructor(text: str, name: str) -> Any:
    for one in ast.parse(text).body:
        if isinstance(one, ast.ClassDef) and one.name == name:
            for member in one.body:
                if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                    return member
    return None


def _problems(source: Any) -> Iterator[Any]:
    """The texts that a module is judged by: of one for any sizes, several."""
    yield source.text
    if source.any_size:
        for one in SIZES[len(source.sizes)]:
            sizes = one.format(*source.sizes)
            yield (f"{source.text}\n\ndef get_inputs():\n    return get_inputs_at({sizes})\n")


def facts_of(source: Any) -> dict[Any, Any]:
    """What a verdict depends on besides the module's own text."""
    from weft import __version__

    return {
        "weft": [__version__, *_file_facts(weft_process.find())],
        "python": sys.version,
        "torch": torch.__version__,
        "triton": _triton_version(),
        "machine": platform.machine(),
        "processor": search.processor(),
        "devices": search.devices(source),
        "driver": _driver(),
        "compiler": _file_facts(shutil.which(os.environ.get("CXX") or "g++") or ""),
    }


def _file_facts(path: str) -> list[Any]:
    """[path, bytes, time of change] of a program, [] of none."""
    try:
        about = os.stat(path)
    except OSError:
        return []
    return [os.path.realpath(path), about.st_size, about.st_mtime_ns]


def _triton_version() -> Any:
    import importlib.metadata

    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _driver() -> Any:
    """Of NVIDIA's GPUs: it compiles what kernels are delivered as."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


rechecks = Rechecks()
# A child has none of its parent's threads, whose locks stay as they were.
os.register_at_fork(after_in_child=functools.partial(Rechecks.__init__, rechecks))
