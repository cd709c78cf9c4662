"""One run over several processes that stand for machines: work is spread, nodes
die, are cut off and stopped, links are slow, the head dies and is found again.
Each time the verdicts are those of one machine, every effect is answered at
most once, and nothing is left behind."""

import os
import signal
import socket
import subprocess
import sys
import unittest

import relay
import weft_case
from test_resume import number_in, scratch_of, verdicts_of, waited_for
from weft_case import WEFT, WeftCase, environment

# Three subgraphs of their own kind, which a matrix product keeps apart: one for
# the head, and one for each of two nodes.
PROBLEM = weft_case.problem_with(
    init="self.w = nn.Linear(16, 16); self.v = nn.Linear(16, 16)",
    forward="return torch.relu(self.v(torch.tanh(self.w(torch.sigmoid(x) * 2))"
            " + 1) - 3).square()")
RUN = ("--variants", "2", "--no-compile-baseline", "--no-library", "--jobs",
       "3", "--timing-ms", "200", "--final-timing-ms", "400")
WAIT = 300
ATTEMPTS = 3
# 200 ms there and back, 1 Mbit/s.
SLOW = {"delay_s": 0.1, "bytes_per_s": 125_000}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def verdicts(events):
    """What a place that went leaves unanswered says nothing of a kernel."""
    return verdicts_of(
        event for event in events if event["type"] != "SeedResult" or
        event["body"]["failure"]["code"] not in ("lost", "cancelled"))


class NodesTest(WeftCase):
    maxDiff = None
    in_peace = None

    def setUp(self):
        super().setUp()
        self.problem = self.write("three.py", PROBLEM)
        self.run_folder = self.path("run")
        self.port = free_port()
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.processes = []
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def start(self, name, *words):
        with open(self.path(name + ".txt"), "a", encoding="utf-8") as output:
            process = subprocess.Popen([WEFT, *words], stdout=output,
                                       stderr=output, env=environment(),
                                       cwd=self.folder)
        self.processes.append(process)
        return process

    def output(self):
        texts = []
        for name in sorted(os.listdir(self.folder)):
            if name.endswith(".txt"):
                with open(self.path(name), encoding="utf-8") as file:
                    texts.append(f"--- {name}\n{file.read()}")
        return "\n".join(texts)

    def relay(self, **how):
        made = relay.Relay(self.port, **how)
        self.addCleanup(made.close)
        return made

    def wait_for(self, condition):
        self.assertTrue(waited_for(condition, WAIT), self.output())

    def assert_ends_well(self, process):
        try:
            code = process.wait(timeout=WAIT)
        except subprocess.TimeoutExpired:
            self.fail("it does not end\n" + self.output())
        self.assertEqual(code, 0, self.output())

    def head(self, *words):
        """One that listens."""
        process = self.start("head", "run", self.problem, "--out",
                             self.run_folder, *RUN, "--listen", self.endpoint,
                             *words)
        self.wait_for(lambda: process.poll() is not None or
                      self.has_said("head", "listening"))
        return process

    def resumed(self, *words):
        return self.start("head", "resume", self.run_folder, "--listen",
                          self.endpoint, *words)

    def at_work(self, make_nodes, *words):
        """A head and its nodes by name, each of which has been asked something.
        A node that joins when all is dealt out gets nothing: then anew."""
        for attempt in range(ATTEMPTS):
            self.run_folder = self.path(f"run{attempt}")
            head = self.head(*words)
            nodes = make_nodes()
            asked = lambda names=nodes: all(map(self.asked, names))
            self.wait_for(lambda: asked() or head.poll() is not None)
            if asked() and head.poll() is None:
                return head, nodes
            print("some node was asked nothing; again:\n" + self.output(),
                  file=sys.stderr)
            self.kill_all()
        return self.fail(f"{ATTEMPTS} times some node was asked nothing")

    def node(self, name, *words, endpoint=None):
        return self.start(name, "node", "--join", endpoint or self.endpoint,
                          "--name", name, "--folder", self.path(name), *words)

    def has_said(self, name, text):
        with open(self.path(name + ".txt"), encoding="utf-8") as file:
            return text in file.read()

    def asked(self, node):
        """Requests to that node."""
        return number_in(self.run_folder,
                         "SELECT count(*) FROM event WHERE dst LIKE ?",
                         f"port/%@{node}%")

    def answered(self, node):
        return number_in(self.run_folder,
                         "SELECT count(*) FROM event WHERE src LIKE ?",
                         f"port/%@{node}%")

    def changes(self, node):
        """How often the roles were told of it: odd while it is in."""
        return number_in(self.run_folder,
                         "SELECT count(*) FROM event WHERE src = ?",
                         f"node/{node}")

    def assert_answered_once(self, events):
        answered = set()
        for event in events:
            if not event["src"].startswith("port/"):
                continue
            if event["dst"] == "stale":
                continue
            self.assertNotIn(event["cause"], answered, event)
            answered.add(event["cause"])

    def verdicts_in_peace(self):
        """Of the same run, undisturbed and alone; made once."""
        if NodesTest.in_peace is None:
            run = self.path("in-peace")
            done = self.weft("run", self.problem, "--out", run, *RUN)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            NodesTest.in_peace = verdicts(weft_case.events_of(run))
        return NodesTest.in_peace

    def assert_same_and_nothing_left(self):
        events = weft_case.events_of(self.run_folder)
        self.assert_answered_once(events)
        self.assertEqual(verdicts(events), self.verdicts_in_peace(),
                         self.output())
        self.assert_replays(self.run_folder)
        self.wait_for(lambda: not weft_case.processes_that_name(self.folder))
        # One that was killed is swept by the next that starts.
        for process in self.processes:
            if process.returncode == 0:
                scratch = os.path.join("/dev/shm", scratch_of(process.pid))
                self.assertFalse(os.path.exists(scratch), scratch)

    def test_a_slow_link_lost_blobs_and_a_node_that_dies(self):
        link = self.relay(**SLOW)
        head, nodes = self.at_work(
            lambda: {"dies": self.node("dies", "--once"),
                     "slow": self.node("slow", "--once", "--lose-blobs", "3",
                                       endpoint=link.endpoint)},
            "--node-seconds", "5")
        nodes["dies"].kill()
        self.assert_ends_well(head)
        self.assert_ends_well(nodes["slow"])
        self.assertGreater(self.answered("slow"), 0, self.output())
        self.assert_same_and_nothing_left()

    def test_nodes_come_back_and_so_does_the_head(self):
        link = self.relay()
        silence = ("--node-seconds", "2")
        head, nodes = self.at_work(
            lambda: {"apart": self.node("apart", endpoint=link.endpoint),
                     "sleeps": self.node("sleeps", "--once")}, *silence)
        apart, sleeps = nodes["apart"], nodes["sleeps"]
        link.hang()
        sleeps.send_signal(signal.SIGSTOP)
        self.wait_for(lambda: self.changes("apart") > 1 and
                      self.changes("sleeps") > 1 or head.poll() is not None)
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

    def test_keys_let_in_who_is_allowed_and_nobody_else(self):
        for folder in ("keys", "others"):
            made = self.weft("keygen", self.path(folder))
            self.assertEqual(made.returncode, 0, made.stderr)
            for name in ("head.secret", "node.secret"):
                mode = os.stat(os.path.join(self.path(folder), name)).st_mode
                self.assertEqual(mode & 0o077, 0, name)
        open_door = self.weft("run", self.problem, "--out", self.run_folder,
                              "--listen", "tcp://0.0.0.0:0")
        self.assert_ends(open_door, 2, "weft keygen")
        # A head's true key, a node's that it does not know.
        with open(os.path.join(self.path("keys"), "head.key"),
                  encoding="utf-8") as file:
            key = file.read()
        with open(os.path.join(self.path("others"), "head.key"), "w",
                  encoding="utf-8") as file:
            file.write(key)
        self.run_folder = self.path("run2")
        head = self.head("--keys", self.path("keys"))
        stranger = self.node("stranger", "--keys", self.path("others"))
        friend = self.node("friend", "--keys", self.path("keys"))
        self.wait_for(lambda: head.poll() is not None or
                      self.changes("friend") > 0 and
                      self.has_said("head", "not in `allowed`"))
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
                with open(os.path.join(self.path(keys), name),
                          encoding="utf-8") as file:
                    secrets.append(file.read().strip().encode())
        for place, _, files in os.walk(folder):
            for name in files:
                with open(os.path.join(place, name), "rb") as file:
                    text = file.read()
                for secret in secrets:
                    self.assertNotIn(secret, text, name)


if __name__ == "__main__":
    unittest.main()
