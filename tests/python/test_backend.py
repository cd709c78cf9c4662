"""torch.compile(model, backend="weft"): models behave as in eager, however the search
ends."""

import os
import re
import time
import unittest
from unittest import mock

import torch
from backend_case import WAIT_S, BackendCase, Net
from torch import library
from weft_case import ROOT

import weft
from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.searches import search, search_ownership
from weft.backend.options import SEEDS, Options, options_from


def any_rows(rows):
    """An input whose first dimension is said to be any: Dynamo takes no 1."""
    x = torch.randn(rows, 12)
    if rows > 1:
        torch._dynamo.mark_dynamic(x, 0)
    return x


class TakeOver(BackendCase):
    def test_kernels_take_over_after_the_search(self):
        net, x = Net(), torch.randn(4, 12)
        compiled = self.compiled(net)
        with torch.no_grad():
            for _ in range(3):
                self.assert_same(compiled(x), net(x))
        self.assertEqual(self.states(), ["ready"], self.reasons())
        (graph,) = self.compiled_graphs()
        self.assertEqual(next(iter(graph.kernels.values())).calls, 2)

    def test_the_first_call_does_not_wait(self):
        self.set_environment(FAKE_WEFT="hangs")
        net, x = Net(), torch.randn(4, 12)
        compiled = self.compiled(net, wait=False)
        with torch.no_grad():
            self.assert_same(compiled(x), net(x))
            self.assert_same(compiled(x), net(x))
        self.assertEqual(self.states(), ["searching"])
        self.stop_search()

    def test_a_call_that_waits_says_that_another_search_comes_first(self):
        self.set_environment(FAKE_WEFT="hangs")
        first, x = self.compiled(Net(), wait=False), torch.randn(4, 12)
        second = self.compiled(lambda x: torch.tanh(x) * x, budget_s=1)
        with torch.no_grad():
            first(x)
            self.patch(search, "late_s", lambda _: 0.0)
            self.patch(search, "END_S", 0.0)
            with self.assertLogs("weft", "WARNING") as said:
                self.assert_same(second(x), torch.tanh(x) * x)
        self.assertIn("waits for earlier searches of this process: 1", said.output[0])
        self.stop_search()

    def stop_search(self):
        """Of the one thread: what hangs is ended, as at the process's end."""
        compiled_graphs._searches.end()
        compiled_graphs._searches._thread.join(60)
        compiled_graphs._searches._ends.clear()

    def test_a_search_that_does_not_end_is_stopped(self):
        self.set_environment(FAKE_WEFT="hangs")
        net, x = Net(), torch.randn(4, 12)
        with torch.no_grad(), mock.patch.object(search, "LATE_S", 0.0):
            self.assert_same(self.compiled(net, budget_s=1)(x), net(x))
        self.assertIn("budget_s", self.reasons()[0])
        [kernels] = self.compiled_graphs()[-1].kernels.values()
        self.assertTrue(kernels.settled.wait(WAIT_S))
        self.assertEqual(self.states(), ["pytorch"])
        self.assertIn("budget_s", self.reasons()[0])

    def test_a_call_waits_no_longer_than_its_budget(self):
        """Here for another process's search. What is found later is taken by a later
        call."""
        net, x = Net(), torch.randn(4, 12)
        compiled = self.compiled(net, budget_s=1)
        self.patch(search, "key_of", lambda *_: "abc")
        with torch.no_grad():
            with search_ownership.turn("abc", False, None):
                self.assert_same(compiled(x), net(x))
                [kernels] = self.compiled_graphs()[-1].kernels.values()
                waited_s = time.monotonic() - kernels.begun_s
                self.assertEqual(self.states(), ["searching"])
                self.assertIn("the search has not ended", self.reasons()[0])
            self.assertTrue(kernels.settled.wait(WAIT_S))
            self.assert_same(compiled(x), net(x))
        self.assertEqual(self.states(), ["ready"])
        self.assertLess(waited_s, 1 + 5)

    def test_a_budget_that_was_over_is_named_as_the_user_gave_it(self):
        for said, reason in (
            (
                "weft: the budget of 0.0 s was over before problem.py was captured; "
                "give it more with --budget-s",
                "its budget_s of 5 was over before the model was captured; give it more",
            ),
            (
                "not verified: the budget of 2.5 s was over before a module was checked as a "
                "whole; give the run more with --budget-s",
                "not verified: its budget_s of 5 was over before a module was checked as a "
                "whole; give it more",
            ),
            ("weft: another reason", "weft: another reason"),
        ):
            self.assertEqual(search._by_the_option(said, Options(budget_s=5)), reason)

    def test_the_program_is_told_the_budget(self):
        with torch.no_grad():
            self.compiled(Net(), budget_s=77)(torch.randn(4, 12))
        words = self.words()[0].split()
        # A part is for writing the graph down, and for building what was found.
        self.assertTrue(60 < float(words[words.index("--budget-s") + 1]) < 77, words)

    def test_no_kernels_of_a_search_without_inductor_is_asked_again(self):
        options = mock.Mock(cache=True, seeds="auto", target="cpu", budget_s=300)
        for seeds, ours, again in (
            ([], False, True),
            ([], True, False),
            (["inductor"], False, False),
        ):
            about = {"has_kernels": ours, "seeds": seeds}
            with (
                mock.patch.object(
                    search.module_store, "find", lambda key, about=about: ("path", about)
                ),
                mock.patch.object(search, "key_of", lambda *_: "key"),
                mock.patch.object(search, "_has_inductor", lambda _: True),
            ):
                self.assertIs(search.known(None, options) is None, again)

    def seeds_of(self, has_compiler=True, **options):
        """The seed generators that the program is given."""
        self.set_environment(CXX="true" if has_compiler else "/nowhere/g++", FAKE_WEFT="fails")
        torch._dynamo.reset()
        # A failure before this moment is an earlier program's.
        with mock.patch.object(search.search_ownership, "BEGUN_S", time.time()), torch.no_grad():
            self.compiled(Net(), target="cpu", **options)(torch.randn(4, 12))
        words = self.words()[-1].split()
        return words[words.index("--seeds") + 1]

    def test_inductor_s_code_is_a_seed_where_it_can_be_had(self):
        self.assertEqual(self.seeds_of(), "library,compiler,inductor")
        for cores, has_it in ((1, False), (4, True)):
            with mock.patch.object(search, "_cores", return_value=cores):
                self.assertIs("inductor" in self.seeds_of(budget_s=60), has_it)
        self.assertEqual(self.seeds_of(has_compiler=False), "library,compiler")
        self.assertEqual(self.seeds_of(seeds="compiler", budget_s=20), "compiler")

    def test_inductor_s_code_on_a_gpu_needs_triton(self):
        for found, has_it in ((None, False), ("triton", True)):
            with (
                mock.patch.object(torch.cuda, "is_available", return_value=True),
                mock.patch.object(search.importlib.util, "find_spec", return_value=found),
            ):
                for target in ("auto", "cuda", "triton", "gpu"):
                    self.assertEqual(search._has_inductor(target), has_it)
                self.assertTrue(search._has_inductor("cpu"))
        self.assertFalse(search._has_inductor("triton"))  # interpreted

    def test_another_compilation_takes_what_was_found(self):
        net, x = Net(), torch.randn(4, 12)
        # A user's own group may write what that user writes, on many systems.
        self.addCleanup(os.umask, os.umask(0o002))
        with torch.no_grad():
            self.compiled(net)(x)
            torch._dynamo.reset()
            self.set_environment(FAKE_WEFT="fails")
            other = Net()
            self.assert_same(self.compiled(other)(x), other(x))
        self.assertEqual(self.states(), ["ready"], self.reasons())
        self.assertEqual(self.runs(), 1)
        self.assertEqual(weft.cache.info()["entries"], 1)
        self.assertEqual(weft.cache.clear(), 1)
        self.assertEqual(weft.cache.info()["entries"], 0)

    def test_what_was_cut_short_is_searched_for_again_with_more_time(self):
        self.set_environment(FAKE_WEFT="short")
        x = torch.randn(4, 12)
        for budget_s, runs in ((50, 1), (50, 1), (90, 2)):
            torch._dynamo.reset()
            with torch.no_grad():
                self.compiled(Net(), budget_s=budget_s)(x)
            self.assertEqual(self.runs(), runs)

    def test_a_search_without_time_to_find_one_is_made_three_times(self):
        self.set_environment(FAKE_WEFT="nothing yet")
        x = torch.randn(4, 12)
        for runs in (1, 2, 3, 3):
            torch._dynamo.reset()
            with torch.no_grad():
                self.compiled(Net())(x)
            self.assertEqual(self.runs(), runs)

    def test_an_entry_that_others_may_write_is_not_used(self):
        net, x = Net(), torch.randn(4, 12)
        with torch.no_grad():
            self.compiled(net)(x)
            (name,) = os.listdir(weft.cache.info()["path"])
            path = os.path.join(weft.cache.info()["path"], name)
            os.chmod(os.path.join(path, "model_new.py"), 0o666)
            torch._dynamo.reset()
            self.compiled(net)(x)
        self.assertEqual(self.runs(), 2)

    def test_other_sizes_have_kernels_of_their_own_up_to_a_bound(self):
        self.set_environment(FAKE_WEFT="one batch")
        net = Net()
        compiled = self.compiled(net, shapes_max=2)
        with torch.no_grad():
            for rows in (4, 5, 6, 6, 7, 7, 5):
                x = torch.randn(rows, 12)
                self.assert_same(compiled(x), net(x))
        dynamic = self.compiled_graphs()[-1]
        self.assertEqual(list(dynamic.kernels), ["any batch", (5,), (6,)])
        self.assertEqual(self.states(), ["ready", "pytorch", "ready", "ready"], self.reasons())
        self.assertIn("weft: not for any batch", self.reasons())
        self.assertIn("shapes_max", str(weft.explain()))

    def test_lengths_that_never_return_use_up_no_searches(self):
        """As of a key-value cache that grows with each call."""
        self.set_environment(FAKE_WEFT="one batch")
        net = Net()
        compiled = self.compiled(net, shapes_max=2)
        with torch.no_grad():
            for rows in (4, *range(5, 30), 40, 40, 40):
                x = torch.randn(rows, 12)
                self.assert_same(compiled(x), net(x))
        dynamic = self.compiled_graphs()[-1]
        self.assertEqual(list(dynamic.kernels), ["any batch", (5,), (40,)])
        self.assertEqual(dynamic.kernels[(40,)].state, "ready", self.reasons())
        self.assertNotIn("shapes_max", str(weft.explain()))

    def test_a_size_that_is_marked_dynamic_has_one_graph(self):
        net = Net()
        compiled = self.compiled(net)
        with torch.no_grad():
            for rows in (4, 7, 9, 4):
                x = any_rows(rows)
                for _ in range(2):
                    self.assert_same(compiled(x), net(x))
        (graph,) = self.compiled_graphs()
        self.assertEqual(list(graph.kernels), ["any batch"])
        self.assertEqual(self.states(), ["ready"], self.reasons())
        (words,) = self.words()
        self.assertIn("--dynamic-dim", words)
        self.assertNotIn("inductor", words)  # whose code is for one batch

    def test_a_graph_of_one_batch_alone_takes_the_kernels_for_any(self):
        net = Net()
        compiled = self.compiled(net)
        with torch.no_grad():
            for rows in (4, 1, 1, 7):
                x = any_rows(rows)
                self.assert_same(compiled(x), net(x))
        self.assertEqual(len(self.compiled_graphs()), 2)
        self.assertEqual(self.states(), ["ready"] * 2, self.reasons())
        self.assertEqual(self.runs(), 1)

    def test_another_size_does_not_wait_for_its_kernels(self):
        net = Net()
        compiled = self.compiled(net, wait=False)
        with torch.no_grad():
            for rows in (4, 7):
                x = any_rows(rows)
                self.assert_same(compiled(x), net(x))
                kernels = self.compiled_graphs()[-1].kernels["any batch"]
                self.assertTrue(kernels.settled.wait(WAIT_S))
                self.assert_same(compiled(x), net(x))
                self.assert_same(compiled(x), net(x))
        self.assertEqual(self.states(), ["ready"], self.reasons())


class Failures(BackendCase):
    def check(self, how, reason, **options):
        self.set_environment(FAKE_WEFT=how)
        net, x = Net(), torch.randn(4, 12)
        compiled = self.compiled(net, **options)
        with torch.no_grad():
            for _ in range(3):
                self.assert_same(compiled(x), net(x))
        self.assertEqual(self.states(), ["pytorch"])
        self.assertIn(reason, self.reasons()[0])
        self.assertIn(reason, str(weft.explain()))

    def test_wrong_kernels_are_never_used(self):
        self.check("wrong", "came to something else")

    def test_kernels_that_fail_at_once(self):
        self.check("raises", "a kernel fell over")

    def test_kernels_that_fail_later(self):
        self.check("later", "the second call fell over")

    def test_a_run_that_fails(self):
        self.check("fails", "this run fails")

    def test_a_search_that_finds_nothing(self):
        self.check("nothing", "no generated kernel is faster")

    def test_a_search_that_says_why_it_finds_nothing(self):
        self.check("nothing yet", "is faster here: the budget is over")

    def test_a_fallback_that_is_faster_stays(self):
        self.set_environment(FAKE_WEFT="slow")
        net = Net()
        compiled = self.compiled(net, dynamic=True, fallback="inductor")
        with torch.no_grad():
            for _ in range(2):
                self.assert_same(compiled(any_rows(4)).shape, (4, 12))
        self.assertIn("no faster than Inductor", " ".join(self.reasons()))

    def test_no_program(self):
        self.set_environment(WEFT_BIN="/nowhere/weft")
        self.check("right", "/nowhere/weft")

    def test_an_operator_that_is_not_pytorch_s(self):
        @library.custom_op("weft_tests::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(torch.empty_like)
        compiled = self.compiled(lambda x: twice(x) + 1)
        x = torch.randn(3)
        self.assert_same(compiled(x), x * 2 + 1)
        self.assertIn("weft_tests.twice", self.reasons()[0])

    def test_a_graph_that_cannot_be_made_functional(self):
        def kept(x, place):
            x = x + 1
            x[:, place] = 2  # a tensor as a number: it hangs on its value
            return x

        x, place = torch.randn(3, 4), torch.tensor(1)
        with self.assertLogs("weft", "WARNING"):
            self.assert_same(self.compiled(kept)(x, place), kept(x, place))
        self.assertRegex(
            str(weft.explain()),
            "a graph of 2 operators stays PyTorch's: DataDependentOutputException: ",
        )

    def test_an_unknown_option_is_named(self):
        with self.assertRaisesRegex(Exception, "no option 'budget'"):
            self.compiled(Net(), budget=3)(torch.randn(4, 12))
        with self.assertRaisesRegex(Exception, "option seeds is 3"):
            self.compiled(Net(), seeds=3)(torch.randn(4, 12))

    def test_a_value_that_an_option_does_not_take_is_refused(self):
        flag, count, number, seeds = (
            "True or False",
            "a whole number from",
            "a number from",
            "'auto', or some of library,compiler,inductor,llm",
        )
        for name, wrong, takes in (
            ("cache", "no", flag),
            ("wait", "yes", flag),
            ("wait", 1, flag),
            ("variants", 1.5, count),
            ("variants", True, count),
            ("shapes_max", 2.5, count),
            ("shapes_max", 0, count),
            ("replay_mb", 1.5, count),
            ("replay_mb", False, count),
            ("budget_s", True, number),
            ("budget_s", "60", number),
            ("budget_s", float("nan"), number),
            ("trial_s", False, number),
            ("seeds", "nonsense", seeds),
            ("seeds", "", seeds),
            ("seeds", "compiler,auto", seeds),
            ("seeds", None, seeds),
        ):
            said = f"option {name} is {wrong!r}: it is {takes}"
            with self.subTest(name, wrong=wrong):
                with self.assertRaisesRegex(ValueError, re.escape(said)):
                    options_from({name: wrong})
        with self.assertRaisesRegex(ValueError, "option shapes_max is 2.5"):
            weft.optimize(Net(), torch.randn(4, 12), shapes_max=2.5)
        for right in ("auto", *SEEDS, ",".join(SEEDS)):
            self.assertEqual(options_from({"seeds": right}).seeds, right)

    def test_the_program_s_roster_has_the_same_seeds(self):
        with open(os.path.join(ROOT, "actors", "roster.cpp"), encoding="utf-8") as file:
            known = re.findall(r'address::seeds\("(\w+)"\)', file.read())
        self.assertEqual(set(known), set(SEEDS))

    def test_weft_can_be_switched_off(self):
        self.set_environment(WEFT_DISABLE="1")
        net, x = Net(), torch.randn(4, 12)
        with torch.no_grad():
            self.assert_same(self.compiled(net)(x), net(x))
        self.assertEqual(self.runs(), 0)
        self.assertIn("WEFT_DISABLE", str(weft.explain()))


if __name__ == "__main__":
    unittest.main()
