"""Runs parts of work in separate processes, each of which may crash, hang or lose its GPU."""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.connection
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

#: After so many parts a process is replaced: what one leaves broken spoils few others.
PARTS_OF_A_PROCESS = 8
#: Of one part: longer, and its process is stopped.
PART_SECONDS = 600.0
#: After the limit of all parts: for those that have begun.
LAST_SECONDS = 15.0


class Ended(Exception):
    """The process of a part ended without an answer; the text says how."""


class _Process:
    """A process that answers parts, one at a time."""

    def __init__(self, work: Callable[..., Any]) -> None:
        # A GPU's context does not outlive a fork.
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, work), daemon=True)
        self._process.start()
        other.close()
        self.parts_left = PARTS_OF_A_PROCESS

    def answer(self, part: Any, seconds: float) -> Any:
        """Raises Ended."""
        self.parts_left -= 1
        try:
            self._pipe.send(part)
            if not self._pipe.poll(seconds):
                raise Ended(f"no answer within {seconds:.0f} s")
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(5)
            raise Ended(f"the process ended with {self._process.exitcode}") from None

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: multiprocessing.connection.Connection, work: Callable[..., Any]) -> None:
    while True:
        part = pipe.recv()
        try:
            answer = work(*part)
        except Exception as error:
            traceback.print_exc()
            answer = Ended("".join(traceback.format_exception_only(error)).strip())
        pipe.send(answer)


def answers(
    work: Callable[..., Any],
    parts: Sequence[tuple[Any, ...]],
    processes: int,
    seconds: float = math.inf,
    is_broken: Callable[[Any], bool] = lambda _: False,
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(part, work(*part)) as each is done; instead of the answer an Ended, and the
    next part is given to a new process. After an answer that `is_broken`, too. No part
    begins after so many `seconds`: those left are not among the answers."""
    end = time.monotonic() + seconds
    waiting: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[tuple[Any, ...], Any] | None] = queue.SimpleQueue()
    for part in parts:
        waiting.put(part)

    def seconds_left() -> float:
        return end - time.monotonic()

    def answer_parts() -> None:
        process: _Process | None = None
        while seconds_left() > 0:
            try:
                part = waiting.get_nowait()
            except queue.Empty:
                break
            process = process or _Process(work)
            limit = min(PART_SECONDS, seconds_left() + LAST_SECONDS)
            try:
                answer = process.answer(part, limit)
            except Ended as error:
                answer = error
            # A part that the limit of all parts stopped was not tried.
            if not isinstance(answer, Ended) or limit == PART_SECONDS or seconds_left() > 0:
                done.put((part, answer))
            if isinstance(answer, Ended) or is_broken(answer) or process.parts_left == 0:
                process.end()
                process = None
        if process is not None:
            process.end()
        done.put(None)

    threads = [threading.Thread(target=answer_parts, daemon=True) for _ in range(processes)]
    for thread in threads:
        thread.start()
    ended = 0
    while ended < processes:
        got = done.get()
        if got is None:
            ended += 1
        else:
            yield got
