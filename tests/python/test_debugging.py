"""A run is looked into, forked, compared and shown in a browser's terms: one
small real run for all of it."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
import unittest

try:
    from prometheus_client import parser as prometheus
except ImportError:  # tools/test installs it
    prometheus = None

from weft_case import WEFT, WeftCase, environment, events_of, problem_with

SHORT = (
    "--variants",
    "2",
    "--no-compile-baseline",
    "--timing-ms",
    "30",
    "--final-timing-ms",
    "30",
    "--fast-sync",
)
#: A name that would be markup if anything made it so.
HOSTILE = "<img src=x onerror=alert(1)>"


def setUpModule():
    """One run for all tests: none changes it."""
    place = tempfile.mkdtemp(prefix="weft-debugging-")
    unittest.addModuleCleanup(shutil.rmtree, place, ignore_errors=True)
    problem = in_a_checkout(os.path.join(place, "checkout"), "problem.py", problem_with())
    RunCase.run_folder = os.path.join(place, "run")
    done = subprocess.run(
        [WEFT, "run", problem, "--out", RunCase.run_folder, *SHORT],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=300,
        check=False,
    )
    # Whether it is faster than eager is not asked here.
    if done.returncode not in (0, 1):
        raise AssertionError(done.stdout + done.stderr)
    RunCase.events = events_of(RunCase.run_folder)


def in_a_checkout(folder, name, text):
    """The path of a file that is committed there, under the MIT licence."""

    def git(*words):
        subprocess.run(
            ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.example", *words],
            check=True,
            capture_output=True,
        )

    os.makedirs(os.path.join(folder, "kernels"))
    path = os.path.join(folder, "kernels", name)
    for file, content in (("LICENSE", "MIT License\n\nCopyright (c) A\n"), (path, text)):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as to:
            to.write(content)
    git("init", "-q")
    git("remote", "add", "origin", "https://me:secret@host.example/some/body.git")
    git("add", ".")
    git("commit", "-q", "-m", "All")
    return path


class RunCase(WeftCase):
    run_folder = ""
    events = []

    def seq_of(self, kind, **fields):
        """The first event of that type whose envelope has these fields."""
        for event in self.events:
            if event["type"] == kind and fields.items() <= event.items():
                return event["seq"]
        raise AssertionError(f"no {kind} in the run")


class StepTest(RunCase):
    def step(self, *lines, json_lines=True):
        return subprocess.run(
            [WEFT, "replay", self.run_folder, "--step", *(["--json"] if json_lines else [])],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            env=environment(),
            timeout=120,
            check=False,
        )

    def answers(self, *lines):
        done = self.step(*lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_goes_forward_and_back(self):
        got = self.answers("next", "n 3", "back 2", "to 5", "b")
        self.assertEqual([event["seq"] for event in got], [1, 4, 2, 5, 4])
        self.assertEqual(got[0]["type"], "RunStart")

    def test_stops_at_breaks(self):
        first = self.seq_of("BuildReply")
        got = self.answers("break type BuildReply", "continue", "clear", "c")
        self.assertEqual(got[1]["seq"], first)
        self.assertEqual(got[3]["seq"], self.events[-1]["seq"])
        got = self.answers("break role composer", "c")
        self.assertEqual(got[1]["dst"], "composer")
        worker = next(event["dst"] for event in self.events if event["dst"].startswith("worker/"))
        subgraph = worker.split("/")[1].split(".")[0]
        got = self.answers(f"break subgraph {subgraph}", "c")
        self.assertIn(subgraph, json.dumps(got[1]))

    def test_why_leads_back_to_the_first_event(self):
        last = self.seq_of("RunFinished")
        chain = self.answers(f"to {last}", "why")[1]
        self.assertEqual(chain[0]["seq"], last)
        self.assertEqual(chain[-1]["type"], "RunStart")
        for event, cause in zip(chain, chain[1:]):
            self.assertEqual(event["cause"], cause["seq"])
        said = self.answers("to 1", "said")[1]
        self.assertTrue(all(event["cause"] == 1 for event in said))

    def test_tells_states_and_open_requests(self):
        asked = self.seq_of("BuildRequest")
        got = self.answers(f"to {asked}", "open", "roles", "state broker")
        self.assertIn(asked, [event["seq"] for event in got[1]])
        self.assertIn("broker", got[2])
        self.assertTrue(got[3]["state"]["leases"])

    def test_is_readable_without_json(self):
        done = self.step("n", "print", "help", "quit", "n", json_lines=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("RunStart", done.stdout)
        self.assertIn("problem_name", done.stdout)
        self.assertEqual(done.stdout.count("user → extractor"), 2)

    def test_wrong_lines_are_named_and_leave_it_where_it_is(self):
        last = self.events[-1]["seq"]
        done = self.step(
            "n",
            f"to {last + 1}",
            "jump",
            "state nobody",
            "break type Nonsense",
            "back",
            "to x",
            "n 1 2",
        )
        self.assertEqual(done.returncode, 2)
        for words in (
            f"the journal has 1 to {last}",
            "'jump' is no command",
            "no role is called 'nobody'",
            "no event of the run has the type 'Nonsense'",
            "this is the first event",
            "'x' is no number",
            "it is: next [N]",
        ):
            self.assertIn(words, done.stderr)


class StateTest(RunCase):
    def test_every_role_tells_of_its_state_at_the_end(self):
        last = str(self.events[-1]["seq"])
        done = self.weft("replay", self.run_folder, "--at", last, "--state", "all", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        states = {state["role"]: state["state"] for state in json.loads(done.stdout)}
        self.assertEqual(states["broker"]["leases"], [])
        self.assertTrue(states["composer"]["is_over"])
        agents = [state for role, state in states.items() if role.startswith("agent/")]
        self.assertTrue(agents)
        for agent in agents:
            self.assertTrue(agent["is_over"])
            self.assertTrue(agent["results"])

    def test_a_moment_lists_roles_and_requests(self):
        asked = self.seq_of("CaptureRequest")
        done = self.weft("replay", self.run_folder, "--at", str(asked), "--json")
        moment = json.loads(done.stdout)
        self.assertEqual(moment["event"]["type"], "CaptureRequest")
        self.assertIn("extractor", moment["roles"])
        self.assertEqual(
            [one["seq"] for one in moment["unanswered"] if one["type"] == "CaptureRequest"], [asked]
        )

    def test_wrong_input(self):
        beyond = str(self.events[-1]["seq"] + 1)
        run = self.run_folder
        self.assert_ends(self.weft("replay", run, "--at", beyond), 2, "there is no event " + beyond)
        self.assert_ends(
            self.weft("replay", run, "--at", "1", "--state", "x"),
            2,
            "no role is called 'x'",
            "extractor",
        )
        self.assert_ends(
            self.weft("replay", run, "--at", "1", "--state", "composer"),
            2,
            "composer was given nothing up to event 1",
        )
        self.assert_ends(self.weft("replay", run, "--state", "broker"), 2)
        for number in ("0", "x", "1.5"):
            done = self.weft("replay", run, "--at", number)
            self.assert_ends(done, 2, "--at", number, "range 1 to")


class ForkTest(RunCase):
    def fork(self, *words):
        return self.weft("fork", self.run_folder, *words)

    def test_a_fork_at_each_tenth_event_replays(self):
        last = self.events[-1]["seq"]
        for seq in range(10, last + 1, 10):
            out = self.path(f"fork-{seq}")
            done = self.fork("--at", str(seq), "--out", out, "--only-make")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_replays(out)
            made = events_of(out)
            self.assertEqual(made, self.events[:seq])

    def test_another_answer_leads_elsewhere_and_the_journal_says_so(self):
        seed = next(
            event
            for event in self.events
            if event["type"] == "CheckReply" and event["dst"].startswith("worker/")
        )
        answer = self.write(
            "answer.json",
            json.dumps(
                {"verdict": {"correct": False, "kind": "wrong", "reason": "<b>said so</b>"}}
            ),
        )
        out = self.path("fork")
        done = self.fork("--at", str(seed["seq"]), "--reply", answer, "--out", out)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assert_replays(out)
        made = events_of(out)
        self.assertIn("RunFinished", [event["type"] for event in made])
        wrong = [
            event for event in made if event["type"] == "SeedResult" and event["src"] == seed["dst"]
        ]
        self.assertEqual(wrong[0]["body"]["verdict"]["kind"], "wrong")
        module = os.path.join(out, "composed", "model_new.py")
        self.assertTrue(os.path.exists(module))
        shown = self.weft("show", out, "--json")
        origin = json.loads(shown.stdout.splitlines()[-1])["origin"]
        self.assertEqual(origin["run"], self.run_folder)
        self.assertEqual(origin["seq"], seed["seq"])
        self.assertEqual(origin["reply"]["verdict"]["kind"], "wrong")
        self.assertIn(
            f"forked from {self.run_folder} at event {seed['seq']}", self.weft("show", out).stdout
        )
        self.differs_at(seed, out)

    def differs_at(self, seed, out):
        """weft diff finds the verdict that was put into the run's mouth."""
        found = self.weft("diff", self.run_folder, out, "--json")
        self.assertEqual(found.returncode, 1, found.stderr)
        told = json.loads(found.stdout)
        self.assertEqual(told["first"]["left"]["src"], seed["dst"])
        fields = [field["field"] for one in told["inputs"] for field in one["fields"]]
        self.assertIn("verdict.correct", fields)
        text = self.weft("diff", self.run_folder, out).stdout
        self.assertIn("The first is of " + seed["dst"], text)

    def test_other_settings_stand_in_the_run(self):
        capture = self.seq_of("CaptureReply")
        out = self.path("fork")
        done = self.fork(
            "--at",
            str(capture),
            "--set",
            "variants=1",
            "--set",
            "timing_ms=20",
            "--out",
            out,
            "--only-make",
            "--json",
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["answers_reused"], [])
        start = events_of(out)[0]["body"]
        self.assertEqual(start["options"]["variants_max"], 1)
        self.assertEqual(start["options"]["timing_ms"], 20)
        self.assert_replays(out)
        resumed = self.weft("resume", out)
        self.assertIn(resumed.returncode, (0, 1), resumed.stderr)
        self.assert_replays(out)
        ids = {
            event["body"]["seed"]["id"] for event in events_of(out) if event["type"] == "SeedResult"
        }
        self.assertEqual(len(ids), 1)

    def test_wrong_input(self):
        beyond = str(self.events[-1]["seq"] + 1)
        out = ("--out", self.path("fork"))
        end = self.assert_ends
        end(self.fork("--at", beyond, *out), 2, "there is no event " + beyond)
        end(self.weft("fork", self.path("none"), "--at", "1"), 2, "is no run directory")
        end(
            self.fork("--at", "5", "--set", "colour=red", *out),
            2,
            "there is no setting 'colour'",
            "timing-ms",
        )
        end(self.fork("--at", "5", "--set", "variants=0", *out), 2, "variants")
        end(self.fork("--at", "5", "--set", "variants", *out), 2, "NAME=VALUE")
        end(self.fork("--at", "5", "--set", "target=cuda", *out), 2, "is settled when a run begins")
        late = str(self.seq_of("SubgraphDone"))
        end(
            self.fork("--at", late, "--set", "variants=1", *out),
            2,
            "decides differently before",
            "fork at event",
        )
        end(self.fork("--at", "1", "--reply", self.path("none.json"), *out), 2, "there is no file")
        bad = self.write("bad.json", "{")
        end(self.fork("--at", "1", "--reply", bad, *out), 2, "is no JSON")
        good = self.write("good.json", "{}")
        end(self.fork("--at", "1", "--reply", good, *out), 2, "is no answer of a port")
        end(self.fork("--at", "1", "--out", self.run_folder), 2, "holds a run already")
        # Nothing is left of a fork that was refused.
        self.assertFalse(os.path.exists(self.path("fork")))


class DiffTest(RunCase):
    def test_a_run_decided_as_itself(self):
        done = self.weft("diff", self.run_folder, self.run_folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the roles decided alike", done.stdout)

    def test_no_run_is_named(self):
        self.assert_ends(
            self.weft("diff", self.run_folder, self.path("none")), 2, "is no run directory"
        )


class PairsTest(RunCase):
    def test_pairs_name_the_checkout_that_their_problem_lies_in(self):
        out = self.path("fork")
        last = str(self.events[-1]["seq"])
        self.weft("fork", self.run_folder, "--at", last, "--only-make", "--out", out)
        for run in (self.run_folder, out):
            done = self.weft("export", "pairs", run)
            self.assertEqual(done.returncode, 0, done.stderr)
            pair = json.loads(done.stdout.splitlines()[0])
            self.assertEqual(pair["licenses"], ["MIT"])
            self.assertEqual(pair["licence_from"], "LICENSE of its checkout")
            self.assertEqual(pair["repo_name"], "some/body")
            self.assertEqual(pair["repo_link"], "https://host.example/some/body")
            self.assertRegex(pair["sha"], "^[0-9a-f]{40}$")
            self.assertEqual(pair["provenance"]["problem_path"], "kernels/problem.py")
            self.assertNotIn("secret", done.stdout)


@contextlib.contextmanager
def serving(*words):
    """The address of a `weft ui`, as it says it."""
    with subprocess.Popen(
        [WEFT, "ui", *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            line = process.stdout.readline()
            if not line:
                raise AssertionError(process.stderr.read())
            yield json.loads(line)["address"]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def ask(address, **headers):
    """(status, headers, body) of one request; what refuses is no exception."""
    request = urllib.request.Request(
        address, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers, refused.read().decode()


class UiTest(RunCase):
    def test_lists_runs_and_shows_their_past(self):
        copy = os.path.join(self.folder, HOSTILE)
        shutil.copytree(self.run_folder, copy)
        with serving(self.folder, "--listen", "127.0.0.1:0") as address:
            runs = json.loads(ask(address + "runs.json")[2])["runs"]
            self.assertEqual([run["folder"] for run in runs], [copy])
            self.assertTrue(runs[0]["finished"])
            run = f"{address}run/{runs[0]['id']}/"
            status, headers, page = ask(run + "events")
            self.assertEqual(status, 200)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("alert", page)
            view = json.loads(ask(run + "view.json")[2])
            self.assertTrue(view["finished"])
            status, headers, page = ask(run)
            self.assertEqual(status, 200)
            self.assertIn("'sha256-", headers["Content-Security-Policy"])
            self.follow(run)
            self.refusals(address, run)
            self.metrics(ask(address + "metrics"))

    def follow(self, run):
        """The scrubber's questions."""
        asked = self.seq_of("BuildRequest")
        moment = json.loads(ask(f"{run}moment.json?at={asked}")[2])
        self.assertEqual(moment["event"]["type"], "BuildRequest")
        self.assertTrue(moment["broker"]["leases"])
        self.assertIn(asked, [one["seq"] for one in moment["unanswered"]])
        state = json.loads(ask(f"{run}state.json?role=extractor&at={asked}")[2])
        self.assertEqual(state["state"]["run"]["problem_name"], "problem.py")
        last = json.loads(ask(run + "moment.json")[2])
        self.assertEqual(last["event"]["seq"], self.events[-1]["seq"])
        problem = self.events[0]["body"]["problem"]
        self.assertIn("class Model", ask(f"{run}text/{problem}")[2])

    def refusals(self, address, run):
        for asked, status in (
            (address + "nothing", 404),
            (address + "run/ffffffffffff/moment.json", 404),
            (run + "moment.json?at=999999999", 404),
            (run + "moment.json?at=x", 404),
            (run + "state.json?role=x", 404),
            (run + "text/" + "0" * 64, 500),
        ):
            self.assertEqual(ask(asked)[0], status, asked)
        self.assertEqual(ask(address, Host="evil.example")[0], 421)
        for body, status in ((b"", 405), (b"x", 413)):
            request = urllib.request.Request(address, data=body)
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            refused.exception.close()
            self.assertEqual(refused.exception.code, status)

    def metrics(self, answer):
        """Each line is one of the text format's, each family told once."""
        status, headers, text = answer
        self.assertEqual(status, 200)
        self.assertIn("version=0.0.4", headers["Content-Type"])
        sample = re.compile(r'([a-z_]+)\{([a-z_]+="(?:[^"\\]|\\.)*",?)+\} [-+.e0-9]+')
        families = set()
        for line in text.splitlines():
            if line.startswith("#"):
                kind, name = re.match(r"# (HELP|TYPE) (\S+) ", line).groups()
                self.assertNotIn((kind, name), families)
                families.add((kind, name))
                continue
            name = sample.fullmatch(line)
            self.assertTrue(name, line)
            family = re.sub("_(sum|count)$", "", name.group(1))
            self.assertIn(("TYPE", family), families)
        if prometheus:
            read = {family.name for family in prometheus.text_string_to_metric_families(text)}
            self.assertIn("weft_run_events", read)
        events = re.search(r"weft_run_events\{.*\} (\d+)", text).group(1)
        self.assertEqual(int(events), self.events[-1]["seq"])

    def test_a_run_that_is_begun_anew_in_its_folder_is_the_new_one(self):
        runs, one = self.path("runs"), self.path("runs/one")
        shutil.copytree(self.run_folder, one)
        with serving(runs, "--listen", "127.0.0.1:0") as address:

            def shown():
                [run] = json.loads(ask(address + "runs.json")[2])["runs"]
                about = ask(address + f"run/{run['id']}/about.json")[2]
                self.assertEqual(json.loads(about)["events"], run["events"])
                return run

            old = shown()
            shutil.rmtree(one)
            gone = address + f"run/{old['id']}/about.json"
            self.assertEqual(ask(gone)[0], 404)
            # Of another length, whatever that of the first has come to.
            seed = "4" if old["events"] == 104 else "28"
            done = self.weft("simulate", "--random-seeds", seed, "--out", one)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(shown()["events"], events_of(one)[-1]["seq"])
            self.assertNotEqual(shown()["events"], old["events"])

    def test_a_token_is_asked_for_and_becomes_a_cookie(self):
        with serving(self.run_folder, "--listen", "127.0.0.1:0", "--token") as address:
            plain, token = address.split("?token=")
            self.assertEqual(ask(plain)[0], 401)
            self.assertEqual(ask(plain + "?token=" + "0" * 32)[0], 401)
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address, timeout=60) as reply:
                self.assertEqual(reply.url, plain)
            with opener.open(plain + "runs.json", timeout=60) as reply:
                self.assertEqual(reply.status, 200)
            shown = ask(plain + "metrics", Authorization=f"Bearer {token}")
            self.assertEqual(shown[0], 200)

    def test_wrong_input(self):
        end = self.assert_ends
        end(self.weft("ui", self.path("none")), 2, "there is no ")
        end(self.weft("ui", self.run_folder, "--listen", "here"), 2, "HOST:PORT")
        end(self.weft("ui", self.run_folder, "--listen", "127.0.0.1:x"), 2, "HOST:PORT")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            end(
                self.weft("ui", self.run_folder, "--listen", f"127.0.0.1:{port}"), 3, "it is in use"
            )


if __name__ == "__main__":
    unittest.main()
