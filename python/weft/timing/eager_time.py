"""Times problems as they are: `python -m weft.timing.eager_time FILE...`.

One line a problem: median milliseconds of the eager model over RUNS calls. For choosing
sizes; verdicts use the oracle's timing, which trusts no candidate.
"""

from __future__ import annotations

import statistics
import sys
import time

from weft.problem import problem as problems

WARM_UP_RUNS = 3
RUNS = 15


def median_ms(path: str) -> float:
    """Median wall time of model(*inputs), in milliseconds."""
    problem = problems.load_problem(path)
    model = problems.build_model(problem)
    inputs = problems.make_inputs(problem)
    times_ms = []
    for _ in range(WARM_UP_RUNS + RUNS):
        begin = time.perf_counter()
        problems.run_forward(problem, model, inputs)
        times_ms.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times_ms[WARM_UP_RUNS:])


def main(paths: list[str]) -> int:
    try:
        torch = problems.import_torch()
        torch.set_num_threads(2)
        for path in paths:
            print(f"{median_ms(path):9.2f} ms  {path}", flush=True)
    except problems.ProblemError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
