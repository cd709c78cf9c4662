"""The files of `weft bench`: floors, tables, reports, KernelBench's files and plots; and
the problems that it finds. Rows are made up; no run is needed."""

import csv
import io
import json
import os
import shutil
import tempfile
import unittest
from dataclasses import replace
import xml.dom.minidom

from bench_rows import SETTINGS, result_of, row_of, wrong

from weft.bench import (
    bench_report,
    child,
    kernelbench,
    plots,
    problems,
    progress,
    records,
    results,
    score,
)
from weft.bench.bench_loop import alternate, cores_of, visible_device


class FloorTest(unittest.TestCase):
    def floor(self, **changes):
        rows = [row_of(1, result_of(**changes))]
        results.add_floors(rows)
        return rows[0]

    def test_bytes_over_the_copy_bandwidth(self):
        row = self.floor()
        self.assertAlmostEqual(row.floor_us, 50.0)  # 200 MB at 4 TB/s
        self.assertAlmostEqual(row.floor_share, 0.5)
        self.assertEqual(row.floor_by, "bytes")

    def test_products_are_held_against_the_peak_of_their_precision(self):
        for precision, product_us, convolution_us in (
            ("framework", 375, 125),
            ("strict", 375, 375),
            ("tf32", 125, 125),
        ):
            with self.subTest(precision):
                row = self.floor(precision=precision, matrix_operations=50_000_000_000)
                self.assertAlmostEqual(row.floor_us, product_us)
                self.assertEqual(row.floor_by, "operations")
                row = self.floor(precision=precision, convolution_operations=50_000_000_000)
                self.assertAlmostEqual(row.floor_us, convolution_us)

    def test_halves_have_a_peak_of_their_own(self):
        row = self.floor(half_operations=800_000_000_000)
        self.assertAlmostEqual(row.floor_us, 1000)
        self.assertEqual(row.operations, 800_000_000_000)

    def test_without_matrix_units_float32_has_its_own_peak(self):
        told = result_of(matrix_operations=50_000_000_000)
        told["machine"]["gpu_measured"]["tf32_tflops"] = 50.0
        rows = [row_of(1, told)]
        results.add_floors(rows)
        self.assertAlmostEqual(rows[0].floor_us, 1000)

    def test_the_best_rate_that_any_run_measured_counts(self):
        slow = result_of()
        slow["machine"]["gpu_measured"]["copy_gbps"] = 2000.0
        rows = [row_of(1, slow), row_of(2, result_of())]
        self.assertEqual(results.add_floors(rows)["copy_gbps"], 4000.0)
        self.assertAlmostEqual(rows[0].floor_us, 50.0)

    def test_a_rate_that_was_not_measured_gives_no_floor(self):
        told = result_of()
        told["machine"]["gpu_measured"] = {"copy_gbps": 0.0}
        rows = [row_of(1, told)]
        self.assertEqual(results.add_floors(rows), {})
        self.assertIsNone(rows[0].floor_us)

    def test_without_a_gpu_the_processor_s_own_copy_counts(self):
        told = result_of()
        told["machine"].update(gpu=None, gpu_measured={})
        rows = [row_of(1, told)]
        results.add_floors(rows)
        self.assertAlmostEqual(rows[0].floor_us, 2000.0)


class RowTest(unittest.TestCase):
    def test_a_spreadsheet_computes_no_cell_of_the_table(self):
        for text in ("=1+1", "+1", "-1", "@SUM(A1)", " =1"):
            rows = [row_of(1, wrong(text))]
            results.add_floors(rows)
            [told] = csv.DictReader(io.StringIO(results.results_csv(rows)))
            self.assertEqual(told["reason"], "'" + text)
            self.assertNotIn("'", told["wall_s"])

    def test_every_row_of_the_table_has_the_header_s_columns(self):
        rows = [
            row_of(1, result_of()),
            row_of(2, wrong('a, "b"\nc')),
            row_of(3, state=records.DIED, reason="signal 9"),
        ]
        results.add_floors(rows)
        told = list(csv.DictReader(io.StringIO(results.results_csv(rows))))
        self.assertEqual([row["verdict"] for row in told], ["verified", "not verified", "died"])
        self.assertEqual(told[1]["reason"], 'a, "b"\\nc')
        self.assertEqual(told[2]["ours_us"], "")
        self.assertEqual(float(told[0]["wall_s"]), 15.5)
        for row in told:
            self.assertNotIn(None, row)

    def test_kernels_are_counted_as_often_as_they_stand_in_the_model(self):
        row = row_of(1, result_of())
        self.assertEqual((row.kernels_ours, row.kernels_extern), (2, 4))

    def test_a_run_that_did_not_end_counts_for_nothing_that_it_left(self):
        row = row_of(1, result_of(), state=records.STOPPED)
        self.assertFalse(row.verified)
        self.assertIsNone(row.over_eager)


class ReportTest(unittest.TestCase):
    def text(self, rows):
        rates = results.add_floors(rows)
        return bench_report.markdown(SETTINGS, rows, rates, [[0.0, 100.0]])

    def test_who_lacked_memory_is_known_by_what_libraries_say(self):
        made = row_of(1)
        self.assertFalse(results.lacked_memory(made))
        told = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling …"
        for key in ("reason", "compile_error", "kernelbench_reason"):
            self.assertTrue(results.lacked_memory(replace(made, **{key: told})))

    def test_scores_come_for_each_level_and_for_all(self):
        text = self.text([row_of(1, result_of(), level=1), row_of(1, result_of(), level=2)])
        for words in (
            "## Level 1",
            "## Level 2",
            "## All problems",
            "| fast_1.5 | 1.00 | 0.00 |",
            "2.000×",
            "1.500×",
            "median 50 %",
            "NVIDIA H200",
        ):
            self.assertIn(words, text)

    def test_what_does_not_discriminate_stands_apart(self):
        told = result_of()
        told["verdict"]["kind"] = "not_discriminating"
        text = self.text([row_of(1, told), row_of(2, result_of())])
        apart = text.split("## Problems that do not discriminate")[1]
        self.assertIn("1/1_Some_Name: passes with stale", apart)
        self.assertNotIn("2_Some_Name", apart.split("##")[0])

    def test_failures_have_their_reason(self):
        text = self.text(
            [
                row_of(1, wrong("a | b")),
                row_of(2, state=records.TIMED_OUT, reason="not done after 5 s"),
            ]
        )
        self.assertIn("| 1/1_Some_Name | not verified | a \\| b |", text)
        self.assertIn("| timed out | not done after 5 s |", text)

    def test_a_bench_that_is_not_done_says_so(self):
        text = self.text([row_of(1, result_of()), row_of(2, state=records.STOPPED)])
        self.assertIn("1 problem is left", text)
        self.assertNotIn("## Not verified", text)

    def test_where_compile_failed_is_named(self):
        text = self.text([row_of(1, result_of(compiled=None))])
        self.assertIn("torch.compile failed\n\n* 1/1_Some_Name: it broke", text)


class KernelBenchTest(unittest.TestCase):
    """The layout that KernelBench's benchmark_eval_analysis.py reads."""

    def setUp(self):
        self.rows = [
            row_of(1, result_of()),
            row_of(2, wrong()),
            row_of(3, state=records.DIED, reason="signal 9"),
            row_of(4, result_of(ours_us=300.0)),
        ]
        self.files = {
            name: json.loads(text) for name, text in kernelbench.files(SETTINGS, self.rows).items()
        }

    def test_the_evaluations_have_its_fields_and_milliseconds(self):
        told = self.files["runs/weft_level1/eval_results.json"]
        self.assertEqual(list(told), ["1", "2", "3", "4"])
        sample = told["1"][0]
        self.assertEqual(
            set(sample),
            {"sample_id", "compiled", "correctness", "metadata", "runtime", "runtime_stats"},
        )
        self.assertAlmostEqual(sample["runtime"], 0.101)
        self.assertEqual(
            set(sample["runtime_stats"]),
            {"mean", "std", "min", "max", "num_trials", "hardware", "device"},
        )
        self.assertEqual(sample["metadata"]["correctness_trials"], "(6 / 6)")
        self.assertEqual(sample["metadata"]["device"], "cuda:0")
        wrong_one = told["2"][0]
        self.assertFalse(wrong_one["correctness"])
        self.assertTrue(wrong_one["compiled"])
        self.assertEqual(wrong_one["runtime"], -1.0)
        self.assertIn("not equal", wrong_one["metadata"]["correctness_issue"])
        self.assertFalse(told["3"][0]["compiled"])

    def test_the_baselines_pair_with_the_evaluations_by_position(self):
        told = self.files["results/timing/NVIDIA_H200/baseline_time_torch.json"]["level1"]
        self.assertEqual(list(told), [f"{i}_Some_Name.py" for i in range(1, 5)])
        means = [entry["mean"] for entry in told.values()]
        for mean, expected in zip(means, (0.201, 0.201, -1.0, 0.601)):
            self.assertAlmostEqual(mean, expected)

    def test_its_analysis_would_score_what_our_report_says(self):
        evaluations = self.files["runs/weft_level1/eval_results.json"]
        baseline = self.files[
            "results/timing/NVIDIA_H200/baseline_time_torch_compile_inductor_default.json"
        ]["level1"]
        pairs = zip((e[0] for e in evaluations.values()), baseline.values())
        fast = [e for e, b in pairs if e["correctness"] and b["mean"] / e["runtime"] > 1.4]
        self.assertEqual(len(fast) / 4, score.fast_p(self.rows, "over_compile", 1.4))

    def test_without_a_time_there_is_no_baseline(self):
        files = kernelbench.files(SETTINGS, [row_of(3, state=records.DIED)])
        self.assertEqual(list(files), ["runs/weft_level1/eval_results.json"])


class PlotTest(unittest.TestCase):
    def test_the_pictures_are_xml_with_a_mark_for_each_problem(self):
        rows = [row_of(i, result_of(eager=i / 2)) for i in range(1, 6)]
        results.add_floors(rows)
        made = plots.all_plots(rows)
        self.assertEqual(set(made), {"speedups.svg", "floor.svg"})
        for text in made.values():
            xml.dom.minidom.parseString(text)
        self.assertIn("1/3_Some_Name: 1.50× over eager", made["speedups.svg"])
        self.assertEqual(made["floor.svg"].count("floor 50.0 us (50%)"), 5)

    def test_faster_is_higher(self):
        axis = plots.Axis([0.5, 2.0], 400, 40)
        self.assertLess(axis.at(2.0), axis.at(1.0))
        self.assertLess(axis.at(1.0), axis.at(0.5))
        self.assertIn(1.0, axis.ticks())
        self.assertEqual((axis.at(1e9), axis.at(1e-9)), (40, 400))

    def test_nothing_timed_gives_no_picture(self):
        self.assertEqual(plots.all_plots([row_of(1, wrong())]), {})


class ProblemsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def add(self, *names):
        for name in names:
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(name)

    def test_a_checkout_is_read_in_the_order_of_numbers(self):
        self.add(
            "KernelBench/level1/10_b.py",
            "KernelBench/level1/9_a.py",
            "KernelBench/level2/1_c.py",
            "KernelBench/level1/notes.txt",
            "KernelBench/level1/__init__.py",
            "scripts/run.py",
        )
        found = problems.find(self.folder)
        self.assertEqual(
            [p.key for p in found], ["level_1_problem_9", "level_1_problem_10", "level_2_problem_1"]
        )
        self.assertEqual(len(problems.find(self.folder, [2])), 1)
        own = problems.find(os.path.join(self.folder, "KernelBench/level2"))
        self.assertEqual(own[0].key, "level_2_problem_1")

    def test_loose_files_are_named_by_themselves(self):
        self.add("softmax.py", "add.py")
        self.assertEqual(
            [(p.key, p.number) for p in problems.find(self.folder)], [("add", 1), ("softmax", 2)]
        )

    def test_patterns_choose(self):
        self.add("level1/1_relu.py", "level1/2_softmax.py", "level2/1_relu.py")
        for pattern, count in (("*relu*", 2), ("1/1_*", 1), ("2_softmax.py", 1), ("level_2_*", 1)):
            with self.subTest(pattern):
                found = problems.find(self.folder, [], [pattern])
                self.assertEqual(len(found), count)

    def test_a_folder_without_problems_is_refused(self):
        self.add("readme.txt")
        with self.assertRaisesRegex(problems.NoProblems, "no problem files"):
            problems.find(self.folder)
        self.add("level1/1_relu.py")
        with self.assertRaisesRegex(problems.NoProblems, "of level 3"):
            problems.find(self.folder, [3])
        with self.assertRaisesRegex(problems.NoProblems, "tanh"):
            problems.find(self.folder, [], ["tanh*"])
        with self.assertRaisesRegex(problems.NoProblems, "is called tanh"):
            problems.find(self.folder, [], ["1_*", "tanh*"])


class SmallPartsTest(unittest.TestCase):
    def test_runs_have_disjoint_cores(self):
        cores = sorted(os.sched_getaffinity(0))
        shares = [cores_of(slot, len(cores)) for slot in range(len(cores))]
        if len(cores) > 1:
            self.assertEqual(sorted(sum(shares, ())), cores)
        self.assertEqual(cores_of(0, 1), ())
        self.assertEqual(cores_of(0, len(cores) + 1), ())

    def test_levels_take_turns(self):
        made = [
            problems.Problem(level, number, f"/p/{number}_x.py")
            for level, number in ((1, 1), (1, 2), (1, 3), (2, 1))
        ]
        self.assertEqual(
            [(p.level, p.number) for p in alternate(made)], [(1, 1), (2, 1), (1, 2), (1, 3)]
        )

    def test_a_device_is_named_among_those_that_are_visible(self):
        self.assertEqual(visible_device(None, 2), "2")
        self.assertEqual(visible_device("", 1), "1")
        self.assertEqual(visible_device("3, 5", 1), "5")

    def test_a_run_s_own_ending_is_found_behind_what_it_said(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        log = os.path.join(folder, "log")
        with open(log, "w", encoding="utf-8") as file:
            file.write(
                '{"type": "Progress", "body": {}}\n'
                '{"type": "RunFinished", "body": '
                '{"exit_code": 1, "summary": "not verified"}}\nrest\n'
            )
        made = child.Child(["true"], log, log, (), os.environ)
        while made.exit_code() is None:
            pass
        self.assertEqual(made.ending(), (1, "not verified"))

    def test_durations_are_for_people(self):
        self.assertEqual(
            [progress.duration(s) for s in (5, 65, 3700)], ["5 s", "1 min 05 s", "1 h 01 min"]
        )


if __name__ == "__main__":
    unittest.main()
