"""The backend with the real program: found, verified, taken over."""

import unittest

import torch
import weft_case
from backend_case import BackendCase, Net

import weft


class Runs(BackendCase):
    def setUp(self):
        super().setUp()
        self.set_environment(WEFT_BIN=weft_case.WEFT, **weft_case.ENVIRONMENT)

    def check(self, states):
        """What ran ended with a verdict: kernels that took over, or none that
        was faster, which a busy machine may find."""
        told = str(weft.explain())
        for state in states:
            self.assertIn(state, ("ready", "framework"), told)
        for reason in self.reasons():
            if reason:
                self.assertIn("no kernel was faster", reason, told)

    def test_a_step_of_training_and_another_process_s_finds(self):
        net, x = Net(32), torch.randn(128, 32)
        self.step(net, x, variants=1)
        # What was found is there at once, whatever the program does.
        self.set_environment(WEFT_BIN="/nowhere/weft")
        torch._dynamo.reset()
        self.step(net, x)

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
        self.check(self.states("forward") + self.states("backward"))


if __name__ == "__main__":
    unittest.main()
