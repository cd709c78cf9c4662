"""Runs one suite as `python -m unittest -v` does, and says what each test took,
the longest first:

    python run_suite.py test_NAME
"""

import atexit
import os
import sys
import time
import unittest

from weft.device import garbage

# As OpenMP itself waits where it has more threads than processors. Suites run
# beside each other: a thread that spins for milliseconds keeps the one that it
# waits for from the processor, at every operator of small tensors.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

#: A shorter one is not worth a line.
SHOWN_S = 1.0


class TimedResult(unittest.TextTestResult):
    def __init__(self, *words, **named):
        super().__init__(*words, **named)
        self.seconds = {}

    def startTest(self, test):
        super().startTest(test)
        self.seconds[test.id()] = -time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.seconds[test.id()] += time.monotonic()


def leave(codes):
    """At the end of all: to take PyTorch down again would take half a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(codes[-1])


def main():
    # Collections took a fifth of the time of suites that capture or compile here.
    garbage.collect_rarely()
    codes = [1]  # unless it comes to its end
    atexit.register(leave, codes)  # the first to be registered is the last to run
    runner = unittest.TextTestRunner(resultclass=TimedResult, verbosity=2)
    [name] = sys.argv[1:]
    result = runner.run(unittest.defaultTestLoader.loadTestsFromName(name))
    for test, seconds in sorted(result.seconds.items(), key=lambda one: -one[1]):
        if seconds >= SHOWN_S:
            print(f"{seconds:7.1f} s  {test.removeprefix(name + '.')}", file=sys.stderr)
    codes.append(int(not result.wasSuccessful()))


if __name__ == "__main__":
    main()
