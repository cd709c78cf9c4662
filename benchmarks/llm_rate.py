"""Measures how near a run comes to a provider's requests a minute, and how often it is
refused. A scripted server answers at once, and refuses requests beyond R in any minute.
Calls for a quarter of an hour are asked for; measurement begins with the second minute.

    python benchmarks/llm_rate.py [R] [MINUTES]
"""

import bisect
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "python"))

from llm_server import LlmServer, Reply  # noqa: E402
from weft_case import ENVIRONMENT, WEFT, problem_with  # noqa: E402

#: As many first kernels as a subgraph may have.
SAMPLES = 64


def problem(subgraphs):
    """So many pieces that are asked for, none of which is another."""
    lines = [f"y{i} = torch.relu(x[:{i + 2}]) * {i + 2}" for i in range(subgraphs)]
    names = ", ".join(f"y{i}" for i in range(subgraphs))
    return problem_with(
        "\n        ".join([*lines, f"return {names}"]), inputs=f"[torch.rand({subgraphs + 2}, 16)]"
    )


class Refusing:
    """Counts, and refuses what is beyond the limit."""

    def __init__(self, limit):
        self.limit, self.taken, self.refused = limit, [], []

    def __call__(self, call):
        now = call.arrived_s
        first = bisect.bisect_right(self.taken, now - 60)
        if len(self.taken) - first >= self.limit:
            self.refused.append(now)
            return Reply(status=429, headers={"retry-after": "1"})
        self.taken.append(now)
        return "no kernel here"


def run(server, folder, limit, calls):
    settings = os.path.join(folder, "weft.toml")
    with open(settings, "w", encoding="utf-8") as file:
        file.write(
            f'[llm.mini]\nmodel = "m"\nbase_url = "{server.openai_url}"\n'
            'key_env = "TEST_KEY"\nmax_output_tokens = 100\n'
            "limits = { calls_at_once = 64, requests_per_minute = "
            f"{limit} }}\n"
        )
    path = os.path.join(folder, "problem.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(problem(max(1, calls // SAMPLES)))
    return subprocess.Popen(
        [
            WEFT,
            "run",
            path,
            "--out",
            os.path.join(folder, "run"),
            "--seeds",
            "llm",
            "--llm",
            "mini",
            "--config",
            settings,
            "--samples",
            str(SAMPLES),
            "--rounds",
            "2",
            "--jobs",
            "256",
            "--no-library",
            "--no-llm-cache",
            "--quiet",
        ],
        env=os.environ | ENVIRONMENT | {"TEST_KEY": "x"},
    )


def main():
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    minutes = float(sys.argv[2]) if len(sys.argv) > 2 else 3
    answer = Refusing(limit)
    with LlmServer(answer) as server, tempfile.TemporaryDirectory() as folder:
        process = run(server, folder, limit, int(limit * (minutes + 1)))
        while not answer.taken and process.poll() is None:
            time.sleep(0.1)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.5)
        process.terminate()
        process.wait()
    begin = answer.taken[0] + 60
    last = answer.taken[-1]
    if last - begin < 50:
        sys.exit(f"only {len(answer.taken)} calls: the run ended too soon")
    # Whole minutes, so that bursts do not count twice.
    span = 60 * int((last - begin + 1) // 60) or last - begin
    taken = sum(begin <= at < begin + span for at in answer.taken)
    refused = sum(begin <= at < begin + span for at in answer.refused)
    print(
        f"{60 * taken / span:.0f} of {limit} requests a minute "
        f"({60 * taken / span / limit:.3f}), {refused} of {taken + refused} "
        f"refused ({100 * refused / (taken + refused):.2f} %), over {span:.0f} "
        "s after the first minute"
    )


if __name__ == "__main__":
    main()
