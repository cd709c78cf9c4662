"""One run of weft as a child process, on cores reserved for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from weft.device import process
from weft.problem import sentences

#: A run that was told to stop leaves at once, when it can.
_GRACE_S = 8.0
#: What is read of a log's end: its last lines.
_TAIL_BYTES = 1 << 16


class Child:
    def __init__(
        self,
        words: list[str],
        log: str,
        errors: str,
        cores: Sequence[int],
        environment: Mapping[str, str],
    ) -> None:
        """Appends what it says to those files. `cores`: empty for all."""
        parent = os.getpid()

        def prepare() -> None:
            # Dies with the bench, however that ends: the next one needs the
            # journal, and the GPU.
            process.die_with_parent()
            if os.getppid() != parent:
                os._exit(1)
            if cores:
                os.sched_setaffinity(0, cores)

        with open(log, "ab") as out, open(errors, "ab") as err:
            # A session of its own: Ctrl-C is for the bench, which tells it.
            # No thread runs in this process, so that a hook is safe.
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
                preexec_fn=prepare,
            )
        process.nice_session(self._process.pid, os.nice(0))
        self._log, self._errors = log, errors
        self._told_at = 0.0

    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    def tell_to_stop(self) -> None:
        """Once; what does not go is killed when its time is up."""
        if not self._told_at:
            self._told_at = time.monotonic()
            self._send(signal.SIGTERM)
        elif time.monotonic() - self._told_at > _GRACE_S:
            self.kill()

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def ending(self) -> tuple[int, str] | None:
        """(exit code, summary) that the run itself told; None if it didn't."""
        for line in reversed(_tail(self._log)):
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if not isinstance(told, dict):
                continue
            if told.get("type") == "RunFinished":
                body = told.get("body") or {}
                return body.get("exit_code", 1), body.get("summary", "")
            if "error" in told and "exit_code" in told:
                return told["exit_code"], told["error"]
        return None

    def last_words(self) -> str:
        lines = [line.strip() for line in _tail(self._errors) if line.strip()]
        return sentences.whole_lines(lines[-1], 500) if lines else ""

    def _send(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass


def _tail(path: str) -> list[str]:
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
