"""The process of `weft head-link`: a connection between a program and a head
(tools/weft/head_command.hpp). The process ends with its standard input, so it ends with
the process that started it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

END_S = 3.0
#: Bytes that one look reads: whoever sends without end must not keep a loop from going on.
READ_MAX = 16 << 20

_open: weakref.WeakSet[Link] = weakref.WeakSet()
#: Held by who forks, too: each child process knows all pipes, and closes them.
_starting = threading.RLock()


class Link:
    """One thread uses it."""

    def __init__(self, words: list[str], environment: Mapping[str, str] | None = None) -> None:
        """`words`: the program, and its options. OSError."""
        self._parts: list[bytes] = []  # of a line that has not ended
        with _starting:
            self._process = subprocess.Popen(
                words,
                bufsize=0,  # a pipe without a lock, which a forked child can close
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
            assert self._process.stdin is not None and self._process.stdout is not None
            self._stdin, self._stdout = self._process.stdin, self._process.stdout
            os.set_blocking(self._stdout.fileno(), False)
            _open.add(self)

    def exit_code(self) -> int | None:
        return self._process.poll()

    def lines(self, wait_s: float) -> list[dict[str, Any]]:
        """The lines that came since the last look; waits so long for some."""
        if self.exit_code() is not None:
            new = self._new()
            time.sleep(0 if new else wait_s)
        else:
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            poll.poll(wait_s * 1000)
            new = self._new()
        whole, end, rest = new.rpartition(b"\n")
        if not end:
            self._parts.append(rest)
            return []
        text = b"".join([*self._parts, whole])
        self._parts = [rest]
        return [json.loads(line) for line in text.split(b"\n")]

    def _new(self) -> bytes:
        parts, size = [], 0
        with contextlib.suppress(BlockingIOError):
            while size < READ_MAX and (part := os.read(self._stdout.fileno(), 1 << 20)):
                parts.append(part)
                size += len(part)
        return b"".join(parts)

    def say(self, line: dict[str, object]) -> None:
        left = memoryview(json.dumps(line).encode() + b"\n")
        with contextlib.suppress(OSError, ValueError):  # it has ended: exit_code() says so
            while left:
                left = left[os.write(self._stdin.fileno(), left) :]

    def close(self) -> None:
        self.close_pipes()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close_pipes(self) -> None:
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()


def _after_fork() -> None:
    """In a child process, which must not keep its parent's connections open."""
    global _starting
    _starting = threading.RLock()
    for link in list(_open):
        link.close_pipes()
    _open.clear()


os.register_at_fork(
    before=lambda: _starting.acquire(),
    after_in_parent=lambda: _starting.release(),
    after_in_child=_after_fork,
)
