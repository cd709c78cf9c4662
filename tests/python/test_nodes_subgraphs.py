"""A subgraph that is under way when its nodes go and others come: the head has no
PyTorch, so that nodes check and time."""

import signal
import unittest

import weft_case
from test_nodes_classes import ClassesCase, answered_by
from test_resume import number_in

#: One subgraph.
ONE = weft_case.problem_with("return torch.relu(x) * 2 + torch.tanh(x - 1)")


class SubgraphCase(ClassesCase):
    problem_text = ONE

    def count(self, query, *values):
        return number_in(self.run_folder, f"SELECT count(*) FROM event WHERE {query}", *values)

    def is_checked(self):
        return self.count("type = 'CheckReply'") > 0

    def waits(self):
        """Whether the subgraph's agent has waited for another node."""
        return self.has_said("head", "for another node")

    def under_way(self):
        """(the head, its only node, which has checked the first kernel)"""
        head = self.bare_head("--node-seconds", "2")
        node = self.node("c1")
        self.wait_for(lambda: head.poll() is not None or self.is_checked())
        self.assertIsNone(head.poll(), self.output())
        return head, node

    def kill(self, node):
        node.send_signal(signal.SIGKILL)
        node.wait()
        self.assertEqual(self.count("type = 'SubgraphDone'"), 0, "it was too late")

    def assert_verified_by(self, name):
        """The same verdicts, and the best kernel was timed there."""
        events = self.events()
        best = [event["body"]["best"] for event in events if event["type"] == "SubgraphDone"]
        self.assertEqual({one["location"] for one in best}, {name})
        self.assertIn(name, answered_by(events, "TimeReply"))
        self.assert_same_and_nothing_left()


class SubgraphTest(SubgraphCase):
    def test_a_node_that_joins_late_goes_on_where_another_died(self):
        head, node = self.under_way()
        late = self.node("c2", "--once")
        self.wait_for(lambda: self.changes("c2"))
        self.kill(node)
        self.assert_ends_well(head)
        self.assert_ends_well(late)
        self.assertFalse(self.waits())
        self.assert_verified_by("c2")

    @weft_case.long
    def test_without_a_node_it_waits_and_goes_on_with_the_next(self):
        head, node = self.under_way()
        self.kill(node)
        self.wait_for(lambda: head.poll() is not None or self.waits())
        self.assertIsNone(head.poll(), self.output())
        again = self.node("c1", "--once")  # its scheduler starts it again
        self.assert_ends_well(head)
        self.assert_ends_well(again)
        self.assert_verified_by("c1")

    def test_where_no_node_comes_it_ends_with_what_is_known(self):
        head, node = self.under_way()
        self.kill(node)
        self.assert_ends_well(head, 1)  # nothing could be verified as a whole
        done = [event["body"] for event in self.events() if event["type"] == "SubgraphDone"]
        self.assertEqual(len(done), 1)
        self.assertIn("no node came that can do it", self.output())
        self.assertTrue(self.waits())
        self.assert_answered_once(self.events())
        self.assert_replays(self.run_folder)


if __name__ == "__main__":
    unittest.main()
