"""Machines of several classes in one run: a head without PyTorch, a node that
only builds, nodes that check and time, and one of another class. The classes
differ by the number of cores that a process may use."""

import os
import signal
import unittest

import weft_case
from nodes_case import NodesCase

CORES = sorted(os.sched_getaffinity(0))


def answered_by(events, kind):
    """The locations that answered requests of that kind."""
    return {
        event["src"].partition("@")[2]
        for event in events
        if event["type"] == kind and event["src"].startswith("port/")
    }


class ClassesCase(NodesCase):
    def setUp(self):
        super().setUp()
        self.bare = self.python_without_torch()

    def bare_head(self, *words):
        return self.head("--target", "cpu", "--python", self.bare, *words)

    def events(self):
        return weft_case.events_of(self.run_folder)

    def assert_one_class(self, events, cores):
        """All verdicts and timings are of it, and it is named."""
        results = [event["body"] for event in events if event["type"] == "SeedResult"]
        self.assertTrue(results)
        for result in results:
            self.assertIn(f", {cores} cores, ", result["device_class"])


class BareHeadTest(ClassesCase):
    def test_a_head_without_pytorch_a_builder_and_two_that_check(self):
        head = self.bare_head("--node-seconds", "5")
        self.assertIsNone(head.poll(), self.output())
        # It has no PyTorch, either.
        builds = self.node("builds", "--python", self.bare, "--once")
        nodes = {name: self.node(name, "--once") for name in ("c1", "c2")}
        self.wait_for(
            lambda: (
                head.poll() is not None
                or os.path.exists(os.path.join(self.run_folder, "journal.db"))
                and any(self.asked(name) > 2 for name in nodes)
            )
        )
        self.assertIsNone(head.poll(), self.output())
        busy = max(nodes, key=self.asked)
        nodes.pop(busy).send_signal(signal.SIGKILL)
        self.assert_ends_well(head)
        for process in (builds, *nodes.values()):
            self.assert_ends_well(process)
        events = self.events()
        self.assertNotIn("", answered_by(events, "CaptureReply"))
        self.assertNotIn("", answered_by(events, "CheckReply"))
        self.assertNotIn("", answered_by(events, "TimeReply"))
        self.assertNotIn("builds", answered_by(events, "CheckReply"))
        self.assertIn("builds", answered_by(events, "BuildReply"))
        self.assert_one_class(events, len(CORES))
        self.assert_same_and_nothing_left()

    def test_without_listening_it_says_what_it_lacks(self):
        done = self.weft("run", self.problem, "--out", self.run_folder, "--python", self.bare)
        self.assert_ends(done, 3, "has no PyTorch")


class OtherClassTest(ClassesCase):
    @unittest.skipIf(len(CORES) < 2, "one core: there is one class")
    def test_a_node_of_another_class_builds_and_checks_nothing(self):
        self.inside["other"] = ("taskset", "-c", str(CORES[0]))
        head, nodes = self.at_work(
            lambda: {"other": self.node("other", "--once")}, nodes_first=True
        )
        self.assert_ends_well(head)
        self.assert_ends_well(nodes["other"])
        events = self.events()
        self.assertIn("other", answered_by(events, "BuildReply"))
        self.assertNotIn("other", answered_by(events, "CheckReply"))
        self.assertNotIn("other", answered_by(events, "TimeReply"))
        self.assert_one_class(events, len(CORES))
        self.assert_same_and_nothing_left()

    @unittest.skipIf(len(CORES) < 2, "one core: there is one class")
    def test_a_class_that_is_named_is_the_nodes_and_not_the_heads(self):
        self.inside["other"] = ("taskset", "-c", str(CORES[0]))
        node = self.node("other", "--once")
        head = self.head("--classes", ", 1 cores,")
        self.assert_ends_well(head)
        self.assert_ends_well(node)
        events = self.events()
        self.assertEqual(answered_by(events, "TimeReply"), {"other"})
        # The head has the same PyTorch and processor: it captures and builds.
        self.assertEqual(answered_by(events, "CaptureReply"), {""})
        self.assert_one_class(events, 1)
        with open(os.path.join(self.run_folder, "report.md"), encoding="utf-8") as file:
            self.assertIn(", 1 cores, ", file.read())
        self.assert_replays(self.run_folder)


if __name__ == "__main__":
    unittest.main()
