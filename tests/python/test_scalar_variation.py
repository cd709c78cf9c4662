"""Other numbers among the arguments: which are tried, what Model makes of them,
and who is rejected for them.

Needs the program compose_cli (tests/compiler/tools) as test_model_attributes does.
"""

import json
import math
import os
import subprocess
import tempfile
import unittest
from unittest import mock

import torch

from captured_cases import program
from weft_case import ROOT, WeftCase, problem_with
from weft.capture import capture
from weft.device import device
from weft.expect import scalar_variation
from weft.oracle import oracle
from weft.problem.module_state import state_of, copy_sharing_tensors
from weft.judge.whole_model import WholeModel

CHEATS = os.path.join(ROOT, "tests", "cheats")
#: A candidate of that forward().
CANDIDATE = (
    "import os, torch\n\nclass ModelNew(torch.nn.Module):\n"
    "    def forward(self, x, n):\n        {0}\n"
)


def whole_of(forward, given, seed=1, init="pass"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(problem_with(forward, init, f"[torch.randn(8, 16), {given}]", "self, x, n"))
        return WholeModel(path, seed)


def tried(whole):
    """{name: value}, as a check tries them."""
    first = whole.case("given", whole.device.generator(whole.seed))
    return {number.name: value for number, value, _ in scalar_variation.cases(whole, first)}


def value_for(forward, given):
    return tried(whole_of(forward, given)).get("argument 2")


class OthersTest(unittest.TestCase):
    def test_floats_keep_their_sign_and_fractions_stay_fractions(self):
        self.assertEqual(scalar_variation.others(0.5), [0.375, 0.75])
        for value in (1e-300, 1e-5, 0.5, 0.99, 1.0, 2.5, 1e30):
            others = scalar_variation.others(value)
            self.assertEqual(scalar_variation.others(-value), [-x for x in others])
            for other in others:
                self.assertNotEqual(other, value)
                self.assertGreater(other, 0)
                self.assertTrue(other < 1 or value >= 1)
        self.assertEqual(scalar_variation.others(0.0), [0.5])

    def test_what_is_not_finite_becomes_a_number(self):
        for value in (math.inf, -math.inf, math.nan):
            [other] = scalar_variation.others(value)
            self.assertTrue(math.isfinite(other))

    def test_whole_numbers_have_neighbours_of_their_sign(self):
        self.assertEqual(scalar_variation.others(0), [1])
        self.assertEqual(scalar_variation.others(3), [4, 2])
        self.assertEqual(scalar_variation.others(-1), [0, -2])

    def test_a_flag_has_one_other(self):
        self.assertEqual(scalar_variation.others(True), [False])
        self.assertEqual(scalar_variation.others(False), [True])

    def test_among_arguments_only_numbers_and_flags_are_found(self):
        found = scalar_variation.among(
            [torch.ones(2), 0.5, None, "mean", {"a": [True, torch.ones(1)]}, 3]
        )
        self.assertEqual(
            [(n.leaf, n.name, n.value) for n in found],
            [(1, "argument 2", 0.5), (4, "argument 5['a'][0]", True), (6, "argument 6", 3)],
        )


class CasesTest(unittest.TestCase):
    def test_a_number_that_model_reads(self):
        self.assertEqual(value_for("return x * n", "0.5"), 0.375)

    def test_none_that_model_does_not_take(self):
        self.assertIsNone(value_for("assert n == 2; return x * n", "2"))

    def test_none_that_gives_results_of_another_form(self):
        for forward in (
            "return x[:n].clone()",
            "return [x * 2] * n",
            "return x.half() if n > 2 else x * 2",
        ):
            self.assertNotIn(value_for(forward, "2"), (3,), forward)

    def test_the_next_where_model_takes_the_first_for_none(self):
        self.assertEqual(value_for("return x.cumsum(n)", "1"), 0)

    def test_the_next_where_the_first_changes_nothing(self):
        self.assertEqual(
            value_for("return nn.functional.layer_norm(x, (16,), eps=n)", "1e-5"), 0.500005
        )

    def test_the_next_where_the_first_makes_nan_of_numbers(self):
        self.assertEqual(value_for("return x ** n", "2.0"), 3.0)

    def test_one_that_changes_nothing_is_tried_all_the_same(self):
        self.assertEqual(value_for("return x * 2", "5"), 6)

    def test_results_that_are_no_tensors_may_differ(self):
        self.assertEqual(value_for("return x * n, n", "5"), 6)

    def test_each_alone_and_of_many_some_by_the_seed(self):
        given = [1.0 + i for i in range(scalar_variation.NUMBERS_MAX + 4)]
        forward = "return x * sum(n)"
        some = [tried(whole_of(forward, given, seed)) for seed in (1, 2)]
        for found in some:
            self.assertEqual(len(found), scalar_variation.NUMBERS_MAX)
        self.assertNotEqual(*map(set, some))

    def test_no_more_are_begun_when_the_time_is_over(self):
        with mock.patch.object(scalar_variation, "BUDGET_S", -1.0):
            self.assertEqual(tried(whole_of("return x * n", "0.5")), {})

    def test_a_case_too_large_to_keep_needs_no_first(self):
        whole = whole_of("return x * n", "0.5")
        [(_, value, case)] = scalar_variation.cases(whole, None)
        self.assertEqual(value, 0.375)
        torch.testing.assert_close(case.outputs[0].framework, case.data.leaves[0] * 0.375)

    def test_what_model_keeps_stays_what_it_was(self):
        whole = whole_of(
            "self.seen.append(n)\n        self.count += 1\n        return x * n",
            "0.5",
            init="self.seen = []\n        self.register_buffer('count', torch.zeros(()))",
        )
        before = len(whole.model.seen)
        first = whole.case("given", whole.device.generator(1))
        self.assertTrue(list(scalar_variation.cases(whole, first)))
        self.assertEqual(set(whole.model.seen), {0.5})
        self.assertGreater(len(whole.model.seen), before)
        again = whole.case("given", whole.device.generator(1))
        self.assertTrue(torch.equal(first.outputs[0].framework, again.outputs[0].framework))

    def test_tolerances_follow_the_calls_that_are_made_then(self):
        whole = whole_of("return torch.softmax(x @ x.t() if n else x[:, :8], -1)", "False")
        first = whole.case("given", whole.device.generator(1))
        [(_, value, case)] = scalar_variation.cases(whole, first)
        self.assertIs(value, True)
        self.assertGreater(case.outputs[0].tolerance, first.outputs[0].tolerance)
        self.assertTrue(whole._uses_float64)

    def test_a_twin_has_the_same_tensors(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())
        model.plain = [torch.ones(1)]
        other = copy_sharing_tensors(model)
        other.plain.append(2)
        self.assertEqual(len(model.plain), 1)
        self.assertIs(other.plain[0], model.plain[0])
        for (_, one), (_, two) in zip(state_of(model), state_of(other)):
            self.assertIs(one, two)


class CarefulTest(unittest.TestCase):
    def refuses(self, call):
        with self.assertRaises(scalar_variation.Risky), scalar_variation.CarefulTrace():
            call()

    def test_places_that_may_be_out_of_range_are_not_looked_up(self):
        x, i = torch.rand(8, 8), torch.zeros(2, dtype=torch.long)
        for call in (
            lambda: x[i],
            lambda: x.gather(0, i[:, None]),
            lambda: torch.nn.functional.embedding(i, x),
            lambda: torch.nn.functional.cross_entropy(x[:2], i),
            lambda: x.scatter(0, i[:, None], 1.0),
            lambda: torch.bernoulli(x),
        ):
            self.refuses(call)

    def test_other_calls_are_written_down(self):
        x = torch.rand(8, 8)
        with scalar_variation.CarefulTrace() as trace:
            torch.softmax(x, -1)
        self.assertEqual(trace.length, 8)

    def test_on_a_device_no_model_is_tried_that_looks_places_up(self):
        for forward, count in (
            ("return torch.relu(x) * n", 1),
            ("return x[torch.tensor([0, 3])] * n", 0),
        ):
            whole = whole_of(forward, "0.5")
            self.assertEqual(len(tried(whole)), 1)
            whole.device = mock.Mock(
                wraps=whole.device,
                is_cuda=True,
                lock=whole.device.lock,
                torch=whole.device.torch,
                give_back_much=lambda: None,
            )
            self.assertEqual(len(tried(whole)), count)


class LargeTest(WeftCase):
    def test_of_large_tensors_numbers_are_looked_at_too(self):
        judge = oracle.Oracle(self.path("scratch"), [], 2)
        self.addCleanup(judge.close)
        is_large = {"is_large": lambda *_: True, "parts_for": lambda *_: 0}
        request = {
            "id": 1,
            "verb": "check_model",
            "random_seed": 1,
            "problem": os.path.join(CHEATS, "references", "options.py"),
        }
        reasons = {}
        with mock.patch.multiple(device.Device, **is_large):
            for name in (
                "N14_number_written_down",
                "N14_refuses_but_one",
                "honest_refuses_numbers",
            ):
                path = os.path.join(CHEATS, name + ".py")
                reply = judge.answer({**request, "composed": path})
                self.assertTrue(reply["ok"], reply)
                reasons[name] = reply["verdict"]["reason"]
        self.assertIn("for argument 2", reasons["N14_number_written_down"])
        self.assertIn("'shift'", reasons["N14_refuses_but_one"])
        self.assertEqual(reasons["honest_refuses_numbers"], "")


class VerdictTest(WeftCase):
    def evaluate(self, candidate, given="0.5", forward="return x * n"):
        problem = self.write(
            "problem.py",
            problem_with(forward, inputs=f"[torch.randn(8, 16), {given}]", arguments="self, x, n"),
        )
        done = self.weft(
            "eval",
            problem,
            self.write("new.py", candidate),
            "--target",
            "cpu",
            "--json",
            "--no-timing",
        )
        return json.loads(done.stdout)

    def test_who_dies_of_another_number_has_not_refused_it(self):
        found = self.evaluate(CANDIDATE.format("return x * n if n == 0.5 else os.abort()"))
        self.assertFalse(found["accepted"])
        self.assertEqual(found["verdict"]["kind"], "crashed")
        self.assertIn("0.375 for argument 2", found["verdict"]["reason"])
        self.assertIn("SIGABRT", found["verdict"]["reason"])

    def test_nor_has_who_lacks_memory(self):
        found = self.evaluate(CANDIDATE.format("return x * n if n == 0.5 else bytearray(1 << 60)"))
        self.assertFalse(found["accepted"])
        self.assertEqual(found["verdict"]["kind"], "out_of_memory")

    def test_who_refuses_each_of_two_is_accepted(self):
        found = self.evaluate(
            CANDIDATE.format("assert n == [2, 0.5]; return x * 1.0"),
            "[2, 0.5]",
            "return x * n[0] * n[1]",
        )
        self.assertTrue(found["accepted"], found)

    def test_a_composed_module_goes_to_its_reference(self):
        for given in ("0.5", "2", "True"):
            path = self.write(
                "composed.py",
                problem_with(
                    "return torch.relu(x) * n",
                    arguments="self, x, n",
                    inputs=f"[torch.randn(8, 16), {given}]",
                ),
            )
            reply = capture.reply_of(path, self.path("graph.json"))
            self.assertTrue(reply["ok"], reply)
            with open(self.path("graph.json"), encoding="utf-8") as graph:
                text = subprocess.run(
                    [program("compose_cli", "WEFT_COMPOSE"), path],
                    stdin=graph,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            self.assertIn("forward_reference", text)
            found = self.evaluate(text, given, "return torch.relu(x) * n")
            self.assertTrue(found["accepted"], found)
            written_down = text.replace(
                "return _weft_pass_on(", f"n = {given}\n            return _weft_pass_on("
            )
            self.assertNotEqual(text, written_down)
            found = self.evaluate(written_down, given, "return torch.relu(x) * n")
            self.assertIn("for argument 2", found["verdict"]["reason"])


if __name__ == "__main__":
    unittest.main()
