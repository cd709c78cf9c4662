"""CUDA graphs of weft's for a program whose mode has Inductor's: used where the program's
calls are faster with them."""

import unittest
from unittest import mock

import torch

import weft.backend.options
from weft.backend.implementations.incumbent import Request
from weft.backend.implementations.program_timing import Comparison
from weft.backend.searches import improvement, program_replays, program_trials
from weft.backend.searches.whole_program import WholeProgram


class ReplaysOfWeft(unittest.TestCase):
    """The program has Inductor's CUDA graphs. No test needs a device."""

    #: Seconds of a call with Inductor's CUDA graphs, with weft's, and with weft's in place.
    FAST, SLOW = (
        Comparison(tuple((one,) * 8 for one in seconds))
        for seconds in ((1.5, 1.0, 0.9), (1.0, 1.5, 0.9))
    )
    #: As fast with copies, faster without.
    IN_PLACE = Comparison(tuple((one,) * 8 for one in (1.0, 1.0, 0.9)))

    def setUp(self):
        self.request = mock.Mock(role="inference", static_inputs=frozenset())
        self.request.uses_cuda_graphs.return_value = True
        self.request.written_inputs.return_value = frozenset()
        self.program = WholeProgram(
            self.request,
            lambda given: given,
            weft.backend.options.Options(mode="reduce-overhead"),
            mock.Mock(),
        )
        for target, name, value in (
            (program_trials, "uses_rng", lambda _: False),
            (improvement, "insertion", mock.Mock()),
            (improvement.select_implementation, "is_on_gpu", lambda _: True),
        ):
            self.enterContext(mock.patch.object(target, name, value))
        self.request.module.buffers.return_value = ()
        self.request.module.parameters.return_value = ()
        self.request.module.graph.nodes = []
        self.made = mock.Mock(nbytes=3 << 20)
        self.made.kept.return_value = 3 << 20
        self.recorded = self.enterContext(mock.patch.object(program_replays.cuda_graph, "recorded"))
        self.recorded.return_value = self.made, ""
        self.compared = self.enterContext(mock.patch.object(program_replays, "compared"))
        self.compared.return_value = self.FAST
        self.search = improvement.Improvement(self.program, {})
        self.enterContext(mock.patch.object(self.search, "_on_call", lambda work: work([])))

    def accept(self):
        self.search._made, candidate = mock.Mock(), mock.Mock()
        candidate.replacements.return_value = ()
        trial = program_trials.Trial("", Comparison(((1.2,) * 8, (1.2,) * 8, (1.0,) * 8)))
        self.search._accept([candidate], trial)
        self.assertIs(self.search._current, self.search._made)
        self.assertTrue(self.program.has_kernels)
        self.assertEqual(candidate.state, "generated")

    def test_replays_whose_calls_are_faster_are_used(self):
        self.search._replay_current()
        self.assertIs(self.program.function, self.made)
        self.assertFalse(self.program.has_kernels)
        self.assertAlmostEqual(self.program.speedup, 1.5)
        self.assertEqual(self.program.replay, "replayed as a CUDA graph, which keeps 3 MiB")
        self.made.read_in_place.assert_called_once_with()

    def test_replays_that_are_faster_in_place_are_used(self):
        self.compared.return_value = self.IN_PLACE
        self.search._replay_current()
        self.assertIs(self.program.function, self.made)
        self.assertEqual(self.compared.call_args.args[0][0], self.program.incumbent)

    def test_inductor_s_stay_where_they_are_as_fast(self):
        for outcome in (RuntimeError("no memory"), self.SLOW):
            self.compared.side_effect = [outcome]
            self.search._replay_current()
            self.assertIs(self.program.function, self.program.incumbent)
        self.assertEqual(
            self.program.replay, "Inductor's CUDA graphs; not replayed by weft: no clear gain"
        )

    def test_what_inductor_s_graphs_write_to_stays_theirs(self):
        self.request.written_inputs.return_value = frozenset({0})
        self.search._replay_current()
        self.recorded.assert_not_called()
        self.assertIn("it writes to its inputs", self.program.replay)

    def test_a_launched_program_that_writes_is_tried_on_copies(self):
        self.request.uses_cuda_graphs.return_value = False
        self.request.written_inputs.return_value = frozenset({0})
        self.compared.return_value = self.IN_PLACE
        cache = torch.zeros(3)
        with mock.patch.object(self.search, "_on_call", lambda work: work([cache])):
            self.search._replay_current()
        for call, is_trial in zip(self.recorded.call_args_list, (True, False), strict=True):
            self.assertEqual(call.args[1][0] is not cache, is_trial)
            self.assertEqual(call.args[2], {0} if is_trial else set())
            self.assertEqual(call.args[5], {0})
        self.assertIsNot(self.compared.call_args.args[1].fresh()[0], cache)
        self.assertIs(self.program.function, self.made)
        self.assertIs(self.made.otherwise, self.program.incumbent)
        self.assertIn("while what it writes to lies in the same memory", self.program.replay)

    def why_not(self, name, value):
        with mock.patch.object(program_replays, name, value):
            self.search._replay_current()
        self.recorded.assert_not_called()
        self.assertIs(self.program.function, self.program.incumbent)
        return self.program.replay

    def test_results_of_graphs_before_it_forbid_the_trial(self):
        self.assertIn("are alive", self.why_not("_are_others_results_alive", lambda _: True))

    def test_long_calls_are_not_tried(self):
        times = iter((0.0, 2.0))
        clock = mock.Mock(monotonic=lambda: next(times))
        self.assertIn("a call takes 2 s", self.why_not("time", clock))

    def test_copies_of_what_is_written_need_room(self):
        self.request.uses_cuda_graphs.return_value = False
        self.request.written_inputs.return_value = frozenset({0})
        cache = torch.zeros(1 << 20)
        with mock.patch.object(self.search, "_on_call", lambda work: work([cache])):
            self.assertIn("no room for copies of 4 MiB", self.why_not("_free_bytes", lambda _: 1))

    def test_graphs_beyond_replay_mb_are_not_used(self):
        self.made.kept.return_value = 2 << 30
        self.search._replay_current()
        self.assertIs(self.program.function, self.program.incumbent)
        self.assertIn("would keep 2048 MiB", self.program.replay)

    def test_kernels_that_failed_stay_out(self):
        self.program.give_up("a kernel failed")
        self.program.use(self.made, True)
        self.assertIs(self.program.function, self.program.incumbent)

    def test_what_the_host_computes_is_not_recorded(self):
        options = weft.backend.options.Options(mode="reduce-overhead")
        tag = getattr(torch.Tag, "cudagraph_unsafe", None)
        marked = mock.Mock(meta={})
        marked.target.tags = [tag]
        on_cpu = mock.Mock(meta={"val": torch.zeros(1)})
        on_cpu.target.tags = []
        for node in [on_cpu, *([marked] if tag else [])]:
            self.request.module.graph.nodes = [node]
            self.assertFalse(program_replays.may_replay(self.request, options))
        on_cpu.meta = {"val": torch.zeros(1, device="meta")}
        self.request.module.graph.nodes = [on_cpu]
        self.assertTrue(program_replays.may_replay(self.request, options))

    def test_programs_that_forbid_graphs_are_not_recorded(self):
        with mock.patch.object(self.search, "_options", weft.backend.options.Options(replay_mb=0)):
            self.search._replay_current()
        self.recorded.assert_not_called()

    def test_an_accepted_variant_is_replayed_as_the_program_was(self):
        self.search._replay_current()
        self.accept()
        self.assertIs(self.program.function, self.made)
        self.assertIs(self.recorded.call_args.args[0], self.search._made)
        self.assertAlmostEqual(self.program.speedup, 1.5)
        self.request.compiled.assert_not_called()

    def test_an_accepted_variant_has_inductor_s_cuda_graphs(self):
        self.compared.return_value = self.SLOW
        self.search._replay_current()
        self.accept()
        self.assertEqual(self.request.compiled.call_args.args[1:], (True,))
        self.assertIs(self.program.function, self.request.compiled.return_value)
        self.assertEqual(self.recorded.call_count, 2)  # with copies and without
        self.assertAlmostEqual(self.program.speedup, 1.2)

    def test_a_variant_that_cannot_be_recorded_has_them_too(self):
        self.search._replay_current()
        self.recorded.return_value = None, "it reads a value"
        self.accept()
        self.assertIs(self.program.function, self.request.compiled.return_value)
        self.assertEqual(self.program.replay, "Inductor's CUDA graphs")


class WrittenInputs(unittest.TestCase):
    def request(self, static):
        graph = torch.fx.Graph()
        cache, x = graph.placeholder("cache"), graph.placeholder("x")
        total = graph.call_function(torch.ops.aten.add.Tensor, (cache, x))
        graph.call_function(torch.ops.aten.copy_.default, (cache, total))
        graph.output((total,))
        module = torch.fx.GraphModule({}, graph)
        keywords = {"cudagraphs": True, "static_input_idxs": static}
        return Request(module, [], keywords, {}, "inference")

    def test_calls_that_write_to_memory_of_their_caller_s_are_launched(self):
        self.assertEqual(self.request([]).written_inputs(), {0})
        self.assertFalse(self.request([]).uses_cuda_graphs())
        self.assertTrue(self.request([0]).uses_cuda_graphs())


if __name__ == "__main__":
    unittest.main()
