"""weft.optimize: kernels are for the calls that were captured; what forward()
does besides computing is not lost, and no other call uses them."""

import dataclasses
import random
import threading
import unittest

import numpy
import torch
from backend_case import BUDGET_S, BackendCase, OptimizingCase
from torch import nn

import weft
import weft.backend
from weft.backend.searches import search_queue


class Of(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x.tanh() * self.n


class Noted(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        y = x.tanh()
        self.seen.append(y)
        return y + 1


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", None)

    def forward(self, x):
        if self.cache is None:
            self.cache = x.tanh() * 2
        return x.relu() + self.cache


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", None)

    def forward(self, x):
        y = x.tanh()
        return y if self.shift is None else y + self.shift


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 8))

    def forward(self, x):
        y = x.tanh()
        self.kept.copy_(y)
        return y


class Again(nn.Module):
    """Assigns what it has already, as many do."""

    def forward(self, x):
        self.width = x.shape[-1] * 1000
        self.place = x.device
        return x.tanh() * self.width


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(8))
        self.b = self.a

    def forward(self, x):
        return (x * self.a).tanh() + (x * self.b).relu()


class Made(nn.Module):
    def __new__(cls, width):
        return super().__new__(cls)

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x).tanh()


def first_written(x, y):
    x.add_(1)
    return x.tanh() + y.relu()


class CapturedCalls(OptimizingCase):
    @torch.no_grad()
    def test_one_tensor_twice_is_another_call(self):
        def difference(a, b):
            return a.tanh() - b.relu() if a is not b else a * 7

        module = Of(difference)
        x, y = torch.randn(2, 4, 8)
        twice = self.optimized(module, x, x)
        self.assert_same(twice(x, x), module(x, x))
        self.assertEqual(self.calls(twice), 1)
        self.assert_same(twice(x, y), module(x, y))
        self.assertEqual(self.calls(twice), 1)
        other = self.optimized(module, x, y)
        self.assert_same(other(y, x), module(y, x))
        self.assert_same(other(x, x), module(x, x))
        self.assertEqual(self.calls(other), 1)

    @torch.no_grad()
    def test_what_is_written_is_no_other_argument(self):
        module = Of(first_written)
        mine = self.optimized(module, torch.randn(4, 8), torch.randn(4, 8))
        whole = torch.randn(6, 8)
        for make in (lambda w: (w[:4], w[2:]), lambda w: (w[:4], w[:4])):
            got, want = whole.clone(), whole.clone()
            self.assert_same(mine(*make(got)), module(*make(want)))
            self.assert_same(got, want)
        self.assertEqual(self.calls(mine), 0)

    @torch.no_grad()
    def test_parts_of_one_allocation_are_two_arguments(self):
        module = Of(first_written)
        mine = self.optimized(module, torch.randn(4, 8), torch.randn(4, 8))
        got = torch.randn(8, 8)
        want = got.clone()
        self.assert_same(mine(got[:4], got[4:]), module(want[:4], want[4:]))
        self.assert_same(got, want)
        self.assertEqual(self.calls(mine), 1)
        shared = numpy.zeros((6, 8), "float32")  # two storages, and one memory
        mine(torch.from_numpy(shared[:4]), torch.from_numpy(shared[2:]))
        self.assertEqual(self.calls(mine), 1)

    @torch.no_grad()
    def test_what_is_copied_to_a_buffer_is_a_result_of_its_own(self):
        module, x = Kept(), torch.randn(4, 8)
        mine = self.optimized(module, x)
        got = mine(x)
        self.assertEqual(self.calls(mine), 1)
        self.assert_same(got, x.tanh())
        self.assert_same(mine.kept, got)
        self.assertNotEqual(mine.kept.data_ptr(), got.data_ptr())
        mine(x * 2)
        self.assert_same(got, x.tanh())

    def test_a_result_that_is_written_to_is_refused(self):
        for function in (
            lambda x: x.mul_(2),
            lambda x: x.mul_(2).view(-1),
            lambda x: x.mul_(2).split(2)[0],
            lambda x: torch.mul(x, 2, out=x),
        ):
            mine = self.optimized(Of(function), torch.randn(4, 8), ready=False)
            self.assertIn("view of", self.report.reason)
            x = torch.randn(4, 8)
            self.assertEqual(mine(x).data_ptr(), x.data_ptr())

    @torch.no_grad()
    def test_state_that_changes_results_is_refused(self):
        for kind, why in ((Counter, "second call"), (Cached, "buffers"), (Noted, "seen")):
            with self.subTest(kind.__name__):
                module, other = kind(), kind()
                mine = self.optimized(module, torch.randn(4, 8), ready=False)
                self.assertIn(why, self.report.reason)
                self.assertIs(mine, module)
                for _ in range(3):
                    x = torch.randn(4, 8)
                    self.assert_same(mine(x), other(x))

    @torch.no_grad()
    def test_other_state_is_frozen_and_the_module_s_own_is_untouched(self):
        def noting(x):
            seen.append(1)
            module.n += 1
            return x.tanh() + 1

        seen, module = [], Of(noting)
        module.n = 0
        mine, x = self.optimized(module, torch.randn(4, 8)), torch.randn(4, 8)
        before = list(seen)
        self.assert_same(mine(x), x.tanh() + 1)
        self.assertEqual((self.calls(mine), seen), (1, before))

    @torch.no_grad()
    def test_what_is_assigned_again_is_no_change(self):
        module, x = Again(), torch.randn(4, 8)
        module(x)
        mine = self.optimized(module, x)
        self.assert_same(mine(x), module(x))
        self.assertEqual(self.calls(mine), 1)

    @torch.no_grad()
    def test_a_zero_of_the_other_sign_is_another_number(self):
        x = torch.rand(4, 8)
        module = Of(lambda x, zero: zero / x)
        mine = self.optimized(module, x, 0.0)
        self.assert_same(mine(x, 0.0), module(x, 0.0))
        self.assertEqual(self.calls(mine), 1)
        self.assert_same(1 / mine(x, -0.0), 1 / module(x, -0.0))
        self.assertEqual(self.calls(mine), 1)

    @torch.no_grad()
    def test_recurrent_layers_mirror_their_parameters(self):
        for kind in (nn.LSTM, nn.GRU):
            module, x = kind(8, 8).eval(), torch.randn(3, 4, 8)
            mine = self.optimized(module, x)
            self.assert_close(mine(x)[0], module(x)[0])

    def assert_close(self, got, expected):
        torch.testing.assert_close(got, expected)

    @torch.no_grad()
    def own_after(self, module, change):
        """Kernels compute a call, and not the one after the change."""
        x = torch.randn(4, 8)
        mine = self.optimized(module, x)
        self.assert_same(mine(x), module(x))
        change(mine, module)
        self.assert_same(mine(x), module(x))
        self.assertEqual(self.calls(mine), 1)

    def test_a_buffer_that_there_was_none_of(self):
        def change(*modules):
            for module in modules:
                module.shift = torch.ones(8)

        self.own_after(Shifted(), change)

    def test_parameters_that_were_one(self):
        other = nn.Parameter(torch.rand(8))

        def change(*modules):
            for module in modules:
                module.b = other

        self.own_after(Tied(), change)

    @torch.no_grad()
    def test_python_s_random_numbers_are_no_constants(self):
        module = Of(lambda x: x.tanh() * random.random())
        mine = self.optimized(module, torch.randn(4, 8), ready=False)
        self.assertIn("second call", self.report.reason)
        x = torch.ones(4, 8)
        self.assertFalse(torch.equal(mine(x), mine(x)))

    @torch.no_grad()
    def test_who_seeds_the_generators_is_refused(self):
        def seeded(x):
            torch.manual_seed(3)
            return x.tanh() + torch.rand(8)

        x = torch.randn(4, 8)
        before = torch.get_rng_state()
        self.optimized(Of(seeded), x, ready=False)
        self.assertIn("something else", self.report.reason)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    @torch.no_grad()
    def test_others_draw_while_it_is_searched_for(self):
        module, x = Of(lambda x: torch.dropout(x, 0.5, True)), torch.ones(4, 8)
        drawn, find = [], search_queue.Searches._find

        def drawing(*given):
            drawn.append(torch.rand(()))
            find(*given)

        self.patch(search_queue.Searches, "_find", drawing)
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        self.optimized(module, x)
        self.assertEqual([*drawn, torch.rand(())], list(expected))

    @torch.no_grad()
    def test_a_hook_of_the_call_is_called_once(self):
        module = Of(lambda x: x.tanh())
        module.register_forward_hook(lambda module, given, result: result * 2)
        x = torch.randn(4, 8)
        mine = self.optimized(module, x)
        self.assert_same(mine(x), module(x))
        self.assertEqual(self.calls(mine), 1)

    @torch.no_grad()
    def test_another_default_dtype_is_another_call(self):
        module = Of(lambda x: x.tanh() * torch.ones(8))
        x = torch.randn(4, 8)
        mine = self.optimized(module, x)
        self.addCleanup(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float64)
        self.assert_same(mine(x), module(x))
        self.assertEqual(self.calls(mine), 0)

    def test_random_states_are_as_they_were(self):
        before = torch.get_rng_state()
        module = Of(lambda x: torch.dropout(x, 0.5, True) * 2)
        weft.optimize(module, [torch.ones(4, 8)], budget_s=BUDGET_S)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_under_autocast_it_says_so(self):
        with torch.autocast("cpu", torch.bfloat16):
            self.optimized(nn.Linear(8, 8), torch.randn(4, 8), ready=False)
        self.assertIn("autocast", self.report.reason)

    @torch.no_grad()
    def test_classes_that_are_made_otherwise(self):
        x = torch.randn(4, 8)
        traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 8)))
        for module in (Made(8), traced):
            self.assert_same(self.optimized(module, x)(x), module(x))

    @torch.no_grad()
    def test_what_nothing_can_stand_for_is_given_back(self):
        x = torch.randn(4, 8)
        for module, why in (
            (torch.jit.trace(nn.Linear(8, 8), x), "TorchScript"),
            (nn.LazyLinear(8), "not made yet"),
        ):
            mine = self.optimized(module, x, ready=False)
            self.assertIs(mine, module)
            self.assertIn(why, self.report.reason)
            self.assertEqual(mine(x).shape, (4, 8))

    @torch.no_grad()
    def test_a_wrong_call_leaves_the_kernels(self):
        table = torch.randn(16, 8)
        module = Of(lambda i: table[i].tanh())
        index = torch.randint(0, 16, (4,))
        mine = self.optimized(module, index)
        with self.assertRaises(IndexError):
            mine(index + 16)
        self.assert_same(mine(index), module(index))
        self.assertEqual(self.calls(mine), 1)


class OtherThreads(BackendCase):
    def test_they_call_while_a_graph_of_symbols_is_traced(self):
        compiled = torch.compile(lambda x: x.tanh() * 2, backend="eager")
        x = torch.randn(4, 8)
        compiled(x)
        failures, stop = [], threading.Event()

        def call():
            while not stop.is_set():
                try:
                    compiled(x)
                except Exception as error:
                    failures.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        try:
            wide = torch.compile(lambda x: x.relu() * 3, dynamic=True, backend=weft.backend.compile)
            for rows in (4, 5, 6):
                wide(torch.randn(rows, 8))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(failures[:1], [])


class Verified(unittest.TestCase):
    class Counted(nn.Module):
        def __init__(self, factor=1.0):
            super().__init__()
            self.register_buffer("n", torch.zeros(()))
            self.calls, self.factor = [], factor

        def forward(self, x):
            self.n += 1
            self.calls.append(x)
            return x * self.n * len(self.calls) * self.factor

    def test_of_modules_that_count_both_are_asked_once(self):
        reference, x = self.Counted(), torch.randn(4, 8)
        self.assertTrue(weft.verify(reference, self.Counted(), [x]))
        self.assertTrue(weft.verify(reference, reference, [x]))
        self.assertFalse(weft.verify(reference, self.Counted(1.5), [x]))
        self.assertEqual((reference.n.item(), reference.calls), (0, []))

    def test_what_is_not_changed_is_not_touched(self):
        x = torch.randn(4, 8, requires_grad=True)
        module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8).eval())
        module.register_buffer("wide", torch.ones(1).expand(8))
        result = module(x).sum()
        before = dict(vars(module))
        self.assertTrue(weft.verify(module, module, [x.detach()]))
        self.assertEqual(list(vars(module)), list(before))
        result.backward()  # no buffer has another version

    def test_results_with_fields_and_sparse_ones(self):
        @dataclasses.dataclass
        class Result:
            a: torch.Tensor
            b: object

        x = torch.randn(4, 8)
        for make in (lambda x: Result(x * 2, [x]), lambda x: x.relu().to_sparse()):
            self.assertTrue(weft.verify(Of(make), Of(make), [x]))
            self.assertFalse(weft.verify(Of(make), Of(lambda x: make(x * 1.5)), [x]))


if __name__ == "__main__":
    unittest.main()
