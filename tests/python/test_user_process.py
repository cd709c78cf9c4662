"""State of a user's process that weft leaves alone, and weft's messages there."""

import copy
import os
import subprocess
import sys
import threading
import unittest
from unittest import mock

import torch
import user_globals
import weft_case
from backend_case import BackendCase, Net
from torch.utils._python_dispatch import TorchDispatchMode
from weft_case import ROOT

import weft
from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.graphs import exported_module
from weft.backend.implementations import first_result_check
from weft.backend.searches import search, weft_process

PROGRAM = """
import sys
import torch
sys.path.insert(0, sys.argv[1])
import backend_case
from weft.backend.implementations import timing_rounds
timing_rounds.select_fastest = lambda framework, kernels, *_: timing_rounds.Choice(
    kernels or framework)
net, x = backend_case.Net(), torch.randn(4, 12)
with torch.no_grad():
    compiled = torch.compile(net, backend="weft", options={"wait": True})
    compiled(x), compiled(x)
import weft
weft.optimize(net, [x])
"""


def weighs_sessions():
    """Whether the kernel weighs sessions against each other (autogroups)."""
    try:
        with open("/proc/sys/kernel/sched_autogroup_enabled", encoding="ascii") as file:
            return file.read().strip() == "1" and os.path.exists("/proc/self/autogroup")
    except OSError:
        return False


class Kept(BackendCase):
    """Flags that are not PyTorch's own choice are the same afterwards."""

    def setUp(self):
        super().setUp()
        # What PyTorch itself does to a process at the first time.
        torch.compile(Net(), backend="aot_eager")(torch.randn(4, 12))
        weft.optimize(Net(), torch.randn(4, 12), budget_s=1)
        torch._dynamo.reset()
        before = {name: getter() for name, (getter, _) in self.FLAGS.items()}
        for name, (_, setter) in self.FLAGS.items():
            self.addCleanup(setter, before[name])

    FLAGS = {
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
        "benchmark": (
            lambda: torch.backends.cudnn.benchmark,
            lambda on: setattr(torch.backends.cudnn, "benchmark", on),
        ),
        "TF32": (
            lambda: torch.backends.cudnn.allow_tf32,
            lambda on: setattr(torch.backends.cudnn, "allow_tf32", on),
        ),
    }
    SETTINGS = {
        "threads": 1,
        "dtype": torch.float64,
        "precision": "high",
        "deterministic": True,
        "benchmark": True,
        "TF32": False,
    }

    def after_each_end(self, work):
        """Of a search, and of a look at what it gave."""
        for name, value in self.SETTINGS.items():
            self.FLAGS[name][1](value)
        for how in ("right", "wrong", "fails"):
            self.set_environment(FAKE_WEFT=how)
            weft.cache.clear()
            torch._dynamo.reset()
            net, x = Net(), torch.randn(4, 12)
            before = user_globals.in_force()
            with self.subTest(how):
                work(net, x)
                self.assertEqual(user_globals.changed(before), [])

    def test_by_torch_compile(self):
        def work(net, x):
            compiled = self.compiled(copy.deepcopy(net))
            for _ in range(3):
                compiled(x).sum().backward()
                self.assert_same(compiled(x), net(x))
            with torch.no_grad():
                for _ in range(3):
                    self.assert_same(compiled(x), net(x))

        self.after_each_end(work)

    def test_by_optimize(self):
        def work(net, x):
            with torch.no_grad():
                mine, _ = weft.optimize(net, [x])
                for _ in range(3):
                    self.assert_same(mine(x), net(x))

        self.after_each_end(work)

    def test_generators_are_touched_for_graphs_that_draw_alone(self):
        """Another thread may be drawing from them."""
        x = torch.randn(4, 12)
        for call, count in ((Net(), 0), (lambda x: torch.rand_like(x) + x, 1)):
            with (
                mock.patch.object(compiled_graphs, "set_random_states") as touched,
                torch.no_grad(),
            ):
                self.compiled(call)(x)
            self.assertEqual(touched.call_count, count)


class Largest(TorchDispatchMode):
    """Of what is made under it: bytes of one tensor."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not function.is_view:
            self.bytes = max(self.bytes, result.nbytes)
        return result


class Memory(BackendCase):
    def test_results_are_compared_in_parts(self):
        a = torch.randn(30, 400, 50).transpose(0, 2)
        other, gap = a.clone(), a.clone()
        other[-1, -1, -1] += 1
        gap[7, 7, 7] = torch.nan
        with mock.patch.object(first_result_check, "ELEMENTS_MAX", 1000):
            for b, why in ((a.clone(), ""), (other, "an error of"), (gap, "a special value")):
                with Largest() as largest:
                    told = first_result_check.difference([a], [b])
                self.assertIn(why, told)
                self.assertEqual(bool(why), bool(told))
                # A sum for each of 12,000 rows is the largest.
                self.assertLessEqual(largest.bytes, 8 * 12_000)
            told = first_result_check.difference([torch.zeros(5000)], [torch.full((5000,), 1e-30)])
            self.assertIn("an error of", told)

    @torch.no_grad()
    def test_a_framework_without_room_beside_the_kernels_is_asked_alone(self):
        real, calls = compiled_graphs._framework_of, []

        def without_room(graph):
            def framework(arguments):
                calls.append(arguments)
                if len(calls) == 1:
                    raise torch.OutOfMemoryError("no room")
                return of_graph(arguments)

            of_graph = real(graph)
            return framework

        net, x = Net(), torch.randn(4, 12)
        with mock.patch.object(compiled_graphs, "_framework_of", without_room):
            self.assert_same(self.compiled(net)(x), net(x))
        self.assertEqual(self.states(), ["pytorch"])
        self.assertIn("no room", self.reasons()[0])
        self.assertEqual(len(calls), 2)

    @torch.no_grad()
    def test_inputs_at_other_batches_have_a_bound(self):
        with mock.patch.object(exported_module, "SAMPLE_BYTES_MAX", 4 * 12 * 61 - 1):
            _, report = weft.optimize(Net(), torch.randn(4, 12), dynamic_batch=True)
        self.assertIn("of the program's memory", report.one_size)
        self.assertNotIn("--dynamic-dim", self.words()[0])

    @torch.no_grad()
    def test_a_branch_beyond_all_samples_is_seen(self):
        class Branch(torch.nn.Module):
            def forward(self, x):
                return x.relu() * 2 if x.shape[1] > 1000 else x.relu() + 1

        for dim in (1, -1, 7):
            _, report = weft.optimize(Branch(), torch.randn(4, 50), dynamic_dim=dim)
            self.assertTrue(report.ready and report.one_size, str(report))
        self.assertNotIn("--dynamic-dim", str(self.words()))
        weft.optimize(Net(), [torch.randn(7, 12)], dynamic_dim=-2)
        self.assertIn("--dynamic-dim", self.words()[-1])


class Beside(BackendCase):
    """A search that the program goes on beside."""

    @torch.no_grad()
    def test_calls_while_it_is_timed_are_told(self):
        for count in (0, 3):
            net, x, real = Net(), torch.randn(4, 12), search.search
            torch._dynamo.reset()
            weft.cache.clear()
            compiled = self.compiled(net, wait=False)
            began, went_on = threading.Event(), threading.Event()

            def slow(*rest):
                began.set()
                went_on.wait(60)
                return real(*rest)

            with mock.patch.object(search, "search", slow):
                self.assert_same(compiled(x), net(x))
                self.assertTrue(began.wait(60))
                for _ in range(count):
                    self.assert_same(compiled(x), net(x))
                went_on.set()
                (kernels,) = self.compiled_graphs()[-1].kernels.values()
                self.assertTrue(kernels.settled.wait(60))
            told = f"the program made {count} calls meanwhile"
            self.assertEqual(told in str(weft.explain()), count > 0)

    @unittest.skipUnless(weighs_sessions(), "this kernel does not weigh sessions")
    def test_a_search_gives_way(self):
        """It has a session of its own, which the kernel weighs against ours."""
        said = os.path.join(self.folder, "said")
        for niceness, told in (("7", " nice 7"), ("0", " nice 0")):
            self.set_environment(
                WEFT_NICE=niceness, WEFT_BIN=self.script("sleep 0.2; cat /proc/self/autogroup")
            )
            with open(said, "wb") as file:
                code, _ = weft_process.run([], limit_s=60, answer=file)
            self.assertEqual(code, 0)
            with open(said, encoding="ascii") as file:
                self.assertEqual(file.read().rstrip()[-len(told) :], told)

    def script(self, text):
        path = os.path.join(self.folder, "script")
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)
        return path


class Told(BackendCase):
    """WEFT_LOG, of a program that does not import weft itself at first."""

    def said(self, level, how):
        environment = {**os.environ, "FAKE_WEFT": how, "PYTHONPATH": os.path.join(ROOT, "python")}
        environment.pop("WEFT_LOG", None)
        if level is not None:
            environment["WEFT_LOG"] = level
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                "-W",
                "ignore",
                "-c",
                PROGRAM.replace(
                    '"weft", options', "__import__('weft.backend').backend.compile, options"
                ),
                os.path.join(ROOT, "tests", "python"),
            ],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        return [line for line in done.stderr.splitlines() if "weft" in line.lower()]

    def test_info_tells_what_happens(self):
        told = self.said("info", "right")
        self.assertRegex("\n".join(told), "search of .* ended with 0")
        self.assertRegex("\n".join(told), "optimize: ready")
        self.assertEqual(len(told), 3, told)  # each once
        weft.cache.clear()
        told = self.said("INFO", "fails")
        self.assertRegex("\n".join(told), "PyTorch computes a graph.*this run fails")

    def test_without_it_nothing_is_told(self):
        for level in (None, "warning")[: 2 if weft_case.IS_LONG else 1]:
            with self.subTest(level):
                weft.cache.clear()
                self.assertEqual(self.said(level, "fails"), [])

    def test_a_level_that_is_none_is_said(self):
        (told,) = self.said("verbose", "right")
        self.assertIn("WEFT_LOG is 'verbose': it may be debug, info", told)


if __name__ == "__main__":
    unittest.main()
