"""Network namespaces as machines: a head and two nodes with addresses of their
own, one of whose links is down for longer than its lease, the other's as slow
as 1 Mbit/s; a node whose disk is full, and one whose clock is a year behind.
Needs root, `ip` and `tc` (iproute2), and faketime for the last.

    cd tests/by_hand && PYTHONPATH=../python python3 -m unittest -v nodes_network
"""

import contextlib
import os
import shutil
import subprocess
import unittest

from nodes_case import NodesCase

SUBNET = "10.77.93."


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


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
        self._in_switch("link", "add", name, "type", "veth", "peer", "name",
                        "eth0", "netns", space)
        self._in_switch("link", "set", name, "master", "switch", "up")
        ip("-n", space, "address", "add", f"{SUBNET}{number}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "link", "set", "lo", "up")
        return ("ip", "netns", "exec", space)

    def set_link(self, name, state):
        self._in_switch("link", "set", name, state)

    def slow(self, name):
        subprocess.run(["ip", "netns", "exec", self._switch, "tc", "qdisc",
                        "add", "dev", name, "root", "tbf", "rate", "1mbit",
                        "burst", "32kbit", "latency", "400ms"], check=True)

    def close(self):
        for name in self._made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


@unittest.skipIf(os.getuid() != 0 or not shutil.which("ip"),
                 "needs root and iproute2")
class NetworkTest(NodesCase):
    def test_a_link_that_is_down_for_a_while_and_one_that_is_slow(self):
        network = Network()
        self.addCleanup(network.close)
        for number, name in enumerate(("head", "far", "slow"), 1):
            self.inside[name] = network.machine(name, number)
        network.slow("slow")
        made = self.weft("keygen", self.path("keys"))
        self.assertEqual(made.returncode, 0, made.stderr)
        keys = ("--keys", self.path("keys"))
        self.endpoint = f"tcp://{SUBNET}1:7070"
        head, nodes = self.at_work(
            lambda: {name: self.node(name, "--once", "--patience-seconds",
                                     "30", *keys)
                     for name in ("far", "slow")},
            "--node-seconds", "5", *keys)
        network.set_link("far", "down")
        self.wait_for(lambda: self.changes("far") > 1 or
                      head.poll() is not None)
        network.set_link("far", "up")
        self.assert_ends_well(head)
        for node in nodes.values():
            self.assert_ends_well(node)
        self.assert_same_and_nothing_left()

    # What such a node builds fails there, and its subgraph with that.
    @unittest.expectedFailure
    def test_a_full_disk(self):
        folder = self.path("full")
        os.makedirs(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs",
                        folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        def fill():
            with (contextlib.suppress(OSError),
                  open(os.path.join(folder, "filler"), "wb") as file):
                while True:
                    file.write(b"-" * 4096)
                    file.flush()
        def nodes():
            made = {name: self.node(name, "--once") for name in ("full", "good")}
            self.wait_for(lambda: self.changes("full") or
                          self.has_said("full", "serving"))
            fill()
            return made
        head, made = self.at_work(nodes)
        self.assert_ends_well(head)
        for node in made.values():
            self.assert_ends_well(node)
        self.assert_same_and_nothing_left()

    @unittest.skipUnless(shutil.which("faketime"), "needs faketime")
    def test_a_wrong_clock(self):
        self.inside["wrong"] = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1",
                                "faketime", "-f", "-400d")
        head, made = self.at_work(
            lambda: {name: self.node(name, "--once")
                     for name in ("wrong", "good")})
        self.assert_ends_well(head)
        for node in made.values():
            self.assert_ends_well(node)
        self.assertGreater(self.answered("wrong"), 0, self.output())
        self.assert_same_and_nothing_left()


if __name__ == "__main__":
    unittest.main()
