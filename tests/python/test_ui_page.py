"""weft ui in a real browser: the list of runs, the scrubber over a journal, and
the report's page while a run goes on."""

import json
import signal
import subprocess
import unittest

from browser import Browser, chromium
from weft_case import WEFT, WeftCase, environment, events_of, problem_with

SHORT = (
    "--variants",
    "1",
    "--no-compile-baseline",
    "--timing-ms",
    "20",
    "--final-timing-ms",
    "20",
    "--fast-sync",
)


@unittest.skipUnless(chromium(), "no chromium here: apt-get install chromium")
class UiPageTest(WeftCase):
    def setUp(self):
        super().setUp()
        self.browser = self.enterContext(Browser(reaches="127.0.0.1"))

    def serve(self, place):
        """The address of a `weft ui` that asks for a token; its page's cookie is
        taken."""
        process = subprocess.Popen(
            [WEFT, "ui", place, "--listen", "127.0.0.1:0", "--token", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.addCleanup(process.communicate, timeout=60)
        self.addCleanup(process.send_signal, signal.SIGINT)
        address = json.loads(process.stdout.readline())["address"]
        self.browser.open(address)
        return address.split("?")[0]

    def text(self, name):
        return self.browser.run(f"document.getElementById({name!r}).textContent")

    def begins(self, name, words):
        self.browser.wait(f"document.getElementById({name!r}).textContent.startsWith({words!r})")

    def link(self, words):
        self.browser.wait("document.querySelector('#runs a')")
        return self.browser.run(
            "[...document.querySelectorAll('#runs a')]"
            f".find((a) => a.textContent === {words!r}).href"
        )

    def test_the_scrubber_goes_to_any_event_and_shows_states(self):
        run = self.path("run")
        done = self.weft("simulate", "--random-seeds", "27", "--out", run)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = events_of(run)
        self.serve(run)
        self.browser.open(self.link("events") + "#at=60&role=broker")
        self.begins("event", "60 ")
        self.browser.wait("document.getElementById('state').textContent")
        broker = json.loads(self.text("state"))
        rows = self.browser.run(
            "[document.querySelectorAll('#leases tr').length, "
            "document.querySelectorAll('#queues tr').length]"
        )
        self.assertEqual(rows, [len(broker["leases"]), len(broker["queues"])])
        self.browser.run(
            "(() => { const at = document.getElementById('at'); at.value = 100;"
            "at.dispatchEvent(new Event('input')); })()"
        )
        self.begins("event", "100 ")
        self.browser.run("document.getElementById('next').click()")
        self.begins("event", "101 ")
        self.assertEqual(self.browser.run("location.hash"), "#at=101&role=broker")
        self.assertEqual(json.loads(self.text("body")), events[100]["body"])
        self.browser.run("document.querySelector('#causes button').click()")
        self.begins("event", f"{events[100]['cause']} ")
        self.browser.size(390, 800, mobile=True)
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.assertEqual(self.browser.console, [])

    def test_a_run_s_page_goes_on_with_the_run(self):
        problem = self.write("problem.py", problem_with())
        with subprocess.Popen(
            [WEFT, "run", problem, "--out", self.path("runs/one"), *SHORT],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=environment(),
        ) as process:
            self.addCleanup(process.kill)
            while not self.weft("show", self.path("runs/one")).returncode == 0:
                self.assertIsNone(process.poll())
            self.serve(self.path("runs"))
            self.browser.open(self.link("problem.py"))
            word = "document.querySelector('#overview .word').textContent"
            self.browser.wait("document.querySelector('#overview .word')")
            first = self.browser.run(word)
            # Nothing is loaded again: the page asks for what is new.
            self.browser.run("window.kept = true")
            self.browser.wait(f"!['Running', ''].includes({word})")
            self.assertEqual(process.wait(timeout=300) in (0, 1), True)
        self.assertEqual(first, "Running")
        self.assertTrue(self.browser.run("window.kept"))
        self.assertIn(self.browser.run(word), ("Verified", "Not verified"))
        self.assertEqual(self.browser.console, [])


if __name__ == "__main__":
    unittest.main()
