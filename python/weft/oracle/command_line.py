"""The oracle's command line. Loads no PyTorch: processes start before it."""

import argparse
import json
import os

from weft.problem import precision


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options; ends the process if they are wrong."""
    parser = argparse.ArgumentParser(prog="weft.oracle.oracle")
    parser.add_argument("--scratch", default="")
    parser.add_argument("--boxed", action="store_true", help="started by weft.oracle.warden")
    parser.add_argument("--sandbox", type=json.loads, default=[])
    parser.add_argument(
        "--with-baseline", action="store_true", help="the baseline's process begins at once"
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="framework", choices=precision.POLICIES)
    options = parser.parse_args(arguments)
    if not (options.scratch or options.boxed):
        parser.error("--scratch is needed")
    options.threads = options.threads or len(os.sched_getaffinity(0))
    return options
