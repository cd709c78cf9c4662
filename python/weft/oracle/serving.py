"""An oracle's requests and replies as lines, and its log."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from weft.device import trace_spans
from weft.shown_text import terminal_line

if TYPE_CHECKING:
    from weft.device.device import Device
    from weft.oracle.oracle import Oracle

#: For the log.
STARTED = time.perf_counter()


def lines_of(descriptor: int, idle: Callable[[], float | None]) -> Iterator[str]:
    """The lines that come from there; `idle` is called before each wait, and
    says for how many seconds at most."""
    rest = b""
    while True:
        while not select.select([descriptor], [], [], idle())[0]:
            pass
        data = os.read(descriptor, 1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines)
        if not data:
            return


def serve(oracle: Oracle, requests: Iterable[str], replies: TextIO) -> None:
    """Until the requests end."""
    for line in requests:
        if not line.strip():
            continue
        start, verb = time.perf_counter(), None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("not an object")
        except ValueError as error:
            message = f"request is no JSON object: {error}"
            reply: dict[str, Any] = {"id": None, "ok": False}
            reply["error"] = {"code": "wrong_input", "message": message}
        else:
            verb = request.get("verb")
            reply = oracle.answer(request)
        replies.write(json.dumps(_readable(reply)) + "\n")
        replies.flush()
        oracle.rest()
        oracle.busy_at = time.monotonic()
        note(verb, reply, time.perf_counter() - start, oracle.device)
        if oracle.is_lost:
            return


def note(verb: str | None, reply: dict[str, Any], seconds: float, device: Device) -> None:
    """A line in the log: how long that took, what of it went where, and the
    most of a device that this process had in use and held since it began."""
    failed = "" if reply["ok"] else f" failed: {terminal_line(reply['error']['message'])}"
    memory = ""
    if device.is_cuda:
        used, held = device.peak_bytes(), device.peak_held_bytes()
        memory = f" {used / 2**30:.1f} GiB used, {held / 2**30:.1f} held"
    print(
        f"{time.perf_counter() - STARTED:.3f} {verb} took {seconds * 1000:.0f} ms:"
        f"{memory} {trace_spans.take()}{failed}",
        file=sys.stderr,
        flush=True,
    )


def _readable(value: Any) -> Any:
    """JSON has no infinity, and text has no half of a surrogate pair: readers
    elsewhere refuse how Python writes both. A candidate's message may have them."""
    if isinstance(value, dict):
        return {_readable(k): _readable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_readable(v) for v in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and not abs(value) <= 1e308:
        return 1e308
    return value
