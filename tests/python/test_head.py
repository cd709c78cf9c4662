"""`weft head`: a program's kernels are searched on other machines, as real processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import nodes_case
import weft_case
from nodes_case import NodesCase, free_port
from weft_case import WEFT, environment, processes_that_name

from weft.backend.options import Options
from weft.backend.searches import head_messages, head_search
from weft.backend.searches.head_link import Link
from weft.backend.searches.head_messages import Malformed, Request
from weft.bench.fleet import TimingClass
from weft.head import service

#: A program whose own `weft run` fails: what it gets is the head's.
PROGRAM = """
import sys, torch, weft
from torch import nn
from weft.backend.searches import head_search
head_search.SILENCE_S = 4

class Chain(nn.Module):
    def forward(self, x):
        y = torch.tanh(x * FACTOR).abs().sqrt() * 2 - torch.sigmoid(x)
        return (y.relu() + x).clamp(-1, 1) * y.exp()

net, x = Chain(), torch.randn(1536, 256)
with torch.no_grad():
    how = {"wait": True, "budget_s": BUDGET, "variants": 1, "seeds": "compiler"}
    compiled = torch.compile(net, backend="weft", options=how)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), net(x))
print(weft.explain())
"""
NO_RUNS = """#!/bin/sh
for word; do [ "$word" = run ] && exit 9; done
exec {} "$@"
"""


def request(problem="return torch.relu(x)", **changes):
    options = dict(fallback="eager", seeds=("compiler",), variants=1, any_size="")
    return Request(weft_case.problem_with(problem), **{**options, "times_module": True, **changes})


def ask(one, **changes):
    message = {"ask": one.digest(), "classes": ["c"], "budget_s": 60, **one.message()}
    return json.dumps({**message, **changes})


class Messages(unittest.TestCase):
    def test_a_request_is_read_as_it_was_written(self):
        one = request(any_size="0:0,1:2", seeds=("library", "inductor"))
        self.assertEqual(head_messages.read_ask(ask(one)).request, one)

    def test_malformed_requests_are_refused(self):
        one = request()
        options = one.message()["options"]
        huge = request("#" * (head_messages.PROBLEM_BYTES_MAX + 1))
        for text, why in (
            ("[" * 100_000, "no JSON"),
            ("[]", "no JSON object"),
            ("{}", "ask is no text"),
            (ask(one, ask="../../x"), "no digest"),
            (ask(one, ask="0" * 64), "not the request's"),
            (ask(one, classes="c"), "classes"),
            (ask(one, budget_s=True), "budget_s"),
            (ask(one, budget_s=float("nan")), "budget_s"),
            (ask(one, problem=7), "problem is no text"),
            (ask(huge), "problem is longer"),
            (ask(one, options=None), "no options"),
            (ask(one, options={**options, "seeds": ["--out"]}), "an option is unknown"),
            (ask(one, options={**options, "seeds": [["llm"]]}), "seeds is no text"),
            (ask(one, options={**options, "variants": 1e9}), "variants"),
            (ask(one, options={**options, "any_size": "--out"}), "any_size"),
        ):
            with self.subTest(why=why), self.assertRaisesRegex(Malformed, why):
                head_messages.read_ask(text)

    def test_malformed_answers_are_refused(self):
        def answer(**changes):
            return json.dumps({"digest": "", "state": "done", "code": 0, **changes})

        head_messages.read_answer(answer(files={"model_new.py": "", f"build/{'0' * 32}.json": ""}))
        with mock.patch.object(head_messages, "FILES_BYTES_MAX", 100):
            with self.assertRaisesRegex(Malformed, "its files have"):
                head_messages.read_answer(answer(files={"model_new.py": "x" * 101}))
        for text, why in (
            (answer(state="ready"), "state is unknown"),
            (answer(code="0"), "code is no number"),
            (answer(files=[]), "files is no table"),
            (answer(files={"../model_new.py": ""}), "a file has a name"),
            (answer(files={"build/../../x.json": ""}), "a file has a name"),
            (answer(files={"about.json": ""}), "a file has a name"),
            (answer(files={"model_new.py": 1}), "a file is no text"),
        ):
            with self.subTest(why=why), self.assertRaisesRegex(Malformed, why):
                head_messages.read_answer(text)


class Answers(unittest.TestCase):
    """The head's answers, without processes."""

    def setUp(self):
        self.fleet = mock.Mock(timing_class=TimingClass("c", "cpu", ""), judges=1, nodes=[])
        case = weft_case.WeftCase()
        case.setUp()
        self.addCleanup(case.doCleanups)
        patch = mock.patch.dict(os.environ, WEFT_CACHE_DIR=case.path("head"))
        patch.start()
        self.addCleanup(patch.stop)
        settings = service.Settings(
            "weft", "", "", "", "", "", "", 15, "cpu", case.path("head"), 0, 2, 100, True
        )
        self.service = service.Service(settings, mock.Mock(), self.fleet)

    def answer(self, text, user="u", now=1000.0):
        return self.service.answer(text, user, now)

    def test_equal_graphs_of_two_users_are_one_search(self):
        one = request()
        bare = json.dumps({"ask": one.digest(), "classes": ["c"], "budget_s": 60})
        self.assertEqual(self.answer(bare)["state"], "send")
        self.assertEqual(self.answer(ask(one))["state"], "waits")
        self.assertEqual(self.answer(bare, "v")["state"], "waits")
        self.assertEqual(len(self.service._jobs), 1)

    def test_a_user_has_a_quota(self):
        for number in range(3):
            told = self.answer(ask(request(f"return x * {number}")))
        self.assertEqual(told["state"], "refused")
        self.assertIn("2 searches of this key", told["why"])
        self.assertEqual(self.answer(ask(request("return x")), "v")["state"], "waits")

    def test_other_classes_language_models_and_malformed_messages_are_refused(self):
        for text, why in (
            (ask(request(), classes=["d"]), "it searches for c, and this machine is d"),
            (ask(request(seeds=("llm",))), "no language models"),
            ("{", "no JSON"),
        ):
            told = self.answer(text)
            self.assertEqual(told["state"], "refused")
            self.assertIn(why, told["why"])
        self.assertIn("weft_head_malformed_total 1", self.service.metrics())

    def test_a_search_that_nobody_waits_for_is_dropped(self):
        self.fleet.judges = 0
        self.answer(ask(request()), now=time.monotonic() - service.ASKED_S - 1)
        self.service._begin_some()
        self.assertEqual(self.service._jobs, {})

    def searched(self, code, why, one):
        """The service's work on a search whose run ended so."""
        self.service.answer(ask(one), "u", time.monotonic())
        (job,) = self.service._jobs.values()
        job.folder, job.lock = service.locked_folders.make(self.service._runs, "run-")
        job.child = mock.Mock(ending=lambda: (code, why))
        run = os.path.join(job.folder, "run")
        os.makedirs(os.path.join(run, "composed"))
        os.makedirs(os.path.join(run, "build"))
        result = {"summary": why, "why_no_kernel": "", "subgraphs": []}
        for path, text in (
            ("run/result.json", json.dumps(result)),
            ("run/composed/model_new.py", ""),
            ("problem.py", one.problem),
        ):
            with open(os.path.join(job.folder, path), "w", encoding="utf-8") as file:
                file.write(text)
        self.service._end(job, code)
        return self.service.answer(ask(one), "v", time.monotonic())

    def test_a_result_is_of_one_class(self):
        one = request()
        self.assertEqual(self.searched(0, "done", one)["state"], "done")
        self.fleet.timing_class = None
        self.assertEqual(self.answer(ask(one))["state"], "waits")
        self.service._jobs.clear()
        self.fleet.timing_class = TimingClass("d", "cpu", "")
        self.assertEqual(self.answer(ask(one, classes=["d"]))["state"], "waits")

    def test_a_run_that_failed_is_made_again(self):
        one = request()
        told = self.searched(1, "the module came to something else", one)
        self.assertEqual((told["code"], told["files"]), (1, {}))
        self.service._failures.clear()  # after FAILED_S
        self.assertEqual(self.answer(ask(one))["state"], "waits")
        self.service._jobs.clear()
        two = request("return x * 2")
        self.assertTrue(self.searched(1, "budget_s was over", two)["files"])

    def test_a_full_disk_ends_one_search(self):
        self.answer(ask(request()), now=time.monotonic())
        full = mock.Mock(side_effect=OSError("no space left"))
        with mock.patch.object(service.locked_folders, "make", full):
            self.service._begin_some()
        told = self.answer(ask(request()), now=time.monotonic())
        self.assertEqual(told["state"], "done")
        self.assertIn("no space left", told["told"])

    def test_results_that_are_none_are_refused(self):
        good = {"summary": "", "why_no_kernel": "", "subgraphs": [{"id": "a"}]}
        bad = (
            {"summary": 5},
            {"subgraphs": [{"id": "a", "reason": None}]},
            {"subgraphs": [{"id": "a", "timing": []}, 7]},
            {"subgraphs": [{"id": "a", "timing": {"candidate": {"median_us": "x"}}}]},
            {"timing": {"over_compile": {"ratio": "1"}}},
        )
        for changes in ({}, *bad):
            files = {"result.json": json.dumps({**good, **changes})}
            answer = head_messages.Answer("", "done", files=files)
            with self.subTest(changes=changes):
                if not changes:
                    head_search._check_result(answer, "h")
                    continue
                with self.assertRaisesRegex(head_search.Failed, "a result that is not one"):
                    head_search._check_result(answer, "h")

    def test_users_and_nodes_need_their_own_keys(self):
        settings = {**vars(self.service._settings), "user_keys": "/k", "node_keys": "/k/."}
        with mock.patch.object(service, "_fail", lambda code, why: (code, why)):
            code, why = service.main(json.dumps(settings))
        self.assertEqual(code, 2)
        self.assertIn("are one folder", why)

    def test_options_of_a_head(self):
        for options in ({"head": "host:1"}, {"head": 7}, {"keys": 7}):
            with self.assertRaises(ValueError):
                Options(**options)


class Links(unittest.TestCase):
    """A process that is talked to by lines."""

    def link(self, text):
        link = Link([sys.executable, "-c", text])
        self.addCleanup(link.close)
        return link

    def test_lines_come_whole_and_a_look_has_a_limit(self):
        link = self.link(
            "import json\nfor n in (9 << 20, 9 << 20, 3): print(json.dumps({'t': 'x' * n}))\n"
            "import sys; sys.stdout.flush(); sys.stdin.read()"
        )
        found, begin, most = [], time.monotonic(), 0
        while len(found) < 3 and time.monotonic() < begin + 60:
            new = link.lines(1.0)
            most = max(most, sum(len(one["t"]) for one in new))
            found += [len(one["t"]) for one in new]
        self.assertEqual(found, [9 << 20, 9 << 20, 3])
        self.assertLessEqual(most, 18 << 20)

    def test_a_large_line_arrives(self):
        link = self.link("import sys; print(len(sys.stdin.readline()), flush=True)")
        link.say({"text": "x" * (3 << 20)})
        found = []
        while not found and link.exit_code() is None:
            found = link.lines(1.0)
        self.assertEqual(found or link.lines(0.1), [(3 << 20) + len('{"text": ""}') + 1])

    def test_a_child_process_closes_its_pipes_while_a_line_is_written(self):
        link = self.link("import time; time.sleep(60)")
        writer = threading.Thread(target=link.say, args=({"text": "x" * (1 << 20)},), daemon=True)
        writer.start()
        time.sleep(0.2)  # the pipe is full
        child = os.fork()
        if not child:
            os._exit(0 if link._stdin.closed and link._stdout.closed else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        link._process.kill()
        writer.join(10)


class HeadRuns(NodesCase):
    def setUp(self):
        super().setUp()
        self.users = f"tcp://127.0.0.1:{free_port()}"
        no_runs = self.write("no-runs", NO_RUNS.format(WEFT))
        os.chmod(no_runs, 0o755)
        self.no_runs = no_runs

    def service(self, *words):
        process = self.start(
            "head",
            "head",
            "--listen",
            self.users,
            "--nodes",
            self.endpoint,
            "--folder",
            self.path("head"),
            *words,
        )
        self.wait_for(lambda: process.poll() is not None or self.has_said("head", "for nodes"))
        return process

    def program(self, name, factor=2, budget_s=300, head=None):
        """A user's program, begun."""
        text = PROGRAM.replace("FACTOR", str(factor)).replace("BUDGET", str(budget_s))
        path = self.write(name + ".py", text)
        with open(self.path(name + ".txt"), "w", encoding="utf-8") as output:
            process = subprocess.Popen(
                [sys.executable, "-B", path],
                stdout=output,
                stderr=output,
                env=environment(
                    WEFT_BIN=self.no_runs,
                    WEFT_HEAD=head or self.users,
                    WEFT_CACHE_DIR=self.path(name),
                    WEFT_LOG="info",
                ),
            )
        self.processes.append(process)
        return process

    def asked(self, one, **changes):
        """(code, words) of a request in this process; Failed."""
        how = {"keys": "", "limit_s": nodes_case.WAIT, **changes}
        with mock.patch.dict(os.environ, environment(WEFT_BIN=WEFT)):
            with mock.patch.object(head_search, "SILENCE_S", how.pop("silence_s", 10)):
                return head_search.search(
                    one, self.users, how["keys"], "cpu", 60, how["limit_s"], None, self.path("got")
                )

    def assert_answers(self):
        """The head still does."""
        with self.assertRaisesRegex(head_search.Failed, "no language models"):
            self.asked(request(seeds=("llm",)))

    def test_programs_get_kernels_that_a_head_has_searched(self):
        head = self.service()
        self.node("n1")
        self.assert_ends_well(self.program("first"))
        self.assertRegex(self.text("first"), "generated kernel|PyTorch")
        self.assertTrue(self.has_said("head", "ended with exit code 0"), self.output())
        self.assertNotIn("code 9", self.text("first"))
        # Another user's equal graph is no second search, whatever the file is called.
        self.assert_ends_well(self.program("second"))
        self.assertEqual(self.text("head").count(" begins, for at most"), 1, self.output())
        # The head dies during a search: one sentence, and PyTorch computes.
        waiting = self.program("third", factor=3)
        self.wait_for(lambda: self.text("head").count(" begins, for at most") == 2)
        head.send_signal(signal.SIGKILL)
        begin = time.monotonic()
        self.assert_ends_well(waiting)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertRegex(self.text("third"), f"no answer from the head {self.users} for 4 s: see")
        self.kill_all()
        self.wait_for(lambda: not processes_that_name(self.folder))

    def text(self, name):
        with open(self.path(name + ".txt"), encoding="utf-8") as file:
            return file.read()

    def test_a_wrong_address_is_one_sentence(self):
        self.assert_ends_well(self.program("alone", head=f"tcp://127.0.0.1:{free_port()}"))
        self.assertRegex(self.text("alone"), "no answer from the head tcp://.* for 4 s: see")

    def test_oversized_and_malformed_messages_harm_nobody(self):
        self.service()
        link = Link([WEFT, "head-link", "--connect", self.users], environment())
        self.addCleanup(link.close)
        self.wait_for(lambda: any("classes" in line for line in link.lines(0.1)))
        # The connection is cut by the first one; what is sent before the next is lost.
        link.say({"text": "x" * (9 << 20)})

        def is_refused():
            for text in ("{", "[" * 100_000, "\0"):
                link.say({"text": text})
            return any("refused" in line.get("text", "") for line in link.lines(0.5))

        self.wait_for(is_refused)
        self.assert_answers()

    def test_a_key_that_is_not_allowed_gets_no_answer(self):
        for folder in ("users", "strangers"):
            self.assertEqual(self.weft("keygen", self.path(folder)).returncode, 0)
        self.service("--keys", self.path("users"))
        mixed = self.path("strangers")
        with open(self.path("users/head.key"), encoding="ascii") as file:
            self.write("strangers/head.key", file.read())
        head_search._silent.clear()
        with self.assertRaisesRegex(head_search.Failed, "that it allows your key"):
            self.asked(request(), keys=mixed, silence_s=3)
        self.assertTrue(self.has_said("head", "key is not allowed"), self.output())
        with self.assertRaisesRegex(head_search.Failed, "gave no answer . s ago"):
            self.asked(request(), keys=self.path("users"))
        head_search._silent.clear()
        with self.assertRaisesRegex(head_search.Failed, "no language models"):
            self.asked(request(seeds=("llm",)), keys=self.path("users"))

    def test_a_head_in_the_open_needs_keys(self):
        words = ("--nodes", self.endpoint, "--listen", "tcp://0.0.0.0:0")
        done = self.weft("head", *words)
        self.assertEqual(done.returncode, 2)
        self.assertIn("weft keygen", done.stderr)


if __name__ == "__main__":
    unittest.main()
