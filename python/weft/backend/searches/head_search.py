"""A search by a head on other machines, instead of a run in this process's machine.

The head gets the problem file and the options (head_messages.py). Its answer is written
like a run directory. Three checks follow, as for a run on this machine. The first results
are compared on the user's data. Both implementations are timed. The full verdict is repeated
in the background, while the kernels are in use, as for a module of another process.

Failed has one sentence about each failure, and the fallback computes. A head's module is
code that this process runs: the option `keys` says which head may send one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from weft.backend.options import log
from weft.backend.searches import weft_process
from weft.backend.searches.head_link import Link
from weft.backend.searches.head_messages import Answer, Malformed, Request, read_answer
from weft.shown_text import terminal_line

#: Between two messages that ask for an answer.
ASK_S = 2.0
#: A head that is silent for so long is given up.
SILENCE_S = 10.0
#: After that, other graphs of this process do not ask it for so long.
PAUSE_S = 60.0
#: The program may load PyTorch to know its device class.
BEGIN_S = 60.0

_silent: dict[str, float] = {}  # address → time.monotonic() when it was given up
_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


class Failed(Exception):
    """Why the head has no answer."""


def search(
    request: Request,
    head: str,
    keys: str,
    target: str,
    budget_s: float,
    limit_s: float,
    cancelled: weft_process.Event | None,
    run: str,
) -> tuple[int, str]:
    """(exit code, words) of the head's run, whose files are then in the folder `run`.
    Failed; blocks for limit_s at most."""
    with _lock:
        since = time.monotonic() - _silent.get(head, -PAUSE_S)
    if since < PAUSE_S:
        raise Failed(f"the head {head} gave no answer {since:.0f} s ago")
    words = [weft_process.find(), "head-link", "--connect", head, "--target", target]
    environment = dict(os.environ)
    environment.setdefault("WEFT_PYTHON", sys.executable)
    environment["WEFT_DISABLE"] = "1"
    link = Link(words + (["--keys", keys] if keys else []), environment)
    try:
        answer = _asked(link, request, head, budget_s, time.monotonic() + limit_s, cancelled)
    except Malformed as error:
        raise Failed(f"the head {head} sent an answer that is not one: {error}") from None
    finally:
        link.close()
    _check_result(answer, head)
    try:
        _write(answer, run)
    except (OSError, ValueError) as error:  # no room, or a text that is none
        raise Failed(f"the head's answer could not be written: {error}") from None
    return answer.code, terminal_line(answer.told)


def _asked(
    link: Link,
    request: Request,
    head: str,
    budget_s: float,
    until: float,
    cancelled: weft_process.Event | None,
) -> Answer:
    classes = _classes(link, head, until, cancelled)
    ask = {"ask": request.digest(), "classes": classes, "budget_s": max(1.0, budget_s)}
    heard_at, ask_at, told, has_to_send = time.monotonic(), 0.0, "", False
    while True:
        now = time.monotonic()
        if cancelled and cancelled.is_set():
            raise Failed("the program ended")
        if now - heard_at > SILENCE_S:
            with _lock:
                _silent[head] = now
            log.warning("no answer from the head %s; PyTorch computes", head)
            raise Failed(
                f"no answer from the head {head} for {SILENCE_S:g} s: see that it runs, that "
                "its address is right, and that it allows your key"
            )
        if now > until:
            raise Failed(
                f"the head {head} was not done within budget_s{told and ': ' + told}; a "
                "program that is started later gets what it finds"
            )
        if now >= ask_at:
            message = {**ask, **(request.message() if has_to_send else {})}
            link.say({"text": json.dumps(message)})
            ask_at = now + ASK_S
        for line in link.lines(min(0.2, max(0.0, until - now))):
            answer = read_answer(str(line.get("text", "")))
            if answer.digest != request.digest():
                continue  # of an earlier question
            heard_at, told = time.monotonic(), terminal_line(answer.why)
            if answer.state == "refused":
                raise Failed(f"the head {head} refuses the search: {told}")
            if answer.state == "done":
                return answer
            if answer.state == "send" and not has_to_send:
                ask_at = 0.0
            has_to_send = answer.state == "send"
        if link.exit_code() is not None:
            raise Failed(f"weft head-link ended with exit code {link.exit_code()}")


def _classes(
    link: Link, head: str, until: float, cancelled: weft_process.Event | None
) -> list[str]:
    """The names of this machine's device classes."""
    until = min(until, time.monotonic() + BEGIN_S)
    while time.monotonic() < until and not (cancelled and cancelled.is_set()):
        for line in link.lines(0.2):
            if "error" in line:
                raise Failed(f"the head {head} cannot be asked: {line['error']}")
            if "classes" in line:
                return [str(one) for one in line["classes"]]
        if link.exit_code() is not None:
            break
    raise Failed(f"the head {head} cannot be asked: weft head-link did not start")


def _check_result(answer: Answer, head: str) -> None:
    """Failed, if result.json is there and has not what search.py reads."""
    if "result.json" not in answer.files:
        return
    try:
        is_good = _is_result(json.loads(answer.files["result.json"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        is_good = False
    if not is_good:
        raise Failed(f"the head {head} sent a result that is not one")


def _is_result(result: Any) -> bool:
    texts = [result["summary"], result["why_no_kernel"]]
    numbers = []
    for one in result["subgraphs"]:
        texts += [one["id"], one.get("reason", "")]
        times = (one.get("timing") or {}).get("candidate") or {}
        numbers.append(times.get("median_us"))
    over = (result.get("timing") or {}).get("over_compile")
    numbers.append(over.get("ratio") if isinstance(over, dict) else over)
    return all(isinstance(one, str) for one in texts) and all(
        one is None or isinstance(one, (int, float)) for one in numbers
    )


def _write(answer: Answer, run: str) -> None:
    """As a run directory."""
    for folder in ("composed", "build"):
        os.makedirs(os.path.join(run, folder), exist_ok=True)
    for name, text in answer.files.items():
        part = "composed" if name == "model_new.py" else ""
        with open(os.path.join(run, part, name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
