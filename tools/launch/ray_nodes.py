"""Nodes for a run that listens, as Ray actors: one for each GPU
or share of cores. Ray places them, and begins them again where they die.

    RAY_ADDRESS=HOST:6379 python ray_nodes.py --join tcp://HEAD:7070 --keys DIR
        [--count N] [--cpus 4] [--gpus 0] [--weft weft]
"""

import argparse
import ctypes
import signal
import subprocess

PR_SET_PDEATHSIG = 1


def node_command(args, index):
    """The command line of the node of that number."""
    words = [
        args.weft,
        "node",
        "--join",
        args.join,
        "--name",
        f"ray-{index}",
        "--slots",
        f"cpu={args.cpus}",
    ]
    if args.keys:
        words += ["--keys", args.keys]
    if args.gpus == 0:
        words += ["--devices", "none"]
    return words + ["--once"]


def go_with_parent():
    """In the node's process: where Ray kills the actor's, it leaves, too."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def serve(command):
    """Runs one node to its end; its exit code decides what Ray does."""
    code = subprocess.Popen(command, preexec_fn=go_with_parent).wait()
    # 2: wrong usage; 3: the head will not have it. Another try is no use.
    if code not in (0, 2, 3):
        raise RuntimeError(f"{command[0]} node ended with {code}")
    return code


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--join", required=True)
    parser.add_argument("--keys")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--cpus", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--weft", default="weft")
    return parser.parse_args(words)


def main():
    import ray

    class Node:
        @ray.method(max_task_retries=-1, retry_exceptions=True)
        def serve(self, command):
            return serve(command)

    args = parse()
    ray.init(address="auto")
    node = ray.remote(num_cpus=args.cpus, num_gpus=args.gpus, max_restarts=-1)(Node)
    nodes = [node.remote() for _ in range(args.count)]
    return max(
        ray.get([one.serve.remote(node_command(args, index)) for index, one in enumerate(nodes)])
    )


if __name__ == "__main__":
    raise SystemExit(main())
