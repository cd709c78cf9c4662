"""Network namespaces as machines: a head and four nodes with separate addresses. One is
killed, the link of one goes down for longer than its lease, one is stopped for as long,
one is behind a link of 1 Mbit/s. Also a node whose disk is full, and one whose clock is
a year behind. Needs root, `ip` and `tc` (iproute2), and
faketime for the last."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import unittest

import weft_case
from nodes_case import NodesCase

SUBNET = "10.77.93."
# One subgraph of its own kind for each machine.
FIVE = weft_case.problem_with(
    init="self.a, self.b, self.c, self.d = (nn.Linear(16, 16) for _ in 'abcd')",
    forward="x = self.a(torch.sigmoid(x) * 2); x = self.b(torch.tanh(x) + 1); "
    "x = self.c(torch.relu(x - 3)); x = self.d(torch.exp(-x.square()));"
    " return (x * 3).abs() - 1",
)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def no_namespaces():
    """Why there are none; empty: there are."""
    if os.getuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return "needs root and iproute2"
    name = f"weft{os.getpid()}try"
    try:
        ip("netns", "add", name)
        ip("netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.strip()}"
    return ""


class Network:
    """A switch in a namespace of its own, and machines that hang on it."""

    def __init__(self):
        self._name = f"weft{os.getpid()}"
        self._switch = self._name + "s"
        self._made = []
        self._namespace(self._switch)
        self._in_switch("link", "add", "switch", "type", "bridge")
        self._in_switch("link", "set", "switch", "up")

    def _namespace(self, name):
        ip("netns", "add", name)
        self._made.append(name)

    def _in_switch(self, *words):
        ip("-n", self._switch, *words)

    def machine(self, name, number):
        """The words that a command in it begins with."""
        space = f"{self._name}{name}"
        self._namespace(space)
        self._in_switch("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", space)
        self._in_switch("link", "set", name, "master", "switch", "up")
        ip("-n", space, "address", "add", f"{SUBNET}{number}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "link", "set", "lo", "up")
        return ("ip", "netns", "exec", space)

    def set_link(self, name, state):
        self._in_switch("link", "set", name, state)

    def slow(self, name):
        subprocess.run(
            [
                "ip",
                "netns",
                "exec",
                self._switch,
                "tc",
                "qdisc",
                "add",
                "dev",
                name,
                "root",
                "tbf",
                "rate",
                "1mbit",
                "burst",
                "32kbit",
                "latency",
                "400ms",
            ],
            check=True,
        )

    def close(self):
        for name in self._made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


WHY_NOT = no_namespaces()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class NetworkTest(NodesCase):
    problem_text = FIVE
    run_flags = tuple("5" if word == "3" else word for word in NodesCase.run_flags)  # --jobs
    cut_s = 0  # at least; longer than the lease in any case

    def test_a_head_and_four_nodes_each_of_which_has_a_trouble_of_its_own(self):
        network = Network()
        self.addCleanup(network.close)
        names = ("dies", "far", "sleeps", "slow")
        for number, name in enumerate(("head", *names), 1):
            self.inside[name] = network.machine(name, number)
        network.slow("slow")
        made = self.weft("keygen", self.path("keys"))
        self.assertEqual(made.returncode, 0, made.stderr)
        keys = ("--keys", self.path("keys"))
        self.endpoint = f"tcp://{SUBNET}1:7070"
        head, nodes = self.at_work(
            lambda: {
                name: self.node(
                    name, "--once", "--patience-seconds", "60", "--slots", "cpu=1", *keys
                )
                for name in names
            },
            "--node-seconds",
            "5",
            *keys,
            nodes_first=True,
        )
        nodes["dies"].kill()
        nodes["sleeps"].send_signal(signal.SIGSTOP)
        network.set_link("far", "down")
        cut = time.monotonic()
        self.wait_for(
            lambda: (
                head.poll() is not None
                or all(self.changes(name) > 1 for name in ("dies", "far", "sleeps"))
                and time.monotonic() - cut >= self.cut_s
            )
        )
        self.assertIsNone(head.poll(), "it ended before\n" + self.output())
        nodes["sleeps"].send_signal(signal.SIGCONT)
        network.set_link("far", "up")
        self.assert_ends_well(head)
        for name in ("far", "sleeps", "slow"):
            self.assert_ends_well(nodes[name])
        self.assertGreater(self.answered("slow"), 0, self.output())
        self.assert_same_and_nothing_left()


@unittest.skipIf(os.getuid() != 0, "needs root, to mount a small disk")
class FullDiskTest(NodesCase):
    def setUp(self):
        super().setUp()
        self.disk = self.path("full")
        os.makedirs(self.disk)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", self.disk],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.skipTest(f"no small disk here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)

    def fill(self):
        with (
            contextlib.suppress(OSError),
            open(os.path.join(self.disk, "filler"), "wb", buffering=0) as file,
        ):
            while True:
                file.write(b"-" * 4096)

    @weft_case.long
    def test_a_node_whose_disk_is_full_hands_its_work_back_and_goes(self):
        def nodes():
            made = {name: self.node(name, "--once") for name in ("full", "good")}
            self.wait_for(lambda: self.has_said("full", "serving"))
            self.fill()
            return made

        head, made = self.at_work(nodes)
        self.assert_ends_well(head)
        self.assert_ends_well(made["good"])
        self.assert_ends_well(made["full"], expected=3)
        for name in ("full", "head"):
            self.assertTrue(self.has_said(name, "No space left on device"), self.output())
        replies = [
            event["body"]["failure"]["code"]
            for event in weft_case.events_of(self.run_folder)
            if event["src"].startswith("port/") and "@full" in event["src"]
        ]
        # What it was sent may be what filled the disk; the rest is only back.
        self.assertIn("disk_full", replies)
        self.assertLessEqual(set(replies), {"", "node_lost", "disk_full"})
        self.assert_same_and_nothing_left()

    def test_a_node_without_room_does_not_begin(self):
        self.fill()
        node = self.node("full")
        self.assert_ends_well(node, expected=3)
        self.assertTrue(self.has_said("full", "make room"), self.output())


@unittest.skipUnless(shutil.which("faketime"), "needs faketime")
class WrongClockTest(NodesCase):
    @weft_case.long
    def test_a_clock_that_is_a_year_behind_changes_nothing(self):
        self.inside["wrong"] = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", "-400d")
        head, made = self.at_work(
            lambda: {name: self.node(name, "--once") for name in ("wrong", "good")}
        )
        self.assert_ends_well(head)
        for node in made.values():
            self.assert_ends_well(node)
        self.assertGreater(self.answered("wrong"), 0, self.output())
        self.assert_same_and_nothing_left()


if __name__ == "__main__":
    unittest.main()
