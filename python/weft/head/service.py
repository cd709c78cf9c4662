"""`weft head`: searches kernels for programs of other machines, on nodes.

    programs ──► weft head-link ──► this process ──► weft run --fleet, one a graph
                                                          ▲
    nodes    ──► weft fleet ──────────────────────────────┘

* The process of `weft fleet` deals nodes to runs, as in a bench. All searches are for the
  device class of the nodes; programs on another class are refused.
* A graph is searched once, whoever asks. Results are kept in a folder in the form of the
  backend's cache, and are answered at once. The kernel library is in that folder, too.
* Programs are not trusted. Messages have size limits (head_messages.py). Graphs run in the
  sandbox (--untrusted-problem). No program sets a flag of a run. Each key has a limit of
  searches that wait or run.
* A program asks every two seconds. A waiting search is dropped when no program asks for
  it. A running search goes on to its end, and its result is kept.
* If this process dies, its runs end. The next one is asked again by the programs.

One thread: all happens in the loop, which waits for messages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.backend.searches import module_store
from weft.backend.searches.head_link import Link
from weft.backend.searches.head_messages import (
    FILES_BYTES_MAX,
    TOLD_CHARS_MAX,
    Ask,
    Malformed,
    Request,
    read_ask,
)
from weft.bench.bench_settings import FleetSettings
from weft.bench.child import Child
from weft.bench.fleet import Fleet, FleetEnded
from weft.device import locked_folders
from weft.shown_text import terminal_line, terminal_paragraph

#: Searches of all users that wait or run.
JOBS_MAX = 1_000
#: A search that waits and is not asked for in this time is dropped.
ASKED_S = 30.0
#: Seconds beyond its budget, after which a run is stopped.
LATE_S = 60.0
#: A failed search is made anew after this time.
FAILED_S = 600.0
FAILURES_MAX = 1_000
WAIT_S = 0.1
METRICS_S = 5.0


@dataclass(frozen=True)
class Settings:
    """As tools/weft/head_command.cpp writes them."""

    weft: str
    python: str
    users: str  #: where programs connect to
    user_keys: str
    nodes: str  #: where nodes join
    node_keys: str
    classes: str
    node_seconds: float
    target: str
    folder: str
    jobs_max: int  #: 0: as many as nodes judge
    per_user: int
    budget_s_max: float
    quiet: bool


@dataclass
class Job:
    """A search that waits or runs."""

    digest: str
    request: Request
    user: str  #: whose quota it counts for: who asked first
    budget_s: float
    asked_at: float
    child: Child | None = None
    folder: str = ""
    lock: int = -1
    begun_at: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A run without a result."""

    code: int
    told: str
    budget_s: float
    at: float


@dataclass
class Counts:
    """Since the start."""

    asked: int = 0
    known: int = 0
    searched: int = 0
    failed: int = 0
    refused: int = 0
    malformed: int = 0


class Service:
    def __init__(self, settings: Settings, link: Link, fleet: Fleet) -> None:
        self._settings = settings
        self._link = link
        self._fleet = fleet
        self._jobs: dict[str, Job] = {}  # by digest; those that wait in their order
        self._failures: dict[str, Failure] = {}
        self._written_at = 0.0
        self.counts = Counts()
        self.is_stopping = False
        self._runs = os.path.join(settings.folder, "runs")
        os.makedirs(self._runs, mode=0o700, exist_ok=True)
        for name in os.listdir(self._runs):  # of a head that was killed
            locked_folders.sweep(os.path.join(self._runs, name))

    def run(self) -> None:
        """Runs until a signal stops it. FleetEnded."""
        try:
            while not self.is_stopping:
                self._fleet.poll()
                self._hear()
                self._end_some()
                self._begin_some()
                self._write_metrics()
        finally:
            self._stop_all()

    def _hear(self) -> None:
        for line in self._link.lines(WAIT_S):
            if "listens" in line:
                self.log(f"listening for programs on {line['listens']}")
            elif "stranger" in line:
                self.log("a program's key is not allowed")
            elif "error" in line:
                raise FleetEnded(str(line["error"]), 2)
            elif "from" in line:
                answer = self.answer(str(line["text"]), str(line["user"]), time.monotonic())
                self._link.say({"to": line["from"], "text": json.dumps(answer)})
        if self._link.exit_code() is not None:
            raise FleetEnded(f"weft head-link ended with exit code {self._link.exit_code()}")

    def answer(self, text: str, user: str, now: float) -> dict[str, object]:
        """The answer to one message."""
        self.counts.asked += 1
        try:
            ask = read_ask(text)
        except Malformed as error:
            self.counts.malformed += 1
            self.log(f"a message of {user or 'a program'} is refused: {error}")
            return {"digest": _digest_in(text), "state": "refused", "why": str(error)}
        if (chosen := self._fleet.timing_class) and chosen.name not in ask.classes:
            self.counts.refused += 1
            return _refused(
                ask,
                f"it searches for {chosen.name}, and this machine is "
                + (" or ".join(ask.classes) or "of no class"),
            )
        found = self._known(ask, now) if chosen else None
        if found:
            self.counts.known += 1
            return found
        job = self._jobs.get(ask.digest)
        if job:
            job.asked_at = now
            return {"digest": ask.digest, "state": "waits", "why": self._told(job)}
        if ask.request is None:
            return {"digest": ask.digest, "state": "send"}
        if why := self._why_not(ask.request, user):
            self.counts.refused += 1
            return _refused(ask, why)
        budget_s = min(ask.budget_s, self._settings.budget_s_max)
        job = Job(ask.digest, ask.request, user, budget_s, now)
        self._jobs[ask.digest] = job
        return {"digest": ask.digest, "state": "waits", "why": self._told(job)}

    def _why_not(self, request: Request, user: str) -> str:
        """Why that is not searched; "": it is."""
        if "llm" in request.seeds:
            return "it asks no language models: leave llm out of seeds"
        most = self._settings.per_user
        if sum(job.user == user for job in self._jobs.values()) >= most:
            return f"{most} searches of this key wait or run already"
        if len(self._jobs) >= JOBS_MAX:
            return f"{JOBS_MAX} searches wait or run already"
        return ""

    def _known(self, ask: Ask, now: float) -> dict[str, object] | None:
        """The answer, if there is one that no larger budget could better."""
        failure = self._failures.get(ask.digest)
        if failure and now - failure.at < FAILED_S and ask.budget_s <= failure.budget_s:
            return _done(ask.digest, failure.code, failure.told, {})
        try:
            found = module_store.find(self._key(ask.digest))
            if found is None:
                return None
            path, about = found
            files = module_store.texts_of(path)
        except (OSError, ValueError) as error:  # no file descriptor is free, say
            self.log(f"a result could not be read: {error}")
            return None
        if about.get("cut_short") and about.get("budget_s", 0) < min(
            ask.budget_s, self._settings.budget_s_max
        ):
            return None
        if sum(map(len, files.values())) > FILES_BYTES_MAX:  # then without built kernels
            files = {name: text for name, text in files.items() if "/" not in name}
        return _done(ask.digest, int(about.get("code", 0)), str(about.get("told", "")), files)

    def _told(self, job: Job) -> str:
        if job.child:
            return "it is searched"
        if not self._fleet.judges:
            return "no node that checks and times has joined"
        place = [one for one in self._jobs.values() if not one.child].index(job)
        return f"{place} searches are before it"

    def _begin_some(self) -> None:
        now = time.monotonic()
        for job in [one for one in self._jobs.values() if not one.child]:
            if now - job.asked_at > ASKED_S:
                del self._jobs[job.digest]
        waiting = [one for one in self._jobs.values() if not one.child]
        free = self._most() - (len(self._jobs) - len(waiting))
        self._fleet.reserve(max(0, min(len(waiting), free)))
        for job in waiting[: max(0, free)]:
            try:
                self._begin(job)
            except OSError as error:  # the disk is full, say
                self._drop(job)
                self._fail(job, 3, f"the head could not begin the search: {error}")

    def _most(self) -> int:
        judges = self._fleet.judges if self._fleet.timing_class else 0
        return min(judges, self._settings.jobs_max or judges)

    def _begin(self, job: Job) -> None:
        job.folder, job.lock = locked_folders.make(self._runs, "run-")
        problem = os.path.join(job.folder, "problem.py")
        with open(problem, "w", encoding="utf-8", errors="replace") as file:
            file.write(job.request.problem)
        job.begun_at = time.monotonic()
        job.child = Child(
            self._words(job, problem),
            os.path.join(job.folder, "out"),
            os.path.join(job.folder, "err"),
            (),
            _environment(),
        )
        self.counts.searched += 1
        self.log(f"search {job.digest[:12]} begins, for at most {job.budget_s:.0f} s")

    def _words(self, job: Job, problem: str) -> list[str]:
        settings, request, chosen = self._settings, job.request, self._fleet.timing_class
        assert chosen is not None
        words = [settings.weft, "run", problem, "--out", os.path.join(job.folder, "run")]
        words += ["--json", "--fast-sync", "--untrusted-problem", "--python", settings.python]
        words += ["--listen", self._fleet.begin(job.digest), "--fleet"]
        words += ["--node-seconds", str(settings.node_seconds)]
        words += ["--classes", chosen.name, "--target", chosen.target]
        words += ["--library", os.path.join(settings.folder, "library.db")]
        words += ["--budget-s", f"{job.budget_s:.1f}", "--seeds", ",".join(request.seeds)]
        words += ["--variants", str(request.variants)]
        if not request.times_module:
            words += ["--final-timing-ms", "0"]
        if request.fallback != "inductor":
            words.append("--no-compile-baseline")
        for place in filter(None, request.any_size.split(",")):
            words += ["--dynamic-dim", place]
        return words

    def _end_some(self) -> None:
        now = time.monotonic()
        for job in [one for one in self._jobs.values() if one.child]:
            assert job.child is not None
            code = job.child.exit_code()
            if code is not None:
                self._end(job, code)
            elif now - job.begun_at > job.budget_s + LATE_S or self._fleet.why_unreachable(
                job.digest
            ):
                job.child.tell_to_stop()

    def _end(self, job: Job, code: int) -> None:
        assert job.child is not None
        told = ""
        try:
            ending = job.child.ending()
            told = terminal_line(ending[1] if ending else job.child.last_words())[:TOLD_CHARS_MAX]
            is_kept = code in (0, 1) and self._keep(job, code, told)
        except (OSError, ValueError, LookupError, TypeError) as error:
            is_kept, told = False, f"its result could not be kept: {error}"
        self._drop(job)
        how = "" if is_kept else f", without a result: {told}"
        self.log(f"search {job.digest[:12]} ended with exit code {code}{how}")
        if is_kept:
            self._failures.pop(job.digest, None)
        else:
            self._fail(job, code, told)

    def _drop(self, job: Job) -> None:
        del self._jobs[job.digest]
        self._fleet.end(job.digest)
        if job.folder:
            locked_folders.remove(job.folder, job.lock)

    def _fail(self, job: Job, code: int, told: str) -> None:
        """Answers so for a time."""
        self.counts.failed += 1
        if len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        exit_code = code if 0 < code < 256 else 1
        told = told or f"weft run ended with the code {code}"
        now = time.monotonic()
        self._failures[job.digest] = Failure(exit_code, told, job.budget_s, now)

    def _keep(self, job: Job, code: int, told: str) -> bool:
        """False: there is no result."""
        run = os.path.join(job.folder, "run")
        try:
            with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
                result = json.load(file)
        except FileNotFoundError:
            return False
        is_cut_short = module_store.is_cut_short(result)
        if code and not is_cut_short:  # A later run may come to a module that is right.
            return False
        shutil.copyfile(os.path.join(job.folder, "problem.py"), os.path.join(run, "problem.py"))
        module_store.keep(
            self._key(job.digest),
            run,
            {
                "code": code,
                "told": told,
                "cut_short": is_cut_short,
                "budget_s": job.budget_s,
                "stored": time.time(),
            },
        )
        return True

    def _key(self, digest: str) -> str:
        """In the store: a result is of one device class."""
        chosen = self._fleet.timing_class
        assert chosen is not None
        text = json.dumps([digest, chosen.name, chosen.target])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _stop_all(self) -> None:
        """Runs end at once: what they have is not a result."""
        for job in self._jobs.values():
            if job.child:
                job.child.kill()
                locked_folders.remove(job.folder, job.lock)
        self._jobs.clear()

    def _write_metrics(self) -> None:
        now = time.monotonic()
        if now - self._written_at < METRICS_S:
            return
        self._written_at = now
        path = os.path.join(self._settings.folder, "metrics.prom")
        with contextlib.suppress(OSError):  # a full disk stops no search
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(self.metrics())
            os.replace(path + ".new", path)

    def metrics(self) -> str:
        """In Prometheus's text form."""
        running = sum(job.child is not None for job in self._jobs.values())
        gauges = {
            "nodes": len(self._fleet.nodes),
            "nodes_that_judge": self._fleet.judges,
            "searches_running": running,
            "searches_waiting": len(self._jobs) - running,
        }
        lines = []
        for name, value in gauges.items():
            lines += [f"# TYPE weft_head_{name} gauge", f"weft_head_{name} {value}"]
        for name, value in vars(self.counts).items():
            name = f"weft_head_{name}_total"
            lines += [f"# TYPE {name} counter", f"{name} {value}"]
        return "\n".join([*lines, ""])

    def log(self, text: str) -> None:
        if not self._settings.quiet:
            print(f"weft: {terminal_line(text)}", file=sys.stderr, flush=True)


def _digest_in(text: str) -> str:
    """The digest of a message that is refused, as far as there is one."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    digest = told.get("ask") if isinstance(told, dict) else ""
    return digest[:64] if isinstance(digest, str) else ""


def _refused(ask: Ask, why: str) -> dict[str, object]:
    return {"digest": ask.digest, "state": "refused", "why": why[:TOLD_CHARS_MAX]}


def _done(digest: str, code: int, told: str, files: dict[str, str]) -> dict[str, object]:
    return {"digest": digest, "state": "done", "code": code, "told": told, "files": files}


def _environment() -> Mapping[str, str]:
    """A run's settings are the head's, not those of a program that computes with weft."""
    return {**os.environ, "WEFT_DISABLE": "1"}


def main(text: str) -> int:
    """`text`: the settings as JSON, from the command. The exit code."""
    told: dict[str, Any] = json.loads(text)
    folder = told.pop("folder") or os.path.join(module_store.user_cache(), "head")
    settings = Settings(**told, folder=folder)
    if settings.user_keys and os.path.realpath(settings.user_keys) == os.path.realpath(
        settings.node_keys or os.devnull
    ):
        return _fail(
            2, "--keys and --node-keys are one folder: each program could join as a node. Make two"
        )
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.environ["WEFT_CACHE_DIR"] = folder  # module_store's place
        link = Link(_link_words(settings))
    except OSError as error:
        return _fail(3, f"{error}: name another --folder")
    how = FleetSettings(
        settings.nodes,
        settings.node_keys,
        settings.classes,
        settings.node_seconds,
        settings.target,
        settings.jobs_max,
        "",
        [],
    )
    fleet = None
    try:
        fleet = Fleet(settings.weft, how, settings.quiet)
        service = Service(settings, link, fleet)

        def stop(*_: object) -> None:
            service.is_stopping = True

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        service.run()
        return 0
    except FleetEnded as error:
        return _fail(error.exit_code, str(error))
    except OSError as error:
        return _fail(3, f"the head cannot go on: {error}")
    finally:
        link.close()
        if fleet:
            fleet.close()


def _link_words(settings: Settings) -> list[str]:
    words = [settings.weft, "head-link", "--listen", settings.users]
    return words + (["--keys", settings.user_keys] if settings.user_keys else [])


def _fail(code: int, message: str) -> int:
    print(f"weft: {terminal_paragraph(message)}", file=sys.stderr)
    return code
