"""The scores that `weft bench` computes from its runs: by weft's rule and by
KernelBench's, of one folder and of two. Rows are made up; no run is needed."""

import json
import os
import tempfile
import unittest
from dataclasses import replace

from bench_rows import SETTINGS, judged, result_of, row_of, wrong

from weft.bench import (
    bench_report,
    kernelbench,
    plots,
    problems,
    progress,
    records,
    results,
    score,
)


class ScoreTest(unittest.TestCase):
    def rows(self):
        return [
            row_of(1, result_of(eager=0.4)),
            row_of(2, result_of(eager=1.0)),
            row_of(3, result_of(eager=1.6)),
            row_of(4, result_of(eager=4.0)),
            row_of(5, wrong()),
            row_of(6, state=records.TIMED_OUT, reason="not done"),
        ]

    def test_fast_p_counts_verified_ones_that_are_more_than_p_times_as_fast(self):
        rows = self.rows()
        told = [score.fast_p(rows, "over_eager", p) for p in score.THRESHOLDS]
        expected = [4, 3, 3, 2, 2, 1]  # 1.0 is not more than 1
        self.assertEqual(told, [count / 6 for count in expected])

    def test_what_the_machine_cannot_run_is_in_no_score(self):
        rows = [*self.rows(), row_of(7, state=records.NO_NETWORK, reason="hub")]
        self.assertEqual(score.run_ones(rows), rows[:-1])
        text = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
        without = bench_report.markdown(SETTINGS, rows[:-1], {}, [(0, 1)])
        scores = [line for line in without.splitlines() if "fast_" in line]
        self.assertEqual([line for line in text.splitlines() if "fast_" in line], scores)
        evaluated = json.loads(
            kernelbench.files(SETTINGS, rows)[f"{kernelbench.run_folder(1)}/eval_results.json"]
        )
        self.assertNotIn("7", evaluated)
        self.assertIn("6", evaluated)

    def test_a_level_of_which_nothing_was_run_has_no_score(self):
        hub = row_of(1, level=4, state=records.NO_NETWORK, reason="hub")
        for rows, title in (([hub], "Scores"), ([row_of(1, result_of()), hub], "Level 4")):
            with self.subTest(title):
                text = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
                self.assertIn(f"## {title}\n\n* No problem was run\n", text)
                self.assertIn("| 4/1_Some_Name | no network | hub |", text)
        beside = replace(hub, group="beside")
        self.assertIn(
            "In /other: Scores\n\n* No problem was run\n",
            bench_report.markdown(replace(SETTINGS, beside="/other"), [hub, beside], {}, [(0, 1)]),
        )
        self.assertEqual(plots.all_plots([hub]), {})

    def test_fast_0_is_the_share_of_verified_ones_even_when_none_is_timed(self):
        untimed = result_of()
        untimed["timing"]["over_eager"] = None
        rows = [row_of(1, untimed), row_of(2, wrong())]
        self.assertEqual(score.fast_p(rows, "over_eager", 0), 0.5)
        self.assertIsNone(score.fast_p(rows, "over_eager", 1))

    def test_the_mean_is_geometric_and_of_verified_ones_alone(self):
        rows = [
            row_of(1, result_of(eager=0.5)),
            row_of(2, result_of(eager=8.0)),
            row_of(3, wrong()),
        ]
        ratios = score.ratios(rows, "over_eager")
        self.assertAlmostEqual(score.geometric_mean(ratios), 2.0)
        self.assertIsNone(score.geometric_mean([]))

    def test_only_an_interval_without_1_is_a_difference(self):
        rows = [
            row_of(1, result_of(eager=1.04)),
            row_of(2, result_of(eager=0.9)),
            row_of(3, result_of(eager=1.2)),
            row_of(4, result_of(eager=3.0)),
        ]
        self.assertEqual(score.beyond_spread(rows, "over_eager"), (2, 1, 1))

    def test_of_the_same_code_there_is_no_difference_to_eager(self):
        same = [{"ours": False, "count": 1, "variant": "rows"}]
        rows = [row_of(1, result_of(eager=0.9, subgraphs=same)), row_of(2, result_of(eager=0.9))]
        self.assertEqual(score.beyond_spread(rows, "over_eager"), (0, 1, 1))
        self.assertEqual(score.beyond_spread(rows, "over_compile"), (2, 0, 0))
        told = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
        self.assertIn("was 0.900 times as fast as in eager's (median; 0.90 to 0.90)", told)

    def test_the_clocks_of_both_sides_are_told(self):
        slow = result_of()
        slow["timing"]["sm_mhz"] = {"candidate": 1500, "eager": 1980}
        slow["timing"]["throttled"] = []
        rows = [row_of(1), row_of(2, result_of()), row_of(3, slow)]
        told = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
        self.assertIn(
            "weft's module 1740 MHz, eager 1972 MHz; more than 2 % apart in "
            "1 problems, lowered (by power, heat) in 1",
            told,
        )
        self.assertEqual(rows[1].throttled, "power cap")


class TwoColumns(unittest.TestCase):
    """Generated kernels only, and the best of all."""

    def rows(self):
        by_inductor = [{"ours": True, "count": 1, "variant": "as Inductor", "origin": "inductor"}]
        no_kernel = [{"ours": False, "count": 1, "variant": "rows"}]
        return [
            row_of(1, result_of(eager=4.0, compiled=2.0)),
            row_of(2, result_of(eager=0.8, compiled=1.6)),  # a slower module
            row_of(3, result_of(eager=3.0, compiled=1.0, subgraphs=by_inductor)),
            row_of(4, result_of(eager=2.0, compiled=0.5)),
            row_of(5, result_of(eager=0.9, compiled=None, subgraphs=no_kernel)),
            row_of(6, result_of(eager=0.98, compiled=1.2)),  # within the spread
            row_of(7, wrong()),
            row_of(8, state=records.TIMED_OUT),
        ]

    def test_a_module_slower_than_eager_is_no_result_in_either(self):
        rows = self.rows()
        own = [one and one.over_eager for one in map(score.generated, rows)]
        self.assertEqual(own, [4.0, None, None, 2.0, None, 0.98, None, None])
        best = [one and (one.by, one.over_eager, one.over_compile) for one in map(score.best, rows)]
        self.assertEqual(
            best,
            [
                ("weft", 4.0, 2.0),
                ("eager", 1.0, 2.0),
                ("weft", 3.0, 1.0),
                ("torch.compile", 4.0, 1.0),
                ("eager", 1.0, None),
                ("eager", 1.0, 1 / (0.98 / 1.2)),
                ("torch.compile", 2 / 1.5, 1.0),
                None,
            ],
        )

    def test_the_report_has_both(self):
        text = bench_report.markdown(SETTINGS, self.rows(), {}, [(0, 1)])
        self.assertIn("| results | 3 of 8 | 7 of 8 |", text)
        self.assertIn("(weft 2, torch.compile 2, eager 3)", text)
        self.assertIn(
            "| [1/2_Some_Name](runs/l1-002_Some_Name/report.md) | "
            "verified, slower than eager: no result |",
            text.replace(self.rows()[1].key, "l1-002_Some_Name"),
        )

    def test_the_table_has_them_too(self):
        self.assertEqual(
            [row.best for row in self.rows()],
            ["weft", "eager", "weft", "torch.compile", "eager", "eager", "torch.compile", None],
        )


class NearEagerTest(unittest.TestCase):
    """Scores by KernelBench's own rule, in addition to weft's."""

    def setUp(self):
        self.rows = [
            row_of(1, judged("within", eager=4.0)),
            row_of(2, judged("outside", beside=1.0)),
            row_of(3, judged("outside", compiled="outside")),
            row_of(4, judged("failed", compiled="failed")),
            row_of(5, result_of()),
        ]  # of an older weft
        self.near = score.by_near_rule(self.rows)

    def test_of_a_far_module_the_one_beside_it_counts(self):
        self.assertEqual([row.verified for row in self.near], [True, True, False, False])
        self.assertEqual(score.ratios(self.near, "over_eager"), [4.0, 1.0])
        self.assertEqual(
            [row.kernelbench_module for row in self.rows], ["own", "other", None, None, None]
        )

    def test_both_rules_are_told(self):
        text = bench_report.markdown(SETTINGS, self.rows, {}, [(0, 1)])
        self.assertIn("2 of 4 modules within it, 1 of them another module", text)
        self.assertIn("torch.compile's within it in 2 problems, in 2 of these weft's too", text)
        self.assertIn("over eager: geometric mean 2.000×", text)
        self.assertIn("TF32 shows in 0 of weft's modules, and in 4 of PyTorch's, of 4", text)
        self.assertIn("| another: 1.00 (0.95–1.05) |", text)

    def test_the_last_line_says_it_too(self):
        self.assertEqual(progress.near_count(self.rows), 2)
        self.assertEqual(
            progress.near_words(self.rows),
            "; 2 of 4 within KernelBench's tolerance, 2.00x eager, 1.22x compile",
        )
        self.assertEqual(progress.near_words(self.rows[4:]), "")
        said = [progress.sentence(row) for row in self.rows]
        self.assertIn(", within KernelBench's tolerance, ", said[0])
        self.assertIn("another module within KernelBench's tolerance", said[1])
        self.assertIn("outside KernelBench's tolerance", said[2])
        self.assertNotIn("tolerance", said[4])

    def test_kernelbenchs_files_have_the_module_that_it_accepts(self):
        files = kernelbench.files(SETTINGS, self.rows)
        told = json.loads(files["runs/weft_level1/eval_results.json"])
        samples = [told[str(n)][0] for n in range(1, 6)]
        self.assertEqual([s["correctness"] for s in samples], [True, True, False, False, True])
        self.assertAlmostEqual(samples[1]["runtime"], 0.151)
        self.assertIn("3 of 4", samples[2]["metadata"]["correctness_issue"])

    def test_the_module_beside_is_what_is_copied(self):
        with tempfile.TemporaryDirectory() as out:
            kept = records.Records(out)
            inner = os.path.join(out, "runs", self.rows[1].key, "composed")
            os.makedirs(os.path.join(inner, "kernelbench"))
            for place, text in (("", "own"), ("kernelbench", "near")):
                with open(
                    os.path.join(inner, place, "model_new.py"), "w", encoding="utf-8"
                ) as file:
                    file.write(text)
            results.write(replace(SETTINGS, out=out), self.rows, kept, [(0, 1)])
            path = os.path.join(out, "kernelbench", kernelbench.kernel_path(self.rows[1]))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "near")


class BesideTest(unittest.TestCase):
    """Two folders in one bench."""

    def rows(self):
        own = [row_of(1, result_of(eager=4.0, compiled=2.0))]
        problem = problems.Problem(1, 1, "/q/1_Some_Name.py", problems.BESIDE)
        record = records.Record("digest", records.FINISHED, 0, "", [[10.0, 25.5]])
        return [*own, results.row(problem, record, result_of(eager=3.0, compiled=1.25))]

    def test_runs_have_folders_of_their_own(self):
        self.assertEqual(
            [row.key for row in self.rows()], ["level_1_problem_1", "beside_level_1_problem_1"]
        )

    def test_both_means_are_told_beside_each_other(self):
        text = bench_report.markdown(replace(SETTINGS, beside="/other"), self.rows(), {}, [(0, 1)])
        self.assertIn("| level 1, over torch.compile | 2.000× (1 of 1) | 1.250× (1 of 1) |", text)
        self.assertIn("## Scores", text)
        self.assertIn("## In /other: Scores", text)

    def test_so_are_those_over_all_levels(self):
        more = row_of(1, result_of(eager=1.0, compiled=None), level=2)
        text = bench_report.markdown(
            replace(SETTINGS, beside="/other"), [*self.rows(), more], {}, [(0, 1)]
        )
        _, told = text.split("## Beside each other")
        for line in (
            "| level 1, over eager | 4.000× (1 of 1) | 3.000× (1 of 1) |",
            "| level 2, over eager | 1.000× (1 of 1) | – |",
            "| all, over eager | 2.000× (2 of 2) | 3.000× (1 of 1) |",
            "| all, over torch.compile | 2.000× (1 of 2) | 1.250× (1 of 1) |",
        ):
            self.assertIn(line, told.split("##")[0])
        self.assertNotIn("level 2, over torch.compile", told)

    def test_kernelbenchs_files_are_of_the_first_folder_alone(self):
        told = json.loads(
            kernelbench.files(SETTINGS, self.rows())["runs/weft_level1/eval_results.json"]
        )
        self.assertEqual(list(told), ["1"])

    def test_problems_of_both_are_found(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            for folder in (one, two):
                with open(os.path.join(folder, "1_A.py"), "w", encoding="utf-8"):
                    pass
            found = problems.find_beside(one, two)
            self.assertEqual([p.group for p in found], ["", problems.BESIDE])
            self.assertEqual(len(problems.find_beside(one, "")), 1)


if __name__ == "__main__":
    unittest.main()
