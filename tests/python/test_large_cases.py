"""Cases too large to keep, and what the second kernel's check needs of them."""

import json
import tempfile
import unittest
from unittest import mock

import oracle_samples as samples
from weft.device import device
from weft.expect import expected, reference
from weft.device.arena_keeper import ArenaKeeper
from weft.judge import verify_subgraph
from weft.judge.limits import Limits
from weft.timing.time_subgraph import SubgraphBench

import torch


class PassingCases(unittest.TestCase):
    def cases(self):
        made = reference.Reference(samples.GRAPHS["add_mul"])
        return expected.PassingCases(made, 3, device.HOST)

    def test_a_case_can_be_made_again(self):
        cases = self.cases()
        first = cases.case(0)
        cases.case(1)
        again = cases.case(0)
        for a, b in zip(first.data, again.data):
            self.assertTrue(torch.equal(a, b))

    def test_controls_are_held_while_the_cases_pass(self):
        cases = self.cases()
        for number in range(cases.count):
            cases.case(number)
        self.assertEqual(set(cases.controls.values()), {True})
        self.assertGreater(cases.framework_error, 0)

    def of_logarithms(self, more, outputs):
        """y: the sum of x0's logarithms."""
        made = reference.Reference(
            samples.graph(
                samples.given((64, 64))
                + [
                    samples.node(
                        "l",
                        "call",
                        "aten.log.default",
                        [samples.ref("x0")],
                        samples.tensor((64, 64)),
                    ),
                    samples.node(
                        "y", "call", "aten.sum.default", [samples.ref("l")], samples.tensor(())
                    ),
                    *more,
                ],
                outputs,
            )
        )
        return expected.PassingCases(made, 3, device.HOST)

    def test_a_sum_of_logarithms_is_checked_on_numbers(self):
        cases = self.of_logarithms([], ["y"])
        answers = [cases.case(n) for n in range(cases.count)]
        self.assertEqual(
            [case.distribution for case in answers], ["uniform", "uniform", "special", "altered"]
        )
        self.assertEqual(
            [bool(case.outputs[0].framework.isfinite()) for case in answers],
            [True, True, False, True],
        )
        self.assertNotEqual(*(case.outputs[0].framework.item() for case in answers[:2]))
        # Who always says nan would have passed.
        nan = self.verdict_of(cases, lambda out: out.fill_(float("nan")))
        self.assertEqual(nan.kind, "wrong")

    def test_every_output_is_checked_on_numbers_once(self):
        cases = self.of_logarithms(
            [
                samples.node(
                    "z", "call", "aten.relu.default", [samples.ref("x0")], samples.tensor((64, 64))
                )
            ],
            ["y", "z"],
        )
        answers = [cases.case(n) for n in range(cases.count)]
        self.assertEqual(
            [case.distribution for case in answers], ["edges", "uniform", "special", "altered"]
        )
        self.assertTrue(answers[1].outputs[0].framework.isfinite())

    def test_what_has_finite_answers_keeps_its_cases(self):
        cases = self.cases()
        self.assertEqual(
            [cases.case(n).distribution for n in range(3)], ["edges", "wide", "special"]
        )

    def of_products(self):
        """The fifteenth power of a matrix: of "edges" far beyond float32."""
        square = samples.tensor((64, 64))
        nodes, last = samples.given((64, 64)), "x0"
        for i in range(14):
            nodes.append(
                samples.node(
                    f"p{i}",
                    "call",
                    "aten.mm.default",
                    [samples.ref(last), samples.ref("x0")],
                    square,
                )
            )
            last = f"p{i}"
        return reference.Reference(samples.graph(nodes, [last]))

    def test_what_overflows_all_over_is_drawn_milder(self):
        for cases in (
            expected.make_cases(self.of_products(), 3),
            expected.PassingCases(self.of_products(), 3, device.HOST, is_large=False),
        ):
            with self.subTest(of=type(cases).__name__):
                made = [cases.case(n) for n in range(cases.count)]
                names = [case.distribution for case in made]
                self.assertEqual(names[:5], ["normal", "mild edges", "uniform", "wide", "grid"])
                self.assertTrue(made[1].finite)
                self.assertTrue(made[1].outputs[0].framework.isfinite().all())

    def test_where_float64_finds_no_room_it_is_told(self):
        cases = self.cases()
        cases.case(0)
        self.assertFalse(cases.lacks_float64)

        def lacks_room(*tensors):
            raise torch.OutOfMemoryError("others have it")

        maker = cases._maker
        storages = maker.storages("normal", torch.Generator())
        shared = mock.Mock(is_cuda=True, torch=device.HOST.torch)
        with (
            mock.patch.object(maker, "_wide", lacks_room),
            mock.patch.object(maker, "device", shared),
        ):
            outputs = maker.expect("normal", storages).outputs
        self.assertTrue(cases.lacks_float64)
        self.assertIs(outputs[0].truth, outputs[0].framework)

    def verdict_of(self, cases, alter=lambda out: None):
        """Of a candidate that gives the framework's results, altered."""
        eager = cases.reference.function()

        def run_case(slot, buffers, which, case, limits):
            made = [x.clone() for x in eager(*cases._maker.views(case.data))]
            alter(made[0])
            return made

        with mock.patch.object(verify_subgraph, "run_case", run_case):
            return verify_subgraph.check(mock.Mock(), ArenaKeeper(), cases, {}, Limits())

    def test_the_second_kernel_needs_no_float64_while_it_is_near(self):
        cases = self.cases()
        self.assertTrue(self.verdict_of(cases).correct)
        with mock.patch.object(
            cases._maker, "_wide", mock.Mock(side_effect=AssertionError("float64 was asked"))
        ):
            verdict = self.verdict_of(cases)
        self.assertTrue(verdict.correct, verdict.reason)
        self.assertEqual(set(verdict.controls.values()), {True})

    def test_who_is_not_near_is_held_against_float64(self):
        cases = self.cases()
        first = self.verdict_of(cases, lambda out: out[0].mul_(1.001))
        self.assertEqual(first.kind, "wrong")
        self.verdict_of(cases)
        again = self.verdict_of(cases, lambda out: out[0].mul_(1.001))
        self.assertEqual((again.kind, again.reason), ("wrong", first.reason))
        self.assertGreater(again.max_error, again.tolerance)
        share = 0.95 * cases.case(0).outputs[0].tolerance
        wide = mock.Mock(side_effect=cases._maker._wide)
        with mock.patch.object(cases._maker, "_wide", wide):
            between = self.verdict_of(cases, lambda out: out.mul_(1 + share))
        self.assertTrue(between.correct, between.reason)
        self.assertEqual(between.mismatches, [])
        self.assertTrue(again.mismatches)
        wide.assert_called()

    def test_what_was_known_without_float64_is_not_remembered(self):
        cases = self.cases()
        cases._maker.lacks_float64 = True
        cases.case(0)
        self.assertFalse(cases.quick_case(0).is_near)
        cases.rest()
        self.assertFalse(cases.quick_case(0).is_near)
        self.assertTrue(cases.quick_case(0).is_near)

    def test_what_a_check_expected_serves_the_timing(self):
        cases = self.cases()
        self.assertIsNone(cases.like)
        self.verdict_of(cases)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as graph:
            json.dump(samples.GRAPHS["add_mul"], graph)
            graph.flush()
            bench = SubgraphBench(graph.name, 5, device.HOST, cases.like)
        kept = cases.case(0).data
        right = cases._maker._eager(*cases._maker.views(kept))
        with mock.patch.object(
            bench.maker, "_wide", mock.Mock(side_effect=AssertionError("float64 was asked"))
        ):
            self.assertEqual(bench.why_wrong("normal", kept, right), "")
        self.assertIn("expected", bench.why_wrong("normal", kept, [right[0] * 1.001]))
        self.assertFalse(bench.lacks_float64)

    def test_a_library_keeps_what_was_found_and_no_tensor(self):
        graph = tempfile.NamedTemporaryFile("w", suffix=".json")
        self.addCleanup(graph.close)
        json.dump(samples.GRAPHS["add_mul"], graph)
        graph.flush()
        large = mock.Mock(
            wraps=device.HOST, is_cuda=False, torch=device.HOST.torch, lock=device.HOST.lock
        )
        large.is_large = lambda size: True
        library = expected.Library(1 << 20, large)
        cases = library.cases(graph.name, 1)
        cases.case(0)
        self.assertIsNotNone(cases._controls._before)
        library.rest()
        self.assertIsNone(cases._controls._before)
        self.assertIs(library.cases(graph.name, 1), cases)
        self.assertIsNot(library.cases(graph.name, 2), cases)

    def test_cases_that_fit_one_by_one_are_as_many_as_kept_ones(self):
        graph = tempfile.NamedTemporaryFile("w", suffix=".json")
        self.addCleanup(graph.close)
        json.dump(samples.GRAPHS["add_mul"], graph)
        graph.flush()
        made = reference.Reference(samples.GRAPHS["add_mul"])
        kept = expected.make_cases(made, 1)
        size = expected._bytes_of_cases(made)
        self.assertGreaterEqual(size, kept.bytes)
        asked = []
        small = mock.Mock(
            wraps=device.HOST, is_cuda=False, torch=device.HOST.torch, lock=device.HOST.lock
        )
        small.holds_cases = lambda size: bool(asked.append(size))
        passing = expected.Library(1 << 20, small).cases(graph.name, 1)
        self.assertEqual(asked, [size])
        self.assertIsInstance(passing, expected.PassingCases)
        self.assertEqual(
            [passing.case(n).distribution for n in range(passing.count)],
            [case.distribution for case in kept.cases],
        )
        small.give_back.assert_not_called()

    def test_the_last_case_is_the_first_with_few_elements_changed(self):
        kept = expected.make_cases(reference.Reference(samples.GRAPHS["add_mul"]), 3)
        for cases in (kept, self.cases()):
            first, last = cases.case(0), cases.case(cases.count - 1)
            for a, b in zip(first.data, last.data):
                changed = int((a != b).sum())
                self.assertLessEqual(changed, max(1, a.numel() // 1024))
            self.assertTrue(any(not torch.equal(a, b) for a, b in zip(first.data, last.data)))

    def test_the_altered_case_follows_the_first_in_its_buffers(self):
        count = self.cases().count
        *_, before, last = verify_subgraph._schedule(count)
        self.assertEqual((before, last), ((1, 0), (1, count - 1)))

    def test_every_buffer_set_sees_two_contents(self):
        seen = {}
        for which, case in verify_subgraph._schedule(self.cases().count):
            seen.setdefault(which, set()).add(case)
        self.assertTrue(all(len(cases) > 1 for cases in seen.values()), seen)


if __name__ == "__main__":
    unittest.main()
