"""`weft run --untrusted-problem`: a malicious problem file reaches nothing outside its
sandbox, and the run ends with its kernels' verdicts."""

import http.server
import json
import os
import threading
import unittest

import weft_case
from canaries import Canaries
from weft_case import QUICK, WeftCase

#: Runs where the file is loaded: in the capture, the oracle and candidates' processes.
ATTACK = """
import os, socket, subprocess, urllib.request
FOUND = []
def try_it(what, action):
    try:
        action()
    except Exception:
        return
    FOUND.append(what)
def must_be_absent(text):
    if text is None:
        raise KeyError
def write(path):
    with open(path, "w") as file:
        file.write("escaped")
def remove(path):
    os.remove(path)
try_it("key", lambda: must_be_absent(os.environ.get("OPENAI_API_KEY")))
try_it("other", lambda: must_be_absent(os.environ.get("WEFT_TEST_OWN")))
try_it("home", lambda: open(HOME + "/secret").read())
try_it("home listed", lambda: os.listdir(HOME))
try_it("home written", lambda: write(HOME + "/escaped"))
try_it("tmp written", lambda: write(MARK))
try_it("beside", lambda: write(os.path.join(HOME, "..", "beside")))
try_it("removed", lambda: remove(HOME + "/secret"))
try_it("network", lambda: urllib.request.urlopen(URL, timeout=2).read())
try_it("socket", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
try_it("shell", lambda: subprocess.run(
    ["sh", "-c", "echo x > " + HOME + "/shell && cat " + HOME + "/secret"], check=True))
try_it("parent's environment", lambda: must_be_absent(
    b"OPENAI_API_KEY" in open("/proc/%d/environ" % os.getppid(), "rb").read() or None))
"""


class Told(http.server.BaseHTTPRequestHandler):
    """Records each request."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


class UntrustedProblem(WeftCase):
    def setUp(self) -> None:
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.home = self.path("home")
        self.canaries = Canaries(self.home)
        os.chmod(self.home, 0o755)
        self.canaries.before = self.canaries.look()
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Told)
        Told.asked.clear()
        thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        thread.start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def problem(self, answer="assert not FOUND, FOUND\n        return torch.relu(x) * 2") -> str:
        port = self.server.server_address[1]
        head = (
            f"HOME, MARK, PORT = {self.home!r}, '/var/tmp/weft-escaped', {port}\n"
            f"URL = 'http://127.0.0.1:{port}/hello'\n" + ATTACK
        )
        return self.write("problem.py", weft_case.problem_with(forward=answer, head=head))

    def run_here(self, *words, **variables):
        return self.weft(
            *words,
            HOME=self.home,
            XDG_CACHE_HOME=None,
            OPENAI_API_KEY="sk-canary",
            WEFT_TEST_OWN="own",
            **variables,
        )

    def check_canaries(self) -> None:
        # weft's own cache lies in the home folder, outside of every sandbox.
        changed = [
            path for path in self.canaries.changed() if ".cache" not in path and path != self.home
        ]
        self.assertEqual(changed, [])
        self.assertFalse(os.path.exists("/var/tmp/weft-escaped"))
        self.assertFalse(os.path.exists(self.path("beside")))
        self.assertEqual(Told.asked, [])

    def test_a_run_reaches_nothing_and_ends_with_verdicts(self) -> None:
        run = self.path("run")
        done = self.run_here(
            "run",
            self.problem(),
            "--untrusted-problem",
            "--out",
            run,
            "--seeds",
            "compiler",
            *QUICK,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check_canaries()
        with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
            self.assertTrue(json.load(file)["verdict"]["correct"])
        # The journal records it, so a resumed or replayed run is restricted, too.
        [start] = [
            event["body"] for event in weft_case.events_of(run) if event["type"] == "RunStart"
        ]
        self.assertTrue(start["untrusted_problem"])
        again = self.run_here("replay", run, "--check")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_what_the_test_looks_for_is_reached_without_the_flag(self) -> None:
        """Else the test above would prove nothing."""
        problem = self.problem("return torch.relu(x) * 2")
        self.run_here("run", problem, "--out", self.path("run"), "--seeds", "compiler", *QUICK)
        self.assertNotEqual(Told.asked, [])
        self.assertIn(os.path.join(self.home, "escaped"), self.canaries.changed())
        os.remove("/var/tmp/weft-escaped")

    def test_without_a_sandbox_it_is_refused(self) -> None:
        problem = self.problem()
        for words in (["run", problem, "--out", self.path("run")], ["eval", problem, problem]):
            done = self.run_here(*words, "--untrusted-problem", "--sandbox", "none")
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("needs the sandbox", done.stderr)
        done = self.run_here("run", "--describe", "a sum", "--yes", "--sandbox", "none")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertFalse(os.path.exists(self.path("run")))
        self.check_canaries()

    def test_help_tutorial_and_security_page_say_who_is_trusted(self) -> None:
        told = {"help": self.run_here("run", "--help").stdout}
        for page in ("docs/tutorials/first-kernel.md", "docs/explanation/security.md"):
            with open(os.path.join(weft_case.ROOT, page), encoding="utf-8") as file:
                told[page] = file.read()
        for place, text in told.items():
            self.assertIn("with your rights", " ".join(text.split()), place)
            self.assertIn("--untrusted-problem", text, place)

    def test_a_driver_that_loads_the_problem_is_refused(self) -> None:
        done = self.run_here(
            "run", self.problem(), "--untrusted-problem", "--train", "--out", self.path("run")
        )
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("--train", done.stderr)
        self.check_canaries()

    def test_a_bench_passes_it_on(self) -> None:
        folder = os.path.dirname(self.problem())
        os.makedirs(self.path("problems"))
        os.rename(os.path.join(folder, "problem.py"), self.path("problems/problem.py"))
        done = self.run_here(
            "bench",
            self.path("problems"),
            "--untrusted-problem",
            "--out",
            self.path("bench"),
            "--seeds",
            "compiler",
            "--variants",
            "1",
            "--no-compile-baseline",
            "--timing-ms",
            "50",
            "--final-timing-ms",
            "100",
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.check_canaries()


if __name__ == "__main__":
    unittest.main()
