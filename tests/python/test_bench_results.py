"""What `weft bench` works out of its runs: problems, scores, floors, the files
that are written. Rows are made up; no run is needed."""

import csv
import io
import json
import os
import shutil
import tempfile
import unittest
import xml.dom.minidom

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

SETTINGS = {"folder": "/somewhere/KernelBench", "beside": "", "out": "",
            "target": "triton",
            "gpu": "NVIDIA H200", "timed": True, "version": "0.1.0", "jobs": 4,
            "run_flags": ["--precision", "framework"]}


def times(median_us):
    return {"median_us": median_us, "p10_us": 0.9 * median_us,
            "p90_us": 1.1 * median_us, "runs": 30, "mean_us": median_us + 1,
            "std_us": 2.0, "min_us": 0.8 * median_us,
            "max_us": 1.4 * median_us}


def over(ratio, reach=0.05):
    return {"ratio": ratio, "low": ratio - reach, "high": ratio + reach}


def result_of(ours_us=100.0, eager=2.0, compiled=1.5, **changes):
    """A run's result.json."""
    timing = {"candidate": times(ours_us), "eager": times(ours_us * eager),
              "compile": times(ours_us * compiled) if compiled else None,
              "compile_autotune": None, "over_eager": over(eager),
              "over_compile": over(compiled) if compiled else None,
              "over_compile_autotune": None,
              "compile_error": "" if compiled else "it broke",
              "compile_autotune_error": "", "bytes_floor": 200_000_000,
              "sm_mhz": {"candidate": 1980, "eager": 1965},
              "throttled": ["power cap"]}
    told = {"verdict": {"correct": True, "kind": "correct", "reason": "",
                        "cases": 6, "max_error": 1e-7, "framework_error": 2e-7,
                        "tolerance": 1e-5,
                        "controls": {"zeros": True, "stale": False}},
            "timing": timing, "precision": "framework",
            "matrix_operations": 0, "convolution_operations": 0,
            "machine": {"gpu": "NVIDIA H200", "processor": "a processor",
                        "torch": "2.11", "copy_gbps": 100.0,
                        "gpu_measured": {"copy_gbps": 4000.0,
                                         "fp32_tflops": 50.0,
                                         "tf32_tflops": 400.0,
                                         "half_tflops": 800.0}},
            "subgraphs": [
                {"ours": True, "count": 2, "variant": "rows"},
                {"ours": False, "count": 1, "variant": "split"}],
            "externs": {"aten.mm.default": 3}}
    told.update(changes)
    return told


def row_of(number, result=None, level=1, state=records.FINISHED, reason=""):
    problem = problems.Problem(level, number, f"/p/{number}_Some_Name.py")
    record = records.Record("digest", state, 0, reason, [[10.0, 25.5]])
    return results.row(problem, record, result)


def judged(outcome, compiled="within", beside=None, **changes):
    """The same, with what KernelBench's own rule says of it. `beside`: how many
    times faster than eager another module is, which is near."""
    told = result_of(**changes)
    told["verdict"].update(
        precision="float32", framework_precision="tf32", kernelbench={
            "outcome": outcome, "compiled": compiled, "draws": 5,
            "reason": "" if outcome == "within" else "draw 1: 3 of 4 elements",
            "max_difference": 0.1, "tolerance": 1e-4, "compiled_reason": ""})
    told["kernelbench_module"] = beside and {
        "file": "composed/kernelbench/model_new.py", "ours": ["sg_1"],
        "verdict": told["verdict"],
        "timing": {**told["timing"], "candidate": times(150.0),
                   "over_eager": over(beside), "over_compile": over(beside)}}
    return told


def wrong(reason="case 2: not equal"):
    told = result_of()
    told["verdict"].update(correct=False, kind="wrong", reason=reason)
    return told


class ScoreTest(unittest.TestCase):
    def rows(self):
        return [row_of(1, result_of(eager=0.4)), row_of(2, result_of(eager=1.0)),
                row_of(3, result_of(eager=1.6)), row_of(4, result_of(eager=4.0)),
                row_of(5, wrong()),
                row_of(6, state=records.TIMED_OUT, reason="not done")]

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
        self.assertEqual(
            [line for line in text.splitlines() if "fast_" in line], scores)
        evaluated = json.loads(kernelbench.files(SETTINGS, rows)[
            f"{kernelbench.run_folder(1)}/eval_results.json"])
        self.assertNotIn("7", evaluated)
        self.assertIn("6", evaluated)

    def test_a_level_of_which_nothing_was_run_has_no_score(self):
        hub = row_of(1, level=4, state=records.NO_NETWORK, reason="hub")
        for rows, title in (([hub], "Scores"),
                            ([row_of(1, result_of()), hub], "Level 4")):
            with self.subTest(title):
                text = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
                self.assertIn(f"## {title}\n\n* No problem was run\n", text)
                self.assertIn("| 4/1_Some_Name | no network | hub |", text)
        beside = {**hub, "group": "beside"}
        self.assertIn("In /other: Scores\n\n* No problem was run\n",
                      bench_report.markdown({**SETTINGS, "beside": "/other"},
                                      [hub, beside], {}, [(0, 1)]))
        self.assertEqual(plots.all_plots([hub]), {})

    def test_fast_0_is_the_share_of_verified_ones_even_when_none_is_timed(self):
        untimed = result_of()
        untimed["timing"]["over_eager"] = None
        rows = [row_of(1, untimed), row_of(2, wrong())]
        self.assertEqual(score.fast_p(rows, "over_eager", 0), 0.5)
        self.assertIsNone(score.fast_p(rows, "over_eager", 1))

    def test_the_mean_is_geometric_and_of_verified_ones_alone(self):
        rows = [row_of(1, result_of(eager=0.5)), row_of(2, result_of(eager=8.0)),
                row_of(3, wrong())]
        ratios = score.ratios(rows, "over_eager")
        self.assertAlmostEqual(score.geometric_mean(ratios), 2.0)
        self.assertIsNone(score.geometric_mean([]))

    def test_only_an_interval_without_1_is_a_difference(self):
        rows = [row_of(1, result_of(eager=1.04)), row_of(2, result_of(eager=0.9)),
                row_of(3, result_of(eager=1.2)), row_of(4, result_of(eager=3.0))]
        self.assertEqual(score.beyond_spread(rows, "over_eager"), (2, 1, 1))


    def test_of_the_same_code_there_is_no_difference_to_eager(self):
        same = [{"ours": False, "count": 1, "variant": "rows"}]
        rows = [row_of(1, result_of(eager=0.9, subgraphs=same)),
                row_of(2, result_of(eager=0.9))]
        self.assertEqual(score.beyond_spread(rows, "over_eager"), (0, 1, 1))
        self.assertEqual(score.beyond_spread(rows, "over_compile"), (2, 0, 0))
        told = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
        self.assertIn("was 0.900 times as fast as in eager's (median; 0.90 to "
                      "0.90)", told)


    def test_the_clocks_of_both_sides_are_told(self):
        slow = result_of()
        slow["timing"]["sm_mhz"] = {"candidate": 1500, "eager": 1980}
        slow["timing"]["throttled"] = []
        rows = [row_of(1), row_of(2, result_of()), row_of(3, slow)]
        told = bench_report.markdown(SETTINGS, rows, {}, [(0, 1)])
        self.assertIn("ours 1740 MHz, eager 1972 MHz; more than 2 % apart in "
                      "1 problems, lowered (by power, heat) in 1", told)
        self.assertEqual(rows[1]["throttled"], "power cap")


class TwoColumns(unittest.TestCase):
    """Generated kernels only, and the best of all."""

    def rows(self):
        by_inductor = [{"ours": True, "count": 1, "variant": "as Inductor",
                        "origin": "inductor"}]
        no_kernel = [{"ours": False, "count": 1, "variant": "rows"}]
        return [row_of(1, result_of(eager=4.0, compiled=2.0)),
                row_of(2, result_of(eager=0.8, compiled=1.6)),  # a slower module
                row_of(3, result_of(eager=3.0, compiled=1.0, subgraphs=by_inductor)),
                row_of(4, result_of(eager=2.0, compiled=0.5)),
                row_of(5, result_of(eager=0.9, compiled=None, subgraphs=no_kernel)),
                row_of(6, result_of(eager=0.98, compiled=1.2)),  # within the spread
                row_of(7, wrong()), row_of(8, state=records.TIMED_OUT)]

    def test_a_module_slower_than_eager_is_no_result_in_either(self):
        rows = self.rows()
        own = [one and one.over_eager for one in map(score.generated, rows)]
        self.assertEqual(own, [4.0, None, None, 2.0, None, 0.98, None, None])
        best = [one and (one.by, one.over_eager, one.over_compile)
                for one in map(score.best, rows)]
        self.assertEqual(best, [
            ("weft", 4.0, 2.0), ("eager", 1.0, 2.0), ("weft", 3.0, 1.0),
            ("torch.compile", 4.0, 1.0), ("eager", 1.0, None),
            ("eager", 1.0, 1 / (0.98 / 1.2)),
            ("torch.compile", 2 / 1.5, 1.0), None])

    def test_the_report_has_both(self):
        text = bench_report.markdown(SETTINGS, self.rows(), {}, [(0, 1)])
        self.assertIn("| results | 3 of 8 | 7 of 8 |", text)
        self.assertIn("(weft 2, torch.compile 2, eager 3)", text)
        self.assertIn("| [1/2_Some_Name](runs/l1-002_Some_Name/report.md) | "
                      "verified, slower than eager: no result |",
                      text.replace(self.rows()[1]["key"], "l1-002_Some_Name"))

    def test_the_table_has_them_too(self):
        self.assertEqual([row["best"] for row in self.rows()], [
            "weft", "eager", "weft", "torch.compile", "eager", "eager",
            "torch.compile", None])


class NearEagerTest(unittest.TestCase):
    """Scores by KernelBench's own rule, beside weft's."""

    def setUp(self):
        self.rows = [row_of(1, judged("within", eager=4.0)),
                     row_of(2, judged("outside", beside=1.0)),
                     row_of(3, judged("outside", compiled="outside")),
                     row_of(4, judged("failed", compiled="failed")),
                     row_of(5, result_of())]  # of an older weft
        self.near = score.by_near_rule(self.rows)

    def test_of_a_far_module_the_one_beside_it_counts(self):
        self.assertEqual([row["verified"] for row in self.near],
                         [True, True, False, False])
        self.assertEqual(score.ratios(self.near, "over_eager"), [4.0, 1.0])
        self.assertEqual([row["kernelbench_module"] for row in self.rows],
                         ["own", "other", None, None, None])

    def test_both_rules_are_told(self):
        text = bench_report.markdown(SETTINGS, self.rows, {}, [(0, 1)])
        self.assertIn("2 of 4 accepted, 1 of them with another module", text)
        self.assertIn("torch.compile's in 2, of which 2 are accepted", text)
        self.assertIn("over eager: geometric mean 2.000×", text)
        self.assertIn("TF32 shows in 0 of our modules, and in 4 of the "
                      "framework's, of 4", text)
        self.assertIn("| another: 1.00 (0.95–1.05) |", text)

    def test_the_last_line_says_it_too(self):
        self.assertEqual(progress.near_count(self.rows), 2)
        self.assertEqual(progress.near_words(self.rows),
                         "; 2 of 4 near to eager, 2.00x eager, 1.22x compile")
        self.assertEqual(progress.near_words(self.rows[4:]), "")
        said = [progress.sentence(row) for row in self.rows]
        self.assertIn(", near eager, ", said[0])
        self.assertIn("near eager by another", said[1])
        self.assertIn("not near eager", said[2])
        self.assertNotIn("near", said[4])

    def test_kernelbenchs_files_have_the_module_that_it_accepts(self):
        files = kernelbench.files(SETTINGS, self.rows)
        told = json.loads(files["runs/weft_level1/eval_results.json"])
        samples = [told[str(n)][0] for n in range(1, 6)]
        self.assertEqual([s["correctness"] for s in samples],
                         [True, True, False, False, True])
        self.assertAlmostEqual(samples[1]["runtime"], 0.151)
        self.assertIn("3 of 4", samples[2]["metadata"]["correctness_issue"])

    def test_the_module_beside_is_what_is_copied(self):
        with tempfile.TemporaryDirectory() as out:
            kept = records.Records(out)
            inner = os.path.join(out, "runs", self.rows[1]["key"], "composed")
            os.makedirs(os.path.join(inner, "kernelbench"))
            for place, text in (("", "own"), ("kernelbench", "near")):
                with open(os.path.join(inner, place, "model_new.py"), "w",
                          encoding="utf-8") as file:
                    file.write(text)
            results.write({**SETTINGS, "out": out}, self.rows, kept, [(0, 1)])
            path = os.path.join(out, "kernelbench",
                                kernelbench.kernel_path(self.rows[1]))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "near")


class BesideTest(unittest.TestCase):
    """Two folders in one bench."""

    def rows(self):
        own = [row_of(1, result_of(eager=4.0, compiled=2.0))]
        problem = problems.Problem(1, 1, "/q/1_Some_Name.py", problems.BESIDE)
        record = records.Record("digest", records.FINISHED, 0, "",
                                [[10.0, 25.5]])
        return [*own, results.row(problem, record, result_of(
            eager=3.0, compiled=1.25))]

    def test_runs_have_folders_of_their_own(self):
        self.assertEqual([row["key"] for row in self.rows()], [
            "level_1_problem_1", "beside_level_1_problem_1"])

    def test_both_means_are_told_beside_each_other(self):
        text = bench_report.markdown({**SETTINGS, "beside": "/other"}, self.rows(),
                               {}, [(0, 1)])
        self.assertIn("| level 1, over torch.compile | 2.000× (1 of 1) | "
                      "1.250× (1 of 1) |", text)
        self.assertIn("## Scores", text)
        self.assertIn("## In /other: Scores", text)

    def test_so_are_those_over_all_levels(self):
        more = row_of(1, result_of(eager=1.0, compiled=None), level=2)
        text = bench_report.markdown({**SETTINGS, "beside": "/other"},
                               [*self.rows(), more], {}, [(0, 1)])
        _, told = text.split("## Beside each other")
        for line in ("| level 1, over eager | 4.000× (1 of 1) | 3.000× (1 of 1) |",
                     "| level 2, over eager | 1.000× (1 of 1) | – |",
                     "| all, over eager | 2.000× (2 of 2) | 3.000× (1 of 1) |",
                     "| all, over torch.compile | 2.000× (1 of 2) | "
                     "1.250× (1 of 1) |"):
            self.assertIn(line, told.split("##")[0])
        self.assertNotIn("level 2, over torch.compile", told)

    def test_kernelbenchs_files_are_of_the_first_folder_alone(self):
        told = json.loads(kernelbench.files(SETTINGS, self.rows())[
            "runs/weft_level1/eval_results.json"])
        self.assertEqual(list(told), ["1"])

    def test_problems_of_both_are_found(self):
        with tempfile.TemporaryDirectory() as one, \
                tempfile.TemporaryDirectory() as two:
            for folder in (one, two):
                with open(os.path.join(folder, "1_A.py"), "w",
                          encoding="utf-8"):
                    pass
            found = problems.find_beside(one, two)
            self.assertEqual([p.group for p in found], ["", problems.BESIDE])
            self.assertEqual(len(problems.find_beside(one, "")), 1)


class FloorTest(unittest.TestCase):
    def floor(self, **changes):
        rows = [row_of(1, result_of(**changes))]
        results.add_floors(rows)
        return rows[0]

    def test_bytes_over_the_copy_bandwidth(self):
        row = self.floor()
        self.assertAlmostEqual(row["floor_us"], 50.0)  # 200 MB at 4 TB/s
        self.assertAlmostEqual(row["floor_share"], 0.5)
        self.assertEqual(row["floor_by"], "bytes")

    def test_products_are_held_against_the_peak_of_their_precision(self):
        for precision, product_us, convolution_us in (
                ("framework", 375, 125), ("strict", 375, 375),
                ("tf32", 125, 125)):
            with self.subTest(precision):
                row = self.floor(precision=precision,
                                 matrix_operations=50_000_000_000)
                self.assertAlmostEqual(row["floor_us"], product_us)
                self.assertEqual(row["floor_by"], "operations")
                row = self.floor(precision=precision,
                                 convolution_operations=50_000_000_000)
                self.assertAlmostEqual(row["floor_us"], convolution_us)

    def test_halves_have_a_peak_of_their_own(self):
        row = self.floor(half_operations=800_000_000_000)
        self.assertAlmostEqual(row["floor_us"], 1000)
        self.assertEqual(row["operations"], 800_000_000_000)

    def test_without_matrix_units_float32_has_its_own_peak(self):
        told = result_of(matrix_operations=50_000_000_000)
        told["machine"]["gpu_measured"]["tf32_tflops"] = 50.0
        rows = [row_of(1, told)]
        results.add_floors(rows)
        self.assertAlmostEqual(rows[0]["floor_us"], 1000)

    def test_the_best_rate_that_any_run_measured_counts(self):
        slow = result_of()
        slow["machine"]["gpu_measured"]["copy_gbps"] = 2000.0
        rows = [row_of(1, slow), row_of(2, result_of())]
        self.assertEqual(results.add_floors(rows)["copy_gbps"], 4000.0)
        self.assertAlmostEqual(rows[0]["floor_us"], 50.0)

    def test_a_rate_that_was_not_measured_gives_no_floor(self):
        told = result_of()
        told["machine"]["gpu_measured"] = {"copy_gbps": 0.0}
        rows = [row_of(1, told)]
        self.assertEqual(results.add_floors(rows), {})
        self.assertIsNone(rows[0]["floor_us"])

    def test_without_a_gpu_the_processor_s_own_copy_counts(self):
        told = result_of()
        told["machine"].update(gpu=None, gpu_measured={})
        rows = [row_of(1, told)]
        results.add_floors(rows)
        self.assertAlmostEqual(rows[0]["floor_us"], 2000.0)


class RowTest(unittest.TestCase):
    def test_a_spreadsheet_computes_no_cell_of_the_table(self):
        for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1"):
            rows = [row_of(1, wrong(text))]
            results.add_floors(rows)
            [told] = csv.DictReader(io.StringIO(results.results_csv(rows)))
            self.assertEqual(told["reason"], "'" + text)
            self.assertNotIn("'", told["wall_s"])

    def test_every_row_of_the_table_has_the_header_s_columns(self):
        rows = [row_of(1, result_of()), row_of(2, wrong("a, \"b\"\nc")),
                row_of(3, state=records.DIED, reason="signal 9")]
        results.add_floors(rows)
        told = list(csv.DictReader(io.StringIO(results.results_csv(rows))))
        self.assertEqual([row["verdict"] for row in told],
                         ["verified", "not verified", "died"])
        self.assertEqual(told[1]["reason"], "a, \"b\"\nc")
        self.assertEqual(told[2]["ours_us"], "")
        self.assertEqual(float(told[0]["wall_s"]), 15.5)
        for row in told:
            self.assertNotIn(None, row)

    def test_kernels_are_counted_as_often_as_they_stand_in_the_model(self):
        row = row_of(1, result_of())
        self.assertEqual((row["kernels_ours"], row["kernels_extern"]), (2, 4))

    def test_a_run_that_did_not_end_counts_for_nothing_that_it_left(self):
        row = row_of(1, result_of(), state=records.STOPPED)
        self.assertFalse(row["verified"])
        self.assertIsNone(row["over_eager"])


class ReportTest(unittest.TestCase):
    def text(self, rows):
        rates = results.add_floors(rows)
        return bench_report.markdown(SETTINGS, rows, rates, [[0.0, 100.0]])

    def test_who_lacked_memory_is_known_by_what_libraries_say(self):
        made = {"result": None, "reason": "", "compile_error": None,
                "kernelbench_reason": None}
        self.assertFalse(results.lacked_memory(made))
        told = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling …"
        for key in ("reason", "compile_error", "kernelbench_reason"):
            self.assertTrue(results.lacked_memory({**made, key: told}))

    def test_scores_come_for_each_level_and_for_all(self):
        text = self.text([row_of(1, result_of(), level=1),
                          row_of(1, result_of(), level=2)])
        for words in ("## Level 1", "## Level 2", "## All problems",
                      "| fast_1.5 | 1.00 | 0.00 |", "2.000×", "1.500×",
                      "median 50 %", "NVIDIA H200"):
            self.assertIn(words, text)

    def test_what_does_not_discriminate_stands_apart(self):
        told = result_of()
        told["verdict"]["kind"] = "not_discriminating"
        text = self.text([row_of(1, told), row_of(2, result_of())])
        apart = text.split("## Problems that do not discriminate")[1]
        self.assertIn("1/1_Some_Name: passes with stale", apart)
        self.assertNotIn("2_Some_Name", apart.split("##")[0])

    def test_failures_have_their_reason(self):
        text = self.text([row_of(1, wrong("a | b")), row_of(
            2, state=records.TIMED_OUT, reason="not done after 5 s")])
        self.assertIn("| 1/1_Some_Name | not verified | a \\| b |", text)
        self.assertIn("| timed out | not done after 5 s |", text)

    def test_a_bench_that_is_not_done_says_so(self):
        text = self.text([row_of(1, result_of()),
                          row_of(2, state=records.STOPPED)])
        self.assertIn("1 problem is left", text)
        self.assertNotIn("## Not verified", text)

    def test_where_compile_failed_is_named(self):
        text = self.text([row_of(1, result_of(compiled=None))])
        self.assertIn("torch.compile failed\n\n* 1/1_Some_Name: it broke", text)


class KernelBenchTest(unittest.TestCase):
    """The layout that KernelBench's benchmark_eval_analysis.py reads."""

    def setUp(self):
        self.rows = [row_of(1, result_of()), row_of(2, wrong()),
                     row_of(3, state=records.DIED, reason="signal 9"),
                     row_of(4, result_of(ours_us=300.0))]
        self.files = {name: json.loads(text) for name, text in
                      kernelbench.files(SETTINGS, self.rows).items()}

    def test_the_evaluations_have_its_fields_and_milliseconds(self):
        told = self.files["runs/weft_level1/eval_results.json"]
        self.assertEqual(list(told), ["1", "2", "3", "4"])
        sample = told["1"][0]
        self.assertEqual(set(sample), {
            "sample_id", "compiled", "correctness", "metadata", "runtime",
            "runtime_stats"})
        self.assertAlmostEqual(sample["runtime"], 0.101)
        self.assertEqual(set(sample["runtime_stats"]), {
            "mean", "std", "min", "max", "num_trials", "hardware", "device"})
        self.assertEqual(sample["metadata"]["correctness_trials"], "(6 / 6)")
        self.assertEqual(sample["metadata"]["device"], "cuda:0")
        wrong_one = told["2"][0]
        self.assertFalse(wrong_one["correctness"])
        self.assertTrue(wrong_one["compiled"])
        self.assertEqual(wrong_one["runtime"], -1.0)
        self.assertIn("not equal", wrong_one["metadata"]["correctness_issue"])
        self.assertFalse(told["3"][0]["compiled"])

    def test_the_baselines_pair_with_the_evaluations_by_position(self):
        told = self.files[
            "results/timing/NVIDIA_H200/baseline_time_torch.json"]["level1"]
        self.assertEqual(list(told), [f"{i}_Some_Name.py" for i in range(1, 5)])
        means = [entry["mean"] for entry in told.values()]
        for mean, expected in zip(means, (0.201, 0.201, -1.0, 0.601)):
            self.assertAlmostEqual(mean, expected)

    def test_its_analysis_would_score_what_our_report_says(self):
        evaluations = self.files["runs/weft_level1/eval_results.json"]
        baseline = self.files[
            "results/timing/NVIDIA_H200/"
            "baseline_time_torch_compile_inductor_default.json"]["level1"]
        pairs = zip((e[0] for e in evaluations.values()), baseline.values())
        fast = [e for e, b in pairs
                if e["correctness"] and b["mean"] / e["runtime"] > 1.4]
        self.assertEqual(len(fast) / 4,
                         score.fast_p(self.rows, "over_compile", 1.4))

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
        self.add("KernelBench/level1/10_b.py", "KernelBench/level1/9_a.py",
                 "KernelBench/level2/1_c.py", "KernelBench/level1/notes.txt",
                 "KernelBench/level1/__init__.py", "scripts/run.py")
        found = problems.find(self.folder)
        self.assertEqual([p.key for p in found],
                         ["level_1_problem_9", "level_1_problem_10",
                          "level_2_problem_1"])
        self.assertEqual(len(problems.find(self.folder, [2])), 1)
        own = problems.find(os.path.join(self.folder, "KernelBench/level2"))
        self.assertEqual(own[0].key, "level_2_problem_1")

    def test_loose_files_are_named_by_themselves(self):
        self.add("softmax.py", "add.py")
        self.assertEqual([(p.key, p.number) for p in problems.find(self.folder)],
                         [("add", 1), ("softmax", 2)])

    def test_patterns_choose(self):
        self.add("level1/1_relu.py", "level1/2_softmax.py", "level2/1_relu.py")
        for pattern, count in (("*relu*", 2), ("1/1_*", 1), ("2_softmax.py", 1),
                               ("level_2_*", 1)):
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
        made = [problems.Problem(level, number, f"/p/{number}_x.py")
                for level, number in ((1, 1), (1, 2), (1, 3), (2, 1))]
        self.assertEqual([(p.level, p.number) for p in alternate(made)],
                         [(1, 1), (2, 1), (1, 2), (1, 3)])

    def test_a_device_is_named_among_those_that_are_visible(self):
        self.assertEqual(visible_device(None, 2), "2")
        self.assertEqual(visible_device("", 1), "1")
        self.assertEqual(visible_device("3, 5", 1), "5")

    def test_a_run_s_own_ending_is_found_behind_what_it_said(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        log = os.path.join(folder, "log")
        with open(log, "w", encoding="utf-8") as file:
            file.write('{"type": "Progress", "body": {}}\n'
                       '{"type": "RunFinished", "body": '
                       '{"exit_code": 1, "summary": "not verified"}}\nrest\n')
        made = child.Child(["true"], log, log, (), os.environ)
        while made.exit_code() is None:
            pass
        self.assertEqual(made.ending(), (1, "not verified"))

    def test_durations_are_for_people(self):
        self.assertEqual([progress.duration(s) for s in (5, 65, 3700)],
                         ["5 s", "1 min 05 s", "1 h 01 min"])


if __name__ == "__main__":
    unittest.main()
