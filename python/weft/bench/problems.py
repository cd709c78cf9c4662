"""Which problems there are: KernelBench's checkout, or any folder of files."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace


class NoProblems(Exception):
    """Wrong input, with what to do."""


@dataclass(frozen=True)
class Problem:
    level: int  # 0: of no level
    number: int
    path: str
    group: str = ""  # of a second folder: its name

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def key(self) -> str:
        """Names its run's folder; as KernelBench names kernels, if it can."""
        before = f"{self.group}_" if self.group else ""
        if self.level:
            return f"{before}level_{self.level}_problem_{self.number}"
        return before + os.path.splitext(self.name)[0]

    @property
    def label(self) -> str:
        stem = os.path.splitext(self.name)[0]
        before = f"{self.group}: " if self.group else ""
        return before + (f"{self.level}/{stem}" if self.level else stem)

    def digest(self) -> str:
        """Of what cannot be read, or is no regular file, none of its own: its
        run says what is wrong, and the others go on."""
        if not os.path.isfile(self.path):  # to open a pipe would wait
            return "no file"
        try:
            with open(self.path, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
        except OSError:
            return "not read"


def find(
    folder: str, levels: Collection[int] = (), only: Sequence[str] = (), group: str = ""
) -> list[Problem]:
    """In order of level, number and name. NoProblems: none."""
    found = [
        replace(problem, group=group)
        for level, place in _levels(folder)
        for problem in _in_folder(level, place)
        if not levels or level in levels
    ]
    chosen = [p for p in found if not only or _matches(p, only)]
    idle = [one for one in only if not any(_matches(p, [one]) for p in found)]
    if chosen and idle and not group:
        raise NoProblems(f"no problem in {folder} is called {' or '.join(idle)}")
    if chosen:
        return sorted(chosen, key=lambda p: (p.level, p.number, p.name))
    if found:
        raise NoProblems(
            f"none of the {len(found)} problems in {folder} is called {' or '.join(only)}"
        )
    wanted = f" of level {', '.join(map(str, levels))}" if levels else ""
    raise NoProblems(
        f"{folder} holds no problem files{wanted}: name a "
        "KernelBench checkout, or a folder of problem files"
    )


#: What those of a second folder are called.
BESIDE = "beside"


def find_beside(
    folder: str, beside: str, levels: Collection[int] = (), only: Sequence[str] = ()
) -> list[Problem]:
    """Those of the folder, and those of another one, "" for none."""
    found = find(folder, levels, only)
    return found + (find(beside, levels, only, BESIDE) if beside else [])


def _levels(folder: str) -> list[tuple[int, str]]:
    """[(level, folder)]; one of level 0 where the files lie loose."""
    for root in (os.path.join(folder, "KernelBench"), folder):
        if not os.path.isdir(root):
            continue
        levels = [(_level_of(name), os.path.join(root, name)) for name in os.listdir(root)]
        levels = [(n, place) for n, place in levels if n]
        if levels:
            return levels
    return [(_level_of(os.path.basename(folder)), folder)]


def _level_of(name: str) -> int:
    match = re.fullmatch(r"level_?(\d+)", name)
    return int(match[1]) if match else 0


def _in_folder(level: int, folder: str) -> list[Problem]:
    names = sorted(
        name for name in os.listdir(folder) if name.endswith(".py") and name[0] not in "_."
    )
    for name in names:
        if name.encode(errors="replace") != os.fsencode(name):
            raise NoProblems(f"the name of {ascii(name)} in {folder} is not UTF-8: rename it")
    numbers = [re.match(r"(\d+)", name) for name in names]
    counted = [int(match[1]) for match in numbers if match]
    if len(set(counted)) < len(names):
        counted = list(range(1, len(names) + 1))
    return [
        Problem(level, number, os.path.join(folder, name)) for number, name in zip(counted, names)
    ]


def _matches(problem: Problem, patterns: Iterable[str]) -> bool:
    names = (problem.name, os.path.splitext(problem.name)[0], problem.label, problem.key)
    return any(fnmatch.fnmatchcase(name, pattern) for name in names for pattern in patterns)
