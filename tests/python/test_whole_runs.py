"""Real runs, from the problem file to files that work without weft."""

import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import weft_case
from weft_case import (
    LOAD_BOTH,
    QUICK,
    TINY,
    WEFT,
    WeftCase,
    environment,
)

# What a model's user has: no weft, no environment of weft's.
BARE = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}

COMPARE = (
    LOAD_BOTH
    + """
torch.manual_seed(3)
model = old.Model(*old.get_init_inputs())
torch.manual_seed(3)
ours = new.ModelNew(*old.get_init_inputs())
assert list(model.state_dict()) == list(ours.state_dict())
for a, b in zip(model.parameters(), ours.parameters()):
    assert torch.equal(a, b)
inputs = old.get_inputs()
with torch.no_grad():
    torch.testing.assert_close(ours(*inputs), model(*inputs))
assert "weft" not in sys.modules
print("equal")
"""
)


def setUpModule():
    """One run for all tests here: it is what costs."""
    global folder, problem, run, done
    folder = tempfile.mkdtemp(prefix="weft-whole-")
    problem = os.path.join(folder, "tiny.py")
    with open(problem, "w", encoding="utf-8") as file:
        file.write(TINY)
    # A working folder whose files are called as the library's modules are.
    work = os.path.join(folder, "work")
    os.mkdir(work)
    for name in ("json.py", "random.py", "types.py"):
        with open(os.path.join(work, name), "w", encoding="utf-8") as file:
            file.write("raise SystemExit('this is no module of yours')\n")
    for attempt in range(3):  # a busy machine may not see what is faster
        run = os.path.join(folder, f"run{attempt}")
        done = subprocess.run(
            [
                WEFT,
                "run",
                problem,
                "--out",
                run,
                "--variants",
                "2",
                "--jobs",
                "2",
                "--no-compile-baseline",
                "--timing-ms",
                "300",
                "--final-timing-ms",
                "2000",
            ],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=400,
            check=False,
            cwd=work,
        )
        if (
            os.path.exists(os.path.join(run, "results.csv"))
            and results()["model"]["eager_median_us"]
        ):
            return
        print(done.stdout, file=sys.stderr)


def tearDownModule():
    try:
        checked = subprocess.run(
            [WEFT, "replay", run, "--check"], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stderr
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def results():
    """The run's table, by what a row is about."""
    with open(os.path.join(run, "results.csv"), newline="", encoding="utf-8") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def kernels():
    return sorted(os.listdir(os.path.join(run, "kernels")))


class WholeRunTest(WeftCase):
    def copy_of_run(self):
        """To damage."""
        shutil.copytree(run, self.path("copy"))
        return self.path("copy")

    def test_a_run_ends_verified(self):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verified", done.stdout)
        self.assertIn("report: " + run, done.stdout)

    def test_the_report_names_each_subgraph_and_the_extern(self):
        with open(os.path.join(run, "report.md"), encoding="utf-8") as file:
            report = file.read()
        for name in kernels():
            self.assertIn(name, report)
        self.assertIn("aten.linear.default", report)
        self.assertIn("Verdict: correct", report)

    def test_the_results_are_a_table_with_the_whole_model(self):
        by_id = results()
        self.assertEqual(by_id["model"]["verdict"], "correct")
        self.assertGreater(float(by_id["model"]["eager_median_us"]), 0)
        for name in kernels():
            self.assertIn(by_id[name]["verdict"], ("won", "not_faster"))

    def test_the_subgraphs_have_the_fields_that_others_read(self):
        with open(os.path.join(run, "subgraphs.json"), encoding="utf-8") as file:
            subgraphs = json.load(file)
        self.assertEqual(sorted(s["id"] for s in subgraphs), kernels())
        fields = {
            "id",
            "type",
            "data_layout",
            "dtype",
            "ops",
            "inputs",
            "output_shape",
            "weights_fused",
            "weights_original",
            "count",
            "where",
            "source",
        }
        for subgraph in subgraphs:
            self.assertLessEqual(fields, set(subgraph))
            self.assertTrue(subgraph["where"].startswith("tiny.py:"))
            self.assertIn("code", subgraph["source"])

    def test_the_composition_works_in_plain_python(self):
        composed = os.path.join(run, "composed", "model_new.py")
        compared = subprocess.run(
            [sys.executable, "-c", COMPARE, problem, composed],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={**BARE, "XDG_CACHE_HOME": self.path("cache")},
            timeout=200,
        )
        self.assertEqual(compared.stdout.strip(), "equal", compared.stderr)

    def run_kernel_test(self, where):
        return subprocess.run(
            [sys.executable, "test_kernel.py"],
            capture_output=True,
            text=True,
            check=False,
            cwd=where,
            timeout=200,
            env={**BARE, "XDG_CACHE_HOME": self.path("cache")},
        )

    def test_each_kernels_test_passes_by_hand(self):
        self.assertEqual(len(kernels()), 2)
        for name in kernels():
            tested = self.run_kernel_test(os.path.join(run, "kernels", name))
            self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)

    def test_a_broken_kernels_test_fails_by_hand(self):
        where = os.path.join(self.copy_of_run(), "kernels", kernels()[0])
        with open(os.path.join(where, "kernel.py"), "a", encoding="utf-8") as file:
            file.write(
                "\n_right = kernel_function\n\n\n"
                "def kernel_function(*inputs):\n"
                "    return _right(*inputs) + 1\n"
            )
        tested = self.run_kernel_test(where)
        self.assertEqual(tested.returncode, 1, tested.stdout + tested.stderr)

    def test_its_journal_replays(self):
        self.assert_replays(run)

    def test_replay_until_an_event_shows_what_waits(self):
        shown = self.weft("replay", run, "--until", "2")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("RunStart", shown.stdout)
        self.assertIn("2 events replayed", shown.stdout)

    def test_replay_speaks_json(self):
        shown = self.weft("replay", run, "--check", "--json")
        told = json.loads(shown.stdout)
        self.assertFalse(told["divergence"])
        self.assertTrue(told["finished"])

    def test_a_flipped_byte_in_the_journal_is_found_with_its_event(self):
        journal = os.path.join(self.copy_of_run(), "journal.db")
        with sqlite3.connect(journal) as database:
            (body,) = database.execute("SELECT body FROM event WHERE seq = 7").fetchone()
            flipped = bytes([body[0] ^ 1]) + body[1:]
            database.execute("UPDATE event SET body = ? WHERE seq = 7", (flipped,))
        database.close()
        checked = self.weft("replay", os.path.dirname(journal), "--check")
        self.assert_ends(checked, 1, "event 7")
        resumed = self.weft("resume", os.path.dirname(journal))
        self.assert_ends(resumed, 2, "event 7")

    def test_a_flipped_byte_in_a_blob_is_found(self):
        journal = os.path.join(self.copy_of_run(), "journal.db")
        with sqlite3.connect(journal) as database:
            name, content = database.execute("SELECT hash, bytes FROM blob LIMIT 1").fetchone()
            flipped = content[:-1] + bytes([content[-1] ^ 1])
            database.execute("UPDATE blob SET bytes = ? WHERE hash = ?", (flipped, name))
        database.close()
        checked = self.weft("replay", os.path.dirname(journal), "--check")
        self.assert_ends(checked, 1, "blob")

    def test_show_tells_each_subgraph_and_seed(self):
        shown = self.weft("show", run)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for name in kernels():
            self.assertIn(name, shown.stdout)
        self.assertIn("compiler-0", shown.stdout)
        self.assertIn("verified", shown.stdout)

    def test_show_events_has_a_line_an_envelope(self):
        shown = self.weft("show", run, "--events")
        lines = shown.stdout.splitlines()
        self.assertEqual(len(lines), len(weft_case.events_of(run)))
        self.assertIn("RunStart", lines[0])
        self.assertIn("RunFinished", shown.stdout)

    def test_show_of_one_subgraph_leaves_the_others_out(self):
        wanted, other = kernels()
        shown = self.weft("show", run, "--subgraph", wanted)
        self.assertIn(wanted, shown.stdout)
        self.assertNotIn(other, shown.stdout)
        events = self.weft("show", run, "--events", "--subgraph", wanted)
        self.assertIn("agent/" + wanted, events.stdout)
        self.assertNotIn("agent/" + other + " ", events.stdout)

    def test_show_of_an_unknown_subgraph_says_so(self):
        self.assert_ends(
            self.weft("show", run, "--subgraph", "sg_none"), 2, "no subgraph 'sg_none'"
        )

    def test_show_speaks_json(self):
        shown = self.weft("show", run, "--json")
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        self.assertEqual(sorted(line["subgraph"] for line in lines[:-1]), kernels())
        self.assertTrue(lines[-1]["finished"])
        self.assertEqual(lines[-1]["exit_code"], 0)

    def test_every_request_has_one_reply(self):
        events = weft_case.events_of(run)
        asked = [
            e["seq"] for e in events if e["dst"].startswith("port/") and e["dst"] != "port/clock"
        ]
        answered = [
            e["cause"] for e in events if e["src"].startswith("port/") and e["src"] != "port/clock"
        ]
        self.assertTrue(asked)
        self.assertEqual(sorted(asked), sorted(answered))

    def test_a_run_directory_in_use_is_not_overwritten(self):
        again = self.weft("run", problem, "--out", run)
        self.assert_ends(again, 2, "holds a run already", "weft resume")

    def test_resuming_a_finished_run_says_the_same_again(self):
        resumed = self.weft("resume", run)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("verified", resumed.stdout)

    def test_nothing_is_left_behind(self):
        self.assertEqual(weft_case.processes_that_name(run), {})
        self.assertNotIn("python/weft", done.stderr)


class OtherWaysTest(WeftCase):
    """Runs of their own: a model with nothing for the compiler is cheapest."""

    def test_quiet_prints_nothing_when_all_is_well(self):
        file = self.write("matmul.py", weft_case.problem_with("return x @ x.t()"))
        quiet = self.weft("run", file, "--out", self.path("run"), "--quiet", *QUICK)
        self.assertIn(quiet.returncode, (0, 1), quiet.stderr)
        if quiet.returncode == 0:
            self.assertEqual(quiet.stdout + quiet.stderr, "")
        self.assert_replays(self.path("run"))

    def test_a_run_speaks_json(self):
        file = self.write("matmul.py", weft_case.problem_with("return x @ x.t()"))
        spoken = self.weft("run", file, "--out", self.path("run"), "--json", *QUICK)
        lines = [json.loads(line) for line in spoken.stdout.splitlines()]
        self.assertEqual(lines[-1]["type"], "RunFinished")
        self.assertEqual(lines[-1]["body"]["exit_code"], spoken.returncode)
        self.assert_replays(self.path("run"))

    def test_the_version(self):
        told = self.weft("--version")
        self.assertEqual(told.returncode, 0)
        self.assertRegex(told.stdout, r"^weft \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
