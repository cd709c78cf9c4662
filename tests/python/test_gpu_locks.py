"""The locks of a GPU, on files of a separate folder."""

import fcntl
import os
import shutil
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import torch

from weft.candidate import baseline, harness
from weft.capture import capture
from weft.device import gpu_lock


class Locks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "gpu")

    def lock(self):
        made = gpu_lock.DeviceLock(self.path)
        self.addCleanup(made.close)
        return made

    def is_free(self, mode):
        descriptor = os.open(self.path + ".lock", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)

    def test_who_has_room_and_seeks_memory_blocks_nobody(self):
        holder, other = self.lock(), self.lock()
        with holder.room(gpu_lock.ROOM_PARTS):
            waiting = self.begin(self.hold, lambda: other.room(1), "other", [])
            holder.seek(lambda: False, 0.2)  # in vain, and no longer
        waiting.join(5)
        self.assertFalse(waiting.is_alive())
        holder.seek(lambda: False, 0.1)
        self.assertFalse(other.is_room_sought())

    def test_a_pipe_of_another_user_keeps_nobody_waiting(self):
        os.mkfifo(self.path + ".turn")
        with self.lock().shared():
            pass

    def test_a_link_of_another_user_is_not_followed(self):
        os.symlink(self.path + "-new", self.path + ".turn")
        self.assertRaises(OSError, gpu_lock.DeviceLock, self.path)
        self.assertFalse(os.path.exists(self.path + "-new"))

    def test_checks_share_and_timing_is_alone(self):
        lock = self.lock()
        with lock.shared():
            self.assertTrue(self.is_free(fcntl.LOCK_SH))
            self.assertFalse(self.is_free(fcntl.LOCK_EX))
            with lock.exclusive():
                self.assertFalse(self.is_free(fcntl.LOCK_SH))
            self.assertTrue(self.is_free(fcntl.LOCK_SH))
        self.assertTrue(self.is_free(fcntl.LOCK_EX))

    def begin(self, function, *arguments):
        """In a thread, which waits for a lock by the time this returns."""
        thread = threading.Thread(target=function, args=arguments)
        thread.start()
        time.sleep(0.2)
        return thread

    def hold(self, how, name, order):
        with how():
            order.append(name)
            time.sleep(0.1)

    def test_timings_that_wait_run_before_checks_that_wait(self):
        mine, order, threads = self.lock(), [], []
        with mine.shared():
            for name in ("timing", "check", "timing", "check"):
                lock = self.lock()
                how = lock.exclusive if name == "timing" else lock.shared
                threads.append(self.begin(self.hold, how, name, order))
            self.assertEqual(order, [])
        for thread in threads:
            thread.join()
        self.assertEqual(order, ["timing"] * 2 + ["check"] * 2)

    def test_a_check_makes_way_for_who_wants_it_alone(self):
        mine, other, order = self.lock(), self.lock(), []
        with mine.shared():
            mine.make_way()
            self.assertLess(mine.waited_s, 0.1)
            waiting = self.begin(self.hold, other.exclusive, "timing", order)
            mine.make_way()
            self.assertEqual(order, ["timing"])
            self.assertFalse(self.is_free(fcntl.LOCK_EX))
        waiting.join()

    def test_a_timing_makes_way_for_nobody(self):
        mine, other, order = self.lock(), self.lock(), []
        with mine.exclusive():
            waiting = self.begin(self.hold, other.exclusive, "timing", order)
            mine.make_way()
            self.assertEqual(order, [])
        waiting.join()

    def test_the_files_serve_every_user(self):
        self.lock()
        self.assertEqual(os.stat(self.path + ".lock").st_mode & 0o777, 0o644)

    def test_a_baseline_that_starts_takes_its_own_share(self):
        memory = types.SimpleNamespace(driver=types.SimpleNamespace())
        with mock.patch.object(gpu_lock, "lock_of", lambda _: gpu_lock.DeviceLock(self.path)):
            with harness.device_for_loading({"kind": "model_reference"}, memory):
                self.assertFalse(self.is_free(fcntl.LOCK_EX))
            self.assertTrue(self.is_free(fcntl.LOCK_EX))
            with harness.device_for_loading({"kind": "model"}, memory):
                self.assertTrue(self.is_free(fcntl.LOCK_EX))

    def test_a_baseline_compiles_again_without_it(self):
        def inductor(mode, options, dynamic):
            return lambda graph, inputs: graph.forward

        fake = types.SimpleNamespace(synchronize=lambda: None)
        patches = (
            mock.patch.object(gpu_lock, "lock_of", lambda _: self.lock_once()),
            mock.patch.object(torch, "_TorchCompileInductorWrapper", inductor),
        )
        self.lock_once = lambda: gpu_lock.DeviceLock(self.path)
        with patches[0], patches[1]:
            made = {}
            for name in ("compile", "compile-autotune"):
                with baseline.first_calls(name, fake) as compiled_as:
                    made[name] = compiled_as(lambda x: x + 1)
                    made[name](torch.ones(2))
            # Of another shape: Dynamo asks its backend again.
            for function in made.values():
                self.assertEqual(function(torch.ones(3)).tolist(), [2, 2, 2])

    def test_within_a_share_it_can_be_let_go(self):
        lock = self.lock()
        with lock.shared():
            with lock.released():
                self.assertTrue(self.is_free(fcntl.LOCK_EX))
            self.assertFalse(self.is_free(fcntl.LOCK_EX))

    def test_as_many_as_fit_have_room(self):
        first, second, third = self.lock(), self.lock(), self.lock()
        order = []
        half, quarter = gpu_lock.ROOM_PARTS // 2, gpu_lock.ROOM_PARTS // 4
        # Too much for a quarter beside it: the two can only follow each other.
        most = gpu_lock.ROOM_PARTS - quarter + 1
        with first.room(half), second.room(quarter):
            self.assertLess(second.waited_s, 0.1)
            waiting = self.begin(self.take_room, third, order, most)
            # Who would fit does not pass by who has waited longer.
            fourth = self.begin(self.take_room, self.lock(), order, quarter)
            self.assertEqual(order, [])
        waiting.join()
        fourth.join()
        self.assertEqual(order, [most, quarter])

    def test_room_grows_only_while_nobody_waits(self):
        first, second = self.lock(), self.lock()
        with first.room(3):
            self.assertTrue(first.extend_room(5))
            self.assertEqual(first.room_held, 5)
            with second.room(gpu_lock.ROOM_PARTS - 5):
                self.assertFalse(first.extend_room(6))
            self.assertFalse(first.is_room_sought())
            waiting = self.begin(self.take_room, second, [], gpu_lock.ROOM_PARTS)
            self.assertTrue(first.is_room_sought())
            self.assertFalse(first.extend_room(5))
        waiting.join()
        self.assertEqual((first.room_held, second.room_held), (0, 0))
        self.assertFalse(first.is_room_sought())

    def test_room_is_by_the_size_of_tensors(self):
        gib = 1 << 30
        parts = [gpu_lock.parts_of(140 * gib, n * gib) for n in (3, 8, 12, 18)]
        self.assertEqual(parts, [3, 8, 11, 16])
        self.assertEqual(gpu_lock.parts_of(80 * gib, 100 * gib), 16)
        near = gpu_lock.parts_of(140 * gib, 12 * gib, gpu_lock.ROOM_COPIES_NEAR)
        self.assertLessEqual(2 * near, gpu_lock.ROOM_PARTS)

    def test_all_of_the_memory_is_for_one(self):
        first, second = self.lock(), self.lock()
        order = []
        with first.room(gpu_lock.ROOM_PARTS):
            waiting = threading.Thread(target=lambda: self.take_room(second, order))
            waiting.start()
            time.sleep(0.2)
            order.append("first")
        waiting.join()
        self.assertEqual(order, ["first", gpu_lock.ROOM_PARTS])
        self.assertGreater(second.waited_s, 0.1)

    def test_a_capture_that_lacks_memory_has_all_of_it_the_next_time(self):
        mine, seen = self.lock(), []

        def attempt():
            seen.append(self.is_room_free())
            if len(seen) == 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return "graph"

        self.assertEqual(capture.with_room(attempt, 0, mine), "graph")
        self.assertEqual(seen, [True, False])
        self.assertTrue(self.is_room_free())

    def test_a_capture_that_fails_otherwise_fails(self):
        def attempt():
            raise ValueError("no such thing")

        with self.assertRaises(ValueError):
            capture.with_room(attempt, 1, self.lock())

    def is_room_free(self):
        """Whether anybody could have a part."""
        path = self.path + ".room0"
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def take_room(self, lock, order, parts=gpu_lock.ROOM_PARTS):
        with lock.room(parts):
            order.append(parts)

    def test_who_hangs_is_waited_for_no_longer_than_agreed(self):
        lock = self.lock()
        with lock.shared(), lock.for_at_most(0.05):
            until = time.monotonic() + 5
            while not self.is_free(fcntl.LOCK_EX):
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
        with lock.shared(), lock.for_at_most(60):
            self.assertFalse(self.is_free(fcntl.LOCK_EX))

    def test_two_hold_it_together(self):
        first, second = self.lock(), self.lock()
        with first.shared(), second.shared():
            self.assertLess(second.waited_s, 1)


if __name__ == "__main__":
    unittest.main()
