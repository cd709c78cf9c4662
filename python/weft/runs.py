"""Runs of weft that a driver starts (`weft run --train`, `--mode both`)."""

import json
import os
import subprocess
import sys

EXIT_FAILED, EXIT_WRONG, EXIT_BUDGET, EXIT_INTERRUPTED = 1, 2, 4, 130


def say(settings, text):
    if not settings["quiet"]:
        print(f"weft: {text}", file=sys.stderr, flush=True)


def run(settings, words):
    """The exit code of weft with these words; what it prints is no answer of
    the driver's."""
    done = subprocess.run([settings["weft"], *words], check=False,
                          stdout=sys.stderr)
    if done.returncode in (-2, EXIT_INTERRUPTED):
        raise KeyboardInterrupt
    return done.returncode


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
