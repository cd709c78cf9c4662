"""Those of test_cheats that show only in times, which are judged alone."""

import unittest

from test_cheats import CHEATS, TIMING_MS, Verdicts, fingerprint


class TimedCheatsTest(Verdicts, unittest.TestCase):
    def test_each_gets_the_verdict_that_it_names(self):
        before = fingerprint(CHEATS)
        self.hold(CHEATS, "--target", "cpu", of=TIMING_MS.__contains__)
        self.assertEqual(fingerprint(CHEATS), before)


if __name__ == "__main__":
    unittest.main()
