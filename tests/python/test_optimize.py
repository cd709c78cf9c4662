"""weft.optimize: the module's own class, state and behaviour, with kernels
where its guards allow them."""

import contextlib
import copy
import io
import itertools
import os
import pickle
import re
import sys
import time
import unittest
import zipfile
from unittest import mock

import torch
from backend_case import BUDGET_S, WAIT_S, BackendCase, Net, OptimizedCase
from torch import nn

import weft
from weft.backend.entry import dispatch
from weft.backend.graphs import call_guards
from weft.backend.implementations import call_trial, composed_module, inductor_fallback


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


class Optimized(OptimizedCase):
    @torch.no_grad()
    def test_it_is_the_same_module_with_kernels(self):
        self.check(True)
        self.assertIsInstance(self.mine, Net)
        self.assertEqual(list(self.mine.state_dict()), list(self.net.state_dict()))
        self.assertIs(self.mine.scale, self.net.scale)
        self.net.scale.mul_(2)
        self.check(True)
        self.net.scale = nn.Parameter(torch.rand(12))
        self.check(True)

    @torch.no_grad()
    def test_what_was_not_captured_is_the_module_s_own(self):
        self.check(False, torch.randn(5, 12))
        self.check(False, torch.randn(12, 4).t())
        self.mine.linear.eval()
        self.check(False)
        self.mine.linear.train()
        self.check(True)

    @torch.no_grad()
    def test_attributes_are_frozen(self):
        """As torch.export freezes them."""
        before = self.mine(self.x)
        self.mine.factor, self.mine.more = 3.0, 1
        self.assert_same(self.mine(self.x), before)
        self.assertEqual(self.calls(), 2)

    @torch.no_grad()
    def test_hooks_are_called(self):
        handle = self.net.linear.register_forward_hook(lambda module, args, result: result + 1)
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
            self.assert_same(torch.func.vmap(self.mine)(self.x[None]), self.net(self.x)[None])
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
        of = self.mine.__dict__["_weft"]
        before = self.runs()  # setUp's, and what other tests had left to search

        def work(number):
            until, after = time.monotonic() + WAIT_S, 0
            with torch.no_grad():
                while after < 20 and time.monotonic() < until:
                    after += len(of.entries) == 3
                    for i in range(3):
                        which = (i + number) % 3
                        self.assert_same(self.mine(kinds[which]), expected[which])

        self.assertEqual(self.in_threads(4, work), [])
        told = str(weft.explain(self.mine))
        self.assertEqual(len(of.entries), 3, told)
        self.assertEqual(self.runs() - before, 2, told)
        with torch.no_grad():
            for x in kinds:
                self.check(True, x)

    @torch.no_grad()
    def test_hooks_of_all_modules_are_called(self):
        called = []
        handle = nn.modules.module.register_module_forward_hook(
            lambda module, args, result: called.append(type(module))
        )
        self.addCleanup(handle.remove)
        self.check(False)
        self.assertEqual(len(called), 6)  # three modules, mine and its own
        handle.remove()
        self.check(True)

    @torch.no_grad()
    def test_looking_at_a_call_raises_nothing(self):
        with mock.patch.object(
            dispatch, "is_special", side_effect=AttributeError("another PyTorch")
        ):
            self.check(False)
        self.assertIn("another PyTorch", str(weft.explain(self.mine)))

    @torch.no_grad()
    def test_entries_that_come_hide_no_other(self):
        """A call goes through the entries that there were, at whichever line
        of it another thread adds one."""
        of = self.mine.__dict__["_weft"]
        entry, added = of.entries[0], []

        def add(frame, event, arg):
            if frame.f_code.co_filename != dispatch.__file__:
                return None
            if not of._lock.locked():
                of.add(entry)
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
            raise composed_module.GuardFailed("not today")

        for entry in self.mine.__dict__["_weft"].entries:
            entry.composed = declined
        for mine in (self.mine, copy.deepcopy(self.mine)):
            self.check(False, mine=mine)
            self.assertEqual(mine.__dict__["_weft"]._pending, ())

    def test_a_thread_s_gradients_are_its_own_whatever_others_call_with(self):
        self.mine.requires_grad_(False)
        real, x = call_guards._guards_of, self.x.clone().requires_grad_()
        failures = []

        def interrupted(tensors):
            """Between two steps of a call, one of another thread."""
            made = real(tensors)
            with mock.patch.object(call_guards, "_guards_of", real):
                failures.extend(self.in_threads(1, lambda _: self.check(True)))
            return made

        with mock.patch.object(call_guards, "_guards_of", interrupted):
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
    def test_torch_compile_leaves_it_its_kernels(self):
        compiled = torch.compile(self.mine, backend="eager")
        self.assert_same(compiled(self.x), self.net(self.x))
        self.check(by_kernels=True)
        path = os.path.join(self.folder, "marked.pt")
        weft.save(self.mine, path)
        self.check(by_kernels=True, mine=weft.load(path))

    @torch.no_grad()
    def test_a_module_without_kernels_is_not_saved(self):
        for wrong, says in (
            (self.net, "a Net"),
            ((self.mine, 1), "a tuple"),
            (self.compiled(Net()), "what torch.compile gave"),
        ):
            with self.assertRaisesRegex(TypeError, f"{says}.*weft.optimize"):
                weft.save(wrong, "/nowhere/module.pt")
        path = os.path.join(self.folder, "whole.pt")
        weft.save(nn.Sequential(self.mine), path)  # a part has kernels
        self.check(True, mine=weft.load(path)[0])

    def test_a_file_of_something_else_is_none(self):
        path = os.path.join(self.folder, "module")
        weft.save(self.mine, path)
        with open(path, "rb") as file:
            whole = file.read()
        for content in (whole[: len(whole) // 2], b"garbage", b""):
            with open(path, "wb") as file:
                file.write(content)
            with self.assertRaisesRegex(ValueError, "written by weft.save"):
                weft.load(path)
        os.remove(path)
        with self.assertRaises(FileNotFoundError):
            weft.load(path)

    def test_a_class_that_cannot_be_imported_is_named(self):
        path = os.path.join(self.folder, "module.pt")
        for error, advice in (
            (ModuleNotFoundError("No module named 'mine'"), "importable"),
            (
                AttributeError("Can't get attribute 'Mine' on <module '__main__'>"),
                "move the class to a file",
            ),
        ):
            with open(path, "wb") as file, zipfile.ZipFile(file, "w") as whole:
                whole.writestr("data.pkl", b"")
            with (
                mock.patch.object(torch, "load", side_effect=error),
                self.assertRaisesRegex(
                    type(error), f"(?i)mine.*needs the class of its module; .*{advice}"
                ),
            ):
                weft.load(path)

    def test_a_file_of_an_earlier_version_says_so(self):
        path = os.path.join(self.folder, "module.pt")
        for error in (
            ModuleNotFoundError("No module named 'weft.backend.parts'"),
            AttributeError("Can't get attribute 'Bound' on 'weft.backend'"),
        ):
            with open(path, "wb") as file, zipfile.ZipFile(file, "w") as whole:
                whole.writestr("data.pkl", b"")
            with (
                mock.patch.object(torch, "load", side_effect=error),
                self.assertRaisesRegex(ValueError, "another version of weft"),
            ):
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
    def test_kernels_that_fail_are_given_up(self):
        self.set_environment(FAKE_WEFT="later")
        weft.cache.clear()
        mine, report = weft.optimize(self.net, [self.x])
        self.assertTrue(report.ready, str(report))
        self.check(False, mine=mine)  # the look at the end was its first call
        self.assertIn("fell over", str(weft.explain(mine)))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(12))
        self.register_buffer("offset", torch.rand(12))
        self.register_parameter("shift", None)

    def forward(self, x):
        y = torch.tanh(x * self.weight + self.offset)
        y = y if self.shift is None else y + self.shift
        return y.to(x.dtype)


class Doubled(Scaled):
    def forward(self, x):
        return 2 * super().forward(x)


class Guards(BackendCase):
    """What a call goes by: each change of it is seen, and so is its end."""

    def setUp(self):
        super().setUp()
        self.net = nn.Sequential(Scaled(), nn.Sequential(Scaled(), nn.LayerNorm(12))).eval()
        self.net.requires_grad_(False)
        self.x = torch.randn(4, 12)
        self.mine, report = weft.optimize(self.net, [self.x], budget_s=BUDGET_S)
        self.assertTrue(report.ready, str(report))
        self.part = self.net[1][0]  # the very part of self.mine, too
        self.check(True)

    def check(self, by_kernels, x=None):
        x = self.x if x is None else x
        before = self.mine.__dict__["_weft"].calls
        self.assert_same(self.mine(x), self.net(x))
        self.assertEqual(self.mine.__dict__["_weft"].calls - before, int(by_kernels))

    def test_modes(self):
        for part in (self.net[0], self.net[1], self.net[1][1]):
            part.training = True
            self.check(False)
            part.training = False
            self.check(True)
        self.mine.training = True
        self.check(False)

    def test_hooks_of_every_kind(self):
        for name in (
            "forward_hook",
            "forward_pre_hook",
            "full_backward_hook",
            "full_backward_pre_hook",
        ):
            for part in (self.part, self.net[1]):
                register = getattr(part, "register_" + name)
                with self.subTest(name):
                    handle = register(lambda *_: None)
                    self.check(False)
                    handle.remove()
                    self.check(True)
            handle = getattr(self.mine, "register_" + name)(lambda *_: None)
            self.check("forward" in name)  # around the call, whatever computes it
            handle.remove()
            self.check(True)

    def test_children_are_the_same_objects_in_the_same_order(self):
        inner = self.net[1]
        first, norm = inner[0], inner[1]
        for changed in ({"0": copy.deepcopy(first)}, {"2": nn.Identity()}):
            inner._modules.update(changed)
            self.check(False)
            inner._modules.pop("2", None)
            inner._modules["0"] = first
            self.check(True)
        inner._modules.clear()
        inner._modules.update({"1": norm, "0": first})
        self.check(False)
        inner._modules.clear()
        inner._modules.update({"0": first, "1": norm})
        self.check(True)
        inner.append(nn.Tanh())
        self.check(False)
        del inner[2]
        self.check(True)

    def test_a_new_module_s_parts_are_compared_with_the_captured_ones(self):
        """A shallow copy has the same parts, and guards of its own."""

        def check_copy(by_kernels):
            mine = self.mine
            self.mine = copy.copy(mine)
            self.check(by_kernels)
            self.mine = mine

        check_copy(True)
        self.part.__class__ = Doubled
        check_copy(False)
        self.part.__class__ = Scaled
        check_copy(True)
        norm = self.net[1][1]
        del self.net[1][1]
        check_copy(False)
        self.net[1].append(norm)
        check_copy(True)

    def test_parameters_may_be_replaced(self):
        """By others with other numbers, which kernels then take."""
        self.part.weight = nn.Parameter(torch.rand(12), False)
        self.check(True)
        self.part.offset = torch.rand(12)
        self.check(True)
        self.part.weight.mul_(2)
        self.check(True)

    def test_parameters_that_come_and_go(self):
        self.part.shift = nn.Parameter(torch.rand(12), False)
        self.check(False)
        self.part.shift = None
        self.check(True)
        self.part.register_buffer("another", torch.rand(12))
        self.check(False)
        del self.part.another
        self.check(True)

    def test_tensors_of_another_kind(self):
        weight, offset, wide = self.part.weight, self.part.offset, torch.rand(24)
        for tensor in (torch.rand(1), torch.rand(12).double(), wide[::2]):
            self.part.weight = nn.Parameter(tensor, False)
            self.check(False)
            self.part.weight = weight
            self.part.offset = tensor
            self.check(False)
            self.part.offset = offset
            self.check(True)
        weight.data = torch.rand(1)  # the very parameter, with other metadata
        self.check(False)
        self.part.weight = nn.Parameter(torch.rand(12), True)
        self.check(False)
        self.part.weight = nn.Parameter(torch.rand(12), False)
        self.check(True)
        self.check(False, torch.randn(12, 4).t())
        self.check(False, nn.Parameter(self.x, True))
        self.check(True, nn.Parameter(self.x, False))
        for wrong in (None, 3):  # is the module's own error, and no other's
            with self.assertRaises((TypeError, AttributeError)):
                self.mine(wrong)
            self.check(True)


class Others(BackendCase):
    @torch.no_grad()
    def test_structures_buffers_and_keywords(self):
        for training in (True, False):
            net = Nested().train(training)
            twin = copy.deepcopy(net)
            pair = [torch.randn(4, 6), {"b": torch.randn(4, 6)}]
            extra = torch.randn(6)
            mine, report = weft.optimize(twin, [pair], kwargs={"extra": extra})
            self.assertTrue(report.ready, str(report))
            for _ in range(3):
                self.assert_same(mine(pair, extra=extra), net(pair, extra=extra))
                self.assert_same(dict(mine.named_buffers()), dict(net.named_buffers()))
            self.assertEqual(mine.__dict__["_weft"].calls, 3)
            self.assert_same(mine(pair, False, extra=extra), net(pair, False, extra=extra))
            self.assertEqual(mine.__dict__["_weft"].calls, 3)

    @torch.no_grad()
    def test_keywords_come_in_any_order(self):
        class Masked(nn.Module):
            def forward(self, x, mask=None, factor=1.0, **more):
                return (x * factor).masked_fill(mask, 0) - more["less"]

        net, x = Masked(), torch.randn(4, 6)
        given = {"less": x.cos(), "factor": 3.0, "mask": x > 0, "x": x}
        mine, report = weft.optimize(net, [], kwargs=given)  # a tokeniser's, say
        self.assertTrue(report.ready, str(report))
        for names in itertools.permutations(given):
            call = {name: given[name] for name in names}
            self.assert_same(mine(**call), net(**call))
        self.assertEqual(mine.__dict__["_weft"].calls, 24)

    def test_what_cannot_be_captured_stays_and_says_why(self):
        class Branch(nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x

        said = io.StringIO()  # the exporter prints its graph
        with contextlib.redirect_stderr(said):
            mine, report = weft.optimize(Branch(), torch.ones(3))
        self.assertFalse(report.ready)
        line = Branch.forward.__code__.co_firstlineno + 1
        self.assertRegex(
            report.reason,
            "torch.export cannot capture it: what it "
            "does depends on the values of a tensor .*torch.where.*"
            rf"at {re.escape(__file__)}:{line}$",
        )
        self.assertEqual(said.getvalue(), "")
        self.assert_same(mine(-torch.ones(3)), -torch.ones(3))

    @torch.no_grad()
    def test_without_a_gain_the_module_itself_is_given(self):
        self.patch(call_trial.Trial, "speed", lambda *_: call_trial.CallSpeed(0.9, False))
        net, x = Net(), torch.randn(4, 12)
        mine, report = weft.optimize(net, x)
        self.assertIs(mine, net)
        self.assertFalse(report.ready)
        said = "not worth compiling: .* 0.90 times the speed"
        self.assertRegex(str(report), said)
        self.assertRegex(str(weft.explain(net)), said)

    @torch.no_grad()
    def test_other_inputs_without_a_gain_are_the_module_s_own(self):
        net, x, other = Net(), torch.randn(4, 12), torch.randn(7, 12)
        mine, _ = weft.optimize(net, x)
        self.patch(call_trial.Trial, "speed", lambda *_: call_trial.CallSpeed(0.9, False))
        same, report = weft.optimize(mine, other)
        self.assertIs(same, mine)
        self.assertIn("not worth compiling", report.reason)
        of = mine.__dict__["_weft"]
        for one, calls in ((x, 1), (other, 1), (x, 2)):
            self.assert_same(mine(one), net(one))
            self.assertEqual(of.calls, calls)

    @torch.no_grad()
    def test_inductor_s_code_computes_where_no_kernel_does(self):
        calls = []

        def compiled(fallback, _):
            module = fallback._graph().graph_module
            return lambda arguments: calls.append(1) or module(*arguments)

        self.patch(inductor_fallback.InductorFallback, "_by_torch_compile", compiled)
        self.set_environment(FAKE_WEFT="fails")
        net, x = Net(), torch.randn(4, 12)
        mine, report = weft.optimize(net, x, fallback="inductor")
        self.assertFalse(report.ready)
        self.assertIn("Inductor's code computes calls; ", str(report))
        calls.clear()
        self.assert_same(mine(x), net(x))
        self.assertEqual(calls, [1])
        other = torch.randn(7, 12)
        for _ in range(5):  # begins, is searched for, and is tried
            self.assert_same(mine(other), net(other))
            for pending in mine.__dict__["_weft"]._pending:
                self.assertTrue(pending.kernels.settled.wait(WAIT_S))
        self.assertEqual(len(mine.__dict__["_weft"].entries), 2)
        again = pickle.loads(pickle.dumps(mine))  # whose code is not in a file
        self.assert_same(again(x), net(x))
        self.assertEqual(again.__dict__["_weft"].entries, [])

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


class Explain(BackendCase):
    def test_graph_breaks_are_told_with_their_line(self):
        def breaks(x):
            y = x + 1
            print("a line that breaks the graph", file=io.StringIO())
            return y * 2

        for given in ({"inputs": torch.ones(3)}, {"kwargs": {"x": torch.ones(3)}}):
            told = weft.explain(breaks, **given)
            self.assertEqual(len(told.breaks), 1, told)
            self.assertIn("test_optimize.py", told.breaks[0])


if __name__ == "__main__":
    unittest.main()
