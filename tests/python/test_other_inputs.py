"""weft.optimize: what becomes of calls with inputs that it was not given."""

import contextlib
import threading
import unittest
from unittest import mock

import torch
from backend_case import WAIT_S, OptimizedCase

import weft
from weft.backend.entry import dispatch
from weft.backend.searches import search


class OtherInputs(OptimizedCase):
    def setUp(self):
        super().setUp()
        self.dispatch = self.mine.__dict__["_weft"]

    def await_searches(self):
        for pending in self.dispatch._pending:
            self.assertTrue(pending.kernels.settled.wait(WAIT_S))

    @torch.no_grad()
    def call(self, *sizes):
        """How many of these calls kernels compute, where each waits for the
        search that the one before it began."""
        before = self.calls()
        for size in sizes:
            x = torch.randn(size, 12)
            self.assert_same(self.mine(x), self.net(x))
            self.await_searches()
        return self.calls() - before

    @torch.no_grad()
    def test_other_inputs_get_kernels_in_the_background(self):
        other, third = torch.randn(7, 12), torch.randn(12, 5).t()
        third = torch.cat([third, third, third], 1)[:, :12]
        for x in (other, third):
            for _ in range(2):  # its search begins when it comes again
                self.check(False, x)
            self.await_searches()
            for _ in range(2):  # is tried, then is taken
                self.assert_same(self.mine(x), self.net(x))
            self.check(True, x)
        self.check(True)
        self.assertEqual(len(self.dispatch.entries), 3)

    @torch.no_grad()
    def test_other_inputs_have_a_bound(self):
        mine, _ = weft.optimize(self.net, self.x, shapes_max=1)
        for _ in range(3):
            self.check(False, torch.randn(7, 12), mine=mine)
        self.assertEqual(mine.__dict__["_weft"]._pending, ())

    @torch.no_grad()
    def test_lengths_that_never_return_use_up_no_searches(self):
        """As of a key-value cache that grows with each call."""
        self.call(*range(5, 30))
        self.assertEqual((self.dispatch._pending, self.runs()), ((), 1))
        self.call(40, 40, 40)
        self.assertEqual(self.call(40), 1)

    @torch.no_grad()
    def test_sizes_that_are_marked_begin_at_once(self):
        x = torch.randn(7, 12)
        torch._dynamo.mark_dynamic(x, 0)
        self.check(False, x)
        self.await_searches()
        self.assertEqual(self.runs(), 2)

    def test_inputs_with_gradients_are_not_learned(self):
        for _ in range(3):
            self.check(False, torch.randn(7, 12))
        self.assertEqual(self.dispatch._pending, ())

    @torch.no_grad()
    def test_other_inputs_that_find_nothing_stay_the_module_s_own(self):
        self.set_environment(FAKE_WEFT="fails")
        x = torch.randn(7, 12)
        for _ in range(2):
            self.check(False, x)
        self.await_searches()
        for _ in range(2):
            self.check(False, x)
        self.assertIn("this run fails", str(weft.explain(self.mine)))
        self.check(True)

    def test_inputs_that_came_once_hold_up_no_others(self):
        self.call(5, 5)
        self.call(6, 6, 6)  # begins when it comes again, and is tried
        self.assertEqual(self.call(*[6] * 10), 10)
        self.call(5)  # is tried
        self.assertEqual(self.call(5, 6, 4), 3)
        self.assertEqual(self.dispatch._pending, ())

    def test_inputs_that_alternate_get_kernels_each(self):
        self.call(5, 6, 5, 6, 5, 6)
        self.assertEqual(self.call(5, 6, 5, 6), 4)

    def test_of_many_inputs_the_first_get_kernels(self):
        """Of four kinds by default, that of optimize() included."""
        many = [5, 6, 7, 8, 9]
        self.call(*many, *many, *many)
        self.assertEqual(self.call(*many, *many), 6)
        self.assertEqual(self.runs(), 4)
        self.assertEqual(len(self.dispatch.entries), 4)

    @torch.no_grad()
    def test_one_search_at_a_time_is_under_way(self):
        went_on, real = threading.Event(), search.search

        def slow(*words):
            went_on.wait(WAIT_S)
            return real(*words)

        with mock.patch.object(search, "search", slow):
            for size in (5, 5, 6, 6):
                self.check(False, torch.randn(size, 12))
            self.assertEqual(len(self.dispatch._pending), 1)
            went_on.set()
            self.await_searches()
        self.call(6, 6, 6)
        self.assertEqual(self.call(6), 1)

    def test_one_kind_is_captured_at_a_time_whoever_calls(self):
        """torch.export is not for two threads."""
        real, inside = dispatch.begin_search, threading.Barrier(2)

        def slow(*words):
            with contextlib.suppress(threading.BrokenBarrierError):
                inside.wait(2)
            return real(*words)

        def work(number):
            with torch.no_grad():
                self.assert_same(self.mine(kinds[number]), self.net(kinds[number]))

        kinds = [torch.randn(7, 12), torch.randn(9, 12)]
        self.call(7, 9)
        with mock.patch.object(dispatch, "begin_search", slow):
            self.assertEqual(self.in_threads(2, work), [])
        self.assertTrue(inside.broken)  # no two met there


if __name__ == "__main__":
    unittest.main()
