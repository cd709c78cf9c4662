"""Runs one suite as `python -m unittest -v` does, and says what each test took,
the longest first:

    python run_suite.py test_NAME
"""

import sys
import time
import unittest

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


def main():
    runner = unittest.TextTestRunner(resultclass=TimedResult, verbosity=2)
    [name] = sys.argv[1:]
    result = runner.run(unittest.defaultTestLoader.loadTestsFromName(name))
    for test, seconds in sorted(result.seconds.items(), key=lambda one: -one[1]):
        if seconds >= SHOWN_S:
            print(f"{seconds:7.1f} s  {test.removeprefix(name + '.')}",
                  file=sys.stderr)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
