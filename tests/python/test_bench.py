"""The command `weft bench`: every problem to its end, whatever happens to some
of them or to the bench itself."""

import contextlib
import csv
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import time
import unittest

import weft_case
from weft_case import QUICK, WEFT, WeftCase, environment, problem_with, processes_that_name

FAST = (*QUICK, "--target", "cpu")
GOOD = problem_with("return torch.relu(x) * 2 + torch.tanh(x)", inputs="[torch.randn(64, 96)]")
#: Softmax over one element is 1, whatever the input.
BLIND = problem_with("return torch.softmax(x, dim=1)", inputs="[torch.randn(64, 1)]")
#: Two calls on the same input differ, so nothing can be verified.
FAILS = problem_with("return x * (time.perf_counter_ns() % 1000)", head="import time")
BROKEN = "def get_inputs(:\n"
HANGS = problem_with("return torch.relu(x)", init="time.sleep(600)", head="import time")


def waited_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class BenchTest(WeftCase):
    def problems(self, **texts):
        folder = self.path("problems")
        os.makedirs(folder, exist_ok=True)
        for name, text in texts.items():
            self.write(os.path.join("problems", name + ".py"), text)
        return folder

    def bench(self, *words, **changes):
        return self.weft(
            "bench", self.path("problems"), "--out", self.path("out"), *FAST, *words, **changes
        )

    def rows(self):
        with open(self.path("out/results.csv"), newline="", encoding="utf-8") as file:
            return {row["name"]: row for row in csv.DictReader(file)}

    def text(self, name):
        with open(self.path(os.path.join("out", name)), encoding="utf-8") as file:
            return file.read()

    def record(self, key):
        return json.loads(self.text(f"records/{key}.json"))

    def begin(self, *words):
        return subprocess.Popen(
            [WEFT, "bench", self.path("problems"), "--out", self.path("out"), *FAST, *words],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_each_problem_ends_as_it_deserves(self):
        self.problems(**{"1_good": GOOD, "2_blind": BLIND, "3_fails": FAILS, "4_broken": BROKEN})
        done = self.bench("--jobs", "2")
        self.assert_ends(done, 1)
        rows = self.rows()
        self.assertEqual(
            [row["verdict"] for row in rows.values()],
            ["verified", "verified", "not verified", "wrong input"],
            rows,
        )
        self.assertEqual(rows["1_good.py"]["discriminating"], "True")
        self.assertEqual(rows["2_blind.py"]["discriminating"], "False")
        notes = json.loads(self.text("runs/1_good/result.json"))["notes"]
        if "not timed" not in " ".join(notes):  # a busy machine
            self.assertGreater(float(rows["1_good.py"]["over_eager"]), 0)
        self.assertTrue(rows["3_fails.py"]["reason"])
        self.assertIn("4_broken.py", rows["4_broken.py"]["reason"])
        self.check_files(done)
        self.check_second_call()

    def test_on_a_gpu_max_autotune_is_a_baseline_unless_told_else(self):
        self.problems(**{"1_broken": BROKEN})
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            os.symlink(os.path.join(os.path.dirname(WEFT), "libfake_driver.so"), self.path(name))
        cases = [((), True), (["--no-autotune-baseline"], False)]
        if weft_case.IS_LONG:
            cases.append((["--no-compile-baseline"], False))
        for words, expected in cases:
            with self.subTest(words=words):
                done = self.weft(
                    "bench",
                    self.path("problems"),
                    "--target",
                    "cuda",
                    "--out",
                    self.path("gpu"),
                    "--rerun",
                    *words,
                    "--limit-minutes",
                    "0.01",  # its settings are all
                    LD_LIBRARY_PATH=self.path("."),
                )
                self.assertIn(done.returncode, (1, 3), done.stderr)
                with open(self.path("gpu/bench.json"), encoding="utf-8") as file:
                    settings = file.read()
                self.assertEqual("--autotune-baseline" in settings, expected)

    def check_files(self, done):
        report = self.text("report.md")
        self.assertIn("2 of 4 problems verified", report)
        self.assertIn("* 2_blind: passes with ", report)
        self.assertIn("| fast_0 | 0.50 |", report)
        self.assertIn("<svg", self.text("speedups.svg"))
        told = json.loads(self.text("kernelbench/runs/weft_level0/eval_results.json"))
        self.assertEqual(
            [told[str(i)][0]["correctness"] for i in range(1, 5)], [True, True, False, False]
        )
        self.assertIn(
            "class ModelNew",
            self.text("kernelbench/runs/weft_level0/level_0_problem_1_sample_0_kernel.py"),
        )
        self.assertIn("[4/4, 2 verified", done.stdout)

    def check_second_call(self):
        before = {key: self.record(key) for key in ("1_good", "4_broken")}
        again = self.bench("--jobs", "2")
        self.assert_ends(again, 1)
        self.assertIn("4 are done already", again.stdout)
        for key, record in before.items():
            self.assertEqual(self.record(key), record)
        other = self.bench("--precision", "strict")
        self.assert_ends(other, 2, "run_flags", "--rerun")
        self.problems(**{"4_broken": GOOD})
        mended = self.bench("--only", "4_*", "--json")
        self.assert_ends(mended, 0)
        row, whole = map(json.loads, mended.stdout.splitlines())
        self.assertTrue(row["verified"])
        self.assertEqual((whole["problems"], whole["verified"]), (1, 1))
        self.assertEqual(len(self.rows()), 4)

    def test_a_bench_that_was_killed_goes_on(self):
        self.problems(**{"1_good": GOOD, "2_more": GOOD, "3_last": BROKEN})
        killed = self.begin("--jobs", "1")
        self.addCleanup(killed.communicate)
        self.addCleanup(killed.kill)
        journal = self.path("out/runs/2_more/journal.db")
        self.assertTrue(waited_for(lambda: os.path.exists(journal)))
        killed.kill()
        killed.wait()
        self.assertTrue(waited_for(lambda: not processes_that_name(self.path("out"))))
        first = self.record("1_good")
        self.assertEqual(first["state"], "finished")
        done = self.bench("--jobs", "1")
        self.assert_ends(done, 1)
        self.assertEqual(self.record("1_good"), first)
        self.assertEqual(len(self.record("2_more")["tries"]), 2)
        self.assertEqual(
            [row["verdict"] for row in self.rows().values()],
            ["verified", "verified", "wrong input"],
        )

    def test_ctrl_c_stops_all_runs_and_the_next_call_goes_on(self):
        self.problems(**{"1_good": GOOD, "2_hangs": HANGS})
        stopped = self.begin("--jobs", "2")
        self.addCleanup(stopped.kill)
        log = self.path("out/records/1_good.json")
        self.assertTrue(
            waited_for(lambda: os.path.exists(log) and self.record("1_good")["state"] == "finished")
        )
        stopped.send_signal(signal.SIGINT)
        _, errors = stopped.communicate(timeout=30)
        self.assertEqual(stopped.returncode, 130, errors)
        self.assertIn("1 problem is left", errors)
        self.assertEqual(self.record("2_hangs")["state"], "stopped")
        self.assertFalse(processes_that_name(self.path("out")))
        self.problems(**{"2_hangs": BROKEN})
        self.assert_ends(self.bench(), 1)
        self.assertEqual(
            [row["verdict"] for row in self.rows().values()], ["verified", "wrong input"]
        )

    def test_problems_that_hang_are_stopped_and_the_rest_goes_on(self):
        self.problems(**{"1_hangs": HANGS, "2_hangs": HANGS})
        words = ("--jobs", "1", "--problem-minutes", "0.1")
        self.assert_ends(self.bench(*words), 1)
        self.assertEqual(
            [row["verdict"] for row in self.rows().values()], ["timed out", "timed out"]
        )
        self.assertFalse(processes_that_name(self.path("out")))
        before = self.record("1_hangs")
        self.assert_ends(self.bench(*words), 1)
        self.assertEqual(self.record("1_hangs"), before)
        # What it held is free.
        self.problems(**{"2_hangs": BROKEN})
        self.assert_ends(self.bench("--only", "2_*"), 1)
        self.assertEqual(
            [row["verdict"] for row in self.rows().values()], ["timed out", "wrong input"]
        )

    def test_the_limit_of_the_whole_leaves_the_rest_for_the_next_call(self):
        self.problems(**{"1_hangs": HANGS, "2_good": GOOD})
        done = self.bench("--jobs", "1", "--limit-minutes", "0.05")
        self.assert_ends(done, 1, "the time is up: 2 problems are left")
        self.assertIn("2 problems are left", self.text("report.md"))
        self.assertEqual({row["verdict"] for row in self.rows().values()}, {"not done"})

    def bench_with(self, weft, **changes):
        """The exit code of a bench whose runs are that script's."""
        script = self.write("weft-script", weft)
        os.chmod(script, 0o755)
        settings = {
            "weft": script,
            "version": "0",
            "python": "python3",
            "folder": self.path("problems"),
            "levels": [],
            "only": [],
            "out": self.path("out"),
            "limit_s": 0,
            "problem_s": 60,
            "jobs": 1,
            "rerun": False,
            "rerun_failed": False,
            "target": "cpu",
            "gpu": "",
            "devices": [],
            "timed": True,
            "run_flags": [],
            "json": False,
            "quiet": False,
            **changes,
        }
        from weft.bench.bench_loop import main

        os.makedirs(self.path("out"), exist_ok=True)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            return _with_output(nowhere, lambda: main(json.dumps(settings)))

    def test_a_run_s_budget_ends_before_its_time_is_up(self):
        self.problems(**{"1_told": GOOD})
        words = (
            "#!/bin/sh\necho $* >> " + self.path("words") + "\n"
            'echo \'{"error": "enough", "exit_code": 2}\'\nexit 2\n'
        )
        for has_budget in (False, True):
            out = self.path(f"out-{has_budget}")
            os.makedirs(out)
            self.bench_with(words, has_budget=has_budget, problem_s=600, out=out)
        with open(self.path("words"), encoding="utf-8") as file:
            told = [line.split("--budget-s ")[1:] for line in file]
        self.assertEqual(told, [["540\n"], []])

    def test_a_run_that_dies_is_tried_once_more_and_then_reported(self):
        self.problems(**{"1_dies": GOOD})
        code = self.bench_with("#!/bin/sh\necho a last word >&2\nkill -9 $$\n")
        self.assertEqual(code, 1)
        record = self.record("1_dies")
        self.assertEqual(record["state"], "died")
        self.assertEqual(len(record["tries"]), 2)
        self.assertIn("signal 9: a last word", record["reason"])

    def test_what_wants_a_network_counts_as_not_run(self):
        self.problems(**{"1_hub": GOOD, "2_wrong": GOOD, "3_lacks": GOOD})
        code = self.bench_with("""#!/bin/sh
case $2 in
  *1_hub*) echo '{"error": "it needs the network", "exit_code": 3}'; exit 3 ;;
  *3_lacks*) echo '{"error": "no compiler", "exit_code": 3}'; exit 3 ;;
esac
echo '{"type": "RunFinished", "body": {"exit_code": 1, "summary": "done"}}'
exit 1
""")
        self.assertEqual(code, 3)
        rows = self.rows()
        self.assertEqual(
            sorted(row["verdict"] for row in rows.values()),
            ["machine lacks something", "no network", "not verified"],
        )
        hub = next(row for row in rows.values() if "hub" in row["name"])
        self.assertEqual((hub["verdict"], hub["reason"]), ("no network", "it needs the network"))
        with open(self.path("out/report.md"), encoding="utf-8") as file:
            report = file.read()
        self.assertIn("0 of 2 problems verified.", report)
        self.assertIn("1 more were not run", report)
        not_verified, _, not_run = report.partition("## Not run")
        self.assertNotIn("it needs the network", not_verified)
        self.assertIn("it needs the network", not_run)

    def test_a_package_that_is_not_installed_is_the_machine_s_lack(self):
        self.problems(**{"1_absent": problem_with("return x", head="import no_such_package")})
        self.assert_ends(self.bench(), 3, "1 problem is left")
        told = self.record("1_absent")
        self.assertEqual((told["state"], told["exit_code"]), ("missing", 2))
        self.assertIn("No module named 'no_such_package'", told["reason"])
        self.assertIn("machine lacks something", self.text("report.md"))
        self.assert_ends(self.bench(), 3)  # which tries it again
        self.assertEqual(len(self.record("1_absent")["tries"]), 2)

    def test_the_rest_goes_on_where_a_whole_level_wants_a_network(self):
        for level in ("level1", "level4"):
            os.makedirs(self.path(f"problems/{level}"))
            self.problems(**{f"{level}/1_{level}": GOOD})
        script = """#!/bin/sh
case $2 in
  *level4*) echo '{"error": "it needs the network", "exit_code": 3}'; exit 3 ;;
esac
exit 1
"""
        self.assertEqual(self.bench_with(script), 3)
        report = self.text("report.md")
        self.assertIn("0 of 1 problems verified.", report)
        self.assertIn("## Level 4\n\n* No problem was run\n", report)
        verdicts = {row["level"]: row["verdict"] for row in self.rows().values()}
        self.assertEqual(verdicts, {"1": "not verified", "4": "no network"})

    def begun_journal(self, key):
        os.makedirs(self.path(f"out/runs/{key}"), exist_ok=True)
        with contextlib.closing(
            sqlite3.connect(self.path(f"out/runs/{key}/journal.db"))
        ) as journal:
            journal.execute("CREATE TABLE event(seq)")
            journal.execute("INSERT INTO event VALUES(1)")
            journal.commit()

    def test_a_run_that_another_weft_began_begins_anew(self):
        self.problems(**{"1_good": GOOD})
        self.begun_journal("1_good")
        code = self.bench_with(f"""#!/bin/sh
echo $1 >> {self.path("calls")}
if [ $1 = resume ]; then echo this weft decides otherwise >&2; exit 2; fi
echo '{{"type": "RunFinished", "body": {{"exit_code": 1, "summary": "done"}}}}'
exit 1
""")
        self.assertEqual(code, 1)
        with open(self.path("calls"), encoding="utf-8") as file:
            self.assertEqual(file.read().split(), ["resume", "run"])
        self.assertEqual(self.record("1_good")["state"], "finished")

    def test_runs_are_spread_over_the_devices(self):
        self.problems(**{f"{n}_good": GOOD for n in range(1, 5)})
        code = self.bench_with(
            f"#!/bin/sh\necho $CUDA_VISIBLE_DEVICES >> {self.path('calls')}\nsleep 1\n",
            jobs=4,
            devices=[0, 2],
            gpu="a GPU",
            target="triton",
        )
        self.assertEqual(code, 1)
        with open(self.path("calls"), encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().split()), ["0", "0", "2", "2"])

    def verb_of(self, **record):
        """How a bench goes on with a run that was stopped, and on which device."""
        self.problems(**{"1_good": GOOD})
        with open(self.path("problems/1_good.py"), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        self.begun_journal("1_good")
        os.makedirs(self.path("out/records"))
        with open(self.path("out/records/1_good.json"), "w", encoding="utf-8") as file:
            json.dump({"digest": digest, **record}, file)
        self.bench_with(
            f"#!/bin/sh\necho $1 $CUDA_VISIBLE_DEVICES >> {self.path('calls')}\nexit 1\n",
            jobs=2,
            devices=[0, 2],
            gpu="a GPU",
            target="triton",
        )
        with open(self.path("calls"), encoding="utf-8") as file:
            return file.readline().split()

    def test_a_run_goes_on_where_it_began(self):
        """Its kernels' times are of that device, not of the slot's."""
        begun = time.time() - 5
        self.assertEqual(self.verb_of(device=2, tries=[[begun, begun + 3]]), ["resume", "2"])

    def test_a_run_whose_budget_is_over_begins_anew(self):
        """It goes on while nobody works: 54 s of the minute that it has."""
        begun = time.time() - 3600
        self.assertEqual(self.verb_of(device=2, tries=[[begun, begun + 3]]), ["run", "0"])

    def test_a_run_that_lacked_memory_beside_others_has_the_device_alone(self):
        self.problems(**{f"{n}_large": GOOD for n in range(1, 4)})
        code = self.bench_with(
            f"""#!/bin/sh
cd {self.path("")} || exit 9
if mkdir busy; then alone=yes; else alone=no; fi
sleep 1
[ $alone = no ] || rmdir busy
echo $alone >> calls
[ $alone = yes ] || words='"out_of_memory: of the device"'
echo '{{"type": "RunFinished", "body": {{"exit_code": 1, "summary": '"${{words:-\"done\"}}"'}}}}'
exit 1
""",
            jobs=3,
        )
        self.assertEqual(code, 1)
        with open(self.path("calls"), encoding="utf-8") as file:
            self.assertEqual(sorted(file.read().split()), ["no", "no", "yes", "yes", "yes"])
        for row in self.rows().values():
            self.assertNotIn("memory", row["reason"])

    def test_two_benches_in_one_folder_are_refused(self):
        self.problems(**{"1_hangs": HANGS})
        first = self.begin()
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        record = self.path("out/records/1_hangs.json")
        self.assertTrue(waited_for(lambda: os.path.exists(record)))
        self.assert_ends(self.bench(), 2, "another bench is at work")

    def test_a_file_that_cannot_be_read_is_wrong_input_and_no_more(self):
        os.makedirs(self.path("problems/1_folder.py"))
        os.mkfifo(self.path("problems/2_pipe.py"))
        os.symlink("nowhere.py", self.path("problems/3_link.py"))
        self.problems(**{"4_broken": BROKEN})
        self.assert_ends(self.bench(), 1)
        rows = self.rows()
        self.assertEqual({row["verdict"] for row in rows.values()}, {"wrong input"})
        self.assertIn("is a folder", rows["1_folder.py"]["reason"])
        self.assertIn("no regular file", rows["2_pipe.py"]["reason"])
        self.assertIn("there is no file", rows["3_link.py"]["reason"])
        self.write("problems/nowhere.py", BROKEN)
        self.assert_ends(self.bench("--only", "3_*"), 1)
        self.assertNotIn("there is no file", self.rows()["3_link.py"]["reason"])

    def test_what_another_weft_has_written_is_no_traceback(self):
        self.problems(**{"1_broken": BROKEN, "2_broken": BROKEN})
        self.assert_ends(self.bench(), 1)
        newer = self.record("1_broken") | {"a_later_field": 1}
        self.write("out/records/1_broken.json", json.dumps(newer))
        self.write("out/records/2_broken.json", "[]")
        again = self.bench()
        self.assert_ends(again, 1)
        self.assertIn("1 are done already", again.stdout)
        self.write("out/bench.json", '{"format": 9}')
        self.assert_ends(self.bench(), 2, "holds a bench of another weft")

    def test_a_list_does_not_swallow_the_folder_behind_it(self):
        self.problems(**{"1_broken": BROKEN, "2_broken": BROKEN})
        done = self.weft(
            "bench",
            *FAST,
            "--seeds",
            "compiler",
            "--only",
            "1_*,2_*",
            self.path("problems"),
            "--out",
            self.path("out"),
            "--level",
            "0,3",
        )
        self.assert_ends(done, 1)
        self.assertEqual(self.rows()["1_broken.py"]["verdict"], "wrong input")

    def test_a_folder_that_is_not_there_exits_2(self):
        done = self.weft("bench", self.path("nowhere"))
        self.assert_ends(done, 2, "no such folder")
        os.makedirs(self.path("problems"))
        self.assert_ends(self.bench(), 2, "no problem files")

    def test_a_name_that_no_report_can_hold_exits_2(self):
        self.problems(**{"1_good": GOOD})
        odd = os.path.join(os.fsencode(self.path("problems")), b"2_\xff.py")
        with open(odd, "wb"):
            pass
        self.assert_ends(self.bench(), 2, "2_", "is not UTF-8: rename it")
        os.unlink(odd)
        folder = os.fsdecode(os.fsencode(self.path("problems")) + b"\xff")
        os.rename(self.path("problems"), folder)
        self.assert_ends(self.weft("bench", folder), 2, "not UTF-8")


def _with_output(file, function):
    import contextlib

    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            return function()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    unittest.main()
