"""Processors' time of a job, as its zygote reads it."""

import os
import sys
import threading
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))

from weft.candidate import work_clock  # noqa: E402
from weft.device import process  # noqa: E402


def work(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Kernel:
    """Stands in for /proc and its clocks: {pid: nanoseconds}."""

    def __init__(self):
        self.worked, self.last_pid = {7: 100}, 9
        self.running = set()

    def worked_ns(self, pid):
        if pid not in self.worked:
            raise ProcessLookupError(pid)
        return self.worked[pid]

    def main_thread(self, pid):
        return self.worked[pid] // 2

    def listed(self, folder):
        return ["self", "1", str(os.getpid()), *map(str, self.worked)]


class OfProcesses(unittest.TestCase):
    def setUp(self):
        self.kernel = kernel = Kernel()
        for one in (
            mock.patch.object(process, "worked_ns", kernel.worked_ns),
            mock.patch.object(process, "main_thread_worked_ns", kernel.main_thread),
            mock.patch.object(os, "listdir", kernel.listed),
            mock.patch.object(process, "is_stopped", lambda pid: pid not in kernel.running),
            mock.patch.object(work_clock, "_last_pid", lambda: kernel.last_pid),
        ):
            one.start()
            self.addCleanup(one.stop)
        self.clock = work_clock.WorkClock(7, True)
        self.clock.lap()

    def test_it_is_what_was_done_since_the_last_look(self):
        self.kernel.worked[7] += 30
        self.assertEqual(self.clock.lap(), (15, 30, True))
        self.assertEqual(self.clock.lap(), (0, 0, True))

    def test_a_further_process_counts_with_all_it_did(self):
        self.kernel.worked[8] = 500
        self.kernel.last_pid += 1
        self.assertEqual(self.clock.lap()[1:], (500, False))
        self.kernel.worked[8] += 40  # what it did while it was seen
        self.assertEqual(self.clock.lap()[1:], (40, True))

    def test_who_came_and_went_is_not_seen(self):
        self.kernel.last_pid += 1
        self.assertEqual(self.clock.lap()[1:], (0, False))

    def test_nor_what_one_did_before_it_went(self):
        self.kernel.worked[8] = 500
        self.kernel.last_pid += 1
        self.clock.lap()
        del self.kernel.worked[8]
        self.assertEqual(self.clock.lap()[1:], (0, False))

    def messages(self, count, ns):
        """Of how many it is said that a process works while it stands still,
        which after every other one has worked so long."""
        told = 0
        for number in range(count):
            self.clock.lap()
            self.kernel.worked[7] += ns * (number % 2)
            told += self.clock.went_on()
        return told

    def test_who_works_while_all_stand_still_is_seen(self):
        self.assertGreater(self.messages(40, 1_000_000), 20)

    def test_what_it_takes_to_stop_is_no_work(self):
        self.assertEqual(self.messages(40, 50_000), 0)

    def test_nor_is_what_the_kernel_still_does_for_it_now_and_then(self):
        for _ in range(20):
            self.assertEqual(self.messages(49, 0), 0)
            self.assertEqual(self.messages(2, 1_000_000), 0)

    def slow_to_stop(self, runs_on):
        """As messages(), of a process 8 that the stop reaches late."""
        self.kernel.worked[8] = 500
        self.kernel.last_pid += 1
        told = 0
        for _ in range(12):
            self.kernel.running = {8}
            self.clock.lap()
            self.kernel.worked[8] += 1_000_000
            self.kernel.running = {8} if runs_on else set()
            told += self.clock.went_on()
            self.kernel.last_pid += 1
        return told

    def test_who_ends_a_call_of_the_kernel_and_stops_is_no_cheat(self):
        self.assertEqual(self.slow_to_stop(runs_on=False), 0)

    def test_who_does_not_stop_is_seen(self):
        self.assertGreater(self.slow_to_stop(runs_on=True), 2)

    def test_elsewhere_only_the_child_is_the_jobs(self):
        clock = work_clock.WorkClock(7, False)
        self.kernel.worked[8] = 500
        self.kernel.last_pid += 1
        self.kernel.worked[7] += 30
        self.assertEqual(clock.lap(), (15, 30, True))


class OfThisOne(unittest.TestCase):
    def test_all_threads_work_and_none_that_sleeps(self):
        clock = work_clock.WorkClock(os.getpid(), False)
        thread = threading.Thread(target=work, args=(0.02,))
        thread.start()
        work(0.02)
        thread.join()
        worked = clock.lap()
        self.assertTrue(worked.is_all)
        self.assertGreater(worked.by_all_ns, 40e6)
        self.assertGreater(worked.answering_ns, 20e6)
        self.assertLess(worked.answering_ns, worked.by_all_ns - 20e6 + 1e6)
        time.sleep(0.05)
        self.assertLess(clock.lap().by_all_ns, 20e6)

    def test_the_youngest_is_as_young_as_this(self):
        before = work_clock._last_pid()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        self.assertNotEqual(work_clock._last_pid(), before)


if __name__ == "__main__":
    unittest.main()
