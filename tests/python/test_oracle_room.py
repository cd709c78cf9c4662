"""Memory that an oracle keeps between requests, gives up for others, and allocates late."""

import contextlib
import os
import shutil
import tempfile
import threading
import time
import unittest
from unittest import mock

from weft.candidate import harness
from weft.device import gpu_lock
from weft.judge import kernelbench_tolerance
from weft.oracle import oracle, serving
from weft.timing import timing

import torch

CUBLAS = "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"


def setUpModule():
    global folder, shared
    folder = tempfile.mkdtemp(prefix="weft-oracle-")
    torch.set_grad_enabled(False)
    shared = oracle.Oracle(os.path.join(folder, "scratch"), [], 2)


def tearDownModule():
    shared.close()
    shutil.rmtree(folder)


class Memory(unittest.TestCase):
    def test_who_lacks_it_tries_again_with_all_of_it(self):
        def raises():
            raise torch.OutOfMemoryError("others have it")

        self.assert_tried_again(raises)

    def test_so_does_who_lacks_a_librarys(self):
        def raises():
            raise RuntimeError(f"CUDA error: {CUBLAS}")

        self.assert_tried_again(raises)
        failed = harness._failure(RuntimeError(CUBLAS))
        self.assertTrue(failed["out_of_memory"])
        self.assertFalse(harness._failure(ValueError("x"))["out_of_memory"])

    def test_so_does_a_candidate_on_a_device(self):
        device = mock.patch.multiple(
            shared.device,
            is_cuda=True,
            is_short=lambda: False,
            is_half_free=lambda: True,
            create=True,
        )
        for lacking in (
            {"verdict": {"kind": "out_of_memory"}},
            {"verdict": {"kind": "wrong", "lacks_float64": True}},
            {"timing": {"rejected": "out_of_memory: cuMemAlloc"}},
            {"timing": {"rejected": "wrong: a timed call's …", "lacks_float64": True}},
        ):
            with mock.patch.object(shared, "rest"), device:
                self.assert_tried_again(lambda lacking=lacking: lacking)

    def assert_tried_again(self, first):
        parts, tries = [], []

        class Lock(gpu_lock.NoLock):
            def room(self, wanted):
                parts.append(wanted)
                return self.shared()

        def verb(request):
            tries.append(request)
            return first() if len(tries) == 1 else {"made": True}

        with (
            mock.patch.object(shared, "lock", Lock()),
            mock.patch.dict(shared.verbs, {"make": verb}),
        ):
            self.assertTrue(shared.answer({"id": 1, "verb": "make"})["made"])
            shared.rest()
        self.assertEqual(parts, [gpu_lock.ROOM_PARTS])


PROBLEM = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x)


def get_init_inputs():
    return []


draws = []


def get_inputs():
    draws.append(torch.initial_seed())
    return [torch.rand(4, 8)]
"""


class DrawingAhead(unittest.TestCase):
    """KernelBench's draws of a large model, which the processor makes."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = os.path.join(self.folder, "problem.py")
        for path, text in (
            (self.path, PROBLEM),
            (self.path + ".new", PROBLEM.replace("class Model", "class ModelNew")),
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def judged(self, **more):
        """(verdict's kernelbench, what was drawn when room was asked for)."""
        before_room = []

        class Lock(gpu_lock.NoLock):
            def room(self, parts):
                before_room.append(shared.drawn)
                return self.shared()

        request = {
            "verb": "check_model",
            "problem": self.path,
            "random_seed": 1,
            "composed": self.path + ".new",
            "baselines": [],
            "rules": ["kernelbench"],
            **more,
        }
        with (
            mock.patch.object(shared, "lock", Lock()),
            mock.patch.object(shared, "parts_for", lambda request: 4),
        ):
            reply = shared.answer(request)
            shared.rest()
        self.assertTrue(reply["ok"], reply)
        return reply["verdict"]["kernelbench"], before_room

    def test_is_done_before_there_is_room_and_not_again(self):
        found, (drawn,) = self.judged()
        self.assertEqual((found["outcome"], found["draws"]), ("within", 5))
        self.assertGreater(drawn.seconds, 0)
        self.assertIsNone(shared.drawn)
        seeds = shared.whole({"problem": self.path, "random_seed": 1}).problem.module.draws
        first = kernelbench_tolerance.trial_seeds()[0]
        self.assertNotIn(first, seeds)  # by the other module, of which it is
        self.assertIn(kernelbench_tolerance.trial_seeds()[1], seeds)

    def test_is_not_done_where_the_host_has_no_room(self):
        with mock.patch.object(oracle, "DRAWN_SHARE", -1):
            found, (drawn,) = self.judged()
        self.assertEqual((found["outcome"], drawn), ("within", None))

    def test_is_only_done_where_that_rule_judges(self):
        found, (drawn,) = self.judged(
            rules=["weft"], limits={"wall_ms": 4000, "memory_bytes": 1 << 29}
        )
        self.assertEqual((found, drawn), ({}, None))


class Keeping(unittest.TestCase):
    """What stays between requests of large tensors, on a stand-in device."""

    GIB = 1 << 30

    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.path = os.path.join(folder, "gpu")
        self.lock = self.new_lock()
        self.addCleanup(shared.room.close)
        self.give_back = mock.Mock()
        self.free_gib = 100
        driver = mock.Mock()
        driver.memory_bytes.return_value = 140 * self.GIB
        for target, name, value in (
            (shared, "lock", self.lock),
            (shared, "bytes", {}),
            (shared, "may_keep", True),
            (shared, "give_back", self.give_back),
            (shared, "later", None),
            (shared, "in_vain_until", 0.0),
            (shared.device, "works", lambda: True),
            (shared.device, "free_bytes", lambda: self.free_gib * self.GIB),
            (shared.device, "driver", driver),
            (shared.device, "is_cuda", True),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def new_lock(self):
        made = gpu_lock.DeviceLock(self.path)
        self.addCleanup(made.close)
        return made

    def answer_about(self, gib, verb=lambda request: {}):
        """A request about so much; the parts that it had."""
        shared.bytes["problem.py"] = gib * self.GIB
        held = []

        def noting(request):
            held.append(self.lock.room_held)
            return verb(request)

        with mock.patch.dict(shared.verbs, {"make": noting}):
            shared.answer({"verb": "make", "problem": "problem.py"})
        shared.rest()
        return held

    def test_large_things_stay_while_nobody_needs_the_room(self):
        self.assertEqual(self.answer_about(4), [4])
        self.assertEqual(self.lock.room_held, 7)  # for a verdict beside them
        self.assertIsNotNone(shared.idle())
        self.give_back.reset_mock()
        self.assertEqual(self.answer_about(4), [7])
        self.give_back.assert_not_called()

    def test_they_go_as_soon_as_somebody_waits(self):
        self.answer_about(4)
        self.give_back.reset_mock()
        other = self.new_lock()

        def take():
            with other.room(gpu_lock.ROOM_PARTS):
                pass

        waiting = threading.Thread(target=take)
        waiting.start()
        until = time.monotonic() + 5
        while shared.idle() is not None:
            self.assertLess(time.monotonic(), until)
        waiting.join(5)
        self.assertFalse(waiting.is_alive())
        self.give_back.assert_called_once()

    def test_what_was_put_off_waits_for_no_room(self):
        request = {"verb": "make", "problem": "problem.py"}
        shared.bytes["problem.py"] = 4 * self.GIB
        made = mock.Mock(return_value={})
        with (
            mock.patch.dict(shared.verbs, make=made),
            self.new_lock().room(gpu_lock.ROOM_PARTS - 1),
        ):
            shared.later = request
            shared.idle()
        made.assert_not_called()
        self.assertIsNone(shared.later)
        self.assertEqual(self.lock.room_held, 0)

    def test_what_leaves_too_little_is_given_back(self):
        self.answer_about(12)
        self.give_back.assert_called()
        self.assertEqual(self.lock.room_held, 0)
        self.assertIsNone(shared.idle())

    def test_so_is_all_once_that_was_too_much(self):
        tries = []

        def lacks_memory(request):
            tries.append(self.lock.room_held)
            if len(tries) == 1:
                raise torch.OutOfMemoryError("kept too much")
            return {}

        self.answer_about(4, lacks_memory)
        self.assertEqual(tries, [4, gpu_lock.ROOM_PARTS])
        self.assertEqual(self.lock.room_held, 0)

    def kept(self, gib):
        """As if a small subgraph's cases took so much; those given up."""
        given_up = []
        known = mock.Mock(bytes=gib * self.GIB)

        def forget():
            given_up.append(gib)
            known.bytes = 0
            self.free_gib += gib

        known.forget = forget
        patch = mock.patch.object(shared, "known", known)
        patch.start()
        self.addCleanup(patch.stop)
        return given_up

    def test_cases_go_where_somebody_lacks_memory(self):
        for keeps in (0, 10):
            given_up, self.free_gib = self.kept(keeps), 1
            other = threading.Thread(
                target=self.new_lock().seek, args=(lambda: self.free_gib > 4, 5 if keeps else 0.2)
            )
            other.start()
            while other.is_alive():
                shared.idle()
                time.sleep(0.005)
            other.join()
            self.assertEqual(given_up, [10] if keeps else [])

    def test_they_go_after_a_reply_too(self):
        given_up, self.free_gib = self.kept(10), 50
        with self.sought():
            self.answer_about(1)
        self.assertEqual(given_up, [10])

    @contextlib.contextmanager
    def sought(self):
        """Somebody looks for memory meanwhile."""
        found = threading.Event()
        other = threading.Thread(target=self.new_lock().seek, args=(found.is_set, 60))
        other.start()
        while not self.lock.is_room_sought():
            time.sleep(0.005)
        yield
        found.set()
        other.join()

    def test_who_finds_little_seeks_more_but_not_for_ever(self):
        self.free_gib = 1
        with mock.patch.object(oracle, "SHORT_WAIT_S", 0.1):
            start = time.monotonic()
            self.assertEqual(self.answer_about(1), [0])
            self.assertGreater(time.monotonic() - start, 0.1)
        given_up = self.kept(0)
        with mock.patch.object(self.lock, "seek") as seek:  # it was in vain
            self.answer_about(1)
        seek.assert_not_called()
        self.assertEqual(given_up, [])

    def test_what_is_learnt_when_short_of_memory_is_learnt_anew(self):
        tries = []

        def learns(request):
            tries.append(self.lock.room_held)
            self.free_gib = left
            shared.device.assert_not_short()
            return {}

        for left in (1, 30):  # a convolution may take 40 beside its own 2
            tries.clear()
            with mock.patch.object(oracle, "SHORT_WAIT_S", 0.1):
                # Alone with it, too little is all that there is.
                self.answer_about(1, learns)
            self.assertEqual(tries, [0, gpu_lock.ROOM_PARTS])
        tries.clear()
        left = 100
        self.answer_about(1, learns)
        self.assertEqual(tries, [0])
        self.assertFalse(shared.device.may_be_short)

    def test_who_needs_more_than_is_kept_seeks_it_anew(self):
        self.answer_about(3)
        self.give_back.reset_mock()
        with self.new_lock().room(5):
            self.assertLess(self.lock.room_held, 8)
            self.assertEqual(self.answer_about(8), [8])
        self.give_back.assert_called()


class PuttingOff(unittest.TestCase):
    def test_a_process_that_begins_is_not_waited_for(self):
        made = []
        patches = (
            mock.patch.object(timing.Timer, "is_starting", True),
            mock.patch.object(
                shared, "whole", lambda _: made.append("whole") or mock.Mock(is_large=False)
            ),
            mock.patch.object(shared, "model_bench", lambda *_: (None, "key")),
            mock.patch.object(timing.Timer, "prepare", lambda *_: made.append("bench")),
        )
        request = {"verb": "prepare_model", "problem": "problem.py"}
        with contextlib.ExitStack() as held:
            for patch in patches:
                held.enter_context(patch)
            self.assertTrue(shared.answer(request)["ok"])
            self.assertIsNotNone(shared.idle())
            self.assertEqual(made, [])
            with mock.patch.object(timing.Timer, "is_starting", False):
                self.assertIsNone(shared.idle())
            self.assertEqual(made, ["whole", "bench"])
            # The next request does it first; who times does it by itself.
            for verb, wanted in (("probe", 4), ("time_model", 4)):
                shared.answer(request)
                with (
                    mock.patch.object(timing.Timer, "is_starting", False),
                    mock.patch.dict(shared.verbs, {verb: lambda _: {}}),
                ):
                    shared.answer({"verb": verb})
                self.assertEqual(len(made), wanted)
                self.assertIsNone(shared.later)

    def test_a_large_model_waits_until_it_is_quiet(self):
        made = []
        request = {"verb": "prepare_model", "problem": "problem.py"}
        patches = (
            mock.patch.object(shared, "parts_for", lambda _: 4),
            mock.patch.object(shared, "later", request),
            mock.patch.object(shared, "busy_at", time.monotonic()),
            mock.patch.object(shared.lock, "room", lambda _: shared.lock.shared()),
            mock.patch.object(shared.lock, "extend_room", lambda _: True, create=True),
            mock.patch.dict(
                shared.verbs, prepare_model=lambda _: made.append(1) or {}, probe=lambda _: {}
            ),
        )
        with contextlib.ExitStack() as held:
            for patch in patches:
                held.enter_context(patch)
            with mock.patch.object(oracle, "QUIET_S", 100.0):
                shared.answer({"verb": "probe"})
                self.assertIsNotNone(shared.idle())
            self.assertEqual(made, [])
            with mock.patch.object(oracle, "QUIET_S", 0.0):
                shared.idle()
            self.assertEqual(made, [1])
            self.assertIsNone(shared.later)

    def test_lines_come_whole_and_waits_are_used(self):
        ours, theirs = os.pipe()
        waits = []

        def idle():
            waits.append(1)
            if len(waits) == 2:
                os.write(theirs, b"b\nc\nd")
            elif len(waits) == 4:
                os.write(theirs, b"e\n")
                os.close(theirs)
            return 0.01

        os.write(theirs, b"a\n")
        lines = list(serving.lines_of(ours, idle))
        os.close(ours)
        self.assertEqual(lines, ["a", "b", "c", "de"])


if __name__ == "__main__":
    unittest.main()
