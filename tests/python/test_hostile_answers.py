"""Whole runs whose language model means harm: the run ends with the other
candidates' verdicts, and nothing outside its directory changes."""

import os
import time
import unittest

import weft_case
from canaries import Canaries
from hostile_answers import ANSWERS, SLOW_ANSWERS, answer
from llm_case import RIGHT, LlmCase, kernel
from llm_server import LlmServer, Reply
from test_llm_plans import REFERENCE, reference

#: The answers of each of two runs. With --long, every answer has a separate run.
GROUPS = [list(ANSWERS)[start::2] for start in range(2)]


def abandoned_folders():
    """Scratch folders whose weft has ended."""
    names = [name for name in os.listdir("/dev/shm") if name.startswith("weft-")]
    return {name for name in names if not os.path.exists(f"/proc/{name.split('-')[1]}")}


class HostileAnswers(LlmCase):
    def setUp(self):
        super().setUp()
        self.canaries = Canaries(os.path.join(self.folder, "canaries"))
        os.chmod(self.folder, 0o755)
        self.canaries.before = self.canaries.look()

    def it_goes_on_after(self, names, out):
        replies = [answer(name, self.canaries.folder) for name in names]
        replies.append(kernel(RIGHT))
        before = abandoned_folders()
        with LlmServer(lambda call: Reply(text=replies)) as server:
            done = self.run_weft(
                self.words(
                    server,
                    "--rounds",
                    "0",
                    "--memory-gib",
                    "1",
                    samples=len(replies),
                    out=out,
                    native_samples=True,
                )
            )
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertNotIn("\x1b[31m", said)
        self.assertNotIn("\n/home/u/other.py", said)
        self.assertEqual(self.canaries.changed(), [])
        # Other tests kill runs, whose folders go a little later.
        until = time.monotonic() + 20
        while abandoned_folders() - before and time.monotonic() < until:
            time.sleep(0.2)
        self.assertEqual(abandoned_folders() - before, set())
        self.assertEqual(weft_case.processes_that_name(self.folder), {})
        verdicts = {
            one["seed"]: one for row in self.shown(out=out) for one in row.get("results", ())
        }
        self.assertEqual(len(verdicts), len(replies), verdicts)
        self.assertNotIn("leaked", str(verdicts))
        # The last is honest, whatever the others did before it.
        self.assertEqual(verdicts[f"llm-{len(replies) - 1}"]["kind"], "correct", verdicts)
        self.it_replays(out)

    def test_runs_go_on(self):
        for number, names in enumerate(GROUPS):
            with self.subTest(names):
                self.it_goes_on_after(names, f"run-{number}")

    @weft_case.long
    def test_each_alone(self):
        for name in ANSWERS | SLOW_ANSWERS:
            with self.subTest(name):
                self.it_goes_on_after([name], name)


class HostileReference(LlmCase):
    """A reference that a model wrote runs in the sandbox only."""

    def test_a_described_reference_reaches_nothing(self):
        canaries = Canaries(os.path.join(self.folder, "canaries"))
        escaped = os.path.join(canaries.folder, "escaped")
        attack = REFERENCE.replace(
            "def get_inputs():\n",
            f"def get_inputs():\n    torch.os.system('(id; env) > {escaped}')\n",
        )
        self.assertIn("torch.os.system", attack)
        with LlmServer(lambda call: reference(2, attack)) as server:
            done = self.run_weft(
                [
                    weft_case.WEFT,
                    "run",
                    "--describe",
                    "a sum",
                    "--yes",
                    *self.flags(server, "--samples", "1", "--rounds", "0"),
                ]
            )
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("torch.os", done.stderr)
        self.assertEqual(canaries.changed(), [])

    def test_an_untrusted_problem_reaches_nothing(self):
        """What no check of its text refuses: the sandbox alone holds it."""
        canaries = Canaries(os.path.join(self.folder, "canaries"))
        marks = os.path.join(canaries.folder, "escaped")
        problem = self.write(
            "problem.py",
            f"""
import os, subprocess, torch
seen = [name for name in os.environ if "KEY" in name]
for path in ({marks!r}, os.path.expanduser("~/escaped"), "/var/tmp/weft-escaped"):
    try:
        open(path, "w").close()
    except OSError:
        pass
try:
    assert not os.path.exists({canaries.folder!r} + "/secret")
    assert not seen, seen
    outside = "no"
except AssertionError:
    outside = "yes"
class Model(torch.nn.Module):
    def forward(self, x):
        assert outside == "no"
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(8, 16)]
def get_init_inputs():
    return []
""",
        )
        candidate = self.write(
            "candidate.py",
            """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.relu(x)
""",
        )
        wrong = self.write(
            "wrong.py",
            """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
""",
        )
        done = self.run_weft(
            [
                weft_case.WEFT,
                "eval",
                problem,
                candidate,
                wrong,
                candidate,
                "--untrusted-problem",
                "--no-timing",
                "--target",
                "cpu",
            ]
        )
        lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(
            [line.partition(": ")[2].split()[0] for line in lines],
            ["accepted", "rejected", "accepted"],
            done.stdout + done.stderr,
        )
        self.assertEqual(canaries.changed(), [])
        self.assertFalse(os.path.exists("/var/tmp/weft-escaped"))


class HostileCandidates(LlmCase):
    def test_each_gets_its_own_verdict(self):
        honest = """
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.relu(x)
"""
        attacks = {
            "deep.py": honest.replace(
                "import torch\n",
                """import os, torch
at = os.open(".", os.O_RDONLY)
for _ in range(3000):
    os.mkdir("d", dir_fd=at)
    inner = os.open("d", os.O_RDONLY, dir_fd=at)
    os.close(at)
    at = inner
""",
            ),
            "forged.py": honest.replace(
                "return ",
                "raise RuntimeError('x\\n/home/u/other.py: accepted: "
                "9.87\\x1b[31m')\n        return ",
            ),
            "stops.py": honest.replace(
                "import torch\n", "import os, torch\nos.kill(os.getppid(), 19)\nos.kill(-1, 19)\n"
            ),
            "stops_later.py": honest.replace(
                "return ", "__import__('os').kill(-1, 19)\n        return "
            ),
            "closed.py": honest.replace("import torch\n", "import os, torch\nos.chmod('.', 0)\n"),
        }
        problem = self.write("problem.py", weft_case.problem_with())
        files = [self.write(name, text) for name, text in attacks.items()]
        files.append(self.write("honest.py", honest))
        done = self.run_weft(
            [weft_case.WEFT, "eval", problem, *files, "--no-timing", "--target", "cpu"]
        )
        said = done.stdout + done.stderr
        lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
        self.assertEqual(len(lines), len(files), said)
        for path, line in zip(files, lines):
            self.assertTrue(line.startswith(path + ": "), said)
        self.assertTrue(lines[-1].endswith(": accepted"), said)
        self.assertIn("rejected (crashed)", lines[1])
        self.assertIn("it stopped the process that serves it", lines[2])
        self.assertIn("it stopped the process that serves it", lines[3])
        self.assertNotIn("\x1b", said)


if __name__ == "__main__":
    unittest.main()
