#!/usr/bin/env python3
"""How long a large run's report.html takes: to be made, and to be opened in
chromium (its load event, from the start of the navigation).

    benchmarks/report_open.py [--weft build/weft]

Goal: under 2 s to open, for 200 subgraphs and for 5,000 candidates.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))

from browser import Browser  # noqa: E402
from made_journal import MadeRun  # noqa: E402

RUNS = {
    "200 subgraphs": {"subgraphs": 200, "candidates": 5},
    "5,000 candidates": {"subgraphs": 5, "candidates": 1000},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", default=os.path.join(ROOT, "build", "weft"))
    weft = parser.parse_args().weft
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for name, size in RUNS.items():
            run = os.path.join(folder, name.replace(" ", "-"))
            MadeRun(run, **size)
            begun = time.monotonic()
            subprocess.run([weft, "show", run, "--html"], check=True, stdout=subprocess.DEVNULL)
            made_s = time.monotonic() - begun
            page = os.path.join(run, "report.html")
            opened = []
            for _ in range(3):
                browser.open("file://" + page)
                opened.append(
                    browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
                )
            print(
                f"{name}: made in {made_s:.2f} s, "
                f"{os.path.getsize(page) / 2**20:.1f} MiB, opened in "
                f"{sorted(opened)[1]:.2f} s (of 3: "
                f"{', '.join(f'{s:.2f}' for s in opened)})"
            )


if __name__ == "__main__":
    main()
