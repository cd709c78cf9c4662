#!/usr/bin/env python3
"""Times what a call costs the host: Model eager and compiled, and ModelNew.

    python3 benchmarks/host_calls.py PROBLEM.py RUN/model_new.py

Needs PyTorch with CUDA. With small layers only the host's time counts: the device is done
with each before the next is launched. Prints microseconds of a call, the median of many
batches in turns, with code in the processor's caches. Times end when the last call of a
batch has returned, and when the device is done with it.
"""

import argparse
import statistics
import sys
import time

import torch

from module_file import module_of

BATCHES = 41
#: Of so few calls that the device's queue never fills.
CALLS = 10


def made(module, name, state=None):
    torch.manual_seed(0)
    model = getattr(module, name)(*module.get_init_inputs()).cuda()
    if state is not None:
        model.load_state_dict(state)
    return model


def batch_us(call):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    returned = time.perf_counter()
    torch.cuda.synchronize()
    return [(end - start) / CALLS * 1e6 for end in (returned, time.perf_counter())]


def main():
    parser = argparse.ArgumentParser(description="What a call takes the host, in microseconds.")
    parser.add_argument("problem")
    parser.add_argument("model_new")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("host_calls: this PyTorch finds no GPU", file=sys.stderr)
        return 3
    problem = module_of(options.problem, "problem")
    model = made(problem, "Model")
    ours = made(module_of(options.model_new, "model_new"), "ModelNew", model.state_dict())
    parties = {"eager": model, "compile": torch.compile(model), "ModelNew": ours}
    inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in problem.get_inputs()]
    times = {name: [] for name in parties}
    with torch.no_grad():
        for call in parties.values():
            for _ in range(3 * CALLS):
                call(*inputs)
        for _ in range(BATCHES):
            for name, call in parties.items():
                times[name].append(batch_us(lambda call=call: call(*inputs)))
    print(f"{'':10} {'host':>8} {'done':>8}")
    for name, batches in times.items():
        host, done = map(statistics.median, zip(*batches))
        print(f"{name:10} {host:8.1f} {done:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
