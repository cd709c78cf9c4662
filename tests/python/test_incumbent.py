"""Inductor's code for whole graphs, and generated kernels in it, region by region."""

import re
import threading
import time
import unittest
from unittest import mock

import torch
from backend_case import WAIT_S, BackendCase, Net
from torch import nn

import weft
from weft.backend.implementations import incumbent, program_timing
from weft.backend.implementations.program_timing import Arguments, Comparison, copied, timed
from weft.backend.searches import program_trials
from weft.backend.searches.whole_program import Step, WholeProgram


#: Arguments of Inductor's inner compiler that its CUDA graphs depend on.
TOLD = ("static_input_idxs", "is_inference", "is_backward")


class Chain(nn.Module):
    """Many parameters, little work; a convolution, whose results Inductor likes
    to lay out in another way."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Conv2d(3, 8, 3, padding=1)
        self.scales = nn.ParameterList([nn.Parameter(torch.rand(8, 1, 1)) for _ in range(4)])

    def forward(self, x):
        y = self.filters(x)
        for scale in self.scales:
            y = torch.tanh(y * scale)
        return y, y.mean((2, 3)), y.transpose(1, 2)


class IncumbentCase(BackendCase):
    def compiled(self, module, dynamic=None, **options):
        """Kernels that are played win by the search's word alone."""
        options = {"fallback": "inductor", "trial_s": 0, **options}
        return super().compiled(module, dynamic, **options)

    def states(self, role=None):
        return [one.state for one in self.programs(role)]

    def reasons(self):
        return [one.reason for one in self.programs()] + [
            region.reason for one in self.programs() for region in one.candidates
        ]


class Regions(IncumbentCase):
    def test_kernels_compute_in_the_graph_that_inductor_compiles(self):
        net, x = Net().eval(), torch.randn(5, 12)
        with torch.no_grad():
            mine = self.compiled(net)
            for _ in range(3):
                self.assert_same(mine(x), net(x))
        (program,) = self.programs()
        self.assertEqual((program.role, program.state), ("inference", "ready"))
        self.assertEqual((program.calls, program.calls_with_kernels), (3, 3))
        generated = [one for one in program.candidates if one.state == "generated"]
        self.assertTrue(generated, self.reasons())
        self.assertEqual(self.compiled_graphs(), [])

        (report,) = weft.explain().graphs[-1:]
        self.assertEqual(len(report.regions), len(program.candidates))
        self.assertIn("roofline", str(report))
        self.assertIn(
            f"{len(generated)} of {len(program.candidates)} regions generated", str(report)
        )

    def test_a_step_of_training(self):
        net, found = Net(), {}
        for name, one in (("eager", net), ("mine", self.compiled(net))):
            x = torch.linspace(-1, 1, 60).reshape(5, 12).requires_grad_()
            net.zero_grad()
            one(x).square().sum().backward()
            found[name] = [x.grad, *[one.grad for one in net.parameters()]]
        for got, expected in zip(found["mine"], found["eager"], strict=True):
            self.assert_same(got, expected)
        self.assertEqual(sorted(self.states()), ["ready", "ready"], self.reasons())
        self.assertEqual({one.role for one in self.programs()}, {"forward", "backward"})

    def check_refused(self, how, reason):
        self.set_environment(FAKE_WEFT=how)
        net, x = Net().eval(), torch.randn(5, 12)
        with torch.no_grad():
            mine = self.compiled(net)
            for _ in range(2):
                self.assert_same(mine(x), net(x))
        self.assertEqual(self.states(), ["pytorch"])
        self.assertIn(reason, " ".join(self.reasons()))

    def test_wrong_kernels_are_not_inserted(self):
        self.check_refused("wrong", "came to something else")

    def test_kernels_that_fail_are_not_inserted(self):
        self.check_refused("raises", "a kernel fell over")

    def test_without_kernels_the_incumbent_stays(self):
        self.check_refused("nothing", "no generated kernel is faster")

    def test_kernels_that_fail_later_are_given_up(self):
        self.set_environment(FAKE_WEFT="later")
        net, x = Net().eval(), torch.randn(5, 12)
        # By the look at the results alone, the first call of each.
        self.patch(program_trials.ProgramTrials, "_difference", lambda *_: "")
        with torch.no_grad():
            mine = self.compiled(net)
            for _ in range(3):
                self.assert_same(mine(x), net(x))
        self.assertEqual(self.states(), ["pytorch"])
        self.assertIn("the second call fell over", " ".join(self.reasons()))

    def test_kernels_are_exchanged_while_the_program_runs(self):
        net, x = Net().eval(), torch.randn(5, 12)
        with torch.no_grad():
            mine, until = self.compiled(net, wait=False), time.monotonic() + WAIT_S
            while not self.programs() or self.states() != ["ready"]:
                self.assertLess(time.monotonic(), until, self.reasons())
                self.assert_same(mine(x), net(x))
            self.assert_same(mine(x), net(x))
        self.assertGreater(self.programs()[0].calls_with_kernels, 0)


class Incumbent(IncumbentCase):
    def setUp(self):
        super().setUp()
        self.set_environment(FAKE_WEFT="fails")

    def test_it_computes_what_eager_does_and_lays_it_out_so(self):
        net = Chain().eval()
        x = torch.randn(2, 3, 9, 7)
        with torch.no_grad():
            mine = self.compiled(net)
            for _ in range(2):
                for got, expected in zip(mine(x), net(x), strict=True):
                    self.assert_same(got, expected)
                    self.assertEqual(got.stride(), expected.stride())

    def test_the_profile_is_there_without_kernels(self):
        net = Net().eval()
        with torch.no_grad():
            self.compiled(net)(torch.randn(5, 12))
        (program,) = self.programs()
        self.assertGreater(program.incumbent_s, 0)
        self.assertTrue(program.candidates)
        self.assertGreater(sum(one.time.seconds for one in program.candidates), 0)

    def test_it_is_the_graph_that_torch_compile_compiles(self):
        """The same kernels, by Inductor's own word, forward and backward."""
        from torch._inductor.utils import run_and_get_code

        def step(net):
            x = torch.linspace(-1, 1, 60).reshape(5, 12).requires_grad_()
            net(x).square().sum().backward()

        net, found = Net(), []
        with mock.patch.dict("os.environ", {"WEFT_DISABLE": ""}):
            for one in (torch.compile(net), self.compiled(net, wait=False)):
                torch._dynamo.reset()
                with torch._inductor.config.patch(fx_graph_cache=False):
                    _, codes = run_and_get_code(step, one)
                found.append(
                    [
                        [
                            line.strip()
                            for line in code.splitlines()
                            if re.match(r"\s+(extern_kernels|cpp_fused)", line)
                        ]
                        for code in codes
                    ]
                )
        self.assertEqual(len(found[0]), 2)
        self.assertTrue(all(found[0]))
        self.assertEqual(found[0], found[1][:2])

    def test_inductor_is_told_the_same_of_each_argument(self):
        """Which arguments are static, so that CUDA graphs copy no parameter, and all else
        that Inductor's CUDA graphs depend on."""
        from torch._inductor import output_code

        found = []
        real = output_code.CompiledFxGraph.post_compile

        def noted(graph, examples, constants, keywords):
            found.append(
                {
                    **{name: keywords.get(name) for name in TOLD},
                    "cudagraphs": bool(keywords["cudagraphs"]),
                    "checked": list(graph.inputs_to_check),
                    "arguments": len(examples),
                    "partitions": getattr(graph, "partition_maps", None),
                    "call": type(graph.current_callable),
                }
            )
            return real(graph, examples, constants, keywords)

        def calls(net):
            x = torch.linspace(-1, 1, 60).reshape(5, 12)
            with torch.no_grad():
                net(x)
            net(x.requires_grad_()).square().sum().backward()

        net, told = Net(), []
        with (
            mock.patch.object(output_code.CompiledFxGraph, "post_compile", noted),
            mock.patch.object(WholeProgram, "_attend", lambda *_: None),
            torch._inductor.config.patch(fx_graph_cache=False),
        ):
            for one in (
                torch.compile(net, mode="reduce-overhead"),
                self.compiled(net, mode="reduce-overhead"),
            ):
                torch._dynamo.reset()
                found.clear()
                calls(one)
                told.append(list(found))
        self.assertEqual(len(self.programs()), 3)
        self.assertEqual(len(told[0]), 3)
        self.assertEqual(told[0], told[1])
        inference = next(one for one in told[1] if one["is_inference"])
        # All but x.
        self.assertEqual(len(inference["static_input_idxs"]), inference["arguments"] - 1)

    def test_a_call_looks_at_no_argument(self):
        """After the search, Inductor's code has the list itself."""

        class Unseen(list):
            def fails(self, *_):
                raise AssertionError("a call looked at its arguments")

            __iter__ = __len__ = __getitem__ = __bool__ = fails

        given = []
        request = mock.Mock(role="inference")
        request.uses_cuda_graphs.return_value = True
        program = WholeProgram(request, given.append, weft.backend.options.Options(), mock.Mock())
        program.state = "pytorch"
        arguments = Unseen([torch.ones(1)])
        program(arguments)
        self.assertIs(given[0], arguments)

    def test_what_is_changed_is_changed_once(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(4))

            def forward(self, x):
                self.calls.add_(1)
                return x * self.calls

        net = Counts()
        with torch.no_grad():
            mine = self.compiled(net)
            for number in (1, 2):
                self.assert_same(mine(torch.ones(4)), torch.full((4,), float(number)))

    def test_what_draws_gets_inductor_s_own_numbers(self):
        """The same as torch.compile alone, call by call."""

        class Draws(nn.Module):
            def forward(self, x):
                return torch.tanh(x) + torch.rand_like(x)

        found = {}
        for name, one in (("theirs", torch.compile(Draws())), ("mine", self.compiled(Draws()))):
            torch.manual_seed(3)
            with torch.no_grad():
                found[name] = [one(torch.zeros(4, 8)) for _ in range(2)]
        for got, expected in zip(found["mine"], found["theirs"], strict=True):
            self.assert_same(got, expected)

    def test_one_that_comes_to_something_else_gives_way_to_eager(self):
        net, x = Net().eval(), torch.randn(5, 12)
        real = WholeProgram.__init__

        def wrong(self, request, function, *rest):
            real(self, request, lambda given: [one * 3 for one in function(given)], *rest)

        with torch.no_grad(), mock.patch.object(WholeProgram, "__init__", wrong):
            mine = self.compiled(net)
            for _ in range(2):
                self.assert_same(mine(x), net(x))
        self.assertIn("comes to something else than eager", " ".join(self.reasons()))

    def test_where_the_entry_point_fails_pieces_compute(self):
        def refuses(*_, **__):
            raise RuntimeError("not this one")

        net, x = Net().eval(), torch.randn(5, 12)
        with torch.no_grad(), mock.patch.object(incumbent, "compile_graph", refuses):
            self.assert_same(self.compiled(net)(x), net(x))
        self.assertEqual((len(self.programs()), len(self.compiled_graphs())), (0, 1))

    def test_symbolic_sizes_are_searched_in_pieces(self):
        net = Net().eval()
        with torch.no_grad():
            mine = self.compiled(net, dynamic=True)
            x = torch.randn(5, 12)
            self.assert_same(mine(x), net(x))
        self.assertEqual((len(self.programs()), len(self.compiled_graphs())), (0, 1))

    def test_threads_compile_beside_torch_compile(self):
        x = torch.randn(5, 12)
        nets = [Net().eval() for _ in range(4)]
        compiled = [
            self.compiled(net) if number % 2 else torch.compile(net)
            for number, net in enumerate(nets)
        ]

        def work(number):
            with torch.no_grad():
                self.assert_same(compiled[number](x), nets[number](x))

        self.assertEqual(self.in_threads(4, work), [])


class OperatorTexts(unittest.TestCase):
    """Inductor's text of an operator that it meets for the first time."""

    def test_a_text_has_types_alone(self):
        text = incumbent.operator_text("op", (torch.ones(2), 3), {"dim": None})
        self.assertEqual(text, "target: op\n0: Tensor\n1: int\ndim: NoneType")

    @mock.patch.object(torch, "__version__", torch.torch_version.TorchVersion("2.11.0"))
    def test_earlier_versions_of_pytorch_have_it(self):
        from torch._inductor import exc

        kept = exc.OperatorIssue.operator_str
        incumbent._shorten_operator_texts.cache_clear()
        try:
            incumbent._shorten_operator_texts()
            self.assertIs(exc.OperatorIssue.operator_str, incumbent.operator_text)
        finally:
            exc.OperatorIssue.operator_str = staticmethod(kept)
            incumbent._shorten_operator_texts.cache_clear()


class Timing(unittest.TestCase):
    def test_beyond_noise(self):
        noise = Comparison(((1.0, 1.1, 0.9, 1.2, 1.0, 0.8), (1.0,) * 6))
        self.assertFalse(noise.is_faster(1, 0))
        clear = Comparison(((1.1, 1.1, 0.9, 1.2, 1.1, 1.1), (1.0,) * 6))
        self.assertTrue(clear.is_faster(1, 0))
        self.assertFalse(clear.is_faster(0, 1))
        self.assertAlmostEqual(clear.ratio(0, 1), 1.1)
        few = Comparison(((2.0,) * 3, (1.0,) * 3))
        self.assertFalse(few.is_faster(1, 0))

    def test_many_rounds_show_a_small_gain_in_noise(self):
        """The gain is 5 %, rounds vary by a fifth, and two in three are faster."""
        for rounds, is_enough in ((12, False), (99, True)):
            one = Comparison(((1.0,) * rounds, (1.15, 1.05, 0.9) * (rounds // 3)))
            self.assertEqual(one.is_faster(0, 1), is_enough)
        self.assertFalse(Comparison(((1.0,) * 99, (1.15, 1.001, 0.9) * 33)).is_faster(0, 1))

    def test_every_call_has_its_turn_in_every_round(self):
        calls = []
        found = timed(
            [lambda: calls.append("a") or 1.0, lambda: calls.append("b") or 2.0], 0.0, lambda: None
        )
        rounds = [set(calls[i : i + 2]) for i in range(4, len(calls), 2)]
        self.assertEqual(rounds, [{"a", "b"}] * len(found.seconds[0]))
        self.assertEqual(set(found.seconds[1]), {2.0})
        self.assertIn(["b", "a"], [calls[i : i + 2] for i in range(4, len(calls), 2)])

    def test_only_what_a_call_may_write_to_is_copied(self):
        request = mock.Mock(role="inference", static_inputs=frozenset({0}))
        request.written_inputs.return_value = frozenset({1})
        given = [torch.ones(2), torch.ones(2), torch.ones(2)]
        arguments = Arguments(request, given)
        self.assertEqual(
            [one is other for one, other in zip(arguments.fresh(), given)], [True, False, True]
        )
        self.assertEqual(
            [one is other for one, other in zip(arguments.moved(), given)], [True, False, False]
        )

    def compared_on_a_gpu(self, recorded):
        """By played recordings and a played device."""
        launched, arguments = [], mock.Mock()
        arguments.device.return_value = torch.device("cuda")
        arguments.fresh.side_effect = lambda: [1]
        with (
            mock.patch.object(program_timing, "recorded", recorded),
            mock.patch.object(torch.cuda, "synchronize", lambda _: None),
        ):
            found = program_timing.compared(
                [lambda _: launched.append("a"), lambda _: launched.append("b")],
                arguments,
                0.0,
                True,
            )
        self.assertEqual(len(found.seconds), 2)
        return launched

    def test_calls_of_a_gpu_are_timed_as_cuda_graphs(self):
        replays = []
        launched = self.compared_on_a_gpu(lambda function, *_: lambda: replays.append(function))
        self.assertEqual(launched, [])
        self.assertEqual(len(set(replays)), 2)

    def test_short_replays_are_timed_several_in_a_row(self):
        counts = [0, 0]

        def replay(which, seconds):
            def run():
                counts[which] += 1
                time.sleep(seconds)

            return run

        found = program_timing.timed_replays([replay(0, 1e-4), replay(1, 3e-4)], 0.0, lambda: None)
        rounds = len(found.seconds[1])
        self.assertEqual(counts[1] % (rounds + program_timing.WARM_UPS), 0)
        self.assertGreater(counts[1] // (rounds + program_timing.WARM_UPS), 1)
        # The seconds are those of one.
        self.assertGreaterEqual(found.median_s(1), 3e-4)
        self.assertLess(found.median_s(1), 5e-3)
        self.assertGreater(found.ratio(1, 0), 1)

    def test_calls_that_cannot_be_recorded_are_launched(self):
        def fails(*_):
            raise RuntimeError("no memory")

        self.assertEqual(set(self.compared_on_a_gpu(fails)), {"a", "b"})

    def test_copies_lie_as_what_they_are_of(self):
        for tensor in (
            torch.randn(4, 6)[:, ::2],
            torch.randn(4, 6).t(),
            torch.randn(6).expand(4, 6),
            torch.randn(()),
        ):
            self.assertTrue(torch.equal(copied(tensor), tensor))
        self.assertEqual(copied(torch.randn(4, 6).t()).stride(), (1, 6))


class Steps(unittest.TestCase):
    def program(self, improve, **options):
        request = mock.Mock(role="inference")
        request.uses_cuda_graphs.return_value = False
        return WholeProgram(
            request, lambda given: sum(given), weft.backend.options.Options(**options), improve
        )

    def test_the_next_call_does_what_waits(self):
        done, program = [], self.program(lambda _: threading.Event())
        self.assertEqual(program([1, 2]), 3)
        step = Step(lambda arguments: done.append(list(arguments)))
        program.ask(step)
        self.assertEqual((program([3, 4]), done), (7, [[3, 4]]))
        self.assertTrue(step.done.is_set())

    def test_an_error_is_no_call_s(self):
        program = self.program(lambda _: threading.Event())
        program([1])
        step = Step(lambda _: 1 / 0)
        program.ask(step)
        self.assertEqual(program([1]), 1)
        self.assertIsInstance(step.error, ZeroDivisionError)

    def test_a_call_that_waits_does_the_steps(self):
        def improve(program):
            ended = threading.Event()

            def work():
                step = Step(done.append)
                program.ask(step)
                step.done.wait(WAIT_S)
                ended.set()
                program.notify()

            threading.Thread(target=work).start()
            return ended

        done = []
        self.assertEqual(self.program(improve, wait=True)([1, 2]), 3)
        self.assertEqual(done, [[1, 2]])

    def test_a_child_process_searches_anew(self):
        begun = []
        program = self.program(lambda one: begun.append(one) or threading.Event())
        program([1])
        program.ask(Step(lambda _: None))
        program.after_fork()
        self.assertEqual(program.state, "forked")
        program([1])
        self.assertEqual((program.state, len(begun)), ("searching", 2))

    def test_a_search_that_fails_to_begin_is_no_call_s_error(self):
        def fails(_):
            raise RuntimeError("no thread")

        self.assertEqual(self.program(fails)([1]), 1)


if __name__ == "__main__":
    unittest.main()
