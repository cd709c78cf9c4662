"""One run over several processes that stand for machines: work is spread, nodes
die, are cut off and stopped, the head dies and is found again. Each time the
verdicts are those of one machine, every effect is answered at most once, and
nothing is left behind."""

import json
import os
import signal
import socket
import subprocess
import unittest

import weft_case
from test_resume import last_event, verdicts_of, waited_for
from weft_case import QUICK, WEFT, WeftCase, environment

# Three subgraphs of their own kind, which a matrix product keeps apart.
PROBLEM = weft_case.problem_with(
    init="self.w = nn.Linear(16, 16); self.v = nn.Linear(16, 16)",
    forward="return torch.relu(self.v(torch.tanh(self.w(torch.sigmoid(x) * 2))"
            " + 1) - 3).square()")
WAIT = 300


def node_places(events):
    """Places other than the head that answered something."""
    return {event["src"].partition("@")[2] for event in events
            if event["src"].startswith("port/") and "@" in event["src"]}


class NodesTest(WeftCase):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.problem = self.write("three.py", PROBLEM)
        self.run_folder = self.path("run")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
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

    def wait_for(self, condition):
        self.assertTrue(waited_for(condition, WAIT), self.output())

    def head(self, *words):
        return self.start("head", "run", self.problem, "--out",
                          self.run_folder, *QUICK, "--no-library",
                          "--listen", self.endpoint, *words)

    def node(self, name, *words):
        """A node that is ready; it waits for its head, if there is none."""
        process = self.start(name, "node", "--join", self.endpoint, "--name",
                             name, "--folder", self.path(name), *words)

        def is_ready():
            with open(self.path(name + ".txt"), encoding="utf-8") as file:
                return process.poll() is not None or "joins" in file.read()
        self.wait_for(is_ready)
        return process

    def states(self):
        """name -> state, as `weft cluster` has it."""
        shown = self.weft("cluster", self.run_folder, "--json")
        if shown.returncode != 0:
            return {}
        return {node["name"]: node["state"]
                for node in json.loads(shown.stdout)["nodes"]}

    def in_peace(self):
        run = self.path("in-peace")
        done = self.weft("run", self.problem, "--out", run, *QUICK,
                         "--no-library")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return weft_case.events_of(run)

    def assert_answered_once(self, events):
        answered = set()
        for event in events:
            if not event["src"].startswith("port/"):
                continue
            if event["dst"] == "stale":
                continue
            self.assertNotIn(event["cause"], answered, event)
            answered.add(event["cause"])

    def assert_same(self, events):
        self.assert_answered_once(events)
        self.assertEqual(verdicts_of(events), verdicts_of(self.in_peace()),
                         self.output())
        self.assert_replays(self.run_folder)

    def assert_nobody_is_left(self):
        left = lambda: weft_case.processes_that_name(self.folder)
        self.wait_for(lambda: not left())

    def test_work_is_spread_whatever_blobs_are_lost(self):
        nodes = [self.node(name, "--once", "--lose-blobs", "3")
                 for name in ("n1", "n2")]
        head = self.head()
        self.assertEqual(head.wait(timeout=WAIT), 0, self.output())
        for node in nodes:
            self.assertEqual(node.wait(timeout=WAIT), 0, self.output())
        events = weft_case.events_of(self.run_folder)
        self.assertTrue(node_places(events), self.output())
        self.assert_same(events)
        self.assert_nobody_is_left()

    def test_nodes_die_are_stopped_and_the_head_dies_too(self):
        victim = self.node("victim")
        sleeper = self.node("sleeper", "--once")
        head = self.head("--node-seconds", "3")
        self.wait_for(lambda: {"victim", "sleeper"} <= set(self.states()))
        victim.kill()
        sleeper.send_signal(signal.SIGSTOP)
        before = last_event(self.run_folder)
        self.wait_for(lambda: head.poll() is not None or
                      last_event(self.run_folder) > before)
        head.kill()
        head.wait()
        sleeper.send_signal(signal.SIGCONT)
        head = self.start("head", "resume", self.run_folder, "--listen",
                          self.endpoint, "--node-seconds", "3")
        self.assertEqual(head.wait(timeout=WAIT), 0, self.output())
        self.assert_same(weft_case.events_of(self.run_folder))
        sleeper.terminate()
        self.assertEqual(sleeper.wait(timeout=WAIT), 0, self.output())
        self.assert_nobody_is_left()

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
        self.node("stranger", "--keys", self.path("others"))
        self.node("friend", "--keys", self.path("keys"))
        head = self.head("--keys", self.path("keys"))
        self.wait_for(lambda: head.poll() is not None or
                      "friend" in self.states())
        self.assertNotIn("stranger", self.states())
        self.assertEqual(head.wait(timeout=WAIT), 0, self.output())
        secrets = []
        for folder in ("keys", "others"):
            for name in ("head.secret", "node.secret"):
                with open(os.path.join(self.path(folder), name),
                          encoding="utf-8") as file:
                    secrets.append(file.read().strip().encode())
        for place, _, files in os.walk(self.run_folder):
            for name in files:
                with open(os.path.join(place, name), "rb") as file:
                    text = file.read()
                for secret in secrets:
                    self.assertNotIn(secret, text, name)


if __name__ == "__main__":
    unittest.main()
