"""The backend with the real program: found, verified, taken over."""

import os
from unittest import main

import torch
import weft_case
from backend_case import RealSearches
from torch import nn

import weft
from weft.backend.searches import background_verification
from weft.backend.searches.background_verification import rechecks


class Chain(nn.Module):
    """What is faster as one kernel on any machine, and so is its gradient."""

    def __init__(self, width=256):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x):
        y = torch.tanh(x * self.scale).abs().sqrt() * 2 - torch.sigmoid(x)
        return (y.relu() + x).clamp(-1, 1) * y.exp()


class Runs(RealSearches):
    def calls(self):
        """That kernels computed."""
        return sum(
            kernels.calls for graph in self.compiled_graphs() for kernels in graph.kernels.values()
        )

    def test_a_step_of_training_and_another_process_s_finds(self):
        net, x = Chain(), torch.randn(1536, 256)
        self.until_ours(lambda: self.step(net, x, variants=1, seeds="compiler"))
        self.assertGreaterEqual(self.calls(), 2)
        states = sorted(self.states())
        # What was found is there at once, whatever the program does.
        self.before |= {id(one) for one in self.compiled_graphs()}
        self.set_environment(WEFT_BIN="/nowhere/weft")
        torch._dynamo.reset()
        self.step(net, x, seeds="compiler")
        self.assertEqual(sorted(self.states()), states)
        self.assertGreaterEqual(self.calls(), 2)
        self.judged()
        self.assertIn("there is no full verdict: WEFT_BIN names /nowhere/weft", str(weft.explain()))
        # With the program it is judged, too, whatever the weights are by then.
        net = Chain()
        self.before |= {id(one) for one in self.compiled_graphs()}
        self.set_environment(WEFT_BIN=weft_case.WEFT)
        rechecks._told.clear()
        torch._dynamo.reset()
        self.step(net, x, seeds="compiler")
        self.judged()
        composed = [
            kernels
            for graph in self.compiled_graphs()
            for kernels in graph.kernels.values()
            if kernels.composed
        ]
        # A search that a slow machine cut short is made anew: fully judged by itself.
        self.assertEqual(
            [
                rechecks.told(one.composed)
                for one in composed
                if not one.from_store and rechecks.told(one.composed)
            ],
            [],
        )
        told = [rechecks.told(one.composed) for one in composed if one.from_store]
        # A busy machine may give no verdict; a backward pass whose gradients
        # cancel, one against it (docs/reference/python.md).
        self.assertIn(background_verification.RIGHT, told, self.reasons())
        self.assertEqual(
            [
                one
                for one in told
                if one != background_verification.RIGHT and "timed_out" not in one
            ],
            [],
        )

    def step(self, net, x, **options):
        compiled = self.compiled(net, **options)
        for _ in range(3):
            net.zero_grad()
            compiled(x).square().sum().backward()
            got = [one.grad.clone() for one in net.parameters()]
            net.zero_grad()
            net(x).square().sum().backward()
            for a, b in zip(got, net.parameters()):
                self.assert_same(a, b.grad)

    @weft_case.long
    @torch.no_grad()
    def test_inductor_s_code_is_verified_as_a_seed(self):
        """The framework's too, where it is the fastest; or it is not waited for
        where our compiler's is near the floor."""
        self.set_environment(WEFT_KEEP_RUNS="1")
        net, x = Chain().requires_grad_(False), torch.randn(1536, 256)

        def work():
            compiled = self.compiled(net, variants=1, target="cpu")
            for _ in range(3):
                self.assert_same(compiled(x), net(x))

        self.until_ours(work)
        runs = os.path.join(self.folder, "cache", "runs")
        events = weft_case.events_of(os.path.join(runs, sorted(os.listdir(runs))[-1], "run"))
        built = [event["body"] for event in events if event["type"] == "BuildRequest"]
        self.assertIn("inductor-graph", [one["target"] for one in built])


if __name__ == "__main__":
    main()
