"""Measures what a round of refinement costs in addition to its build, check and timing, by
the journal's times. A scripted server answers at once.

    python benchmarks/llm_rounds.py [ROUNDS]
"""

import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))

from llm_case import RIGHT, kernel  # noqa: E402
from llm_server import LlmServer  # noqa: E402
from weft_case import ENVIRONMENT, WEFT, events_of, problem_with  # noqa: E402

WORK = ("Build", "Check", "Time")


def run(server, folder, rounds):
    settings = os.path.join(folder, "settings.toml")
    with open(settings, "w", encoding="utf-8") as file:
        file.write(
            f'[llm.mini]\nmodel = "m"\nbase_url = "{server.openai_url}"\nkey_env = "TEST_KEY"\n'
        )
    path = os.path.join(folder, "problem.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(problem_with())
    out = os.path.join(folder, "run")
    subprocess.run(
        [
            WEFT,
            "run",
            path,
            "--out",
            out,
            "--seeds",
            "llm",
            "--llm",
            "mini",
            "--config",
            settings,
            "--samples",
            "1",
            "--rounds",
            str(rounds),
            "--no-library",
            "--no-llm-cache",
            "--no-compile-baseline",
            "--quiet",
            "--timing-ms",
            "50",
            "--final-timing-ms",
            "50",
        ],
        env=os.environ | ENVIRONMENT | {"TEST_KEY": "x"},
        check=True,
    )
    return events_of(out)


def rounds_of(events):
    """(the whole round, its work), in seconds, for each."""
    asked, begun, work = None, {}, 0
    for event in events:
        kind, at = event["type"], event["at_us"] / 1e6
        if kind == "RefineRequest":
            asked, work = at, 0
        elif kind.removesuffix("Request") in WORK and kind.endswith("Request"):
            begun[event["seq"]] = at
        elif kind.removesuffix("Reply") in WORK and kind.endswith("Reply"):
            work += at - begun.get(event["cause"], at)
        elif kind == "SeedResult" and asked is not None:
            if event["body"]["seed"]["round"] > 0 and work > 0:
                yield at - asked, work
            asked = None


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    # None of them is right but the last: so no round is the last for no gain.
    bodies = [f"v * {i}.0f" for i in range(3, 3 + rounds)] + [RIGHT]
    replies = [kernel(body) for body in bodies]

    def answer(call):
        return replies.pop(0) if len(replies) > 1 else replies[0]

    with LlmServer(answer) as server, tempfile.TemporaryDirectory() as folder:
        found = list(rounds_of(run(server, folder, rounds)))
    ratios = [whole / work for whole, work in found]
    print(
        f"{len(found)} rounds: {statistics.median(w for w, _ in found):.2f} s "
        f"in the median, {statistics.median(ratios):.3f} times its build and "
        f"check alone (at most {max(ratios):.3f})"
    )


if __name__ == "__main__":
    main()
