"""The bench itself: which runs begin, which have to end, until all are done or
the time is up. One thread: everything that happens, happens in the loop."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping

from weft.bench import problems, records, results
from weft.bench.bench_row import Row
from weft.bench.bench_settings import BenchSettings, FleetSettings
from weft.bench.child import Child
from weft.bench.fleet import Fleet, FleetEnded, run_words, settle
from weft.bench.progress import Progress
from weft.bench.records import DIED, FINISHED, MISSING, NO_NETWORK, REFUSED, STOPPED, TIMED_OUT
from weft.problem import network
from weft.shown_text import terminal_paragraph

_TICK_S = 0.05
#: Version of bench.json and of the results next to it.
_FORMAT = 2
#: Results are written while the bench goes on, but not all the time.
_WRITE_EVERY_S = 5.0
_DEATHS_MAX = 2
#: Of a problem's time, the run's budget: the last check may take longer.
_SHARE_OF_TIME = 0.9
#: Python's words where an import finds nothing.
_NO_PACKAGE = "ModuleNotFoundError: No module named"


class Refused(Exception):
    """Wrong usage, with what to do."""


class Bench:
    def __init__(self, settings: BenchSettings, fleet: Fleet | None = None) -> None:
        """`fleet`: the nodes that do the work of all runs; none: this machine."""
        self._settings = settings
        self._fleet = fleet
        self._begin = time.monotonic()
        folders = settings.folder, settings.beside
        found = problems.find_beside(*folders)
        self.chosen = problems.find_beside(*folders, settings.levels, settings.only)
        if link := records.first_link(settings.out):
            raise Refused(f"{link} is not a plain file or folder: remove it, or name another --out")
        self._records = records.Records(settings.out)
        self._lock = _lock(settings.out)
        self._sessions = _open_sessions(settings)
        self._settle()
        chosen = set(self.chosen)
        #: What the results tell of: also what earlier calls chose.
        self._told = [p for p in found if p in chosen or self._of(p).digest]
        self._waiting = deque(alternate(p for p in self.chosen if self._is_due(p)))
        self._running: dict[problems.Problem, tuple[Child, int]] = {}  # and its slot
        self._late: set[problems.Problem] = set()
        self._resumed: set[problems.Problem] = set()
        self._unreachable: dict[problems.Problem, str] = {}  # why no node gets there
        self._deaths: dict[problems.Problem, int] = {}
        #: Seconds in which no node served a problem's run; counted at _noted_at.
        self._waited: dict[problems.Problem, float] = {}
        self._noted_at = time.time()
        self._written_at = 0.0
        self._stopping = ""
        self.progress = Progress(settings, len(self.chosen), len(self._waiting))

    def run(self) -> int:
        """The exit code."""
        for problem in self.chosen:
            if problem not in self._waiting:
                self.progress.add(self._row(problem))
        self.progress.begin(self._how_many())
        try:
            while self._waiting or self._running:
                self._check_limit()
                if self._fleet:
                    self._fleet.poll()
                self._start_some()
                self._look_at_all()
                if self._stopping and not self._running:
                    break
                time.sleep(_TICK_S)
        except FleetEnded:
            # Runs stop in a way that they can go on.
            self._stopping = self._stopping or "no nodes"
            while self._running:
                self._look_at_all()
                time.sleep(_TICK_S)
            raise
        finally:
            self._write()
        return self._exit_code()

    def interrupt(self) -> None:
        """The first time, runs are told to stop, so that they can go on
        another time; the second time they are killed."""
        if self._stopping:
            for child, _ in self._running.values():
                child.kill()
        self._stopping = self._stopping or "interrupted"

    def _settle(self) -> None:
        """What the last bench left: tries that it could not end, problems
        that were changed since, and what is to be done again."""
        for problem in self.chosen:
            record = self._of(problem)
            changed = record.digest and record.digest != problem.digest()
            again = self._settings.rerun or (
                self._settings.rerun_failed and not self._row(problem).verified
            )
            is_over = self._is_due(problem) and self._is_spent(record)
            if changed or again or is_over:
                self._records.forget(problem)
                continue
            if record.tries and not record.tries[-1][1]:
                begin = record.tries[-1][0]
                record.tries[-1][1] = max(begin, self._records.last_sign(problem))
                self._records.save(problem, record)

    def _is_due(self, problem: problems.Problem) -> bool:
        record = self._of(problem)
        if record.alone == "due":
            return True
        if record.state == TIMED_OUT:
            return record.wall_s < self._settings.problem_s
        return record.state not in (FINISHED, REFUSED)

    def _check_limit(self) -> None:
        limit = self._settings.limit_s
        if limit and time.monotonic() - self._begin > limit:
            self._stopping = self._stopping or "limit"

    @property
    def _fleet_settings(self) -> FleetSettings:
        assert self._settings.fleet is not None, "a bench on nodes"
        return self._settings.fleet

    def _how_many(self) -> str:
        if self._fleet is None:
            return f"{self._settings.jobs} at a time"
        most = self._fleet_settings.jobs
        return "as many at a time as nodes check" + (f", at most {most}" if most else "")

    def _jobs(self) -> int:
        """How many runs there may be now. In a fleet, each has a node that checks
        and times, to itself."""
        if self._fleet is None:
            return self._settings.jobs
        return min(self._fleet_settings.jobs or self._fleet.judges, self._fleet.judges)

    def _reserve_nodes(self) -> None:
        """Nodes for problems that begin now help no other run before."""
        if self._fleet:
            due = 0 if self._stopping else len(self._waiting)
            self._fleet.reserve(max(0, min(due, self._jobs() - len(self._running))))

    def _start_some(self) -> None:
        self._reserve_nodes()
        while self._waiting and not self._stopping:
            slot = self._free_slot(self._waiting[0])
            if slot is None:
                break
            self._start(self._waiting.popleft(), slot)

    def _free_slot(self, due: problems.Problem) -> int | None:
        """A place for one more run, whose device nobody has to himself; for
        one that runs alone, a device that nobody has."""
        if len(self._running) >= self._jobs():
            return None  # fewer nodes than before can judge
        alone = self._of(due).alone and not self._fleet
        taken = {slot for _, slot in self._running.values()}
        shut = {
            self._of(problem).device
            for problem in self._running
            if alone or (self._of(problem).alone and not self._fleet)
        }
        free = [
            slot
            for slot in range(self._jobs())
            if slot not in taken and self._device(due, slot) not in shut
        ]
        return min(free, default=None)

    def _device(self, problem: problems.Problem, slot: int) -> int:
        """The slot's; of a run that goes on, the one where it began: its
        kernels' times are that device's, and another one is refused."""
        devices = self._settings.devices or [0]
        record = self._of(problem)
        goes_on = record.alone != "due" and self._records.can_resume(problem)
        if goes_on and record.device in devices:
            return record.device
        return devices[slot % len(devices)]

    def _start(self, problem: problems.Problem, slot: int) -> None:
        record = self._of(problem)
        record.device = self._device(problem, slot)
        if record.alone == "due":
            self._records.forget(problem)
            record.alone = "done"
        record.digest = problem.digest()
        record.state = STOPPED
        record.tries.append([time.time(), 0])
        self._records.save(problem, record)
        words = self._words(problem)
        if self._fleet:
            seconds = str(self._fleet_settings.node_seconds)
            words += ["--listen", self._fleet.begin(problem.key), "--node-seconds", seconds]
        self._waited.pop(problem, None)
        child = Child(
            words,
            self._records.log(problem, "out"),
            self._records.log(problem, "err"),
            () if self._fleet else cores_of(slot, self._settings.jobs),
            self._surroundings(record.device),
        )
        self._running[problem] = child, slot

    def _words(self, problem: problems.Problem) -> list[str]:
        folder = self._records.run_folder(problem)
        python = ["--json", "--python", self._settings.python]
        if self._records.can_resume(problem):
            self._resumed.add(problem)
            # As a run that begins: no answers of earlier runs.
            return [self._settings.weft, "resume", folder, "--no-llm-cache", *python]
        shutil.rmtree(folder, ignore_errors=True)  # of a run that can't go on
        return [
            self._settings.weft,
            "run",
            problem.path,
            "--out",
            folder,
            *python,
            *(run_words(self._settings) if self._fleet else self._settings.run_flags),
            *self._budget(),
        ]

    def _budget(self) -> list[str]:
        """So that a run ends with what it has, verified, before its time is up;
        unless the user has said another one."""
        if self._settings.has_budget:
            return []
        return ["--budget-s", str(max(1, round(self._budget_s())))]

    def _budget_s(self) -> float:
        return self._settings.problem_s * _SHARE_OF_TIME

    def _is_spent(self, record: records.Record) -> bool:
        """Whether the budget of a run that was stopped is over: time goes on
        while nobody works."""
        return (
            bool(record.tries)
            and bool(self._budget())
            and time.time() - record.tries[0][0] > self._budget_s()
        )

    def _surroundings(self, device: int) -> Mapping[str, str]:
        """Of several devices, a run sees one: the driver opens all it sees."""
        if len(self._settings.devices) < 2:
            return os.environ
        name = visible_device(os.environ.get("CUDA_VISIBLE_DEVICES"), device)
        return {**os.environ, "CUDA_VISIBLE_DEVICES": name}

    def _look_at_all(self) -> None:
        for problem, (child, _) in list(self._running.items()):
            code = child.exit_code()
            if code is not None:
                del self._running[problem]
                self._conclude(problem, child, code)
                if self._fleet:
                    self._reserve_nodes()
                    self._fleet.end(problem.key)
                self._unreachable.pop(problem, None)
            elif self._stopping or self._is_late(problem) or self._is_unreachable(problem):
                child.tell_to_stop()
        if self._running or self._waiting:
            self.progress.tick(len(self._running))
        if self._fleet:
            now, before = time.time(), self._noted_at
            self._noted_at = now
            for problem in self._running:
                nodes = self._fleet.serving(problem.key)
                if not nodes:  # that time is none of the problem's own
                    self._waited[problem] = self._waited.get(problem, 0.0) + now - before
                self.progress.place(problem.label, nodes)

    def _is_unreachable(self, problem: problems.Problem) -> bool:
        why = self._fleet.why_unreachable(problem.key) if self._fleet else ""
        if why and self._fleet and not self._fleet.serving(problem.key):
            self._unreachable[problem] = why
        return problem in self._unreachable

    def _is_late(self, problem: problems.Problem) -> bool:
        record = self._of(problem)
        spent = time.time() - record.tries[-1][0] - self._waited.get(problem, 0.0)
        if not record.alone:
            spent += record.wall_s
        if spent > self._settings.problem_s:
            self._late.add(problem)
        return problem in self._late

    def _conclude(self, problem: problems.Problem, child: Child, code: int) -> None:
        record = self._of(problem)
        record.tries[-1][1] = time.time()
        record.exit_code = code
        record.state, record.reason = self._outcome(problem, child, code)
        if record.state == REFUSED and problem in self._resumed:
            # Another weft began it, and this one cannot go on with its journal.
            self._resumed.remove(problem)
            self._records.forget(problem)
            self._waiting.appendleft(problem)
            return
        self._records.save(problem, record)
        if record.state == DIED and self._deaths[problem] < _DEATHS_MAX:
            self._waiting.appendleft(problem)
            return
        if record.state == STOPPED:
            return
        if (
            self._fleet is None
            and self._settings.jobs > 1
            and not record.alone
            and (results.lacked_memory(self._row(problem)))
        ):
            # Once more, after all the others, with the memory to itself. Until
            # it begins, what there is of it stands.
            record.alone = "due"
            self._records.save(problem, record)
            self._waiting.append(problem)
            return
        self.progress.add(self._row(problem))
        self.progress.tell(self._row(problem))
        if time.monotonic() - self._written_at > _WRITE_EVERY_S:
            self._write()

    def _outcome(self, problem: problems.Problem, child: Child, code: int) -> tuple[str, str]:
        """(state, reason)"""
        told = child.ending() if code in (0, 1, 2, 3) else None
        reason = told[1] if told else ""
        if code in (0, 1):
            return FINISHED, reason
        if code in (2, 3):
            reason = reason or child.last_words()
            return _refusal(code, reason), reason
        if code == records.SUSPENDED_CODE:
            return STOPPED, child.last_words()
        if problem in self._unreachable:
            return MISSING, (
                f"no node can be connected to its run: {self._unreachable.pop(problem)}; then the "
                "same command tries it again"
            )
        if problem in self._late:
            return TIMED_OUT, (f"not done after {self._settings.problem_s:g} s")
        if self._stopping:
            return STOPPED, ""
        self._deaths[problem] = self._deaths.get(problem, 0) + 1
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return DIED, f"weft ended {how}: {child.last_words() or 'it said nothing'}"

    def _write(self) -> None:
        self._written_at = time.monotonic()
        self._sessions[-1][1] = time.time()
        _save_sessions(self._settings, self._sessions)
        results.write(
            self._settings, [self._row(p) for p in self._told], self._records, self._sessions
        )

    def _of(self, problem: problems.Problem) -> records.Record:
        return self._records.load(problem)

    def _row(self, problem: problems.Problem) -> Row:
        return results.row(problem, self._of(problem), self._records.result(problem))

    def _exit_code(self) -> int:
        rows = [self._row(problem) for problem in self.chosen]
        codes = {self._of(problem).exit_code for problem in self.chosen}
        is_suspended = records.SUSPENDED_CODE in codes
        self.progress.end(rows, self._stopping or ("suspended" if is_suspended else ""))
        if self._stopping == "interrupted":
            return 130
        if is_suspended:
            return records.SUSPENDED_CODE
        if any(row.state in (MISSING, NO_NETWORK) for row in rows):
            return 3
        return 0 if all(row.verified for row in rows) else 1


def _refusal(code: int, reason: str) -> str:
    """The state of a run that ended with 2 or 3. Of a package that is not
    installed weft says wrong input, since a problem may import only what is
    there; in a folder of problems that others wrote, the machine lacks it."""
    if code == 2:
        return MISSING if _NO_PACKAGE in reason else REFUSED
    return NO_NETWORK if network.WANTED in reason else MISSING


def alternate(chosen: Iterable[problems.Problem]) -> list[problems.Problem]:
    """One of each level in turn. Neighbours in a level are alike: many that
    need much memory would run at the same time."""
    levels: dict[int, list[problems.Problem]] = {}
    for problem in chosen:
        levels.setdefault(problem.level, []).append(problem)
    turns = itertools.zip_longest(*levels.values())
    return [problem for turn in turns for problem in turn if problem]


def visible_device(visible: str | None, number: int) -> str:
    """What to call that one of the visible devices; `visible`: None for all."""
    return visible.split(",")[number].strip() if visible else str(number)


def cores_of(slot: int, slots: int) -> tuple[int, ...]:
    """A share of this process's cores for each run: then one's compilers do
    not disturb what another one times. None of its own where there are fewer
    cores than runs."""
    cores = sorted(os.sched_getaffinity(0))
    if slots == 1 or len(cores) < slots:
        return ()
    return tuple(cores[slot * len(cores) // slots : (slot + 1) * len(cores) // slots])


def _lock(out: str) -> int:
    """Held until this process ends."""
    descriptor = os.open(os.path.join(out, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(
            f"another bench is at work in {out}: wait for it, or choose another --out"
        ) from None
    return descriptor


def _open_sessions(settings: BenchSettings) -> list[list[float]]:
    """[begin, end] of each call on this folder. Refused, when the results
    that lie there were had under other conditions."""
    told = records.read_json(os.path.join(settings.out, "bench.json"))
    if told and not settings.rerun:
        if told.get("format") != _FORMAT:
            raise Refused(
                f"{settings.out} holds a bench of another weft: choose "
                "another --out, or begin again with --rerun"
            )
        told.setdefault("class", "")
        for name, value in settings.conditions.items():
            if told.get(name) != value:
                raise Refused(
                    f"{settings.out} holds a bench with other {name} "
                    f"({told.get(name)!r}, not {value!r}): choose "
                    "another --out, or begin again with --rerun"
                )
    before = told.get("sessions") if told else None
    sessions = before if records.are_pairs(before) else []
    sessions.append([time.time(), time.time()])
    _save_sessions(settings, sessions)
    return sessions


def _save_sessions(settings: BenchSettings, sessions: list[list[float]]) -> None:
    conditions = settings.conditions
    flags = conditions.pop("run_flags")
    told = {
        "format": _FORMAT,
        "version": settings.version,
        **conditions,
        "timed": settings.timed,
        "run_flags": flags,
        "sessions": sessions,
    }
    records.write_atomically(
        os.path.join(settings.out, "bench.json"), json.dumps(told, indent=1) + "\n"
    )


class _Interrupts:
    """Ctrl-C and SIGTERM, for the bench as soon as there is one."""

    def __init__(self) -> None:
        self.asked = False
        self._bench: Bench | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._take)

    def hand_to(self, bench: Bench) -> None:
        self._bench = bench
        if self.asked:
            bench.interrupt()

    def _take(self, *_: object) -> None:
        self.asked = True
        if self._bench:
            self._bench.interrupt()


def main(text: str) -> int:
    """`text`: the settings as JSON, from the command. The exit code."""
    settings = BenchSettings.from_json(text)
    interrupts = _Interrupts()
    if not settings.fleet:
        return _run(settings, interrupts, None)
    try:
        # Before nodes are waited for.
        problems.find_beside(settings.folder, settings.beside, settings.levels, settings.only)
        fleet = Fleet(settings.weft, settings.fleet, settings.quiet or settings.json)
    except problems.NoProblems as error:
        return _fail(settings, 2, str(error))
    except OSError as error:
        return _fail(settings, 3, f"the nodes' process cannot be started: {error}; set TMPDIR")
    try:
        chosen = fleet.wait_for_class(lambda: interrupts.asked)
        if not chosen:
            return 130
        return _run(settle(settings, chosen), interrupts, fleet)
    except FleetEnded as error:
        if not fleet.has_listened:
            return _fail(settings, error.exit_code, str(error))
        return _fail(settings, 3, f"the bench cannot go on: {error}; the same command resumes it")
    finally:
        fleet.close()


def _run(settings: BenchSettings, interrupts: _Interrupts, fleet: Fleet | None) -> int:
    try:
        bench = Bench(settings, fleet)
    except (Refused, problems.NoProblems) as error:
        return _fail(settings, 2, str(error))
    except OSError as error:
        return _fail(settings, 3, f"cannot write the bench's results: {error}")
    interrupts.hand_to(bench)
    try:
        return bench.run()
    except OSError as error:
        return _fail(settings, 3, f"the bench cannot go on: {error}; the same command resumes it")


def _fail(settings: BenchSettings, code: int, message: str) -> int:
    if settings.json:
        print(json.dumps({"error": message, "exit_code": code}))
    print(f"weft: {terminal_paragraph(message)}", file=sys.stderr)
    return code
