"""`weft bench --listen`: many problems at once on nodes that come and go."""

import csv
import json
import os
import re
import signal
import time
import unittest
from unittest import mock

import nodes_case
import weft_case
from nodes_case import NodesCase
from weft_case import QUICK, problem_with, processes_that_name

from weft.bench import bench_loop

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

    def assert_nothing_left(self):
        self.kill_all()
        self.wait_for(lambda: not processes_that_name(self.folder))


class SlotsTest(unittest.TestCase):
    """Without nodes: how many runs there may be, and how long they may take."""

    def bench(self, judges, slots):
        bench = bench_loop.Bench.__new__(bench_loop.Bench)
        bench._fleet = mock.Mock(judges=judges)
        bench._settings = {"fleet": {"jobs": 0}, "devices": [], "problem_s": 10.0}
        bench._running = {f"p{slot}": (None, slot) for slot in slots}
        bench._late, bench._waited = set(), {}
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
        self.problems(5, fails=FAILS)
        nodes = {f"n{number}": self.single_node(number, "--once") for number in (1, 2)}
        bench = self.bench("out", "--node-seconds", "3")
        self.wait_for(lambda: bench.poll() is not None or len(self.begun()) >= 4)
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
        self.assertEqual(sum(row["verified"] == "True" for row in self.rows("out").values()), 5)
        for name in self.rows("out"):
            events = self.events("out", name)
            self.assert_answered_once(events)
            self.assertEqual([event["type"] for event in events].count("RunFinished"), 1)
            self.assert_replays(self.path("out/runs/" + os.path.splitext(name)[0]))
        self.assert_nothing_left()

    def test_a_node_that_joins_takes_the_next_problem_and_ctrl_c_ends_all(self):
        self.problems(4)
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


if __name__ == "__main__":
    unittest.main()
