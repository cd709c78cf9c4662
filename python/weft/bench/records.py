"""The record of one problem that the bench keeps between its invocations.

A file a problem, replaced as a whole, so that a bench killed at any moment finds an old or
a new one. Results of a run are in the run's folder.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import stat
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from weft.bench.problems import Problem

#: How a problem stands. Only the first three are not tried again.
FINISHED = "finished"
TIMED_OUT = "timed out"
REFUSED = "refused"  # wrong input: another try would end the same
DIED = "died"
MISSING = "missing"  # something on the machine
NO_NETWORK = "no network"  # here, and the problem loads from one
STOPPED = "stopped"  # or never begun
#: How a run ends that waits for a batch of its language model's provider.
SUSPENDED_CODE = 5


@dataclass
class Record:
    digest: str = ""
    state: str = STOPPED
    exit_code: int = -1
    reason: str = ""
    #: [begin, end] of each try, seconds since the epoch; end 0: under way.
    tries: list[list[float]] = field(default_factory=list)
    #: Beside others it lacked memory, and is to run alone: "due", then "done".
    alone: str = ""
    #: Where its run is, of several devices: what it timed is that one's.
    device: int = -1

    def is_sound(self) -> bool:
        """False: something else than a bench has written it."""
        texts = (self.digest, self.state, self.reason, self.alone)
        numbers = (self.exit_code, self.device)
        return (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(number, int) for number in numbers)
            and are_pairs(self.tries)
        )

    @property
    def wall_s(self) -> float:
        return sum(max(0.0, end - begin) for begin, end in self.tries if end)


def is_number(value: object) -> bool:
    """Finite, and within a float's range."""
    try:
        return isinstance(value, (int, float)) and math.isfinite(value)
    except OverflowError:
        return False


def are_pairs(value: object) -> TypeGuard[list[list[float]]]:
    """[begin, end] of each, as numbers."""
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_number, pair)) for pair in value
    )


class Records:
    """All problems' records and run folders below --out."""

    def __init__(self, out: str) -> None:
        self.out = out
        os.makedirs(self._path("records"), exist_ok=True)
        os.makedirs(self._path("logs"), exist_ok=True)
        os.makedirs(self._path("runs"), exist_ok=True)

    def run_folder(self, problem: Problem) -> str:
        return self._path("runs", problem.key)

    def log(self, problem: Problem, kind: str) -> str:
        return self._path("logs", f"{problem.key}.{kind}")

    def result(self, problem: Problem) -> dict[str, Any] | None:
        """The run's result.json, or None."""
        path = os.path.join(self.run_folder(problem), "result.json")
        return read_json(path)

    def load(self, problem: Problem) -> Record:
        """What another weft has written beside these fields is left out."""
        told = read_json(self._path("records", problem.key + ".json"))
        known = {one.name for one in fields(Record)}
        record = Record(**{name: value for name, value in (told or {}).items() if name in known})
        return record if record.is_sound() else Record()

    def save(self, problem: Problem, record: Record) -> None:
        path = self._path("records", problem.key + ".json")
        write_atomically(path, json.dumps(asdict(record)) + "\n")

    def forget(self, problem: Problem) -> None:
        """Its next run begins anew."""
        shutil.rmtree(self.run_folder(problem), ignore_errors=True)
        for kind in ("out", "err"):
            remove(self.log(problem, kind))
        remove(self._path("records", problem.key + ".json"))

    def can_resume(self, problem: Problem) -> bool:
        """A run that was killed before its first event can only begin anew."""
        journal = os.path.join(self.run_folder(problem), "journal.db")
        if not os.path.exists(journal):
            return False
        try:
            database = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
            try:
                row = database.execute("SELECT 1 FROM event LIMIT 1").fetchone()
            finally:
                database.close()
        except sqlite3.Error:
            return False
        return row is not None

    def last_sign(self, problem: Problem) -> float:
        """When the run's journal was last written to; 0: never."""
        folder = self.run_folder(problem)
        times = [0.0]
        for name in ("journal.db", "journal.db-wal"):
            try:
                times.append(os.path.getmtime(os.path.join(folder, name)))
            except OSError:
                pass
        return max(times)

    def _path(self, *names: str) -> str:
        return os.path.join(self.out, *names)


def first_link(out: str) -> str | None:
    """A link, a pipe or another special file that the bench would write or read by name. The
    folder may be somebody else's: what the bench writes would go where the link points."""
    for folder, folders, names in os.walk(out):
        for name in folders + names:
            path = os.path.join(folder, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:  # another bench works here
                continue
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return path
        if os.path.dirname(folder) == os.path.join(out, "runs"):
            folders[:] = [name for name in folders if name == "composed"]
    return None


def read_json(path: str) -> dict[str, Any] | None:
    """None where there is no such file, or no JSON object in it."""
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def write_atomically(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
