"""A case's random numbers are the host's on every device."""

from __future__ import annotations

import types
import unittest
from unittest import mock

import torch

from weft.device import draws
from weft.device.device import HOST, Device
from weft.expect import inputs
from weft.problem import module_state

DISTRIBUTIONS = [name for name, _ in inputs.DISTRIBUTIONS]


def on_a_gpu(seed: int) -> torch.Generator:
    """The generator of a GPU's cases, whose tensors lie here."""
    device = types.SimpleNamespace(is_cuda=True, torch=torch.device("cpu"))
    return Device.case_generator(device, seed)


class CaseNumbers(unittest.TestCase):
    def made(self, generator: torch.Generator) -> list[torch.Tensor]:
        values = torch.linspace(-1, 1, 600).reshape(20, 30)
        whole, flags = torch.arange(50), torch.arange(50) % 3 == 0
        found = [inputs.floats(5000, name, generator) for name in DISTRIBUTIONS]
        for tensor in (values, whole, flags):
            found += [
                inputs.random_leaf(tensor, "grid", generator),
                inputs.altered(tensor, generator),
                *(inputs.touched(tensor, how, generator) for how in inputs.TOUCHES),
            ]
        found += [inputs.varied(tensor, generator) for tensor in (whole, flags)]
        found.append(inputs.freshen(values.reshape(-1), values.dtype, generator))
        state = [("weight", values), ("running_var", values[0].abs()), ("index", whole)]
        state += [("mean", values[3, 3]), ("running_mean", values[3, 4])]
        return found + module_state.random_state(state, generator, set())

    def test_a_gpu_s_are_those_of_the_host(self) -> None:
        self.assertIsInstance(on_a_gpu(7), draws.CaseGenerator)
        host, gpu = self.made(HOST.case_generator(7)), self.made(on_a_gpu(7))
        for one, other in zip(host, gpu, strict=True):
            self.assertTrue(torch.equal(one.nan_to_num(), other.nan_to_num()))
        again = self.made(on_a_gpu(8))
        self.assertFalse(all(map(torch.equal, gpu, again)))

    def test_they_are_copied_to_the_device(self) -> None:
        generator = draws.CaseGenerator("meta").manual_seed(1)
        self.assertEqual(generator.device, torch.device("meta"))
        for made in (
            draws.rand(generator, 3),
            draws.randn(generator, 2, 3),
            draws.randint(generator, 0, 9, 4),
            draws.randperm(generator, 5),
            draws.randn(draws.like(generator), 3),
        ):
            self.assertEqual(made.device.type, "meta")
        self.assertEqual(draws.randn(generator, 2, 3).shape, (2, 3))

    def test_many_are_drawn_on_the_device(self) -> None:
        generator = on_a_gpu(3)
        with mock.patch.object(draws, "HOST_NUMBERS_MAX", 10):
            few, many = draws.rand(generator, 10), draws.rand(generator, 11)
        alone = torch.Generator().manual_seed(3)
        self.assertTrue(torch.equal(few, torch.rand(10, generator=alone)))
        on_target = torch.Generator().manual_seed(3)
        self.assertTrue(torch.equal(many, torch.rand(11, generator=on_target)))

    def test_a_like_generator_begins_again(self) -> None:
        for generator in (on_a_gpu(5), torch.Generator().manual_seed(5)):
            first = draws.rand(generator, 4)
            self.assertTrue(torch.equal(draws.rand(draws.like(generator), 4), first))
            self.assertIs(type(draws.like(generator)), type(generator))


if __name__ == "__main__":
    unittest.main()
