"""Runs and verdicts of weft that a driver asks for (`weft run --train`, `--mode
both`)."""

import json
import os
import signal
import subprocess
import sys

from weft.shown_text import terminal_paragraph

EXIT_FAILED, EXIT_WRONG, EXIT_BUDGET, EXIT_INTERRUPTED = 1, 2, 4, 130


class NotJudged(Exception):
    """`weft eval` gave no verdict; what it said."""


def say(settings, text):
    if not settings["quiet"]:
        warn(text)


def warn(text):
    """On the terminal, which no word of a candidate's may steer."""
    print(f"weft: {terminal_paragraph(text)}", file=sys.stderr, flush=True)


def run(settings, words):
    """The exit code of weft with these words; what it prints is no answer of
    the driver's."""
    done = subprocess.run([settings["weft"], *words], check=False,
                          stdout=sys.stderr)
    if done.returncode in (-signal.SIGINT, EXIT_INTERRUPTED):
        raise KeyboardInterrupt
    return done.returncode


def judge(settings, reference, candidate, mode, is_timed):
    """(verdict, timing or None) of `weft eval` on that module in that mode: the
    candidate runs in the sandbox, and nowhere else. NotJudged: there is none."""
    words = ["eval", reference, candidate, "--mode", mode, "--json",
             "--target", settings["target"], *settings["judge_flags"]]
    if not is_timed:
        words.append("--no-timing")
    done = subprocess.run([settings["weft"], *words], check=False,
                          stdout=subprocess.PIPE, text=True)
    if done.returncode in (-signal.SIGINT, EXIT_INTERRUPTED):
        raise KeyboardInterrupt
    try:
        told = json.loads(done.stdout.splitlines()[-1])
        return told["verdict"], told["timing"]
    except (ValueError, LookupError):
        raise NotJudged(done.stdout.strip() or f"exit code {done.returncode}"
                        ) from None


def read_json(*path):
    """None where there is no such file, or no JSON in it."""
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def read_text(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write_text(text, *path):
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)
