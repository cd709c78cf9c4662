"""Small models of the zoo (benchmarks/zoo.py) by way of the backend: captured
whole, written down as problem files, and computing what eager does with what a
run gives. The runs are played; benchmarks/zoo.py makes real ones."""

import os
import sys
import unittest

import torch
from backend_case import BackendCase

import weft
from weft_case import ROOT

sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import zoo_models  # noqa: E402
import zoo_programs  # noqa: E402


class Zoo(BackendCase):
    def check(self, name):
        model, inputs = zoo_models.own_models(large=False)[name]()
        model.eval()
        compiled = self.compiled(model)
        with torch.no_grad():
            for _ in range(2):
                self.assert_same(compiled(*inputs), model(*inputs))
        is_left = name in ("LSTM", "GRU")
        self.assertEqual(self.states("inference"), [] if is_left else ["ready"], self.reasons())
        count = len(self.compiled_graphs())
        breaks = weft.explain(model, inputs).breaks
        if is_left:
            self.assertIn("allow_rnn", breaks[0])
        else:
            self.assertEqual(breaks, [])
        # What was compiled is there as it was.
        with torch.no_grad():
            compiled(*inputs)
        self.assertEqual(len(self.compiled_graphs()), count)

    def test_every_model_is_captured_whole_and_is_as_eager(self):
        for name in zoo_models.own_models(large=False):
            with self.subTest(name):
                self.setUp()
                self.check(name)

    @torch.no_grad()
    def test_every_program_computes(self):
        for name, make in zoo_programs.programs(large=False).items():
            with self.subTest(name):
                model, inputs = make()
                self.assertTrue(model(*inputs).isfinite().all())

    @torch.no_grad()
    def test_a_scan_in_chunks_is_the_scan_step_by_step(self):
        scan = zoo_models.ChunkedScan(32, 4, 6, 8).double()
        x = torch.randn(2, 24, 32, dtype=torch.float64)
        value, gate, write, read, rate = scan.project(x).split([32, 32, 6, 6, 4], -1)
        rate, value = torch.nn.functional.softplus(rate), value.view(2, 24, 4, 8)
        state, results = torch.zeros(2, 4, 8, 6, dtype=torch.float64), []
        for step in range(24):
            state = state * torch.exp(-rate[:, step] * scan.decay)[..., None, None] + torch.einsum(
                "bhp,bh,bs->bhps", value[:, step], rate[:, step], write[:, step]
            )
            results.append(
                torch.einsum("bhps,bs->bhp", state, read[:, step]) + value[:, step] * scan.skip
            )
        y = torch.stack(results, 1).reshape(x.shape)
        y = scan.out(scan.norm(y * torch.nn.functional.silu(gate)))
        self.assert_same(scan(x), y)


if __name__ == "__main__":
    unittest.main()
