"""Which regions are searched and inserted, by searches and trials that are played."""

import os
import tempfile
import time
import unittest
from unittest import mock

import torch

from weft_case import ROOT

import weft
from weft.backend.implementations.program_timing import Comparison
from weft.backend.searches import (
    improvement,
    machine_facts,
    program_trials,
    region_module,
    region_search,
)
from weft.backend.searches.whole_program import WholeProgram


class Candidates(unittest.TestCase):
    """Which are inserted, by played trials."""

    def inserted(self, gains, overlapping=()):
        """(names that are in use, how often the program was compiled): the program
        is faster where the sum of the gains of what is tried is positive."""
        tried = []

        class Played(improvement.Improvement):
            def __init__(self):
                self._accepted = []

            def _trial_of(self, candidates):
                tried.append([one.name for one in candidates])
                gain = sum(gains[one.name] for one in candidates)
                ours = (1.0 - gain,) * 8
                return program_trials.Trial("", Comparison(((1.0,) * 8,) * 2 + (ours,)))

            def _accept(self, candidates, trial):
                self._accepted += candidates

        ones = [mock.Mock() for _ in gains]
        for one, name in zip(ones, gains):
            one.name = name
            one.group.first.operators.return_value = name
            one.halves.return_value = []
        self.patch_overlap(overlapping)
        played = Played()
        played._insert(ones)
        return [one.name for one in played._accepted], tried

    def patch_overlap(self, overlapping):
        patch = mock.patch.object(
            improvement, "_overlap", lambda one, other: {one.name, other.name} in overlapping
        )
        patch.start()
        self.addCleanup(patch.stop)

    def test_several_at_a_time(self):
        found, tried = self.inserted({"a": 0.1, "b": 0.1, "c": 0.01})
        self.assertEqual((found, len(tried)), (["a", "b", "c"], 1))

    def test_where_the_sum_disappoints_halves_are_tried(self):
        found, tried = self.inserted({"a": 0.1, "b": -0.3, "c": 0.05, "d": 0.05})
        self.assertEqual(found, ["a", "c", "d"])
        self.assertEqual(tried[0], ["a", "b", "c", "d"])

    def test_half_of_a_region_s_kernels_may_pay(self):
        gains = {"ab": -0.2, "a": -0.3, "b": 0.1}
        one = mock.Mock(used=None, reason="")
        one.halves.return_value = ["a", "b"]

        class Played(improvement.Improvement):
            def __init__(self):
                self._accepted = []

            def _trial_of(self, candidates):
                gain = gains[candidates[0].used or "ab"]
                times = ((1.0,) * 8, (1.0,) * 8, (1.0 - gain,) * 8)
                return program_trials.Trial("", Comparison(times))

            def _accept(self, candidates, trial):
                self._accepted += candidates

        self.patch_overlap(())
        played = Played()
        played._insert([one])
        self.assertEqual((played._accepted, one.used), ([one], "b"))
        self.assertIn("half of its kernels; with all of them: the program is not", one.reason)
        gains["b"] = -0.1
        one.used, played = None, Played()
        played._insert([one])
        self.assertEqual((played._accepted, one.state), ([], "slower"))

    def test_of_two_that_overlap_the_second_has_its_turn_if_the_first_loses(self):
        found, _ = self.inserted({"a": -0.1, "b": 0.1}, [{"a", "b"}])
        self.assertEqual(found, ["b"])
        found, tried = self.inserted({"a": 0.1, "b": 0.1}, [{"a", "b"}])
        self.assertEqual((found, tried), (["a"], [["a"]]))


class Verified(unittest.TestCase):
    """Which of the verified are tried in the program, and in which order."""

    def candidate(self, incumbent_us, kernel_us, count=1):
        group = mock.Mock(regions=[None] * count)
        time_of = mock.Mock(group=group, seconds=incumbent_us * count / 1e6)
        found = region_search.Found(
            "", "", "", mock.Mock(), kernel_us / 1e6 + region_search.LAUNCH_S
        )
        return region_search.Candidate(time_of, (), None, "verified", "", found)

    def tried(self, candidates, kind="cuda", until=float("inf")):
        class Played(improvement.Improvement):
            def __init__(self):
                self._accepted, self._kind, self._until = [], kind, until

            def _trial_of(self, candidates):
                found.append(list(candidates))
                return program_trials.Trial("no")

        found = []
        with mock.patch.object(improvement, "_overlap", lambda *_: False):
            Played()._insert_verified(candidates)
        return found

    def test_what_gains_most_is_first(self):
        # 2 x 3 µs, 20 µs and none are gained.
        ones = [self.candidate(10, 7, 2), self.candidate(60, 40), self.candidate(5, 5)]
        self.assertEqual(self.tried(ones)[:2], [[ones[1], ones[0]], [ones[1]]])
        self.assertEqual(self.tried([self.candidate(5, 5)])[0][0].state, "slower")

    def test_what_is_clearly_slower_is_not_tried(self):
        one = self.candidate(20, 30)
        self.assertEqual(self.tried([one]), [])
        self.assertEqual(
            (one.state, one.reason),
            (
                "slower",
                "its kernels take 30.0 µs, where Inductor's code takes 20.0 µs in the program",
            ),
        )
        # The time of C++ kernels in the program is an estimate.
        self.assertEqual(len(self.tried([self.candidate(20, 30)], "cpu")), 1)

    def test_a_kernel_without_a_time_is_tried(self):
        one = self.candidate(20, 0)
        one.found.seconds = 0.0
        self.assertEqual(len(self.tried([one])), 1)

    def test_no_trial_begins_after_the_budget(self):
        one = self.candidate(20, 10)
        self.assertEqual(self.tried([one], until=time.monotonic() - 1), [])
        self.assertEqual(
            (one.state, one.reason),
            ("verified", "there was no time to try it in the program (budget_s)"),
        )


class MachineFacts(unittest.TestCase):
    """One measurement for each machine with a GPU."""

    def setUp(self):
        machine_facts._forget()
        self.addCleanup(machine_facts._forget)
        self.started = []
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": self.folder}))
        self.enterContext(
            mock.patch.object(
                machine_facts.weft_process,
                "run",
                lambda words, limit_s: self.started.append(words) or (0, ""),
            )
        )

    def begin(self, *inputs):
        machine_facts.begin(inputs, weft.backend.options.Options())
        machine_facts.wait(10.0)

    def on_gpu(self):
        return mock.Mock(spec=torch.Tensor, is_cuda=True)

    def test_once_in_a_process(self):
        self.begin(torch.ones(2), self.on_gpu())
        self.begin(self.on_gpu())
        self.assertEqual(self.started, [["doctor", "--no-run"]])

    def test_not_for_a_cpu_nor_where_it_is_known(self):
        self.begin(torch.ones(2), 3)
        os.makedirs(os.path.join(self.folder, "weft"))
        with open(
            os.path.join(
                self.folder,
                "weft",
                f"gpu-GPU-1-580.1-torch{torch.__version__}-probe{machine_facts.PROBE}.json",
            ),
            "w",
        ):
            pass
        self.begin(self.on_gpu())
        self.assertEqual(self.started, [])

    def test_the_program_measures_the_same_version(self):
        with open(
            os.path.join(ROOT, "runtime", "ports", "gpu_probe.cpp"), encoding="utf-8"
        ) as file:
            self.assertIn(f"kProbe = {machine_facts.PROBE};", file.read())


COMPOSED = """
import torch

def _weft_sg_a(x):
    return torch.tanh(x), x * 2

def _weft_sg_b(x):
    return torch.relu(x)

class ModelNew:
    def forward(self, region_0_0, region_1_0, region_1_1, region_2_0):
        \"\"\"The captured computation.\"\"\"
        if torch.compiler.is_compiling():
            return self.forward_reference(region_0_0)
        with torch.no_grad():
            (_t_a, _t_b,) = _weft_sg_a(region_0_0)
            _t_mm = torch.mm(region_1_0, region_1_1)
            _t_relu = _weft_sg_b(_t_mm)
            del _t_mm
            _t_exp = torch.exp(region_2_0)
            return (_t_b, _t_relu, _t_exp, _t_a,)
"""


class Parts(unittest.TestCase):
    """Regions of one composed module."""

    def sliced(self, arguments, results, text=COMPOSED):
        names = {}
        exec(text, names)
        return region_module.sliced(names, text, arguments, results)

    def test_each_has_its_statements(self):
        x, w = torch.randn(3, 3), torch.randn(3, 3)
        found = self.sliced(["region_0_0"], [3, 0])
        run, subgraphs = found.function(), found.subgraphs
        found = run(x)
        self.assertEqual(subgraphs, {"sg_a"})
        torch.testing.assert_close(found, (torch.tanh(x), x * 2))
        found = self.sliced(["region_1_0", "region_1_1"], [1]).function()(x, w)
        torch.testing.assert_close(found, (torch.relu(x @ w),))

    def test_one_without_a_kernel_is_said_so(self):
        with self.assertRaises(region_module.NoKernel):
            self.sliced(["region_2_0"], [2])

    def test_other_forms_are_not_taken(self):
        for text, words in (
            (COMPOSED.replace("_t_a,)", "self._x,)"), "reads self"),
            (COMPOSED.replace("return (_t_b, _t_relu, _t_exp, _t_a,)", "return _t_b"), "no tuple"),
            (
                COMPOSED.replace("_t_exp = torch", "print(torch").replace(
                    "exp(region_2_0)", "exp(region_2_0))"
                ),
                "stores nothing",
            ),
            (
                COMPOSED.replace(
                    "            _t_exp =", "            if region_2_0:\n                _t_exp ="
                ),
                "has a If",
            ),
            (COMPOSED.replace("ModelNew", "Other"), "does not end"),
        ):
            with self.assertRaisesRegex(region_module.NotSliced, words):
                self.sliced(["region_0_0"], [3, 0], text)

    def test_several_graphs_are_one_problem(self):
        def f(x):
            return (torch.tanh(x) * 2,)

        def g(x, y):
            return x + y, torch.relu(y)

        inputs = [[torch.randn(4)], [torch.randn(2, 3), torch.randn(3)]]
        graphs = [
            torch.fx.experimental.proxy_tensor.make_fx(one, tracing_mode="fake")(*given)
            for one, given in zip((f, g), inputs)
        ]
        made = region_module.combined(graphs, inputs)
        self.assertEqual(made.arguments, (("region_0_0",), ("region_1_0", "region_1_1")))
        self.assertEqual(made.results, ((0,), (1, 2)))
        names = {}
        exec(made.source.text, names)
        found = names["Model"]()(*inputs[0], *inputs[1])
        torch.testing.assert_close(found, (*f(*inputs[0]), *g(*inputs[1])))


class Budgets(unittest.TestCase):
    def test_one_search_has_time_for_some_regions(self):
        ones = [region_search.Candidate(mock.Mock(), ()) for _ in range(6)]
        self.assertEqual(region_search.searched_together(ones, 17.0, "cuda"), ones[:3])
        self.assertEqual([one.state for one in ones], ["waiting"] * 3 + ["none"] * 3)
        self.assertEqual(len(region_search.searched_together(ones[:2], 1.0, "cpu")), 2)

    def test_trials_have_a_part_of_the_budget(self):
        with mock.patch.object(program_trials, "uses_rng", lambda _: False):
            for compile_s, budget_s, expected in (
                (0.0, 60.0, 54.0),
                (4.0, 60.0, 50.0),
                (100.0, 60.0, 45.0),
            ):
                request = mock.Mock(compile_s=compile_s)
                program = WholeProgram(
                    request,
                    lambda given: given,
                    weft.backend.options.Options(budget_s=budget_s),
                    mock.Mock(),
                )
                self.assertAlmostEqual(improvement.Improvement(program, {})._search_s(), expected)

    def search(self, budget_s=40.0):
        with mock.patch.object(program_trials, "uses_rng", lambda _: False):
            program = WholeProgram(
                mock.Mock(compile_s=0.0),
                lambda given: given,
                weft.backend.options.Options(budget_s=budget_s),
                mock.Mock(),
            )
            return program, improvement.Improvement(program, {})

    def test_one_region_leaves_time_for_its_trial(self):
        _, search = self.search()
        asked = []
        search._search_one = lambda one, budget_s: asked.append(budget_s)
        search._live = lambda: None
        one = region_search.Candidate(mock.Mock(), ())
        search._search([one])
        self.assertAlmostEqual(asked[0], 36.0, delta=0.5)

    def test_a_search_does_not_pay_for_the_wait_for_its_turn(self):
        _, search = self.search()
        search._until = time.monotonic() + 1.0  # the rest of a budget that a wait took
        with search._turn(36.0):
            self.assertAlmostEqual(search._until - time.monotonic(), 40.0, delta=0.5)

    def test_budgets(self):
        for asked, expected in (
            ((0, 60, 2), []),
            ((3, 60, 1), [20.0] * 3),
            # Regions for which no time is left have none.
            ((12, 30, 1), [10.0] * 3),
            ((12, 30, 2), [10.0] * 6),
            ((1, 30, 4), [30.0]),
            ((2, 5, 1), [5.0]),
        ):
            self.assertEqual(region_search.budgets_s(*asked, 10.0), expected)


if __name__ == "__main__":
    unittest.main()
