"""Products whose activation the vendor's library computes: which regions are such.

On a GPU PyTorch's operator computes GELU by tanh; on a processor it computes it by the error
function, so that a function takes its place here."""

import unittest
from unittest import mock

import torch
from torch.nn import functional

from test_regions import graph_of
from weft.backend.searches import region_search, vendor_products
from weft.regions import attribution, insertion
from weft.regions.extraction import extracted
from weft.regions.regions import Kind, groups_of, regions_of

CPU = torch.device("cpu")


def linear_inputs(dtype=torch.bfloat16, rows=(2, 12)):
    return (
        torch.randn(*rows, 32).to(dtype),
        torch.randn(48, 32).to(dtype),
        torch.randn(48).to(dtype),
    )


def random_like(fake):
    """Random numbers in a tensor of that layout."""
    made = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype)
    return made.copy_(torch.randn(fake.shape))


def addmm_activation(bias, left, right, *, use_gelu):
    """As on a GPU: one rounding, after the activation, and infinity for GELU of numbers
    beyond half of the largest."""
    wide = torch.addmm(bias.float(), left.float(), right.float())
    if not use_gelu:
        return torch.relu(wide).to(bias.dtype)
    inner = torch.tanh(0.7978845608 * (wide + 0.044715 * wide**3))
    return (0.5 * (wide + wide * inner)).to(bias.dtype)


class VendorProducts(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch.object(torch, "_addmm_activation", addmm_activation))

    def region(self, activation, inputs):
        module = graph_of(lambda x, w, b: activation(functional.linear(x, w, b)), *inputs)
        (region,) = [one for one in regions_of(module.graph) if one.kind is Kind.PRODUCT]
        return extracted(region)

    def found(self, activation, inputs=None):
        return vendor_products.vendor_product(
            self.region(activation, inputs or linear_inputs()), CPU
        )

    def check(self, activation, inputs):
        own = self.region(activation, inputs)
        made = vendor_products.vendor_product(own, CPU)
        self.assertIsNotNone(made)
        given = [random_like(node.meta["val"]) for node in own.inputs]
        (got,), (expected,) = made(list(given)), own.module(*given)
        self.assertEqual((got.shape, got.stride()), (expected.shape, expected.stride()))
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)

    def test_gelu_by_tanh(self):
        def gelu(x):
            return functional.gelu(x, approximate="tanh")

        self.check(gelu, linear_inputs())
        self.check(gelu, linear_inputs(torch.float16, (24,)))

    def test_gelu_written_out(self):
        def gelu(x):
            wide = x.float()
            inner = 0.7978845608 * (wide + 0.044715 * wide.pow(3))
            return (0.5 * wide * (1.0 + torch.tanh(inner))).to(x.dtype)

        self.check(gelu, linear_inputs())

    def test_relu(self):
        self.check(torch.relu, linear_inputs())
        self.check(lambda x: x.clamp(min=0), linear_inputs(torch.float16))

    def test_other_activations(self):
        for activation in (
            functional.gelu,  # by the error function: 0.0005 away
            functional.silu,
            lambda x: torch.relu(x) * 1.01,
            lambda x: torch.where(x > 3e38, x * 0, torch.relu(x)),  # few numbers differ
            lambda x: torch.where((x > 2e38) & (x < 3e38), x * 0, torch.relu(x)),
            lambda x: functional.leaky_relu(x, 1e-4),
            lambda x: torch.relu(x).float(),
        ):
            self.assertIsNone(self.found(activation))

    def test_what_reads_more_than_the_product(self):
        self.assertIsNone(self.found(lambda x: torch.relu(x + torch.randn(48, dtype=x.dtype))))
        self.assertIsNone(self.found(lambda x: torch.relu(x) * x.mean(-1, keepdim=True)))

    def test_it_is_inserted_before_any_search(self):
        inputs = linear_inputs()
        module = graph_of(lambda x, w, b: torch.relu(functional.linear(x, w, b)), *inputs)
        candidates = region_search.chosen(
            [
                attribution.RegionTime(group, 1.0, 0.0)
                for group in groups_of(regions_of(module.graph))
            ],
            1.0,
        )
        region_search.take_vendor_products(candidates, CPU, self.fail)
        (taken,) = [one for one in candidates if one.state == "verified"]
        self.assertIn("cuBLASLt", taken.reason)
        made = insertion.with_inserted(module, taken.replacements())
        targets = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
        self.assertEqual(sum("weft_region" in one for one in targets), 1)
        self.assertFalse(any("addmm" in one or "relu" in one for one in targets), targets)
        (kernel,) = taken.kernels()
        kernel.check = wrong = []
        torch.testing.assert_close(made(*inputs), module(*inputs), rtol=2e-2, atol=2e-2)
        self.assertEqual(wrong, [])
        # A library that computes something else is found out.
        with mock.patch.object(torch, "_addmm_activation", lambda b, x, w, **_: x @ w + b):
            made(*inputs)
        self.assertEqual(len(wrong), 1)

    def test_float32_is_left_alone(self):
        self.assertIsNone(self.found(torch.relu, linear_inputs(torch.float32)))


if __name__ == "__main__":
    unittest.main()
