"""Kernels that an earlier process found are judged in full once more, in the
background, and are withdrawn if they are not right."""

import fcntl
import os
import subprocess
import sys
import time
import unittest
from unittest import mock

import torch
import weft_case
from backend_case import BUDGET_S, FAKE, WAIT_S, BackendCase, Net

import weft
from weft.backend.implementations import composed_module
from weft.backend.searches import background_verification, module_store
from weft.backend.searches.background_verification import rechecks

#: Another process: takes what is kept, has it judged, and says what it has.
SCRIPT = f"""
import torch, weft, weft.backend
from backend_case import Net
from weft.backend.searches.background_verification import rechecks
torch.manual_seed(1)
net, x = Net(), torch.randn(4, 12)
compiled = torch.compile(net, backend=weft.backend.compile,
                         options={{"wait": True, "budget_s": {BUDGET_S}, "trial_s": 0}})
with torch.no_grad():
    for _ in range(2):
        torch.testing.assert_close(compiled(x), net(x))
rechecks.queue.join()
print(weft.explain())
"""


class RecheckCase(BackendCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(composed_module._revoked.clear)
        self.set_environment(FAKE_WEFT_EVAL="accepted")
        self.net, self.x = Net(), torch.randn(4, 12)

    def evals(self):
        """What the judge was asked, a line each time."""
        try:
            with open(self.runs_file + ".eval", encoding="utf-8") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def begin_process(self):
        """What is played: a process that knows only what the store has."""
        self.judged()
        rechecks._told.clear()
        torch._dynamo.reset()
        self.before = {id(graph) for graph in self.compiled_graphs()} | self.before

    @torch.no_grad()
    def start(self, net=None, x=None, **options):
        """A process that calls until it could have kernels of its own."""
        self.begin_process()
        net, x = net or self.net, self.x if x is None else x
        compiled = self.compiled(net, **options)
        for _ in range(2):
            self.assert_same(compiled(x), net(x))
        return compiled

    def start_twice(self, **options):
        """The first searches, the second takes what it found."""
        self.start(**options)
        compiled = self.start(**options)
        self.judged()
        return compiled

    def claim(self, path):
        """As another process that has the entry judged."""
        file = open(os.path.join(path, "judging"), "a", encoding="utf-8")
        os.chmod(file.name, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def entry(self):
        (path,) = module_store.entries()
        return path


class Verdicts(RecheckCase):
    def test_what_is_right_is_judged_once(self):
        self.start()
        self.judged()
        self.assertEqual(self.evals(), [])  # it was its own search
        self.start()
        self.judged()
        self.assertEqual(len(self.evals()), 1)
        self.assertIn(background_verification.RIGHT, str(weft.explain()))
        self.start()
        self.judged()
        self.assertEqual(len(self.evals()), 1)
        self.assertIn(background_verification.RIGHT_BEFORE, str(weft.explain()))
        self.assertEqual(self.states(), ["ready"], self.reasons())
        self.assertEqual(self.runs(), 1)

    def test_a_verdict_holds_for_what_it_was_made_with(self):
        self.start_twice()
        with open(os.path.join(self.entry(), "model_new.py"), "a", encoding="utf-8") as file:
            file.write("# another module\n")
        for _ in range(2):
            self.start_twice()
            self.assertEqual(len(self.evals()), 2)
        with mock.patch.object(background_verification, "_driver", lambda: "another"):
            self.start_twice()
        self.assertEqual(len(self.evals()), 3)

    def test_what_it_was_made_with(self):
        facts = background_verification.facts_of(None)
        self.assertEqual(facts, background_verification.facts_of(None))
        for patch in (
            mock.patch.object(torch, "__version__", "0"),
            mock.patch.object(weft, "__version__", "0"),
            mock.patch.object(background_verification.search, "processor", str),
            mock.patch.object(background_verification.search, "devices", repr),
            mock.patch.object(background_verification, "_triton_version", lambda: "0"),
            mock.patch.dict(os.environ, CXX="true"),
            mock.patch.dict(os.environ, WEFT_BIN=sys.executable),
        ):
            with patch:
                self.assertNotEqual(facts, background_verification.facts_of(None))

    def test_wrong_kernels_are_withdrawn(self):
        self.set_environment(FAKE_WEFT_EVAL="wrong")
        compiled = self.start_twice()
        self.assertEqual(self.states(), ["pytorch"])
        self.assertEqual(len(self.evals()), 1)
        self.assertIn("withdrawn by a full verdict: wrong: by a third", str(weft.explain()))
        self.assertEqual(module_store.entries(), [])
        with torch.no_grad():
            self.assert_same(compiled(self.x), self.net(self.x))
        self.set_environment(FAKE_WEFT="declines")  # another module
        self.start()
        self.assertEqual(self.runs(), 2)

    def test_numbers_near_their_bound_are_withdrawn_by_a_second_verdict(self):
        self.set_environment(FAKE_WEFT_EVAL="near")
        self.start_twice()
        self.assertEqual(self.states(), ["pytorch"])
        self.assertEqual(len(self.evals()), 2)

    def test_and_stay_where_that_one_says_otherwise(self):
        self.set_environment(FAKE_WEFT_EVAL="near once")
        self.start_twice()
        self.assertEqual(self.states(), ["ready"])
        self.assertEqual(len(self.evals()), 2)
        self.assertIn("by a third; not so a second time", str(weft.explain()))
        self.start()  # another process asks
        self.judged()
        self.assertIn(background_verification.RIGHT, str(weft.explain()))

    @torch.no_grad()
    def test_wrong_kernels_of_an_optimised_module_are_withdrawn(self):
        weft.optimize(self.net, self.x, budget_s=BUDGET_S)
        self.begin_process()
        with self.claim(self.entry()):
            mine, report = weft.optimize(self.net, self.x, budget_s=BUDGET_S)
            self.assertTrue(report.ready and report.from_store, report)
            twin = weft.optimize(self.net, self.x, budget_s=BUDGET_S)[0]
            self.assert_same(mine(self.x), self.net(self.x))
            self.assertEqual(mine.__dict__["_weft"].calls, 1)
            self.assertIn(background_verification.WAITS, str(weft.explain(mine)))
            self.set_environment(FAKE_WEFT_EVAL="wrong")
        self.judged()
        self.assertIn("by a third", str(weft.explain(mine)))
        for one, calls in ((mine, 1), (twin, 0)):
            self.assert_same(one(self.x), self.net(self.x))
            self.assertEqual(one.__dict__["_weft"].calls, calls)
            self.assertIn("by a third", one.__dict__["_weft"].reason)

    def saved(self):
        """The path of an optimised module, whose process is gone."""
        path = os.path.join(self.folder, "module.pt")
        weft.save(weft.optimize(self.net, self.x, budget_s=BUDGET_S)[0], path)
        weft.cache.clear()
        self.begin_process()
        return path

    @torch.no_grad()
    def test_a_loaded_module_is_judged_from_its_first_call_on(self):
        path = self.saved()
        mine = weft.load(path)
        self.judged()
        self.assertEqual(self.evals(), [])  # as long as it is not called
        for _ in range(2):
            self.assert_same(mine(self.x), self.net(self.x))
            self.judged()
        self.assertEqual(len(self.evals()), 1)
        self.assertIn(background_verification.RIGHT, str(weft.explain(mine)))
        self.begin_process()
        mine = weft.load(path)
        self.assert_same(mine(self.x), self.net(self.x))
        self.judged()
        self.assertIn(background_verification.RIGHT_BEFORE, str(weft.explain(mine)))
        self.assertEqual(len(self.evals()), 1)

    @torch.no_grad()
    def test_wrong_kernels_of_a_loaded_module_are_withdrawn(self):
        path = self.saved()
        self.set_environment(FAKE_WEFT_EVAL="wrong")
        mine = weft.load(path)
        for calls in (1, 1):
            self.assert_same(mine(self.x), self.net(self.x))
            self.judged()
            self.assertEqual(mine.__dict__["_weft"].calls, calls)
        self.assertIn("by a third", mine.__dict__["_weft"].reason)
        self.assertEqual(module_store.entries(), [])

    def test_kernels_that_are_loaded_again_stay_withdrawn(self):
        self.set_environment(FAKE_WEFT_EVAL="crashed")
        self.start_twice()
        self.start()  # searches anew, and finds the very same
        self.assertEqual(self.states(), ["pytorch"])
        self.assertIn("crashed: by a third", self.reasons()[0])

    def test_without_a_verdict_kernels_stay_and_another_process_asks(self):
        for how, why in (("fails", "the judge fell over"), ("timed_out", "timed_out: by a third")):
            self.set_environment(FAKE_WEFT_EVAL=how)
            weft.cache.clear()
            asked = len(self.evals())
            self.start()
            for tries in (1, 2, 3, 3):
                self.start()
                self.judged()
                self.assertEqual(len(self.evals()) - asked, tries)
                told = str(weft.explain())
                self.assertIn("there is no full verdict: ", told)
                self.assertIn(why, told)
                self.assertEqual(self.states(), ["ready"])

    def test_it_ends_with_the_budget(self):
        self.set_environment(FAKE_WEFT_EVAL="hangs")
        self.start_twice(budget_s=10)
        self.assertLessEqual(len(self.evals()), 1)
        self.assertIn("its budget_s was 10", str(weft.explain()))
        self.assertEqual(self.states(), ["ready"])

    def test_any_batch_is_judged_at_several(self):
        def rows():
            x = torch.randn(4, 12)
            torch._dynamo.mark_dynamic(x, 0)
            return x

        self.start(x=rows())
        self.start(x=rows())
        self.judged()
        self.assertEqual(
            [line.partition(" ")[2] for line in self.evals()],
            [f"return get_inputs_at({batch})" for batch in ("4", "1", "13", "(4 // 12 + 1) * 24")],
        )


class OtherWeights(unittest.TestCase):
    PROBLEM = (
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = drawn(2.0)\n\n"
        "    def forward(self, x):\n"
        "        return x\n"
    )

    def test_a_module_is_constructed_as_the_problem_s_model_is(self):
        found = (
            self.PROBLEM.replace("Model", "ModelNew")
            .replace("2.0", "1.0,\n            3")
            .replace("return x", "return 0 + x")
        )
        self.assertEqual(
            background_verification.constructed_as(found, self.PROBLEM),
            self.PROBLEM.replace("class Model", "class ModelNew").replace(
                "return x", "return 0 + x"
            ),
        )

    def test_one_without_a_constructor_stays(self):
        found = "class ModelNew(Model):\n    pass\n"
        self.assertEqual(background_verification.constructed_as(found, self.PROBLEM), found)


class Limits(RecheckCase):
    def test_switched_off(self):
        self.start()
        with mock.patch.object(background_verification, "is_disabled", lambda: True):
            self.start_twice()
        self.assertEqual(self.states(), ["ready"])
        self.assertEqual(self.evals(), [])

    def test_one_process_judges_for_all(self):
        self.start()
        with self.claim(self.entry()):
            self.start()
            self.assertEqual(self.states(), ["ready"], self.reasons())
            with open(os.path.join(self.entry(), "model_new.py"), encoding="utf-8") as file:
                digest = composed_module.digest_of(file.read())
            module_store.remember_verdict(
                self.entry(), digest, background_verification.facts_of(None), accepted=True
            )
        self.judged()
        self.assertEqual(self.evals(), [])
        self.assertIn(background_verification.RIGHT_BEFORE, str(weft.explain()))

    def test_an_entry_that_is_gone_is_judged_all_the_same(self):
        self.start()
        self.set_environment(FAKE_WEFT_EVAL="wrong")
        with self.claim(self.entry()):
            self.start()
            weft.cache.clear()
        self.judged()
        self.assertEqual(self.states(), ["pytorch"])

    def test_a_search_does_not_wait_for_a_verdict(self):
        self.start()
        self.set_environment(FAKE_WEFT_EVAL="hangs once")
        self.start()
        until = time.monotonic() + WAIT_S
        while not self.evals() and time.monotonic() < until:
            time.sleep(0.05)
        with torch.no_grad():
            other = Net(7)
            self.compiled(other)(torch.randn(4, 7))
        self.assertEqual(self.runs(), 2)
        self.judged()  # which was begun anew
        self.assertEqual(len(self.evals()), 2)
        self.assertEqual(self.states(), ["ready"] * 2, self.reasons())

    def test_a_process_that_ends_leaves_it_to_the_next(self):
        self.start()
        self.set_environment(FAKE_WEFT_EVAL="hangs")
        mine = background_verification.Rechecks()
        self.addCleanup(mine.end)
        with mock.patch.object(background_verification.rechecks, "begin", mine.begin):
            self.start()
        until = time.monotonic() + WAIT_S
        while not self.evals() and time.monotonic() < until:
            time.sleep(0.05)
        mine.end()
        mine.queue.join()
        self.assertNotIn("verdict.json", os.listdir(self.entry()))
        self.assertEqual(self.states(), ["ready"])


class RealJudge(RecheckCase):
    """Modules that are played, and the program's own verdict on them."""

    def setUp(self):
        super().setUp()
        self.set_environment(**weft_case.ENVIRONMENT)
        self.set_environment(WEFT_BIN=FAKE, FAKE_WEFT_EVAL=weft_case.WEFT)

    def test_right_kernels_in_a_process_of_its_own(self):
        self.start()
        paths = [os.path.dirname(os.path.dirname(weft.__file__)), os.path.dirname(FAKE)]
        for told in (background_verification.RIGHT, background_verification.RIGHT_BEFORE):
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT],
                capture_output=True,
                text=True,
                check=False,
                timeout=WAIT_S,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
            self.assertIn(told + "\n", done.stdout, done.stderr)
            self.assertIn(": ready,", done.stdout)

    def test_what_a_look_at_the_program_s_data_does_not_see(self):
        """Wrong for large numbers alone, of which the program has none."""
        self.set_environment(FAKE_WEFT="rarely")
        with self.assertLogs("weft", "WARNING"):
            compiled = self.start_twice()
        self.assertEqual(self.states(), ["pytorch"])
        self.assertRegex(str(weft.explain()), "withdrawn by a full verdict: wrong: ")
        self.assertEqual(module_store.entries(), [])
        large = self.x * 1000
        with torch.no_grad():
            self.assert_same(compiled(large), self.net(large))


if __name__ == "__main__":
    unittest.main()
