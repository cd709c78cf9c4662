"""Runs and verdicts of weft that a driver asks for (`weft run --train`, `--mode
both`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from weft.shown_text import terminal_paragraph

EXIT_FAILED, EXIT_WRONG, EXIT_BUDGET, EXIT_INTERRUPTED = 1, 2, 4, 130


class NotJudged(Exception):
    """`weft eval` gave no verdict; what it said."""


def say(settings: dict[str, Any], text: str) -> None:
    if not settings["quiet"]:
        warn(text)


def warn(text: str) -> None:
    """On the terminal, which no word of a candidate's may steer."""
    print(f"weft: {terminal_paragraph(text)}", file=sys.stderr, flush=True)


def run(settings: dict[str, Any], words: list[str]) -> int:
    """The exit code of weft with these words; what it prints is no answer of
    the driver's."""
    done = subprocess.run([settings["weft"], *words], check=False, stdout=sys.stderr)
    if done.returncode in (-signal.SIGINT, EXIT_INTERRUPTED):
        raise KeyboardInterrupt
    return done.returncode


def judge(
    settings: dict[str, Any], reference: str, candidate: str, mode: str, is_timed: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """(verdict, timing or None) of `weft eval` on that module in that mode: the
    candidate runs in the sandbox, and nowhere else. NotJudged: there is none."""
    words = [
        "eval",
        reference,
        candidate,
        "--mode",
        mode,
        "--json",
        "--target",
        settings["target"],
        *settings["judge_flags"],
    ]
    if not is_timed and "--no-timing" not in words:
        words.append("--no-timing")
    done = subprocess.run(
        [settings["weft"], *words], check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode in (-signal.SIGINT, EXIT_INTERRUPTED):
        raise KeyboardInterrupt
    try:
        told = json.loads(done.stdout.splitlines()[-1])
        return told["verdict"], told["timing"]
    except (ValueError, LookupError):
        raise NotJudged(done.stdout.strip() or f"exit code {done.returncode}") from None


def read_json(*path: str) -> Any:
    """None where there is no such file, or no JSON in it."""
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def read_text(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write_text(text: str, *path: str) -> None:
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)
