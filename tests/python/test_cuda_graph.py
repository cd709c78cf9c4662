"""Calls that a CUDA graph computes: what is copied, what is read where it lies, and
what the function itself computes. The graph is played: on the processor, a replay
is a call with the same memory. With a GPU, real ones."""

import threading
import unittest
from unittest import mock

import torch
from backend_case import BackendCase, Net
from played_graph import Played, PlayedCase, weighted
from torch import library as operators

from weft.backend.entry import compiled_graph as compiled_graphs
from weft.backend.implementations import (
    composed_module,
    cuda_graph,
    resting_arguments,
    select_implementation,
    timing_rounds,
)
from weft.backend.options import Options
from weft.backend.implementations.cuda_graph import Recording, Replayed, Unrecorded, recorded


class Replays(PlayedCase):
    def test_each_call_has_its_own_inputs_and_results(self):
        x, y = torch.rand(4, 3), torch.rand(4, 3)
        made = self.made(x)
        first = made([self.weight, x])
        kept = [one.clone() for one in first]
        self.assert_computes(made, self.weight, y)
        for one, was in zip(first, kept):
            self.assertTrue(torch.equal(one, was))
        self.assertEqual(made._recording.replays, 2)

    def test_a_parameter_is_read_where_it_lies(self):
        x = torch.rand(4, 3)
        made = self.made(x)
        self.weight.mul_(3)
        self.assert_computes(made, self.weight, x)
        self.assertEqual(made._recording.replays, 1)

    def test_a_parameter_elsewhere_is_the_function_s_then_recorded_anew(self):
        x = torch.rand(4, 3)
        made = self.made(x)
        first, calls, moved = made._recording, self.calls, torch.rand(3)
        self.assert_computes(made, moved, x)
        self.assertEqual((first.replays, self.calls), (0, calls + 1))
        self.assert_computes(made, moved, x)
        self.assertIsNot(made._recording, first)
        self.assertEqual(made._recording.replays, 1)

    def test_parameters_that_move_for_ever_are_recorded_a_few_times(self):
        x, kept = torch.rand(4, 3), []
        made = self.made(x)
        for _ in range(2 * cuda_graph.RECORDINGS_MAX):
            kept.append(torch.rand(3))  # none takes the place of another
            for _ in range(2):
                self.assert_computes(made, kept[-1], x)
        self.assertEqual(made._count, cuda_graph.RECORDINGS_MAX)

    def test_a_constant_that_was_written_to_is_the_function_s(self):
        x, constant = torch.rand(4, 3), torch.tensor(2.0)
        made = self.made(x, [constant])
        constant.fill_(3)
        calls = self.calls
        self.assert_computes(made, self.weight, x)
        self.assertEqual(self.calls, calls + 1)

    def test_another_setting_is_recorded_anew(self):
        x = torch.rand(4, 3)
        made = self.made(x)
        first = made._recording
        before = torch.are_deterministic_algorithms_enabled()
        self.addCleanup(torch.use_deterministic_algorithms, before)
        torch.use_deterministic_algorithms(not before)
        for _ in range(2):
            self.assert_computes(made, self.weight, x)
        self.assertIsNot(made._recording, first)
        self.assertEqual((first.replays, made._recording.replays), (0, 1))

    def test_who_looks_at_operators_sees_them(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        seen = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return function(*args, **(kwargs or {}))

        x = torch.rand(4, 3)
        made = self.made(x)
        with Watch():
            made([self.weight, x])
        self.assertEqual(seen, ["aten.mul.Tensor", "aten.sum.dim_IntList"])
        self.assertEqual(made._recording.replays, 0)

    def test_kernels_that_were_withdrawn_are_not_replayed(self):
        x = torch.rand(4, 3)
        made = self.made(x)

        def withdrawn():
            raise composed_module.Revoked("they were wrong")

        made._check = withdrawn
        with self.assertRaises(composed_module.Revoked):
            made([self.weight, x])

    def test_threads_have_their_own_results(self):
        made, wrong = self.made(torch.rand(4, 3)), []

        def work():
            x = torch.rand(4, 3)
            for _ in range(100):
                got, _ = made([self.weight, x])
                if not torch.equal(got, x * self.weight):
                    wrong.append(got)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(wrong, [])


class Refusals(unittest.TestCase):
    """What is not the same as the function's own call is not recorded."""

    def why(self, function, arguments, bytes_max=1000):
        with self.assertRaises(Unrecorded) as raised:
            Replayed(function, arguments, set(), [], bytes_max, Played)
        return str(raised.exception)

    def test_too_much_memory(self):
        twice = lambda given: [given[0] * 2]
        self.assertIn("and may keep 0", self.why(twice, [torch.rand(3)], 99))
        Replayed(twice, [torch.rand(3)], set(), [], 100, Played)

    def test_a_result_that_is_an_argument_s_memory(self):
        for function in (lambda given: [given[0]], lambda given: [given[0].view(3, 1)]):
            self.assertIn("memory of an argument's", self.why(function, [torch.rand(3)]))

    def test_results_that_share_memory(self):
        def two(given):
            one = given[0] * 2
            return [one, one.t()]

        self.assertIn("another result's", self.why(two, [torch.rand(3, 3)]))

    def test_a_result_with_room_in_it(self):
        self.assertIn(
            "as a copy does", self.why(lambda given: [(given[0] * 2)[:, :2]], [torch.rand(3, 3)])
        )

    def test_numbers_and_other_devices(self):
        twice = lambda given: [given[0] * 2]
        for other in (3, torch.empty(2, device="meta")):
            self.assertIn("one GPU", self.why(twice, [torch.rand(3), other]))

    def test_an_argument_with_room_in_it_or_an_element_at_many_places(self):
        for one in (torch.rand(1, 3).expand(4, 3), torch.rand(4, 6)[:, :3]):
            self.assertIn("an argument does not lie", self.why(lambda given: [given[0] * 2], [one]))

    def test_nothing_is_raised_where_it_fails(self):
        def fails(_):
            raise RuntimeError("it waits for the device")

        with mock.patch.object(cuda_graph, "Recording", Played):
            made, why = recorded(fails, [torch.rand(3)], set(), [], 1000)
        self.assertEqual((made, why), (None, "RuntimeError: it waits for the device"))


class InThePiece(BackendCase):
    """Where a played GPU is, and its graphs are faster."""

    def setUp(self):
        super().setUp()
        self.patch(select_implementation, "is_on_gpu", lambda _: True)
        self.patch(select_implementation, "is_recording", lambda _: self.is_recording)
        self.is_recording = False
        self.patch(cuda_graph, "Recording", Played)
        self.patch(timing_rounds, "select_fastest", self.choose)
        self.is_faster = True
        self.asked = []

    def choose(self, framework, kernels, arguments, seconds, record):
        self.asked.append(kernels)
        self.given = list(arguments)
        chosen = kernels or framework
        made = record and record(chosen)
        return timing_rounds.Choice(
            made if made and self.is_faster else chosen,
            times={made: [0.0032] * 5, chosen: [0.0031] * 5},
        )

    def called(self, replay_mb=1, **options):
        net, mine = Net().eval(), None
        with torch.no_grad():
            mine = self.compiled(net, replay_mb=replay_mb, trial_s=1, **options)
            for _ in range(3):
                x = torch.randn(5, 12)
                self.assert_same(mine(x), net(x))
            net.scale.mul_(2)
            self.assert_same(mine(x), net(x))
        return self.compiled_graphs("inference")[0].kernels

    def told(self):
        import weft

        return str(weft.explain())

    def test_kernels_are_replayed_and_it_is_told(self):
        (kernels,) = self.called().values()
        self.assertEqual(kernels.state, "ready")
        self.assertIsInstance(kernels.composed, Replayed)
        self.assertEqual((len(self.asked), kernels.calls), (1, 3))
        # One is beside the function, on other inputs.
        self.assertEqual(kernels.composed._recording.replays, 1 + 3)
        self.assertIn("replayed as a CUDA graph, which keeps 1 MiB", self.told())

    def test_the_framework_is_where_there_are_no_kernels(self):
        self.set_environment(FAKE_WEFT="fails")
        (kernels,) = self.called().values()
        self.assertEqual((kernels.state, self.asked), ("pytorch", [None]))
        self.assertIsInstance(kernels.framework, Replayed)
        self.assertEqual(kernels.framework._recording.replays, 1 + 3)
        self.assertIn("replayed as a CUDA graph", self.told())

    def test_a_replay_that_fails_is_given_up(self):
        self.set_environment(FAKE_WEFT="fails")

        def fails(self, moved):
            raise RuntimeError("the device is gone")

        self.patch(select_implementation, "_difference", lambda *_: "")
        with mock.patch.object(Played, "replay", fails):
            (kernels,) = self.called().values()
            (compiled_graph,) = self.compiled_graphs("inference")
            kernels.framework = Replayed(
                compiled_graph.framework, self.given, set(), [], 1 << 20, Played
            )
            calls = threading.Barrier(2)

            def work(number):
                calls.wait()
                compiled_graph(list(self.given))

            self.assertEqual(self.in_threads(2, work), [])
        self.assertIn("not replayed: RuntimeError: the device is gone", self.told())
        self.assertIs(kernels.framework, compiled_graph.framework)

    def test_one_that_is_no_faster_is_told_of(self):
        self.is_faster = False
        (kernels,) = self.called().values()
        self.assertNotIsInstance(kernels.composed, Replayed)
        self.assertIn(
            "not replayed: as a CUDA graph a call takes 3.2 ms, launched 3.1", self.told()
        )

    def test_where_there_was_no_time_it_is_told(self):
        self.patch(
            timing_rounds,
            "select_fastest",
            lambda framework, kernels, *_: timing_rounds.Choice(kernels or framework),
        )
        self.called()
        self.assertIn("not replayed: there was no time to try it", self.told())

    def test_a_replay_of_something_else_is_not_taken(self):
        """As of a launch that is not recorded: its results stay what they were."""
        with mock.patch.object(
            Played, "replay", lambda self, moved: [one.clone() for one in self._results]
        ):
            (kernels,) = self.called().values()
        self.assertNotIsInstance(kernels.composed, Replayed)
        self.assertIn("not replayed: it came to something else: result 0", self.told())

    def test_all_graphs_keep_no_more_than_is_allowed(self):
        with mock.patch.object(Played, "by_others", 1 << 20):
            (kernels,) = self.called().values()
        self.assertNotIsInstance(kernels.composed, Replayed)
        self.assertIn(
            "not replayed: CUDA graphs would keep 1 MiB, this one 0, and may keep 1", self.told()
        )

    def test_indices_stay_indices_where_a_replay_is_compared(self):
        seen = []

        def function(given):
            seen.append(given)
            return [given[0] + given[1]]

        at, x = torch.tensor([3, 99]), torch.tensor([2.0, -4.0])
        made = Replayed(function, [at, x], set(), [], 1000, Played)
        self.assertEqual(select_implementation._difference(made, [at, x], ""), "")
        for one in seen[-2:]:  # the function's, and the replay's
            self.assertEqual(one[0].tolist(), [3, 99])
            self.assertEqual(one[1].tolist(), [1.0, -2.0])

    def test_a_call_that_the_program_records_looks_at_nothing(self):
        net, x = Net().eval(), torch.randn(5, 12)
        self.is_recording = True
        with torch.no_grad():
            mine = self.compiled(net, replay_mb=1, trial_s=1)
            self.assert_same(mine(x), net(x))
            self.assertEqual((self.states(), self.asked), ([], []))
            self.is_recording = False
            for _ in range(2):
                self.assert_same(mine(x), net(x))
        self.assertEqual((self.states(), len(self.asked)), (["ready"], 1))

    def test_there_are_none_unless_they_are_asked_for(self):
        for options, wanted in (
            (dict(replay_mb=0), 0),
            ({}, 0),
            (dict(mode="default"), 0),
            (dict(mode="reduce-overhead"), 1 << 30),
            (dict(mode="max-autotune", replay_mb=0), 0),
            (dict(replay_mb=5), 5 << 20),
        ):
            self.assertEqual(Options(**options).graph_bytes(), wanted, options)
        (kernels,) = self.called(replay_mb=None).values()
        self.assertEqual((kernels.state, kernels.replay), ("ready", ""))
        self.assertNotIsInstance(kernels.composed, Replayed)

    def test_who_waits_for_the_host_is_told(self):
        told = (
            "the host takes 2.1 of a call's 2.3 ms to launch it: as a CUDA "
            "graph (replay_mb) it may be faster"
        )
        for times, outcome, wanted in (
            ((0.0021, 0.0023), "right", told),
            ((0.001, 0.0023), "right", ""),
            ((0.0021, 0.0023), "fails", told),
        ):
            self.set_environment(FAKE_WEFT=outcome)
            self.patch(select_implementation, "_call_times", lambda *_: times)
            torch._dynamo.reset()
            self.before = {id(one) for one in compiled_graphs.all_compiled_graphs()}
            (kernels,) = self.called(replay_mb=None, cache=False).values()
            self.assertEqual(kernels.replay, wanted)

    def test_which_graphs_may_be(self):
        def graph(function):
            return torch.fx.experimental.proxy_tensor.make_fx(function)(x)

        x = torch.rand(4, 4)
        with operators._scoped_library("weft_test", "FRAGMENT") as theirs:
            theirs.define("theirs(Tensor x) -> Tensor")
            theirs.impl("theirs", torch.clone, "CompositeExplicitAutograd")
            for function, may in (
                (torch.tanh, True),
                (lambda x: torch.ops.weft_test.theirs(x), False),
                (lambda x: x.as_strided((3,), (1,), 3) + 1, False),
                (lambda x: x[1:].as_strided((8,), (1,), 4) + 1, False),
                (lambda x: (x + 1)[:2].as_strided((9,), (1,)) + 1, False),
                (lambda x: x.mean(1).as_strided((4, 1), (1, 4)) + 1, True),
                (torch.rand_like, False),
            ):
                for role in ("inference", "forward", "backward", "optimize"):
                    compiled_graph = compiled_graphs.CompiledGraph(
                        graph(function), Options(replay_mb=1), role
                    )
                    why = select_implementation.why_no_replay(compiled_graph, [x])
                    self.assertEqual(not why, may and role in ("inference", "optimize"), why)

    def test_optimize_has_no_replay_of_eager(self):
        graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: (torch.tanh(x),))(
            x := torch.rand(3, 3)
        )
        for role, there in (("inference", True), ("optimize", False)):
            compiled_graph = compiled_graphs.CompiledGraph(graph, Options(replay_mb=1), role)
            made, _ = select_implementation._recorded(
                compiled_graph, compiled_graphs.Kernels(), compiled_graph.framework, [x]
            )
            self.assertEqual(made is not None, there)

    def test_the_option_is_a_whole_number(self):
        for wrong in (-1, 2.5, "1"):
            with self.assertRaisesRegex(ValueError, "replay_mb"):
                Options(replay_mb=wrong)

    def test_sizes_have_limits(self):
        for wrong in (0, 65, "4", None):
            with self.assertRaisesRegex(ValueError, "shapes_max"):
                Options(shapes_max=wrong)


@unittest.skipUnless(torch.cuda.is_available(), "there is no GPU")
class OnTheDevice(unittest.TestCase):
    def setUp(self):
        self.weight = torch.rand(300, device="cuda")
        self.x = torch.rand(40, 300, device="cuda")

    def made(self, function=weighted):
        return Replayed(function, [self.weight, self.x], {0}, [], 1 << 30)

    def test_a_graph_computes_what_the_function_does(self):
        made = self.made()
        for _ in range(3):
            self.weight.mul_(1.5)
            x = torch.rand_like(self.x)
            for got, expected in zip(
                made([self.weight, x]), weighted([self.weight, x]), strict=True
            ):
                self.assertTrue(torch.equal(got, expected))
        self.assertIsInstance(made._recording, Recording)
        made.function = None  # which a replay does not call
        made([self.weight, self.x])

    def test_arguments_are_read_where_they_lie(self):
        made, other = self.made(), torch.rand_like(self.x)
        made.read_in_place()
        for _ in range(3 * resting_arguments.RESTS_AFTER):
            self.x.add_(1)
            for x in (self.x,) * resting_arguments.RESTS_AFTER + (other,):
                for got, expected in zip(
                    made([self.weight, x]), weighted([self.weight, x]), strict=True
                ):
                    self.assertTrue(torch.equal(got, expected))
        self.assertEqual(made._resting.moving, [])

    def test_what_is_written_is_written_once_in_each_call(self):
        def summed(given):
            given[0].add_(given[1])
            return [given[0] * 2]

        cache, one = torch.zeros(300, device="cuda"), torch.ones(300, device="cuda")
        made = Replayed(summed, [cache, one], set(), [], 1 << 30, written=frozenset({0}))
        made.read_in_place()
        for number in range(1, 3 * resting_arguments.RESTS_AFTER):
            (got,) = made([cache, one])
            self.assertTrue(bool((cache == number).all() and (got == 2 * number).all()))
        self.assertEqual(made._resting.moving, [])
        self.assertIsInstance(made._resting.recording, Recording)

    def test_streams_wait_for_each_other(self):
        made = self.made()
        streams = [torch.cuda.Stream() for _ in range(3)]
        xs = [torch.rand_like(self.x) for _ in streams]
        torch.cuda.synchronize()
        for _ in range(30):
            found = []
            for stream, x in zip(streams, xs):
                with torch.cuda.stream(stream):
                    found.append(made([self.weight, x])[0])
            torch.cuda.synchronize()
            for got, x in zip(found, xs):
                self.assertTrue(torch.equal(got, x * self.weight))

    def test_it_can_be_part_of_a_graph_of_the_program_s(self):
        made, graph = self.made(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got, _ = made([self.weight, self.x])
        self.x.add_(1)
        graph.replay()
        self.assertTrue(torch.equal(got, self.x * self.weight))

    def test_one_that_cannot_be_recorded_leaves_all_as_it_was(self):
        def waits(given):
            return [given[0] * given[1].sum().item()]

        torch.cuda.manual_seed(5)
        expected = torch.rand(9, device="cuda")
        torch.cuda.manual_seed(5)
        made, why = recorded(waits, [self.weight, self.x], {0}, [], 1 << 30)
        self.assertIsNone(made)
        self.assertIn("captur", why)
        self.assertTrue(torch.equal(torch.rand(9, device="cuda"), expected))
        self.assertEqual(len(self.made()([self.weight, self.x])), 2)

    def test_one_that_fails_plainly_leaves_all_as_it_was(self):
        calls = []

        def fails(given):
            calls.append(1)
            if len(calls) > cuda_graph.WARM_UPS:
                raise ValueError("not while it is recorded")
            return weighted(given)

        made, why = recorded(fails, [self.weight, self.x], {0}, [], 1 << 30)
        self.assertEqual((made, why), (None, "ValueError: not while it is recorded"))
        torch.rand(9, device="cuda")
        self.test_a_graph_computes_what_the_function_does()

    def test_others_draw_while_it_is_recorded(self):
        torch.cuda.manual_seed(5)
        expected = [torch.rand(9, device="cuda") for _ in range(2)]
        torch.cuda.manual_seed(5)
        drawn = []

        def function(given):
            if torch.cuda.is_current_stream_capturing():
                other = threading.Thread(target=lambda: drawn.append(torch.rand(9, device="cuda")))
                other.start()
                other.join()
            return weighted(given)

        self.made(function)
        drawn.append(torch.rand(9, device="cuda"))
        for one, other in zip(drawn, expected, strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_a_first_look_is_not_within_the_program_s_own_graph(self):
        self.assertFalse(select_implementation.is_recording([self.x]))
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            self.assertTrue(select_implementation.is_recording([self.x]))
            self.x + 1

    def test_others_may_let_go_of_what_products_need(self):
        weight = torch.rand(1024, 1024, device="cuda")
        bias = torch.rand(1024, device="cuda")

        def products(given):
            x, weight, bias = given
            y = torch.addmm(bias, x, weight)
            return [torch.mm(y, weight), torch.bmm(y[None], weight[None])]

        for _ in range(3):
            x = torch.rand(16, 1024, device="cuda")
            expected = products([x, weight, bias])
            mine = Replayed(products, [x, weight, bias], {1, 2}, [], 1 << 30)
            other = Replayed(weighted, [self.weight, self.x], {0}, [], 1 << 30)
            for _ in range(3):
                torch._C._cuda_clearCublasWorkspaces()
                torch.cuda.empty_cache()
                rooms = [torch.full((1 << 22,), 7.0, device="cuda") for _ in range(20)]
                for got, one in zip(mine([x, weight, bias]), expected, strict=True):
                    torch.testing.assert_close(got, one)
                other([self.weight, self.x])
                for room in rooms:
                    self.assertTrue(bool((room == 7).all()))

    def test_its_memory_goes_with_it(self):
        large = 2000

        def repeated(given):
            return [(given[1] * given[0]).repeat(large, 1)]

        made = self.made(repeated)
        self.assertGreater(made.nbytes, 90 << 20)
        before = torch.cuda.memory_reserved()
        del made
        torch.cuda.empty_cache()
        self.assertLess(torch.cuda.memory_reserved(), before - (80 << 20))
        kept = torch.cuda.memory_reserved()

        def waits(given):
            return [repeated(given)[0] * given[1].sum().item()]

        for function, bytes_max in ((waits, 1 << 30), (repeated, 1 << 20)):
            found, why = recorded(function, [self.weight, self.x], {0}, [], bytes_max)
            self.assertIsNone(found)
            self.assertRegex(why, "captur|may keep 1$")
        torch.cuda.empty_cache()
        self.assertLess(torch.cuda.memory_reserved(), kept + (32 << 20))


if __name__ == "__main__":
    unittest.main()
