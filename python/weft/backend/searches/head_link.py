"""The process of `weft head-link`: a connection between a program and a head
(tools/weft/head_command.hpp). The process ends with its standard input, so it ends with
the process that started it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import weakref
from collections.abc import Mapping
from typing import Any

END_S = 3.0

_open: weakref.WeakSet[Link] = weakref.WeakSet()


class Link:
    """One thread uses it."""

    def __init__(self, words: list[str], environment: Mapping[str, str] | None = None) -> None:
        """`words`: the program, and its options. OSError."""
        self._read = b""
        self._process = subprocess.Popen(
            words,
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
        """What it has said; waits so long for something."""
        if self.exit_code() is not None:
            time.sleep(0 if self._fill() else wait_s)
        else:
            select.select([self._stdout], [], [], wait_s)
            self._fill()
        *lines, self._read = self._read.split(b"\n")
        return [json.loads(line) for line in lines]

    def _fill(self) -> bool:
        before = len(self._read)
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._stdout.fileno(), 1 << 20):
                self._read += part
        return len(self._read) > before

    def say(self, line: dict[str, object]) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended: exit_code() says so
            self._stdin.write(json.dumps(line).encode() + b"\n")
            self._stdin.flush()

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
    for link in list(_open):
        link.close_pipes()
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
