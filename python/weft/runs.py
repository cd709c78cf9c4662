"""Runs and verdicts of weft that a driver asks for (`weft run --train`, `--mode
both`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from weft.shown_text import terminal_paragraph

EXIT_FAILED, EXIT_WRONG, EXIT_BUDGET, EXIT_INTERRUPTED = 1, 2, 4, 130


@dataclass(frozen=True)
class DriverSettings:
    """Settings of a driver, as tools/weft/run_python_driver.cpp writes them."""

    weft: str  #: the program
    problem: str
    out: str
    mode: str
    target: str
    device: str  #: a GPU's number; then the model's torch.device
    budget_s: float
    with_compile: bool
    run_flags: list[str]
    resume_flags: list[str]
    judge_flags: list[str]
    json: bool
    quiet: bool

    @staticmethod
    def from_json(text: str) -> DriverSettings:
        given = json.loads(text)
        return DriverSettings(**{**given, "device": str(given["device"])})


class NotJudged(Exception):
    """`weft eval` gave no verdict; what it said."""


def say(settings: DriverSettings, text: str) -> None:
    if not settings.quiet:
        warn(text)


def warn(text: str) -> None:
    """On the terminal, which no word of a candidate's may steer."""
    print(f"weft: {terminal_paragraph(text)}", file=sys.stderr, flush=True)


def run(settings: DriverSettings, words: list[str]) -> int:
    """The exit code of weft with these words; what it prints is no answer of
    the driver's."""
    done = subprocess.run([settings.weft, *words], check=False, stdout=sys.stderr)
    if done.returncode in (-signal.SIGINT, EXIT_INTERRUPTED):
        raise KeyboardInterrupt
    return done.returncode


def judge(
    settings: DriverSettings, reference: str, candidate: str, mode: str, is_timed: bool
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
        settings.target,
        *settings.judge_flags,
    ]
    if not is_timed and "--no-timing" not in words:
        words.append("--no-timing")
    done = subprocess.run([settings.weft, *words], check=False, stdout=subprocess.PIPE, text=True)
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
