"""The nodes that the runs of a bench share (`weft fleet`): which there are, and
which run each of them serves.

Each run listens at a different address of this machine. The fleet's process
passes the frames of nodes on to it, so that nodes need one address and one set
of keys.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from weft.bench.bench_settings import BenchSettings, FleetSettings
from weft.device import locked_folders
from weft.shown_text import terminal_line

_TICK_S = 0.05
#: The process says goodbye to nodes for three seconds.
_END_S = 8.0
#: The process is started again so often, if it did not live for _LIVED_S.
_STARTS_MAX = 3
_LIVED_S = 600.0
_PREFIX = "weft-fleet-"
#: TMPDIR's bytes: 107, less "/weft-fleet-", eight random letters and a run's number.
_SOCKET_FOLDER_BYTES_MAX = 75


class FleetEnded(Exception):
    """No node can be reached any more."""

    def __init__(self, message: str, exit_code: int = 3) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Node:
    name: str
    can: str  # "judge", "build" or "nothing"
    run: str  # empty: it serves none


@dataclass(frozen=True)
class TimingClass:
    """All results are of this class."""

    name: str
    target: str
    gpu: str  # empty: the processor


class Fleet:
    """The process of `weft fleet`. One thread uses it.

    If the process dies, another one is started at the same address. Nodes and runs
    are connected by it again, and nothing of a run is lost.
    """

    def __init__(self, weft: str, how: FleetSettings, is_quiet: bool) -> None:
        """`weft`: the program."""
        self._weft = weft
        self._how = how
        self._is_quiet = is_quiet
        self._reserved = 0
        self._count = 0
        self._runs: dict[str, str] = {}  # under way: their addresses
        self._unreachable: dict[str, str] = {}
        self._chosen: TimingClass | None = None
        self._endpoint = ""  # where it listens
        self._error: FleetEnded | None = None
        self._starts = 0
        self.nodes: list[Node] = []
        self._folder, self._lock = _socket_folder()
        self._start()

    def wait_for_class(self, is_stopped: Callable[[], bool]) -> TimingClass | None:
        """None: stopped."""
        while not self._chosen and not is_stopped():
            time.sleep(_TICK_S)
            self.poll()
        return self._chosen

    def poll(self) -> None:
        """Takes what the process has said since. FleetEnded."""
        code = self._process.poll()
        self._read_lines()
        if code is not None:
            self._start_again(code)

    @property
    def has_listened(self) -> bool:
        return bool(self._endpoint)

    @property
    def timing_class(self) -> TimingClass | None:
        """None: not enough nodes have come."""
        return self._chosen

    @property
    def judges(self) -> int:
        return sum(1 for node in self.nodes if node.can == "judge")

    def serving(self, run: str) -> list[str]:
        return [node.name for node in self.nodes if node.run == run]

    def begin(self, run: str) -> str:
        """The address that the run has to listen at."""
        self._count += 1
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        endpoint = f"ipc://{self._folder}/{self._count}"
        self._runs[run] = endpoint
        self._say({"begin": run, "endpoint": endpoint})
        return endpoint

    def end(self, run: str) -> None:
        self._runs.pop(run, None)
        self._unreachable.pop(run, None)
        self._say({"end": run})

    def why_unreachable(self, run: str) -> str:
        """Why a node could not be connected to the run; empty: all could."""
        return self._unreachable.get(run, "")

    def reserve(self, judges: int) -> None:
        """So many are left to runs that begin now."""
        if judges != self._reserved:
            self._reserved = judges
            self._say({"reserve": judges})

    def close(self) -> None:
        self._say({"finish": True})
        self._close_pipes()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        locked_folders.remove(self._folder, self._lock)

    def _start(self) -> None:
        self._starts += 1
        self._started_at = time.monotonic()
        self._read = b""
        words = [self._weft, "fleet", "--listen", self._endpoint or self._how.endpoint]
        words += ["--node-seconds", str(self._how.node_seconds), "--target"]
        words += [self._chosen.target if self._chosen else self._how.target]
        if self._how.keys:
            words += ["--keys", self._how.keys]
        classes = self._chosen.name if self._chosen else self._how.classes
        if classes:
            words += ["--classes", classes]
        # If this process is killed, the other one removes the folder and ends, because
        # its standard input is closed.
        self._process = subprocess.Popen(
            [*words, "--sockets", self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _start_again(self, code: int) -> None:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if not self._endpoint:
            raise self._error or FleetEnded(f"weft fleet, which nodes join, ended {how}")
        if time.monotonic() - self._started_at > _LIVED_S:
            self._starts = 1
        why = f"weft fleet, which connects nodes and runs, ended {how}"
        if self._starts > _STARTS_MAX:
            why = self._error and str(self._error) or why
            raise FleetEnded(f"{why}, {_STARTS_MAX} times after a new start")
        self._log(f"{why}: it is started again, and nodes join again")
        self._close_pipes()
        self.nodes = []
        self._start()
        for run, endpoint in self._runs.items():
            self._say({"begin": run, "endpoint": endpoint})
        self._say({"reserve": self._reserved})

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what was not written yet
                pass

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        try:
            while part := os.read(descriptor, 1 << 16):
                self._read += part
        except BlockingIOError:
            pass
        *lines, self._read = self._read.split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, told: dict[str, Any]) -> None:
        if "nodes" in told:
            self.nodes = [Node(**node) for node in told["nodes"]]
        elif "class" in told:
            if self._chosen is None:
                self._chosen = TimingClass(told["class"], told["target"], told["gpu"])
                self._log(f"timing class: {self._chosen.name}")
        elif "listens" in told:
            self._endpoint = told["listens"]
            self._log(f"listening for nodes on {told['listens']}")
        elif "unreachable" in told:
            if told["unreachable"] in self._runs:
                self._unreachable[told["unreachable"]] = told["why"]
        elif "error" in told:
            self._error = FleetEnded(told["error"], told["exit_code"])
        elif "log" in told:
            self._log(told["log"])

    def _log(self, text: str) -> None:
        if not self._is_quiet:
            print(f"weft: {terminal_line(text)}", file=sys.stderr, flush=True)

    def _say(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            pass  # it has ended: poll() starts another one, which is told all of it


def _socket_folder() -> tuple[str, int]:
    """(a folder for the runs' sockets, its lock). Linux limits a socket's path to 107
    bytes. Folders of benches that were killed are removed."""
    wanted = tempfile.gettempdir()
    is_short = len(os.fsencode(wanted)) <= _SOCKET_FOLDER_BYTES_MAX
    parent = wanted if is_short else "/tmp"
    for name in os.listdir(parent):
        if name.startswith(_PREFIX):
            locked_folders.sweep(os.path.join(parent, name))
    return locked_folders.make(parent, _PREFIX)


def settle(settings: BenchSettings, chosen: TimingClass) -> BenchSettings:
    """The settings of a bench whose nodes are of that class."""
    how = settings.fleet
    assert how is not None, "there are nodes"
    return replace(
        settings,
        target=chosen.target,
        gpu=chosen.gpu,
        timing_class=chosen.name,
        run_flags=how.gpu_run_flags if chosen.gpu else settings.run_flags,
        out=f"{how.default_out}-{chosen.target}" if how.default_out else settings.out,
    )


def run_words(settings: BenchSettings) -> list[str]:
    """The flags of a new run: the bench's, for the class of its nodes."""
    words = list(settings.run_flags)
    if "--target" in words:
        place = words.index("--target")
        del words[place : place + 2]
    return [*words, "--target", settings.target, "--fleet", "--classes", settings.timing_class]
