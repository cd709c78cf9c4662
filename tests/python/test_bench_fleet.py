"""`weft bench --listen`: many problems at once on nodes that come and go."""

import csv
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest
from dataclasses import replace
from unittest import mock

from bench_rows import SETTINGS
import nodes_case
import weft_case
from nodes_case import NodesCase
from weft_case import QUICK, ROOT, environment, problem_with, processes_that_name

from weft.bench import bench_loop, fleet
from weft.device import locked_folders

CORES = sorted(os.sched_getaffinity(0))
FLAGS = (*QUICK, "--target", "cpu", "--no-library")


def problem_of(number):
    return problem_with(
        f"return torch.relu(x) * {number} + torch.tanh(x - {number})",
        inputs="[torch.randn(64, 96)]",
    )


#: Two calls on the same input differ, so nothing can be verified.
FAILS = problem_with("return x * (time.perf_counter_ns() % 1000)", head="import time")


class FleetCase(NodesCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("problems"))
        os.mkdir(self.path("tmp"))
        changed = mock.patch.dict(os.environ, TMPDIR=self.path("tmp"))
        changed.start()
        self.addCleanup(changed.stop)

    def problems(self, count, **others):
        texts = {f"p{number}": problem_of(number) for number in range(1, count + 1)}
        for name, text in {**texts, **others}.items():
            self.write(os.path.join("problems", name + ".py"), text)

    def bench(self, out, *words, name="bench"):
        return self.start(
            name,
            "bench",
            self.path("problems"),
            "--out",
            self.path(out),
            *FLAGS,
            "--listen",
            self.endpoint,
            *words,
        )

    def single_node(self, number, *words):
        """A node with one core; two nodes have different cores if there are two."""
        name = f"n{number}"
        self.inside[name] = ("taskset", "-c", str(CORES[number % len(CORES)]))
        return self.node(name, *words)

    def said(self, name):
        with open(self.path(name + ".txt"), encoding="utf-8") as file:
            return file.read()

    def rows(self, out):
        with open(
            self.path(os.path.join(out, "results.csv")), newline="", encoding="utf-8"
        ) as file:
            return {row["name"]: row for row in csv.DictReader(file)}

    def verdicts(self, out):
        """{problem: (its verdict, those of its kernels)}"""
        return {
            name: (row["verdict"], nodes_case.verdicts(self.events(out, name)))
            for name, row in self.rows(out).items()
        }

    def events(self, out, name):
        return weft_case.events_of(self.path(f"{out}/runs/{os.path.splitext(name)[0]}"))

    def begun(self, name="bench"):
        """{problem: its nodes at first}"""
        found = {}
        for label, nodes in re.findall(r"^(\w+): on (.*)$", self.said(name), re.MULTILINE):
            found.setdefault(label, nodes)
        return found

    def fleet_process(self, bench):
        """Its pid."""
        with open(f"/proc/{bench.pid}/task/{bench.pid}/children", encoding="ascii") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/cmdline", "rb") as words:
                    if words.read().split(b"\0")[1] == b"fleet":
                        return int(pid)
        self.fail("there is no fleet process")

    def socket_folders(self):
        """Those that benches of this test made."""
        return glob.glob(self.path("tmp/weft-fleet-*"))

    def left(self, out):
        """Processes of that bench."""
        return processes_that_name(self.path(out), self.path("tmp/weft-fleet-"))

    def assert_nothing_left(self):
        self.kill_all()
        self.wait_for(lambda: not processes_that_name(self.folder))


class SlotsTest(unittest.TestCase):
    """Without nodes: how many runs there may be, and how long they may take."""

    def bench(self, judges, slots):
        bench = bench_loop.Bench.__new__(bench_loop.Bench)
        bench._fleet = mock.Mock(judges=judges)
        bench._settings = replace(SETTINGS, fleet=mock.Mock(jobs=0), problem_s=10.0)
        bench._running = {f"p{slot}": (None, slot) for slot in slots}
        bench._late, bench._waited, bench._unreachable = set(), {}, {}
        bench._records = mock.Mock()
        bench._records.can_resume.return_value = False
        record = mock.Mock(alone="", wall_s=0.0, tries=[[time.time() - 12, 0]])
        bench._of = lambda _: record
        return bench

    def test_no_run_begins_without_a_node_that_judges(self):
        for judges, slots, expected in (
            (4, (), 0),
            (4, (0, 1, 2), 3),
            (2, (2, 3), None),  # two nodes have died since these began
            (3, (2, 3), 0),
            (0, (), None),
        ):
            with self.subTest(f"{judges} judges, {slots}"):
                self.assertEqual(self.bench(judges, slots)._free_slot("next"), expected)

    def test_a_wait_for_a_node_is_not_the_problem_s_time(self):
        bench = self.bench(1, (0,))
        bench._waited = {"p0": 5.0}
        self.assertFalse(bench._is_late("p0"))
        bench._waited = {"p0": 1.0}
        self.assertTrue(bench._is_late("p0"))


class FleetTest(FleetCase):
    def test_two_nodes_of_which_one_is_killed_give_the_verdicts_of_one(self):
        self.problems(3, fails=FAILS)
        nodes = {f"n{number}": self.single_node(number, "--once") for number in (1, 2)}
        bench = self.bench("out", "--node-seconds", "3")
        self.wait_for(lambda: bench.poll() is not None or len(self.begun()) >= 3)
        self.assertIsNone(bench.poll(), self.output())
        nodes.pop("n2").kill()
        self.assert_ends_well(bench, 1)  # one problem cannot be verified
        text = self.said("bench")
        self.assertIn("node n2 is gone", text)
        first = self.begun()
        self.assertEqual({*first.values()} & {"n1", "n2"}, {"n1", "n2"}, text)
        # It stayed between the problems, and goes now.
        self.assert_ends_well(nodes["n1"])
        # One after the other, on one node.
        self.single_node(1, "--once")
        again = self.bench("alone", "--jobs", "1", name="alone")
        self.assert_ends_well(again, 1)
        self.assertEqual(self.verdicts("out"), self.verdicts("alone"))
        self.assertEqual(sum(row["verified"] == "True" for row in self.rows("out").values()), 3)
        for name in self.rows("out"):
            events = self.events("out", name)
            self.assert_answered_once(events)
            self.assertEqual([event["type"] for event in events].count("RunFinished"), 1)
            self.assert_replays(self.path("out/runs/" + os.path.splitext(name)[0]))
        self.assert_nothing_left()

    def test_a_node_that_joins_takes_the_next_problem_and_ctrl_c_ends_all(self):
        self.problems(3)
        bench = self.bench("out")
        self.single_node(1)
        self.wait_for(lambda: len(self.begun()) == 1)
        self.single_node(2)
        self.wait_for(lambda: len(self.begun()) >= 2)
        bench.send_signal(signal.SIGINT)
        self.assert_ends_well(bench, 130)
        self.assertFalse(processes_that_name(self.path("out")))
        with open(self.path("out/bench.json"), encoding="utf-8") as file:
            self.assertIn("cores", json.load(file)["class"])
        # The same command goes on.
        again = self.bench("out", name="again")
        self.assert_ends_well(again)
        self.assertEqual({row["verdict"] for row in self.rows("out").values()}, {"verified"})
        self.assert_nothing_left()

    def test_it_waits_for_a_node_and_can_be_interrupted(self):
        self.problems(1)
        bench = self.bench("out")
        self.wait_for(lambda: self.has_said("bench", "listening for nodes on"))
        time.sleep(0.5)
        self.assertIsNone(bench.poll(), self.output())
        bench.send_signal(signal.SIGINT)
        self.assert_ends_well(bench, 130)
        self.assert_nothing_left()

    def test_a_killed_fleet_process_is_replaced_and_nothing_is_lost(self):
        self.problems(2)
        nodes = [self.single_node(number, "--once") for number in (1, 2)]
        bench = self.bench("out")
        self.wait_for(lambda: bench.poll() is not None or len(self.begun()) == 2)
        os.kill(self.fleet_process(bench), signal.SIGKILL)
        self.assert_ends_well(bench)
        self.assertIn("ended by signal 9: it is started again", self.said("bench"))
        for name, row in self.rows("out").items():
            self.assertEqual(row["verdict"], "verified", self.output())
            self.assert_answered_once(self.events("out", name))
            self.assert_replays(self.path("out/runs/" + os.path.splitext(name)[0]))
        for node in nodes:
            self.assert_ends_well(node)
        self.assert_nothing_left()

    def test_a_killed_bench_leaves_nothing_and_the_next_one_goes_on(self):
        self.problems(1)
        node = self.single_node(1, "--once")
        bench = self.bench("out")
        self.wait_for(lambda: bench.poll() is not None or self.begun())
        self.assertTrue(self.socket_folders())
        bench.kill()
        end = time.monotonic() + 5
        while time.monotonic() < end and (self.socket_folders() or self.left("out")):
            time.sleep(0.05)
        self.assertEqual((self.socket_folders(), self.left("out")), ([], {}))
        self.assertIsNone(node.poll(), self.output())
        self.assert_ends_well(self.bench("out", name="again"))
        self.assert_ends_well(node)
        self.assert_nothing_left()

    def test_what_cannot_be_listened_at_is_wrong_input(self):
        self.problems(1)
        made = self.weft("keygen", self.path("keys"))
        self.assertEqual(made.returncode, 0, made.stderr)
        empty, file = self.path("empty"), self.write("file", "no folder")
        os.mkdir(empty)
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        local = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        keys = ("--keys", self.path("keys"))
        for address, words, expected in (
            (self.endpoint, ("--keys", empty), "'weft keygen DIR' makes keys"),
            (self.endpoint, ("--keys", self.path("absent")), "'weft keygen DIR' makes keys"),
            (self.endpoint, ("--keys", file), "cannot read .*Not a directory"),
            (local, (), "another program listens there"),
            ("tcp://192.0.2.1:7070", keys, "this machine has no such address"),
            ("tcp://192.0.2.1:7070", (), "make keys"),
            ("tcp://no.such.host.invalid:7070", keys, "this machine has no such address"),
            ("127.0.0.1:7070", (), "an address is tcp://HOST:PORT"),
            ("tcp://127.0.0.1:70700", (), "an address is tcp://HOST:PORT"),
        ):
            for verb in ("bench", "run"):
                with self.subTest(f"{verb} {address} {words}"):
                    folder = self.path("problems" if verb == "bench" else "problems/p1.py")
                    done = self.weft(
                        verb, folder, "--out", self.path("out"), *FLAGS, "--listen", address, *words
                    )
                    self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                    self.assertRegex(" ".join(done.stderr.split()), expected)
                    self.assertLessEqual(done.stderr.count("weft: "), 1, done.stderr)  # once
        said = self.weft("bench", self.path("problems"), "--json", "--listen", local)
        self.assertEqual(said.returncode, 2)
        self.assertEqual(json.loads(said.stdout.splitlines()[-1])["exit_code"], 2)
        for words in (("--keys", empty), ("--keys", file)):
            done = self.weft("node", "--join", self.endpoint, *words)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(self.weft("keygen", os.path.join(file, "keys")).returncode, 2)

    def test_a_run_that_cannot_listen_for_its_bench_is_not_its_problem_s_fault(self):
        self.problems(1)
        done = self.weft(
            *("run", self.path("problems/p1.py"), "--out", self.path("out"), *FLAGS),
            *("--fleet", "--listen", f"ipc://{self.path('absent')}/1"),
        )
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("cannot listen on ipc://", done.stderr)


#: Plays `weft fleet` and the runs of a bench.
PLAYER = """#!{python}
import json, os, signal, sys, time
def say(**line):
    print(json.dumps(line), flush=True)
if sys.argv[1] != "fleet":
    if "bad" in sys.argv[2]:
        time.sleep(600)
    while not os.path.exists("{folder}/connected"):
        time.sleep(0.05)
    say(type="RunFinished", body=dict(exit_code=1, summary="done"))
    sys.exit(1)
with open("{folder}/starts", "a") as file:
    print(*sys.argv[2:], file=file)
with open("{folder}/starts") as file:
    start = len(list(file))
say(listens="tcp://127.0.0.1:7")
say(**{{"class": "some class", "target": "cpu", "gpu": ""}})
say(nodes=[dict(name=name, can="judge", run="") for name in ("a", "b")])
for line in sys.stdin:
    told = json.loads(line)
    if "finish" in told:
        sys.exit()
    if "begin" in told and start <= {deaths}:
        os.kill(os.getpid(), signal.SIGKILL)
    if "bad" in told.get("begin", ""):
        say(unreachable=told["begin"], why="no file may be opened")
    elif "begin" in told:
        open("{folder}/connected", "w").close()
"""


class BrokenFleetTest(FleetCase):
    """A bench whose fleet process fails."""

    def play(self, deaths):
        """(exit code, standard error)"""
        text = PLAYER.format(python=sys.executable, folder=self.folder, deaths=deaths)
        script = self.write("player", text)
        os.chmod(script, 0o755)
        os.makedirs(self.path("out"), exist_ok=True)
        settings = {
            **{"weft": script, "version": "0", "python": "python3", "json": False, "quiet": False},
            **{"folder": self.path("problems"), "levels": [], "only": [], "out": self.path("out")},
            **{"limit_s": 0, "problem_s": 60, "jobs": 1, "rerun": False, "rerun_failed": False},
            **{"target": "cpu", "gpu": "", "devices": [], "timed": True, "run_flags": []},
            "fleet": {
                **{"endpoint": "tcp://127.0.0.1:0", "keys": "", "classes": "", "node_seconds": 5},
                **{"target": "auto", "jobs": 0, "default_out": "", "gpu_run_flags": []},
            },
        }
        program = (
            "import sys; from weft.bench import bench_loop as b; sys.exit(b.main(sys.argv[1]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=os.path.join(ROOT, "python")),
        )
        return done.returncode, done.stderr

    def starts(self):
        with open(self.path("starts"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_a_run_that_no_node_gets_to_ends_and_the_others_go_on(self):
        self.problems(0, bad=FAILS, good=FAILS)
        code, _ = self.play(0)
        self.assertEqual(code, 3)
        bad, good = (self.rows("out")[name + ".py"] for name in ("bad", "good"))
        self.assertEqual(
            (bad["verdict"], good["verdict"]), ("machine lacks something", "not verified")
        )
        self.assertIn("no node can be connected to its run: no file may be opened", bad["reason"])
        self.assertFalse(processes_that_name(self.path("problems")))

    def test_another_fleet_process_is_told_of_the_runs_under_way(self):
        self.problems(0, good=FAILS)
        code, said = self.play(2)
        self.assertEqual(code, 1, said)
        self.assertEqual(said.count("ended by signal 9: it is started again"), 2)
        first, *later = self.starts()
        self.assertIn("--listen tcp://127.0.0.1:0 ", first)
        for words in later:  # where nodes look for it, and for the same class
            self.assertIn("--listen tcp://127.0.0.1:7 ", words)
            self.assertIn("--classes some class", words)

    def test_runs_stop_when_no_fleet_process_lives_and_can_go_on(self):
        self.problems(0, good=FAILS)
        code, said = self.play(99)
        self.assertEqual(code, 3, said)
        self.assertIn("the bench cannot go on: weft fleet", said)
        self.assertIn("the same command resumes it", said)
        self.assertFalse(processes_that_name(self.path("problems")))
        with open(self.path("out/records/good.json"), encoding="utf-8") as file:
            record = json.load(file)
        self.assertEqual(record["state"], "stopped")
        self.assertTrue(all(end for _, end in record["tries"]), record)
        self.assertEqual(self.rows("out")["good.py"]["verdict"], "not done")
        os.remove(self.path("starts"))
        self.assertEqual(self.play(0)[0], 1)  # the same command


class SocketFolderTest(unittest.TestCase):
    def test_what_a_killed_process_left_goes_with_the_next_folder(self):
        script = (
            "import time; from weft.bench import fleet\n"
            "print(fleet._socket_folder()[0], flush=True); time.sleep(600)"
        )
        begun = []
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
            )
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            begun.append((process, process.stdout.readline().strip()))
        (killed, left), (_, used) = begun
        killed.kill()
        killed.wait()
        self.assertTrue(os.path.isdir(left))
        folder, lock = fleet._socket_folder()
        self.addCleanup(locked_folders.remove, folder, lock)
        self.assertEqual([os.path.isdir(path) for path in (left, used)], [False, True])


if __name__ == "__main__":
    unittest.main()
