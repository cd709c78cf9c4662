"""Shared by the tests of many machines: a head and nodes that are started and
waited for, and checks of every run. The verdicts are those of one machine, every
effect is answered at most once, replay finds no divergence, and nothing is left."""

import os
import signal
import socket
import subprocess
import sys

import relay
import weft_case
from test_resume import number_in, scratch_of, verdicts_of, waited_for
from weft_case import WEFT, WeftCase, environment

# Three subgraphs of their own kind, which a matrix product keeps apart: one for
# the head, and one for each of two nodes.
PROBLEM = weft_case.problem_with(
    init="self.w = nn.Linear(16, 16); self.v = nn.Linear(16, 16)",
    forward="return torch.relu(self.v(torch.tanh(self.w(torch.sigmoid(x) * 2)) + 1) - 3).square()",
)
RUN = (
    "--variants",
    "2",
    "--no-compile-baseline",
    "--no-library",
    "--jobs",
    "3",
    "--timing-ms",
    "200",
    "--final-timing-ms",
    "400",
)
WAIT = 300
ATTEMPTS = 3


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def verdicts(events):
    """What a place that went leaves unanswered says nothing of a kernel."""
    return verdicts_of(
        event
        for event in events
        if event["type"] != "SeedResult"
        or event["body"]["failure"]["code"] not in ("node_lost", "cancelled")
    )


class NodesCase(WeftCase):
    maxDiff = None
    run_flags = RUN
    problem_text = PROBLEM
    in_peace = {}  # verdicts, by problem and flags

    def setUp(self):
        super().setUp()
        self.problem = self.write("problem.py", self.problem_text)
        self.run_folder = self.path("run")
        self.port = free_port()
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.processes = []
        self.inside = {}  # name -> what its command begins with
        self.programs = {}  # name -> another weft than this one
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def start(self, name, *words):
        with open(self.path(name + ".txt"), "a", encoding="utf-8") as output:
            process = subprocess.Popen(
                [*self.inside.get(name, ()), self.programs.get(name, WEFT), *words],
                stdout=output,
                stderr=output,
                env=environment(),
                cwd=self.folder,
            )
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

    def assert_ends_well(self, process, expected=0):
        try:
            code = process.wait(timeout=WAIT)
        except subprocess.TimeoutExpired:
            self.fail("it does not end\n" + self.output())
        self.assertEqual(code, expected, self.output())

    def head(self, *words):
        """One that listens."""
        process = self.start(
            "head",
            "run",
            self.problem,
            "--out",
            self.run_folder,
            *self.run_flags,
            "--listen",
            self.endpoint,
            *words,
        )
        self.wait_for(lambda: process.poll() is not None or self.has_said("head", "listening"))
        return process

    def resumed(self, *words):
        return self.start("head", "resume", self.run_folder, "--listen", self.endpoint, *words)

    def at_work(self, make_nodes, *words, nodes_first=False):
        """A head and its nodes by name, each of which has been asked something.
        A node that joins when all is dealt out gets nothing: then anew."""
        for attempt in range(ATTEMPTS):
            self.run_folder = self.path(f"run{attempt}")
            nodes = make_nodes() if nodes_first else {}
            self.wait_for(lambda names=nodes: all(self.has_said(name, "joins") for name in names))
            head = self.head(*words)
            nodes = nodes or make_nodes()
            asked = lambda names=nodes: all(map(self.asked, names))
            self.wait_for(lambda: asked() or head.poll() is not None)
            if asked() and head.poll() is None:
                return head, nodes
            print("some node was asked nothing; again:\n" + self.output(), file=sys.stderr)
            self.kill_all()
        return self.fail(f"{ATTEMPTS} times some node was asked nothing")

    def node(self, name, *words, endpoint=None):
        return self.start(
            name,
            "node",
            "--join",
            endpoint or self.endpoint,
            "--name",
            name,
            "--folder",
            self.path(name),
            *words,
        )

    def has_said(self, name, text):
        with open(self.path(name + ".txt"), encoding="utf-8") as file:
            return text in file.read()

    def asked(self, node):
        """Requests to that node."""
        return number_in(
            self.run_folder, "SELECT count(*) FROM event WHERE dst LIKE ?", f"port/%@{node}%"
        )

    def answered(self, node):
        return number_in(
            self.run_folder, "SELECT count(*) FROM event WHERE src LIKE ?", f"port/%@{node}%"
        )

    def changes(self, node):
        """How often the roles were told of it: odd while it is in."""
        return number_in(
            self.run_folder, "SELECT count(*) FROM event WHERE src = ?", f"node/{node}"
        )

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
        key = (self.problem_text, self.run_flags)
        if key not in self.in_peace:
            run = self.path("in-peace")
            done = self.weft("run", self.problem, "--out", run, *self.run_flags)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.in_peace[key] = verdicts(weft_case.events_of(run))
        return self.in_peace[key]

    def assert_same_and_nothing_left(self):
        events = weft_case.events_of(self.run_folder)
        self.assert_answered_once(events)
        self.assertEqual(verdicts(events), self.verdicts_in_peace(), self.output())
        self.assert_replays(self.run_folder)
        self.wait_for(lambda: not weft_case.processes_that_name(self.folder))
        # One that was killed is swept by the next that starts.
        for process in self.processes:
            if process.wait() >= 0:
                scratch = os.path.join("/dev/shm", scratch_of(process.pid))
                self.assertFalse(os.path.exists(scratch), scratch)
