"""torch.compile(model, backend="weft"): changes of a module and of its calls have the
same effect with kernels as in eager."""

import copy
import io
import pickle
import time
import unittest

import torch
from backend_case import BUDGET_S, WAIT_S, BackendCase, Net
from torch import nn

import weft


class AsEager(BackendCase):
    """Each change is made to a module and to its compiled copy alike."""

    def setUp(self):
        super().setUp()
        self.net, self.x = Net(), torch.randn(4, 12)
        self.twin = copy.deepcopy(self.net)
        self.mine = self.compiled(self.twin)

    def call(self):
        for _ in range(3):
            self.assert_same(self.mine(self.x), self.net(self.x))

    def assert_used(self):
        """Kernels computed some of it, and nothing went wrong."""
        self.assertIn("ready", self.states(), self.reasons())
        self.assertNotIn("pytorch", self.states(), self.reasons())

    def both(self, change):
        change(self.net)
        change(self.twin)

    @torch.no_grad()
    def test_weights_are_read_at_every_call(self):
        self.call()
        self.both(lambda net: net.scale.mul_(3))
        self.call()
        self.both(lambda net: setattr(net, "scale", nn.Parameter(torch.arange(12.0))))
        self.call()
        self.both(
            lambda net: net.load_state_dict(Net().state_dict()) if torch.manual_seed(7) else None
        )
        self.call()
        self.assert_used()

    @torch.no_grad()
    def test_state_dict_and_deepcopy(self):
        self.call()
        self.assertEqual(list(self.twin.state_dict()), list(self.net.state_dict()))
        twin = copy.deepcopy(self.mine)
        self.assert_same(twin(self.x), self.net(self.x))
        self.net.scale.zero_()  # not the copy's
        self.assertFalse(torch.equal(twin(self.x), self.net(self.x)))

    @torch.no_grad()
    def test_torch_save_of_the_module(self):
        self.call()
        kept = io.BytesIO()
        torch.save(self.twin, kept)
        kept.seek(0)
        again = torch.load(kept, weights_only=False)
        self.assert_same(again(self.x), self.net(self.x))

    @torch.no_grad()
    def test_other_types(self):
        self.call()
        self.both(lambda net: net.double())
        self.x = self.x.double()
        self.call()
        self.both(lambda net: net.to(torch.bfloat16))
        self.x = self.x.bfloat16()
        self.call()
        self.assert_used()

    @torch.no_grad()
    def test_halves(self):
        self.both(lambda net: net.half())
        self.x = self.x.half()
        self.call()
        self.assert_used()

    def test_gradients_switched_on_and_off(self):
        with torch.no_grad():
            self.call()
            self.assertFalse(self.mine(self.x).requires_grad)
        self.call()
        self.assertTrue(self.mine(self.x).requires_grad)
        self.both(lambda net: net.requires_grad_(False))
        self.call()
        self.assertFalse(self.mine(self.x).requires_grad)
        self.assert_used()

    @torch.no_grad()
    def test_a_module_compiled_in_place_is_pickled_as_itself(self):
        self.twin.compile(
            backend=weft.backend.compile, options={"wait": True, "budget_s": BUDGET_S}
        )
        self.mine = self.twin
        self.call()
        self.assert_used()
        again = pickle.loads(pickle.dumps(self.twin))
        self.assert_same(again(self.x), self.net(self.x))

    def test_hooks_of_gradients_are_called(self):
        self.both(lambda net: net.scale.register_hook(lambda grad: grad * 3))
        self.both(
            lambda net: net.linear.register_full_backward_hook(
                lambda module, given, out: (given[0] * 2,)
            )
        )
        for _ in range(3):
            for run, net in ((self.net, self.net), (self.mine, self.twin)):
                net.zero_grad()
                run(self.x).square().sum().backward()
            for a, b in zip(self.twin.parameters(), self.net.parameters()):
                self.assert_same(a.grad, b.grad)
        self.assert_used()

    @torch.no_grad()
    def test_hooks_are_called(self):
        """Those that are there when it is compiled, as with any backend."""
        self.both(
            lambda net: net.linear.register_forward_hook(lambda module, args, result: result + 1)
        )
        self.both(lambda net: net.register_forward_pre_hook(lambda module, args: (args[0] * 2,)))
        self.call()
        self.assert_used()

    @torch.no_grad()
    def test_settings_and_modes_are_seen(self):
        self.call()
        self.both(lambda net: setattr(net, "factor", -1.0))
        self.call()
        self.both(lambda net: net.eval())
        self.call()
        self.assert_used()

    def test_inference_mode(self):
        with torch.inference_mode():
            self.call()
            self.assertTrue(self.mine(self.x).is_inference())
        self.assert_used()

    def test_autocast(self):
        with torch.no_grad():
            self.call()
            with torch.autocast("cpu", torch.bfloat16):
                self.call()
            self.call()
        self.assert_used()

    def test_threads_that_call_while_kernels_come_in(self):
        """From the start: none has called it before."""
        self.mine = self.compiled(self.twin, wait=False)
        self.assertEqual(self.call_in_threads(), [])
        self.assert_used()
        calls = sum(
            kernels.calls for graph in self.compiled_graphs() for kernels in graph.kernels.values()
        )
        self.assertGreater(calls, 0)  # how many, a busy machine decides
        # Dynamo may have made the graph for each of them.
        self.assertEqual(self.runs(), 1)

    def test_threads_whose_kernels_fail(self):
        """One thread sees the failure. The other threads' calls are PyTorch's, and the
        first reason stays."""
        self.set_environment(FAKE_WEFT="later")
        self.mine = self.compiled(self.twin, wait=False)
        self.assertEqual(self.call_in_threads(), [])
        given_up = [reason for reason in self.reasons() if reason]
        self.assertTrue(given_up)
        for reason in given_up:
            self.assertIn("the second call fell over", reason)

    @torch.no_grad()
    def test_a_call_whose_kernels_another_thread_gives_up_meanwhile(self):
        self.call()
        (graph,) = self.compiled_graphs()
        (kernels,) = graph.kernels.values()
        given, computed = [], kernels.composed
        kernels.composed = lambda arguments: given.append(list(arguments)) or computed(arguments)
        expected = self.mine(self.x)
        kernels.settle("pytorch", "the first reason")
        (arguments,) = given
        self.assert_same(graph.run(kernels, arguments)[0], expected)
        kernels.settle("pytorch", "the second reason")
        self.assertEqual(self.reasons(), ["the first reason"])

    def call_in_threads(self):
        """The failures of four threads, which call from now until some calls after
        kernels are tried or given up."""

        def is_over():
            return any(state in ("ready", "pytorch") for state in self.states())

        def work(seed):
            x = torch.randn(4, 12, generator=torch.Generator().manual_seed(seed))
            until, after = time.monotonic() + WAIT_S, 0
            with torch.no_grad():
                expected = self.net(x)
                while after < 20 and time.monotonic() < until:
                    after += is_over()
                    self.assert_same(self.mine(x), expected)

        return self.in_threads(4, work)

    @torch.no_grad()
    def test_views_and_written_inputs(self):
        def view_and_write(x):
            x.add_(1)
            return x.t(), x.relu()

        compiled = self.compiled(view_and_write)
        for _ in range(3):
            x = torch.randn(3, 5)
            mine = x.clone()
            expected, got = view_and_write(x), compiled(mine)
            self.assert_same(mine, x)
            self.assert_same(got, expected)
            self.assertEqual(got[0].data_ptr(), mine.data_ptr())

    @torch.no_grad()
    def test_random_numbers_are_the_same(self):
        def noisy(x):
            return torch.dropout(x, 0.5, True) + torch.rand_like(x)

        compiled, x = self.compiled(noisy), torch.randn(64)
        for _ in range(3):
            torch.manual_seed(5)
            expected, after = noisy(x), torch.rand(1)
            torch.manual_seed(5)
            self.assert_same(compiled(x), expected)
            self.assert_same(torch.rand(1), after)
        self.assert_used()


class Gradients(BackendCase):
    def net(self):
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.BatchNorm2d(4),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Flatten(),
            nn.Linear(64, 5),
            nn.LayerNorm(5),
        )

    def test_an_optimiser_follows_eager(self):
        def losses(make):
            net = self.net()
            run = make(net)
            optimiser = torch.optim.AdamW(net.parameters(), 0.01)
            torch.manual_seed(11)
            told = []
            for _ in range(5):
                x, y = torch.randn(6, 2, 6, 6), torch.randint(5, (6,))
                loss = nn.functional.cross_entropy(run(x), y)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                told.append(loss.detach())
            return torch.stack(told), net

        expected, eager = losses(lambda net: net)
        got, mine = losses(self.compiled)
        self.assert_same(got, expected)
        self.assert_same(dict(mine.named_buffers()), dict(eager.named_buffers()))
        self.assertEqual(self.states("forward"), ["ready"], self.reasons())
        self.assertEqual(self.states("backward"), ["ready"], self.reasons())

    def test_gradients_hold_against_differences(self):
        net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Softmax(-1)).double()
        compiled = self.compiled(net)
        x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(compiled, (x,)))
        self.assertEqual(self.states("backward"), ["ready"], self.reasons())

    def test_without_kernels_the_gradients_are_the_framework_s(self):
        self.set_environment(FAKE_WEFT="fails")
        net, x = self.net(), torch.randn(6, 2, 6, 6)
        twin = copy.deepcopy(net)
        torch.manual_seed(2)
        net(x).square().sum().backward()
        torch.manual_seed(2)
        self.compiled(twin)(x).square().sum().backward()
        for a, b in zip(twin.parameters(), net.parameters()):
            self.assert_same(a.grad, b.grad)


if __name__ == "__main__":
    unittest.main()
