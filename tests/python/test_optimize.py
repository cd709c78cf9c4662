"""weft.optimize: the module's own class, state and behaviour, with kernels
where its guards allow them."""

import contextlib
import copy
import io
import os
import pickle
import sys
import threading
import time
import unittest
from unittest import mock

import torch
from backend_case import BUDGET_S, WAIT_S, BackendCase, Net
from torch import nn

import weft
from weft.backend import captured, composed_module, optimize


class Nested(nn.Module):
    """Takes and gives structures, writes a buffer, and has a batch norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, pair, flag=True, *, extra=None):
        self.count.add_(1)
        y = self.norm(pair[0]) * pair[1]["b"]
        if extra is not None:
            y = y + extra
        return {"y": y if flag else -y, "same": pair[0]}


class Optimized(BackendCase):
    def setUp(self):
        super().setUp()
        self.net, self.x = Net(), torch.randn(4, 12)
        self.mine, self.report = weft.optimize(
            self.net, [self.x], budget_s=BUDGET_S)
        self.assertTrue(self.report.ready, str(self.report))

    def calls(self, module=None):
        """Calls that kernels computed so far."""
        return (module or self.mine).__dict__["_weft"].calls

    def check(self, by_kernels, x=None, net=None, mine=None):
        net, mine = net or self.net, mine or self.mine
        x = self.x if x is None else x
        before = self.calls(mine)
        self.assert_same(mine(x), net(x))
        self.assertEqual(self.calls(mine) - before, int(by_kernels))

    @torch.no_grad()
    def test_it_is_the_same_module_with_kernels(self):
        self.check(True)
        self.assertIsInstance(self.mine, Net)
        self.assertEqual(list(self.mine.state_dict()),
                         list(self.net.state_dict()))
        self.assertIs(self.mine.scale, self.net.scale)
        self.net.scale.mul_(2)
        self.check(True)
        self.net.scale = nn.Parameter(torch.rand(12))
        self.check(True)

    @torch.no_grad()
    def test_what_was_not_captured_is_the_module_s_own(self):
        self.check(False, torch.randn(5, 12))
        self.check(False, torch.randn(12, 4).t())
        self.net.factor = self.mine.factor = 3.0
        self.check(False)
        self.net.factor = self.mine.factor = 2.0
        self.check(True)
        self.mine.linear.eval()
        self.check(False)
        self.mine.linear.train()
        self.check(True)

    @torch.no_grad()
    def test_hooks_are_called(self):
        handle = self.net.linear.register_forward_hook(
            lambda module, args, result: result + 1)
        self.check(False)
        handle.remove()
        self.check(True)
        self.net.register_forward_hook(lambda module, args, result: -result)
        self.check(True)  # around forward(), whoever computes it

    def test_gradients_are_the_module_s_own(self):
        self.check(False)
        self.mine(self.x).square().sum().backward()
        mine = self.net.scale.grad.clone()
        self.net.zero_grad()
        self.net(self.x).square().sum().backward()
        self.assert_same(mine, self.net.scale.grad)
        self.mine.requires_grad_(False)
        self.check(True)

    def test_modes(self):
        with torch.inference_mode():
            self.check(True)
        with torch.no_grad():
            with torch.autocast("cpu", torch.bfloat16):
                self.check(False)
            self.assert_same(torch.func.vmap(self.mine)(self.x[None]),
                             self.net(self.x)[None])
            self.set_environment(WEFT_DISABLE="1")
            self.check(False)

    @torch.no_grad()
    def test_other_types(self):
        self.mine.double()
        self.check(False, self.x.double())
        self.mine.float()
        self.check(True)

    @torch.no_grad()
    def test_halves(self):
        for change in (nn.Module.half, nn.Module.bfloat16):
            net = change(Net())
            x = self.x.to(net.scale.dtype)
            mine, report = weft.optimize(net, [x], budget_s=BUDGET_S)
            self.assertTrue(report.ready, str(report))
            for _ in range(2):
                self.check(True, x, net, mine)
            self.assertEqual(mine(x).dtype, x.dtype)
            change(self.mine)  # which is made for another type
            self.check(False, x, self.net, self.mine)
            self.mine.float()
        self.check(True)

    def test_threads_that_call_while_kernels_come_in(self):
        """Four of them with known inputs and with two other kinds, whose search
        begins and ends meanwhile."""
        kinds = [self.x, torch.randn(7, 12), torch.randn(9, 12)]
        expected = [self.net(x).detach() for x in kinds]
        dispatch = self.mine.__dict__["_weft"]

        def work(number):
            until, after = time.monotonic() + WAIT_S, 0
            with torch.no_grad():
                while after < 20 and time.monotonic() < until:
                    after += len(dispatch.entries) == 3
                    for i in range(3):
                        which = (i + number) % 3
                        self.assert_same(self.mine(kinds[which]),
                                         expected[which])

        self.assertEqual(self.in_threads(4, work), [])
        told = str(weft.explain(self.mine))
        self.assertEqual(len(dispatch.entries), 3, told)
        self.assertEqual(self.runs(), 3, told)
        with torch.no_grad():
            for x in kinds:
                self.check(True, x)

    @torch.no_grad()
    def test_entries_that_come_hide_no_other(self):
        """A call goes through the entries that there were, at whichever line
        of it another thread adds one."""
        dispatch = self.mine.__dict__["_weft"]
        entry, added = dispatch.entries[0], []

        def add(frame, event, arg):
            if frame.f_code.co_filename != optimize.__file__:
                return None
            if not dispatch._lock.locked():
                dispatch.add(entry)
                added.append(frame.f_lineno)
            return add

        sys.settrace(add)
        try:
            self.check(True)
        finally:
            sys.settrace(None)
        self.assertGreater(len(set(added)), 10)

    @torch.no_grad()
    def test_inputs_that_kernels_decline_begin_no_second_search(self):
        def declined(arguments):
            raise composed_module.Declined("not today")

        for entry in self.mine.__dict__["_weft"].entries:
            entry.composed = declined
        for mine in (self.mine, copy.deepcopy(self.mine)):
            self.check(False, mine=mine)
            self.assertIsNone(mine.__dict__["_weft"]._pending)

    def test_one_kind_is_captured_at_a_time_whoever_calls(self):
        """torch.export is not for two threads."""
        real, inside, begun = optimize._begin, threading.Barrier(2), []

        def slow(*words):
            begun.append(words)
            with contextlib.suppress(threading.BrokenBarrierError):
                inside.wait(2)
            return real(*words)

        def work(number):
            with torch.no_grad():
                self.assert_same(self.mine(kinds[number]),
                                 self.net(kinds[number]))

        kinds = [torch.randn(7, 12), torch.randn(9, 12)]
        with mock.patch.object(optimize, "_begin", slow):
            self.assertEqual(self.in_threads(2, work), [])
        self.assertEqual(len(begun), 1)

    def test_a_thread_s_gradients_are_its_own_whatever_others_call_with(self):
        self.mine.requires_grad_(False)
        real, x = captured._guards_of, self.x.clone().requires_grad_()
        failures = []

        def interrupted(tensors):
            """Between two steps of a call, one of another thread."""
            made = real(tensors)
            with mock.patch.object(captured, "_guards_of", real):
                failures.extend(self.in_threads(
                    1, lambda _: self.check(True)))
            return made

        with mock.patch.object(captured, "_guards_of", interrupted):
            self.assertTrue(self.mine(x).requires_grad)
        self.assertEqual(failures, [])

    @torch.no_grad()
    def test_copies_and_pickles(self):
        twin = copy.deepcopy(self.mine)
        self.check(True, mine=twin)
        self.net.scale.zero_()  # the copy has its own
        self.assertFalse(torch.equal(twin(self.x), self.net(self.x)))
        again = pickle.loads(pickle.dumps(self.mine))
        self.check(True, mine=again)
        path = os.path.join(self.folder, "module.pt")
        weft.save(self.mine, path)
        weft.cache.clear()
        self.check(True, mine=weft.load(path))
        with self.assertRaises(ValueError):
            torch.save([1], path)
            weft.load(path)

    @torch.no_grad()
    def test_more_inputs_can_be_learned(self):
        x = torch.randn(7, 12)
        same, report = weft.optimize(self.mine, [x])
        self.assertIs(same, self.mine)
        self.assertTrue(report.ready, str(report))
        self.check(True, x)
        self.check(True)

    @torch.no_grad()
    def test_other_inputs_get_kernels_in_the_background(self):
        other, third = torch.randn(7, 12), torch.randn(12, 5).t()
        third = torch.cat([third, third, third], 1)[:, :12]
        for x in (other, third):
            self.check(False, x)
            pending = self.mine.__dict__["_weft"]._pending
            self.assertTrue(pending.kernels.settled.wait(WAIT_S))
            for _ in range(2):  # is tried, then is taken
                self.assert_same(self.mine(x), self.net(x))
            self.check(True, x)
        self.check(True)
        self.assertEqual(len(self.mine.__dict__["_weft"].entries), 3)

    @torch.no_grad()
    def test_other_inputs_have_a_bound(self):
        mine, _ = weft.optimize(self.net, self.x, shapes_max=1)
        self.check(False, torch.randn(7, 12), mine=mine)
        self.assertIsNone(mine.__dict__["_weft"]._pending)

    def test_inputs_with_gradients_are_not_learned(self):
        self.check(False, torch.randn(7, 12))
        self.assertIsNone(self.mine.__dict__["_weft"]._pending)

    @torch.no_grad()
    def test_other_inputs_that_find_nothing_stay_the_module_s_own(self):
        self.set_environment(FAKE_WEFT="fails")
        x = torch.randn(7, 12)
        self.check(False, x)
        pending = self.mine.__dict__["_weft"]._pending
        self.assertTrue(pending.kernels.settled.wait(WAIT_S))
        for _ in range(2):
            self.check(False, x)
        self.assertIn("this run fails", str(weft.explain(self.mine)))
        self.check(True)

    @torch.no_grad()
    def test_kernels_that_fail_are_given_up(self):
        self.set_environment(FAKE_WEFT="later")
        weft.cache.clear()
        mine, report = weft.optimize(self.net, [self.x])
        self.assertTrue(report.ready, str(report))
        self.check(False, mine=mine)  # the look at the end was its first call
        self.assertIn("fell over", str(weft.explain(mine)))


class Others(BackendCase):
    @torch.no_grad()
    def test_structures_buffers_and_keywords(self):
        for training in (True, False):
            net = Nested().train(training)
            twin = copy.deepcopy(net)
            pair = [torch.randn(4, 6), {"b": torch.randn(4, 6)}]
            extra = torch.randn(6)
            mine, report = weft.optimize(twin, [pair],
                                         kwargs={"extra": extra})
            self.assertTrue(report.ready, str(report))
            for _ in range(3):
                self.assert_same(mine(pair, extra=extra),
                                 net(pair, extra=extra))
                self.assert_same(dict(mine.named_buffers()),
                                 dict(net.named_buffers()))
            self.assertEqual(mine.__dict__["_weft"].calls, 3)
            self.assert_same(mine(pair, False, extra=extra),
                             net(pair, False, extra=extra))
            self.assertEqual(mine.__dict__["_weft"].calls, 3)

    def test_what_cannot_be_captured_stays_and_says_why(self):
        class Branch(nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x

        mine, report = weft.optimize(Branch(), torch.ones(3))
        self.assertFalse(report.ready)
        self.assertIn("torch.export cannot capture it", report.reason)
        self.assert_same(mine(-torch.ones(3)), -torch.ones(3))

    def test_only_modules_are_taken(self):
        with self.assertRaises(TypeError):
            weft.optimize(lambda x: x, torch.ones(3))

    def test_wrong_kernels_are_not_taken(self):
        self.set_environment(FAKE_WEFT="wrong")
        net, x = Net(), torch.randn(4, 12)
        mine, report = weft.optimize(net, x)
        self.assertFalse(report.ready)
        self.assertIn("something else", report.reason)
        self.assert_same(mine(x), net(x))


class Verify(BackendCase):
    def test_a_module_is_itself_and_no_other(self):
        net, x = Net(), torch.randn(4, 12)
        verdict = weft.verify(net, copy.deepcopy(net), [x])
        self.assertTrue(verdict, verdict)
        other = copy.deepcopy(net)
        with torch.no_grad():
            other.scale[3] *= 1.01
        verdict = weft.verify(net, other, [x])
        self.assertFalse(verdict)
        self.assertGreater(verdict.error, verdict.tolerance)
        self.assertIn("shape", weft.verify(
            net, lambda x: net(x)[:2], [x]).reason)
        self.assertIn("raised", weft.verify(net, lambda x: x.nothing, x).reason)

    def test_an_input_that_is_written_is_seen(self):
        self.assertFalse(weft.verify(
            lambda x: x + 1, lambda x: x.add_(1), torch.ones(3)))

    def test_random_numbers_are_left_alone(self):
        state = torch.get_rng_state()
        weft.verify(nn.Dropout(), nn.Dropout(), torch.ones(100))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))


class Explain(BackendCase):
    def test_graph_breaks_are_told_with_their_line(self):
        def breaks(x):
            y = x + 1
            print("a line that breaks the graph", file=io.StringIO())
            return y * 2

        told = weft.explain(breaks, torch.ones(3))
        self.assertEqual(len(told.breaks), 1, told)
        self.assertIn("test_optimize.py", told.breaks[0])


if __name__ == "__main__":
    unittest.main()
