"""Views of weft's work for a user: status, progress, notebooks, and options."""

import io
import os
import subprocess
import sys
import threading
import unittest
from unittest import mock

import torch
from backend_case import WAIT_S, BackendCase, Net
from torch import nn

import weft
from weft.backend import options
from weft.backend.entry import dispatch, explain, notebook, status
from weft.backend.searches import search

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class OfSearches(BackendCase):
    def setUp(self):
        super().setUp()
        self.patch(status, "all_compiled_graphs", self.compiled_graphs)
        self.patch(status, "all_programs", list)

    def test_graphs_are_counted_until_kernels_compute(self):
        self.assertEqual(str(weft.status()), "no graph yet")
        compiled, x = self.compiled(Net(), wait=False), torch.randn(4, 12)
        with torch.no_grad():
            compiled(x)
            found = weft.wait(WAIT_S)
            self.assertTrue(found.is_over)
            self.assertEqual((found.graphs, found.awaiting_call), (1, 1))
            self.assertIn("continue at the next call", str(found))
            compiled(x)
            compiled(x)
        found = weft.status()
        self.assertEqual(str(found), "1 of 1 graph with generated kernels")
        self.assertEqual((found.calls, found.calls_with_kernels), (3, 1))

    def test_waiting_ends_with_its_time(self):
        begun, may_end = threading.Event(), threading.Event()
        self.addCleanup(may_end.set)

        def found(*_, **__):
            begun.set()
            may_end.wait(WAIT_S)
            raise RuntimeError("stopped")

        self.patch(search, "found", found)
        with torch.no_grad():
            self.compiled(Net(), wait=False)(torch.randn(4, 12))
        self.assertTrue(begun.wait(WAIT_S))
        self.assertEqual(weft.wait(0).searching, 1)
        self.assertIn("1 under way", str(weft.wait(0.01)))
        may_end.set()
        self.assertEqual(weft.wait(WAIT_S).searching, 0)

    def test_callbacks_get_changes_until_they_are_removed(self):
        told, changed = [], threading.Event()

        def callback(found):
            told.append(str(found))
            if found.generated:
                changed.set()

        end = weft.on_progress(callback)
        self.addCleanup(end)
        compiled, x = self.compiled(Net()), torch.randn(4, 12)
        with torch.no_grad():
            compiled(x)
            compiled(x)
        self.assertTrue(changed.wait(WAIT_S))
        self.assertEqual(told[-1], "1 of 1 graph with generated kernels")
        self.assertEqual(len(told), len(set(told)))
        end()
        thread = status._watch._thread
        if thread is not None:
            thread.join(WAIT_S)
            self.assertFalse(thread.is_alive())

    def test_a_callback_that_fails_is_not_called_again(self):
        called = threading.Event()

        def callback(_):
            called.set()
            raise RuntimeError("no")

        self.addCleanup(weft.on_progress(callback))
        with self.assertLogs("weft", "WARNING"), torch.no_grad():
            self.compiled(Net())(torch.randn(4, 12))
            self.assertTrue(called.wait(WAIT_S))
            thread = status._watch._thread
            if thread is not None:
                thread.join(WAIT_S)

    def test_a_line_is_written_where_the_environment_asks(self):
        self.set_environment(WEFT_PROGRESS="1")
        self.patch(status, "_has_lines", False)
        with (
            mock.patch.object(sys, "stderr", io.StringIO()) as lines,
            mock.patch.object(status, "_watch", status._Watch()) as watch,
        ):
            with torch.no_grad():
                self.compiled(Net())(torch.randn(4, 12))
            thread = watch._thread
            while "weft: " not in lines.getvalue() and thread.is_alive():
                thread.join(0.05)
            watch.remove(status._write_line)
            thread.join(WAIT_S)
        self.assertRegex(lines.getvalue(), "weft: [01] of 1 graph")


class Played(unittest.TestCase):
    def test_regions_and_the_gain_of_calls(self):
        def region(state):
            return mock.Mock(state=state)

        program = mock.Mock(
            state="searching",
            has_kernels=True,
            calls=7,
            calls_with_kernels=3,
            candidates=[region("generated")] * 3 + [region("slower")] * 9,
            incumbent_s=0.3,
            speedup=1.18,
            awaits_call=lambda: False,
        )
        waiting = mock.Mock(
            state="searching",
            has_kernels=False,
            calls=1,
            calls_with_kernels=0,
            candidates=[],
            incumbent_s=0.0,
            speedup=1.0,
            awaits_call=lambda: True,
        )
        with (
            mock.patch.object(status, "all_compiled_graphs", list),
            mock.patch.object(status, "all_programs", lambda: [program, waiting]),
        ):
            found = status.status()
        self.assertEqual(
            str(found),
            "3 of 12 regions generated; 1.18× over "
            "torch.compile for this call; 1 under way; 1 continue at "
            "the next call",
        )
        self.assertEqual((found.calls, found.searching), (8, 1))


class Notebook(unittest.TestCase):
    def test_texts_are_escaped(self):
        graph = explain.GraphReport(
            "inference", 3, "pytorch", "<script>alert(1)</script> & more\u202e", "", 1, 0
        )
        report = dispatch.Report(False, "", graph.reason, 1.0, False, "")
        for shown in (graph, report, explain.Explanation([graph], [], ["a < b"])):
            text = shown._repr_html_()
            self.assertNotIn("<script>", text)
            self.assertNotIn("\u202e", text)
            self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more", text)
        self.assertIn("a &lt; b", text)

    def test_a_summary_that_is_the_reason_is_printed_once(self):
        over = "not verified: its budget_s of 5 was over"
        graph = explain.GraphReport("inference", 3, "pytorch", over, over, 1, 0)
        self.assertEqual(str(graph).count(over), 1)
        report = dispatch.Report(False, over, over, 1.0, False, "")
        self.assertEqual(str(report), f"PyTorch computes it: {over}")
        self.assertIn("; no search", str(dispatch.Report(False, "", "why", 1.0, False, "")))
        graph.summary = "verified"
        self.assertIn("\n    verified", str(graph))

    def test_fields_without_a_value_are_left_out(self):
        self.assertIsInstance(status.Status(), notebook.Shown)
        text = status.Status(graphs=2, over_compile=1.25)._repr_html_()
        self.assertIn("<td style='text-align:left'>1.25</td>", text)
        graph = explain.GraphReport("forward", 1, "ready", "", "", 1, 0)
        self.assertNotIn("reason", graph._repr_html_())


class OptionsOfTheEnvironment(unittest.TestCase):
    def read(self, given=None, **variables):
        with mock.patch.dict(os.environ, variables):
            return options.options_from({"fallback": "eager", **(given or {})})

    def test_they_hold_where_the_call_says_nothing(self):
        found = self.read(
            WEFT_BUDGET_S="12.5",
            WEFT_WAIT="yes",
            WEFT_SEEDS="compiler",
            WEFT_SHAPES_MAX="7",
            WEFT_CACHE="0",
        )
        self.assertEqual(
            (found.budget_s, found.wait, found.seeds, found.shapes_max, found.cache),
            (12.5, True, "compiler", 7, False),
        )
        self.assertEqual(self.read({"budget_s": 3}, WEFT_BUDGET_S="9").budget_s, 3)
        self.assertEqual(self.read(WEFT_BUDGET_S="").budget_s, 60)

    def test_a_text_that_is_no_value_is_an_error_that_names_it(self):
        for name, text in (
            ("WEFT_BUDGET_S", "long"),
            ("WEFT_WAIT", "maybe"),
            ("WEFT_VARIANTS", "1.5"),
        ):
            with self.assertRaisesRegex(ValueError, name):
                self.read(**{name: text})
        with self.assertRaisesRegex(ValueError, "budget_s"):
            self.read(WEFT_BUDGET_S="0")


class OptionErrors(unittest.TestCase):
    def test_torch_compile_raises_them_at_once(self):
        net = nn.Linear(2, 2)
        for given, words in (
            ({"budget": 1}, "no option 'budget'"),
            ({"budget_s": 0}, "budget_s is 0"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                torch.compile(net, backend=weft.backend.compile, options=given)
        torch.compile(net, backend=weft.backend.compile, options={"budget_s": 5})
        torch.compile(net, backend="eager", options={"budget": 1})

    def test_the_call_that_loads_weft_raises_them_too(self):
        """By the name "weft", which PyTorch looks up among entry points."""
        program = (
            "import torch, importlib.metadata as m\n"
            "from torch._dynamo.backends import registry\n"
            "registry._lazy_import()\n"
            "registry._BACKENDS['weft'] = m.EntryPoint('weft', 'weft.backend:compile',"
            " 'torch_dynamo_backends')\n"
            "for budget in (0, 5, 0):\n"
            "    try:\n"
            "        torch.compile(torch.nn.Linear(2, 2), backend='weft',"
            " options={'budget_s': budget})\n"
            "        print('taken')\n"
            "    except ValueError as error:\n"
            "        print('budget_s' in str(error))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
        )
        self.assertEqual(done.stdout.split(), ["True", "taken", "True"], done.stderr)


if __name__ == "__main__":
    unittest.main()
