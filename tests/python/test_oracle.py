"""The oracle accepts honest kernels and rejects every imposter."""

import json
import os
import shutil
import socket
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")
sys.path[:0] = [HERE, PACKAGES]

import oracle_samples as samples  # noqa: E402
from weft.expect import compare, expected, inputs, perturbed_runs  # noqa: E402
from weft.oracle import oracle  # noqa: E402
from weft.expect import reference  # noqa: E402
from weft.timing import time_subgraph  # noqa: E402
from weft.candidate.slot import Slot, SlotBroken  # noqa: E402

import torch  # noqa: E402

LIMITS = {"wall_ms": 4000, "memory_bytes": 1 << 29}


class World:
    """One oracle, with all graphs and kernels, for the whole file."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weft-oracle-")
        self.pid_file = os.path.join(self.folder, "pids")
        oracle.ENVIRONMENT["WEFT_TEST_PID_FILE"] = self.pid_file
        self.libraries = samples.build(self.folder)
        self.graphs = {}
        for name, graph in samples.GRAPHS.items():
            self.graphs[name] = os.path.join(self.folder, name + ".json")
            with open(self.graphs[name], "w", encoding="utf-8") as file:
                json.dump(graph, file)
        torch.set_grad_enabled(False)
        self.oracle = oracle.Oracle(os.path.join(self.folder, "scratch"), [], 2)

    def request(self, verb, graph, kernel, **more):
        return {
            "id": 7,
            "verb": verb,
            "subgraph": self.graphs[graph],
            "candidate": {"kind": "cpu", "library": self.libraries[kernel]},
            "random_seed": 3,
            "limits": LIMITS,
            **more,
        }

    def close(self):
        self.oracle.close()
        shutil.rmtree(self.folder)


def setUpModule():
    global world
    world = World()


def tearDownModule():
    world.close()


def check(kernel, graph="add_mul", **more):
    reply = world.oracle.answer(world.request("check", graph, kernel, **more))
    if not reply["ok"]:
        raise AssertionError(reply)
    return reply["verdict"]


class HonestKernels(unittest.TestCase):
    def accepted(self, kernel, graph):
        verdict = check(kernel, graph)
        self.assertTrue(verdict["correct"], verdict)
        self.assertLessEqual(verdict["max_error"], verdict["tolerance"])
        return verdict

    def test_a_pointwise_kernel_is_accepted(self):
        verdict = self.accepted("honest", "add_mul")
        self.assertEqual(verdict["kind"], "correct")
        self.assertEqual(set(verdict["controls"].values()), {True})
        self.assertGreaterEqual(verdict["cases"], 6)

    def test_a_sum_in_another_order_is_accepted(self):
        self.accepted("row_sum_backwards", "row_sum")

    def test_a_single_number_is_told_from_a_constant(self):
        self.assertEqual(self.accepted("total", "total")["kind"], "correct")

    def test_a_softmax_with_other_exponentials_is_accepted(self):
        self.accepted("softmax", "softmax")

    def test_an_index_output_is_accepted(self):
        self.accepted("argmax", "argmax")

    def test_batch_norm_with_two_outputs_is_accepted(self):
        self.accepted("batch_norm", "batch_norm")

    def test_an_input_independent_problem_is_named_as_such(self):
        verdict = self.accepted("all_ones", "ones")
        self.assertEqual(verdict["kind"], "not_discriminating")
        self.assertIs(verdict["controls"]["stale"], False)
        self.assertIs(verdict["controls"]["zeros"], True)


class Imposters(unittest.TestCase):
    def rejected(self, kernel, *kinds, graph="add_mul", **more):
        verdict = check(kernel, graph, **more)
        self.assertFalse(verdict["correct"], verdict)
        self.assertIn(verdict["kind"], kinds, verdict["reason"])
        self.assertTrue(verdict["reason"])
        return verdict

    def test_doing_nothing_is_wrong(self):
        self.assertIn("never written", self.rejected("no_op", "wrong")["reason"])

    def test_zeros_are_wrong(self):
        self.rejected("zeros", "wrong")

    def test_an_output_remembered_by_pointer_is_wrong(self):
        verdict = self.rejected("replay", "wrong")
        self.assertEqual(verdict["cases"], 2)  # the same buffers, new data

    def test_an_output_remembered_by_a_sample_of_the_contents_is_wrong(self):
        self.assertIn("altered", self.rejected("stale_sample", "wrong")["reason"])

    def test_pointers_kept_from_the_first_call_are_wrong(self):
        self.rejected("stale_pointer", "wrong")

    def test_writing_to_an_input_is_cheating(self):
        verdict = self.rejected("writes_input", "cheated")
        self.assertIn("x0", verdict["reason"])

    def test_writing_beyond_the_output_is_cheating(self):
        self.rejected("writes_beyond", "cheated")

    def test_half_of_the_work_is_wrong(self):
        self.rejected("half_done", "wrong")

    def test_rounding_to_bfloat16_is_wrong(self):
        self.rejected("bf16", "wrong")

    def test_rounding_to_tf32_is_wrong(self):
        self.rejected("tf32", "wrong")

    def test_swallowing_nan_is_wrong(self):
        verdict = self.rejected("flushes_nan", "wrong")
        self.assertIn("special", verdict["reason"])

    def test_overflow_that_the_framework_avoids_is_wrong(self):
        self.rejected("softmax_unshifted", "wrong", graph="softmax")

    def test_a_wrong_index_is_wrong(self):
        self.rejected("argmax_off_by_one", "wrong", graph="argmax")

    def test_leaving_with_success_is_a_crash(self):
        verdict = self.rejected("exits", "crashed")
        self.assertIn("exit code 0", verdict["reason"])

    def test_a_segmentation_fault_is_named(self):
        self.assertIn("SIGSEGV", self.rejected("segfaults", "crashed")["reason"])

    def test_never_answering_is_timed_out(self):
        limits = {"wall_ms": 300, "memory_bytes": 1 << 29}
        self.rejected("sleeps", "timed_out", limits=limits)

    def test_eating_memory_is_stopped(self):
        self.rejected("eats_memory", "out_of_memory", "crashed")

    def test_forged_answers_on_every_descriptor_are_no_answer(self):
        self.rejected("forges", "wrong", "cheated")

    def test_forged_verdicts_before_leaving_are_no_verdict(self):
        self.rejected("forges_and_exits", "crashed", "cheated")

    def test_killing_the_zygote_helps_nobody(self):
        self.rejected("kills_parent", "crashed")
        self.assertTrue(check("honest")["correct"])

    def test_a_thread_that_fills_the_output_later_is_wrong(self):
        self.rejected("fills_later", "wrong")

    def test_a_daemon_does_not_outlive_its_job(self):
        check("leaves_daemon")
        world.oracle.rest()
        with open(world.pid_file, encoding="ascii") as file:
            pids = [int(line) for line in file]
        self.assertTrue(pids)
        for pid in pids:
            self.assertFalse(is_running(pid), f"{pid} is alive")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def answered(request, tries=5):
    """The oracle's reply; asked again where the machine was too busy to time."""
    for _ in range(tries):
        reply = world.oracle.answer(request)
        told = "" if reply["ok"] else reply["error"]["message"]
        if "too busy" not in told:
            break
        print(f"asked again: {told}", file=sys.stderr)
    return reply


class Timing(unittest.TestCase):
    def time(self, kernel, **more):
        return answered(world.request("time", "add_mul", kernel, budget_ms=300, **more))

    def test_candidate_and_eager_are_timed_in_the_same_rounds(self):
        reply = self.time("slow", baselines=["eager"])
        self.assertTrue(reply["ok"], reply)
        timing = reply["timing"]
        self.assertGreaterEqual(timing["candidate"]["runs"], 3)
        self.assertEqual(timing["candidate"]["runs"], timing["eager"]["runs"])
        self.assertGreater(timing["candidate"]["median_us"], 200)
        self.assertEqual(timing["outputs_wrong"], 0)
        self.assertEqual(timing["rejected"], "")
        self.assertGreater(timing["outputs_checked"], 0)
        self.assertEqual(timing["bytes_floor"], 3 * 4 * 24 * 640)
        self.assertIsNone(timing["compile"])

    def test_right_for_the_check_and_wrong_later_is_found(self):
        self.assertTrue(check("right_at_first")["correct"])
        timing = self.time("right_at_first")["timing"]
        self.assertGreater(timing["outputs_wrong"], 0)
        self.assertIn("wrong", timing["rejected"])

    def test_a_thread_that_fills_the_output_later_is_found(self):
        timing = self.time("fills_later")["timing"]
        self.assertGreater(timing["outputs_wrong"], 0)

    def test_float64_is_asked_once_and_of_what_is_off(self):
        bench = time_subgraph.SubgraphBench(world.graphs["add_mul"], 3, oracle.Device())
        inputs, asked = bench._base, []
        [right] = bench.maker.expect("normal", inputs).outputs

        def counted(distribution, data, real=bench.maker.expect):
            asked.append(1)
            return real(distribution, data)

        def reason_at(share):
            """Of a result so far off, in shares of the tolerance."""
            error = share * right.tolerance * (right.wide.abs() + right.scale)
            return bench.why_wrong("normal", inputs, [(right.wide + error).float()])

        with mock.patch.object(bench.maker, "expect", counted):
            for share, calls in ((0.9, 1), (0.1, 1), (0.9, 2), (2.0, 3 + perturbed_runs.COUNT)):
                with self.subTest(share=share):
                    self.assertEqual(bool(reason_at(share)), share > 1)
                    self.assertEqual(len(asked), calls)

    def test_a_crash_while_timed_is_a_rejection(self):
        timing = self.time("exits")["timing"]
        self.assertIn("crashed", timing["rejected"])
        self.assertIsNone(timing["candidate"])


PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3)
        self.norm = nn.BatchNorm2d(channels)
        self.bias = nn.Parameter(torch.randn(channels, 1, 1))
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)) + self.bias)
        return self.drop(y), {"best": y.mean((2, 3)).argmax(1)}


def get_inputs():
    return [torch.rand(4, 3, 12, 12)]


def get_init_inputs():
    return [8]
"""


class TimedData(unittest.TestCase):
    def test_no_seed_tells_what_is_timed(self):
        seen = []
        for _ in range(2):
            reply = world.oracle.answer(
                world.request("time", "add_mul", "honest", budget_ms=10, random_seed=1)
            )
            self.assertEqual(reply["timing"]["rejected"], "")
            kept = world.oracle.timer._bench._kept
            seen.append([x.clone() for x in kept[0]])
        for first, second in zip(*seen):
            self.assertFalse(torch.equal(first, second))

    def test_a_roll_of_it_has_another_sum(self):
        generator = torch.Generator().manual_seed(1)
        for dtype in (torch.float32, torch.int64):
            given = torch.arange(5000).to(dtype)
            made = inputs.freshen(given, dtype, generator)
            scale = float(made.max() / given.max())
            self.assertNotAlmostEqual(float(made.sum()) / scale, float(given.sum()), delta=1.0)


class WholeModels(unittest.TestCase):
    def write(self, name, text):
        path = os.path.join(world.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def answer(self, verb, *changes, **more):
        text = PROBLEM.replace("class Model(", "class ModelNew(")
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        request = {
            "id": 1,
            "verb": verb,
            "problem": self.write("problem.py", PROBLEM),
            "composed": self.write("model_new.py", text),
            "random_seed": 5,
            "limits": LIMITS,
            **more,
        }
        reply = answered(request)
        self.assertTrue(reply["ok"], reply)
        return reply

    def rejected(self, *changes):
        verdict = self.answer("check_model", *changes)["verdict"]
        self.assertFalse(verdict["correct"], verdict)
        return verdict["reason"]

    def test_the_model_itself_is_accepted(self):
        verdict = self.answer("check_model")["verdict"]
        self.assertTrue(verdict["correct"], verdict)
        self.assertEqual(verdict["kind"], "correct")

    def test_a_missing_relu_is_wrong(self):
        self.assertIn("output", self.rejected(("torch.relu(", "(")))

    def test_other_initial_values_are_wrong(self):
        change = ("torch.randn(channels, 1, 1)", "torch.zeros(channels, 1, 1)")
        self.assertIn("bias", self.rejected(change))

    def test_another_order_of_draws_is_wrong(self):
        change = ("self.drop =", "torch.randn(1); self.drop =")
        self.assertIn("random numbers", self.rejected(change))

    def test_a_further_buffer_is_wrong(self):
        change = ("self.drop =", "self.register_buffer('k', torch.ones(1)); self.drop =")
        self.assertIn(
            "makes the buffer k, float32 [1], where Model has the buffer ", self.rejected(change)
        )

    def test_running_statistics_left_alone_are_wrong(self):
        change = (
            "self.norm(self.conv(x))",
            "nn.functional.batch_norm(self.conv(x), None, None, "
            "self.norm.weight, self.norm.bias, True)",
        )
        self.assertIn("running_mean", self.rejected(change))

    def test_an_input_given_back_as_output_is_wrong(self):
        change = ("return self.drop(y)", "x.copy_(x); return x.view(-1)")
        self.assertTrue(self.rejected(change))

    def test_an_input_written_to_is_wrong(self):
        reason = self.rejected(("y = torch.relu", "x += 1; x -= 1; x[0] = 0; y = torch.relu"))
        self.assertTrue(reason)

    def test_another_nesting_of_the_result_is_wrong(self):
        change = ('{"best": y.mean((2, 3)).argmax(1)}', "y.mean((2, 3)).argmax(1)")
        self.assertIn("nested", self.rejected(change))

    def test_other_strides_of_the_result_are_wrong(self):
        change = ("self.drop(y),", "self.drop(y).to(memory_format=torch.channels_last),")
        self.assertIn("stride", self.rejected(change))

    def test_a_model_that_does_not_import_is_a_crash(self):
        verdict = self.answer("check_model", ("import torch\n", "import nothing\n"))
        self.assertEqual(verdict["verdict"]["kind"], "crashed")

    def test_where_none_of_its_kernels_ran_there_is_no_verdict_on_them(self):
        passes_on = (
            "y = torch.relu",
            "global _weft_passed_on; _weft_passed_on = 'another mode'; y = torch.relu",
        )
        verdict = self.answer("check_model", passes_on)["verdict"]
        self.assertEqual((verdict["correct"], verdict["kind"]), (False, "not_used"), verdict)
        self.assertIn("none of its kernels ran: another mode", verdict["reason"])
        timing = self.answer("time_model", passes_on, budget_ms=50)["timing"]
        self.assertIn("not_used: timed call: none of its kernels ran", timing["rejected"])

    def test_both_models_are_timed(self):
        timing = self.answer("time_model", baselines=["eager"], budget_ms=200)
        timing = timing["timing"]
        self.assertGreaterEqual(timing["candidate"]["runs"], 3)
        self.assertEqual(timing["outputs_wrong"], 0)
        self.assertGreater(timing["outputs_checked"], 0)

    def test_a_wrong_model_is_found_while_timed(self):
        timing = self.answer("time_model", ("torch.relu(", "("), budget_ms=200)
        self.assertIn("wrong", timing["timing"]["rejected"])

    def test_what_was_prepared_is_what_is_timed(self):
        self.answer("prepare_model", baselines=["eager", "compile"])
        prepared = world.oracle.model_timer._bench
        self.assertEqual(prepared.compiling, "compile")  # beside what follows
        # A check in between binds the same buffers to its own memory.
        self.assertTrue(self.answer("check_model")["verdict"]["correct"])
        timing = self.answer("time_model", baselines=["eager"], budget_ms=100)
        self.assertEqual(timing["timing"]["rejected"], "")
        self.assertEqual(timing["timing"]["outputs_wrong"], 0)
        self.assertIsNone(timing["timing"]["compile"])  # not asked for
        self.assertEqual(prepared.compile_errors, {"compile": ""})
        self.assertIs(world.oracle.model_timer._bench, prepared)


class Slots(unittest.TestCase):
    def test_what_a_dismissed_job_said_is_not_the_next_ones_answer(self):
        slot = Slot([], 1, dict(os.environ))
        ours, slot._link = socket.socketpair()
        slot._job, slot._is_running = 7, True
        slot.dismiss()
        ours.sendall(b'C{"call": 0, "ok": true}\n')
        ours.sendall(b'Z{"ended": "ended", "job": 7}\n')
        slot.settle()
        slot._job = 8
        ours.sendall(b'C{"call": 0, "ok": true, "mine": 1}\n')
        self.assertEqual(slot._answer(0, 1000)["mine"], 1)
        ours.close()
        slot.kill()

    def test_a_sandbox_that_cannot_be_built_says_why(self):
        refusing = ["sh", "-c", "echo 'no such folder' >&2; exit 125"]
        slot = Slot(refusing, 1, dict(os.environ))
        with self.assertRaisesRegex(SlotBroken, "no such folder"):
            slot.start()


class NormalisationWeights(unittest.TestCase):
    def test_a_weight_may_scale_last_whatever_the_special_values(self):
        # The framework folds it into a scale and a shift, which makes nan of
        # an infinite weight; this formula makes infinity, then 2 of it.
        graph = samples.GRAPHS["norm_clamp"]
        cases = expected.make_cases(reference.Reference(graph), 1)
        views = expected.CaseMaker(cases.reference).views
        for case in cases.cases:
            x, weight, bias = views(case.data)
            rows = x.reshape(samples.ROWS, 16, -1)
            var, mean = torch.var_mean(rows, 2, correction=0, keepdim=True)
            normal = ((rows - mean) * torch.rsqrt(var + 1e-5)).reshape(x.shape)
            got = torch.clamp(normal * weight + bias, -2.0, 2.0)
            with self.subTest(case.distribution):
                reason = compare.compare(got, case.outputs[0]).reason
                self.assertEqual(reason, "")

    def test_it_still_has_nan_among_its_special_values(self):
        graph = samples.GRAPHS["norm_clamp"]
        cases = expected.make_cases(reference.Reference(graph), 1)
        [special] = [one for one in cases.cases if one.distribution == "special"]
        self.assertTrue(special.data[1].isnan().any())


class Server(unittest.TestCase):
    def start(self, *more):
        folder = tempfile.mkdtemp(dir=world.folder)
        return subprocess.Popen(
            [sys.executable, "-m", "weft.oracle.oracle", "--scratch", folder, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": PACKAGES},
        )

    def ask(self, server, request):
        text = request if isinstance(request, str) else json.dumps(request)
        server.stdin.write(text + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    def test_bad_requests_get_an_error_and_end_nothing(self):
        with self.start() as server:
            bad = {
                "no json": "wrong_input",
                "[1]": "wrong_input",
                '{"id": 1, "verb": "dance"}': "wrong_input",
                '{"id": 1, "verb": "check"}': "wrong_input",
                json.dumps(
                    world.request("check", "add_mul", "honest", subgraph="/nowhere")
                ): "missing",
                json.dumps(
                    world.request("check", "add_mul", "honest", candidate={"kind": "x"})
                ): "wrong_input",
            }
            for request, code in bad.items():
                reply = self.ask(server, request)
                self.assertFalse(reply["ok"])
                self.assertEqual(reply["error"]["code"], code, request)
            reply = self.ask(server, world.request("check", "add_mul", "honest"))
            self.assertTrue(reply["verdict"]["correct"], reply)
            self.assertEqual(reply["id"], 7)

    def test_no_process_is_left_after_kill_9(self):
        self.nothing_survives(signal.SIGKILL)

    def test_no_process_is_left_after_sigterm(self):
        self.nothing_survives(signal.SIGTERM)

    def nothing_survives(self, number):
        server = self.start()
        reply = self.ask(server, world.request("check", "add_mul", "honest"))
        self.assertTrue(reply["ok"])
        until = time.monotonic() + 5
        pids = []
        while len(pids) < 2 and time.monotonic() < until:
            pids = descendants(server.pid)
        self.assertEqual(len(pids), 2)  # the zygote and its next child
        server.send_signal(number)
        server.wait()
        server.stdin.close()
        server.stdout.close()
        until = time.monotonic() + 5
        while any(map(is_running, pids)) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual([p for p in pids if is_running(p)], [])

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_it_works_in_a_pid_namespace(self):
        prefix = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        prefix += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
        probe = subprocess.run([*prefix, "true"], capture_output=True)
        if probe.returncode != 0:
            self.skipTest("user namespaces are not allowed here")
        with self.start("--sandbox", json.dumps(prefix)) as server:
            for kernel in ("leaves_daemon", "honest"):
                request = world.request("check", "add_mul", kernel)
                reply = self.ask(server, request)
                self.assertTrue(reply["ok"], reply)
            self.assertTrue(reply["verdict"]["correct"], reply)


def descendants(pid):
    found, waiting = [], [pid]
    while waiting:
        path = f"/proc/{waiting[0]}/task/{waiting.pop(0)}/children"
        with open(path, encoding="ascii") as file:
            new = [int(word) for word in file.read().split()]
        found += new
        waiting += new
    return found


if __name__ == "__main__":
    unittest.main()
