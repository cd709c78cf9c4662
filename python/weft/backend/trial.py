"""Whether kernels are worth their calls here: in the program that calls them.

The search timed them in a process of its own. What the program's own call takes
besides, and another compiler's code where the search had no time to look at it,
are known only here.
"""

import statistics
import time

import torch

#: Rounds that are compared, after one that warms up.
ROUNDS = 5
#: So much slower in the middle of all rounds, and slower in every one.
SLOWER = 1.03


def slowdown(framework, kernels, arguments, seconds):
    """How many times as long the kernels take as the framework, if they are
    slower in every round; else 0. Both are called with lists of arguments, a few
    times in turn. No round begins that would end after `seconds` if it took as
    long as the last (0: there is none): where that is too little for all rounds,
    the search's word stands."""
    until, last = time.monotonic() + seconds, 0.0
    devices = {one.device for one in arguments
               if isinstance(one, torch.Tensor) and one.device.type == "cuda"}
    ratios = []
    for number in range(ROUNDS + 1):
        begin = time.monotonic()
        if begin + last >= until:
            return 0.0
        # Who comes first changes from round to round.
        sides = [framework, kernels][::-1 if number % 2 else 1]
        taken = {side: _seconds(side, arguments, devices) for side in sides}
        last = time.monotonic() - begin
        if number:
            ratios.append(taken[kernels] / max(taken[framework], 1e-9))
    middle = statistics.median(ratios)
    return middle if min(ratios) > 1 and middle > SLOWER else 0.0


def _seconds(function, arguments, devices):
    for device in devices:
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    function(list(arguments))
    for device in devices:
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin
