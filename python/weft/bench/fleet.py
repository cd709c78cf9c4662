"""The nodes that the runs of a bench share (`weft fleet`): which there are, and
which run each of them serves.

Each run listens at a different address of this machine. The fleet's process
passes the frames of nodes on to it, so that nodes need one address and one set
of keys.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.device import process
from weft.shown_text import terminal_line

_TICK_S = 0.05
_END_S = 5.0
#: TMPDIR's bytes: 107, less "/weft-fleet-", eight random letters and a run's number.
_SOCKET_FOLDER_BYTES_MAX = 75


class FleetEnded(Exception):
    """The fleet's process has ended: no run can go on."""


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
    """The process of `weft fleet`. One thread uses it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        how = settings["fleet"]
        words = [settings["weft"], "fleet", "--listen", how["endpoint"]]
        words += ["--node-seconds", str(how["node_seconds"]), "--target", how["target"]]
        for name in ("keys", "classes"):
            if how[name]:
                words += ["--" + name, how[name]]
        # It ends with its standard input, whatever ends this process.
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=process.die_with_parent,
        )
        self._folder = _socket_folder()
        self._is_quiet = settings["quiet"] or settings["json"]
        self._read = b""
        self._reserved = 0
        self._count = 0
        self._chosen: TimingClass | None = None
        self.nodes: list[Node] = []
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def wait_for_class(self, is_stopped: Callable[[], bool]) -> TimingClass | None:
        """None: stopped."""
        while not self._chosen and not is_stopped():
            time.sleep(_TICK_S)
            self.poll()
        return self._chosen

    def poll(self) -> None:
        """Takes what the process has said since."""
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
        if self._process.poll() is not None:
            raise FleetEnded(f"weft fleet ended with exit code {self._process.returncode}")

    @property
    def judges(self) -> int:
        return sum(1 for node in self.nodes if node.can == "judge")

    def serving(self, run: str) -> list[str]:
        return [node.name for node in self.nodes if node.run == run]

    def begin(self, run: str) -> str:
        """The address that the run has to listen at."""
        self._count += 1
        endpoint = f"ipc://{self._folder}/{self._count}"
        self._say({"begin": run, "endpoint": endpoint})
        return endpoint

    def end(self, run: str) -> None:
        self._say({"end": run})

    def reserve(self, judges: int) -> None:
        """So many are left to runs that begin now."""
        if judges != self._reserved:
            self._reserved = judges
            self._say({"reserve": judges})

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, told: dict[str, Any]) -> None:
        if "nodes" in told:
            self.nodes = [Node(**node) for node in told["nodes"]]
        elif "class" in told:
            self._chosen = TimingClass(told["class"], told["target"], told["gpu"])
            self._log(f"timing class: {self._chosen.name}")
        elif "listens" in told:
            self._log(f"listening for nodes on {told['listens']}")
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
        except OSError as error:
            raise FleetEnded(f"no message can be sent to 'weft fleet': {error}") from error


def _socket_folder() -> str:
    """A folder for the runs' sockets, whose paths Linux limits to 107 bytes."""
    wanted = tempfile.gettempdir()
    is_short = len(os.fsencode(wanted)) <= _SOCKET_FOLDER_BYTES_MAX
    return tempfile.mkdtemp(prefix="weft-fleet-", dir=wanted if is_short else "/tmp")


def settle(settings: dict[str, Any], chosen: TimingClass) -> dict[str, Any]:
    """The settings of a bench whose nodes are of that class."""
    how = settings["fleet"]
    settled = {
        **settings,
        "target": chosen.target,
        "gpu": chosen.gpu,
        "class": chosen.name,
        "run_flags": how["gpu_run_flags"] if chosen.gpu else settings["run_flags"],
    }
    if how["default_out"]:
        settled["out"] = f"{how['default_out']}-{chosen.target}"
    return settled


def run_words(settings: dict[str, Any]) -> list[str]:
    """The flags of a new run: the bench's, for the class of its nodes."""
    words = list(settings["run_flags"])
    if "--target" in words:
        place = words.index("--target")
        del words[place : place + 2]
    return [*words, "--target", settings["target"], "--fleet", "--classes", settings["class"]]
