"""One run over several processes that stand for machines: work is spread, nodes
die, are cut off and stopped, links are slow, the head dies and is found
again."""

import os
import signal
import unittest

import weft_case
from nodes_case import WAIT, NodesCase

OTHER = os.environ.get("WEFT_OTHER_BIN")
# 200 ms there and back, 1 Mbit/s.
SLOW = {"delay_s": 0.1, "bytes_per_s": 125_000}


class NodesTest(NodesCase):
    def test_a_slow_link_lost_blobs_and_a_node_that_dies(self):
        link = self.relay(**SLOW)
        head, nodes = self.at_work(
            lambda: {
                "dies": self.node("dies", "--once"),
                "slow": self.node("slow", "--once", "--lose-blobs", "3", endpoint=link.endpoint),
            },
            "--node-seconds",
            "5",
        )
        nodes["dies"].kill()
        self.assert_ends_well(head)
        self.assert_ends_well(nodes["slow"])
        self.assertGreater(self.answered("slow"), 0, self.output())
        self.assert_same_and_nothing_left()

    def test_nodes_come_back_and_so_does_the_head(self):
        link = self.relay()
        silence = ("--node-seconds", "2")
        head, nodes = self.at_work(
            lambda: {
                "apart": self.node("apart", endpoint=link.endpoint),
                "sleeps": self.node("sleeps", "--once"),
            },
            *silence,
        )
        apart, sleeps = nodes["apart"], nodes["sleeps"]
        link.hang()
        sleeps.send_signal(signal.SIGSTOP)
        self.wait_for(
            lambda: (
                self.changes("apart") > 1 and self.changes("sleeps") > 1 or head.poll() is not None
            )
        )
        link.cut()
        link.flow()
        sleeps.send_signal(signal.SIGCONT)
        head.kill()
        head.wait()
        head = self.resumed(*silence)
        self.assert_ends_well(head)
        self.assert_ends_well(sleeps)
        apart.terminate()
        self.assert_ends_well(apart)
        self.assert_same_and_nothing_left()

    @weft_case.long
    @unittest.skipUnless(OTHER, "WEFT_OTHER_BIN names no weft of another version")
    def test_a_node_of_another_version_is_told_what_to_do_and_the_run_goes_on(self):
        self.programs["other"] = OTHER
        head = self.head()
        other = self.node("other")
        self.assert_ends_well(other, expected=3)
        for name in ("head", "other"):
            self.assertTrue(
                self.has_said(name, "its weft is 0.0.0-other, the run's ")
                and self.has_said(name, "install the same on both"),
                self.output(),
            )
        self.assert_ends_well(head)
        self.assertEqual(self.changes("other"), 0, self.output())
        self.assert_same_and_nothing_left()

    def test_a_port_that_there_is_not_is_refused(self):
        for words in (("run", self.problem, "--listen"), ("node", "--join")):
            done = self.weft(*words, "tcp://127.0.0.1:65536")
            self.assert_ends(done, 2, "an address is tcp://HOST:PORT")

    def test_keys_let_in_who_is_allowed_and_nobody_else(self):
        for folder in ("keys", "others"):
            made = self.weft("keygen", self.path(folder))
            self.assertEqual(made.returncode, 0, made.stderr)
            for name in ("head.secret", "node.secret"):
                mode = os.stat(os.path.join(self.path(folder), name)).st_mode
                self.assertEqual(mode & 0o077, 0, name)
        open_door = self.weft(
            "run", self.problem, "--out", self.run_folder, "--listen", "tcp://0.0.0.0:0"
        )
        self.assert_ends(open_door, 2, "weft keygen")
        # A head's true key, a node's that it does not know.
        with open(os.path.join(self.path("keys"), "head.key"), encoding="utf-8") as file:
            key = file.read()
        with open(os.path.join(self.path("others"), "head.key"), "w", encoding="utf-8") as file:
            file.write(key)
        self.run_folder = self.path("run2")
        head = self.head("--keys", self.path("keys"))
        stranger = self.node("stranger", "--keys", self.path("others"))
        friend = self.node("friend", "--keys", self.path("keys"))
        self.wait_for(
            lambda: (
                head.poll() is not None
                or self.changes("friend") > 0
                and self.has_said("head", "not in `allowed`")
            )
        )
        self.assertIsNone(head.poll(), self.output())
        self.assertEqual(self.changes("stranger"), 0, self.output())
        for process in (stranger, friend, head):
            process.terminate()
        self.assert_ends_well(stranger)
        self.assert_ends_well(friend)
        head.wait(timeout=WAIT)
        self.assert_no_secret_in(self.run_folder)

    def assert_no_secret_in(self, folder):
        secrets = []
        for keys in ("keys", "others"):
            for name in ("head.secret", "node.secret"):
                with open(os.path.join(self.path(keys), name), encoding="utf-8") as file:
                    secrets.append(file.read().strip().encode())
        for place, _, files in os.walk(folder):
            for name in files:
                with open(os.path.join(place, name), "rb") as file:
                    text = file.read()
                for secret in secrets:
                    self.assertNotIn(secret, text, name)


if __name__ == "__main__":
    unittest.main()
