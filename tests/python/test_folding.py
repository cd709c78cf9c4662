"""Convolutions with norm, sum and ReLU that the vendor's library computes: which are such,
and what they come to. On a processor a function takes the library's place."""

import unittest
from unittest import mock

import torch
from test_incumbent import IncumbentCase
from test_regions import graph_of
from torch import nn
from torch.nn import functional

import weft
from weft.backend.searches import program_forms, program_trials, region_search
from weft.regions import folding, hoisting
from weft.regions.insertion import NAMESPACE
from weft.regions.regions import operator_name


def convolution_relu(x, filters, bias, *settings):
    return convolution_add_relu(x, filters, None, 1.0, bias, *settings)


def convolution_add_relu(x, filters, added, alpha, bias, stride, padding, dilation, groups):
    """As cuDNN: in float32, rounded once, channels last."""
    tensors = (x, filters) if added is None else (x, filters, added)
    assert all(one.is_contiguous(memory_format=torch.channels_last) for one in tensors)
    made = functional.conv2d(
        x.float(), filters.float(), bias.float(), stride, padding, dilation, groups
    )
    if added is not None:
        made = made + alpha * added.float()
    return torch.relu(made).to(x.dtype).contiguous(memory_format=torch.channels_last)


def vendor():
    """Operators in the place of the vendor's."""
    return mock.Mock(
        cudnn_convolution_relu=mock.Mock(side_effect=convolution_relu),
        cudnn_convolution_add_relu=mock.Mock(side_effect=convolution_add_relu),
    )


class Block(nn.Module):
    """Two convolutions; the second's result is added to the block's input."""

    def __init__(self, channels=8):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])
        for norm in self.norms:
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            nn.init.uniform_(norm.weight, 0.5, 1)
            nn.init.normal_(norm.bias)

    def forward(self, x):
        made = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(made)) + x)


def call_of(module):
    """(a function of the input and of all tensors of the module, these tensors)."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = list(tensors)

    def call(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values)), (x,))

    return call, [one.detach() for one in tensors.values()]


class Folding(unittest.TestCase):
    def setUp(self):
        self.enterContext(torch.no_grad())
        self.enterContext(mock.patch.object(folding.VendorConvolution, "operators", vendor()))
        torch.manual_seed(0)

    def folded(self, net, x, folds=lambda one: True):
        """(the graph as Inductor gets it, the same with folded convolutions or None, the
        graph's arguments)"""
        call, values = call_of(net.eval())
        module = graph_of(call, x, *values)
        made = hoisting.hoisted(module, lambda own, _: lambda given: own(*given), folds)
        return module, made, [x, *values]

    def convolutions(self, module):
        names = [operator_name(node) for node in module.graph.nodes if node.op == "call_function"]
        return names.count("convolution")

    def check(self, net, x, folds=lambda one: True):
        module, made, arguments = self.folded(net, x, folds)
        wide = net.double()(x.double())
        net.to(x.dtype)
        expected, got = module(*arguments), made(*arguments)
        self.assertEqual(got.shape, expected.shape)
        error, own_error = ((one.double() - wide).norm() for one in (got, expected))
        self.assertLessEqual(error, 2 * own_error)
        return made

    def test_layers_are_the_library_s(self):
        for layout in (torch.contiguous_format, torch.channels_last):
            with self.subTest(f"{layout}"):
                net = nn.Sequential(Block(), Block(), Block()).bfloat16()
                x = torch.randn(2, 8, 6, 5).to(torch.bfloat16, memory_format=layout)
                made = self.check(net.to(memory_format=layout), x)
                # None of the operators that were replaced is left.
                self.assertEqual(self.convolutions(made), 0)

    def test_changed_parameters_count(self):
        net = Block().bfloat16()
        x = torch.randn(2, 8, 6, 5, dtype=torch.bfloat16)
        module, made, arguments = self.folded(net, x)
        before = made(*arguments)
        for one in arguments[1:]:
            if one.is_floating_point():
                one.mul_(1.5)
        expected, got = module(*arguments), made(*arguments)
        self.assertFalse(torch.allclose(got, before, atol=0.1))
        self.assertLess((got - expected).float().norm() / expected.float().norm(), 0.01)

    def test_strides_and_dilations(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.filters = nn.Conv2d(3, 16, (3, 5), (2, 1), (1, 3), (1, 2), bias=False)
                self.norm = nn.BatchNorm2d(16)

            def forward(self, x):
                return torch.relu(self.norm(self.filters(x)))

        made = self.check(Net().bfloat16(), torch.randn(3, 3, 12, 14).bfloat16())
        self.assertEqual(self.convolutions(made), 0)

    def test_only_those_that_add(self):
        net = Block().bfloat16()
        x = torch.randn(2, 8, 6, 5, dtype=torch.bfloat16)
        made = self.check(net, x, lambda one: one.added is not None)
        self.assertEqual(self.convolutions(made), 1)

    def test_other_forms_are_not_taken(self):
        class Net(nn.Module):
            def __init__(self, activation, **settings):
                super().__init__()
                self.filters = nn.Conv2d(8, 8, 3, bias=False, **settings)
                self.norm = nn.BatchNorm2d(8)
                self.activation = activation

            def forward(self, x):
                return self.activation(self.norm(self.filters(x)))

        x = torch.randn(2, 8, 6, 6)
        for name, net, given in (
            ("another activation", Net(functional.silu), x.bfloat16()),
            ("groups", Net(torch.relu, groups=8), x.bfloat16()),
            ("float32", Net(torch.relu), x),
            ("float16, whose filters could overflow", Net(torch.relu), x.half()),
            ("one pixel", Net(torch.relu), x[:, :, :3, :3].bfloat16()),
            ("a second reader", Net(lambda y: torch.relu(y) + y), x.bfloat16()),
        ):
            with self.subTest(name):
                self.assertIsNone(self.folded(net.to(given.dtype), given)[1])

    def test_sums_and_products_of_other_kinds(self):
        filters = torch.randn(8, 8, 1, 1, dtype=torch.bfloat16)
        x = torch.randn(2, 8, 6, 6, dtype=torch.bfloat16)
        scale, shift = torch.rand(8, 1, 1), torch.randn(8, 1, 1)

        def of(apply):
            def call(x, filters, scale, shift):
                made = apply(functional.conv2d(x, filters).float(), x, scale, shift)
                return torch.relu(made.to(torch.bfloat16))

            return call

        for name, apply in (
            ("a factor of the shift", lambda y, x, a, b: torch.add(y * a, b, alpha=2)),
            ("a number", lambda y, x, a, b: y * 2.0 + b),
            ("its own square", lambda y, x, a, b: y * y + b),
            ("a number as shift", lambda y, x, a, b: y * a + 1.0),
            ("of the data", lambda y, x, a, b: y * x.float().mean((0, 2, 3))[:, None, None] + b),
            ("drawn", lambda y, x, a, b: y * torch.rand(8, 1, 1) + b),
        ):
            with self.subTest(name):
                # The layer before it is folded in any case.
                for count, function in (
                    (0, of(apply)),
                    (
                        1,
                        lambda *given, apply=apply: of(apply)(
                            of(lambda y, x, a, b: y * a + b)(*given), *given[1:]
                        ),
                    ),
                ):
                    module = graph_of(function, x, filters, scale, shift)
                    made = hoisting.hoisted(
                        module, lambda own, _: lambda given: own(*given), lambda one: True
                    )
                    folded = 0 if made is None else 1
                    self.assertEqual(folded, count)
                    if made is not None:
                        self.assertEqual(self.convolutions(made), 1)

    def test_settings_and_failures_of_the_library(self):
        net, x = Block().bfloat16(), torch.randn(2, 8, 6, 5, dtype=torch.bfloat16)
        module, made, arguments = self.folded(net, x)
        expected = module(*arguments).float()
        played = folding.VendorConvolution.operators
        with torch.backends.cudnn.flags(enabled=False):
            self.assertFalse(folding.is_allowed())
            got = made(*arguments).float()
        self.assertEqual(played.mock_calls, [])
        self.assertLess((got - expected).norm() / expected.norm(), 0.01)
        played.cudnn_convolution_relu.side_effect = RuntimeError("unable to find an engine")
        got = made(*arguments).float()
        self.assertTrue(played.mock_calls)
        self.assertLess((got - expected).norm() / expected.norm(), 0.01)

    def test_operators_have_names_of_their_own(self):
        """Inductor's caches know an operator by its name."""
        x = torch.randn(2, 8, 6, 6, dtype=torch.bfloat16)
        found = set()
        for padding in (0, 1):
            net = nn.Sequential(nn.Conv2d(8, 8, 3, padding=padding, bias=False), nn.BatchNorm2d(8))
            net = nn.Sequential(net, nn.ReLU()).bfloat16()
            _, made, _ = self.folded(net, x)
            found |= {
                str(node.target)
                for node in made.graph.nodes
                if getattr(node.target, "namespace", "") == NAMESPACE
            }
        self.assertEqual(len(found), 3)  # two convolutions, and one operator for the filters


class Forms(unittest.TestCase):
    def test_the_first_that_is_faster_is_chosen(self):
        for faster, expected, tried_count in (
            (program_forms.FORMS, program_forms.FORMS[0], 1),
            (program_forms.FORMS[1:], program_forms.FORMS[1], 2),
            ((), None, len(program_forms.FORMS)),
        ):
            tried = []
            found = program_forms.chosen_form(lambda one: tried.append(one) or one in faster)
            self.assertEqual((found, len(tried)), (expected, tried_count))

    def test_what_a_backward_graph_reads_keeps_its_strides(self):
        expected = torch.randn(2, 3, 4, 5)
        got = expected.contiguous(memory_format=torch.channels_last)
        module = graph_of(lambda x: (x * 1,), expected)
        for role, words in (("forward", "strides"), ("inference", "")):
            request = mock.Mock(role=role, module=module, static_inputs=frozenset())
            request.written_inputs.return_value = frozenset()
            trials = program_trials.ProgramTrials(request, 0)
            arguments = program_trials.Arguments(request, [expected])
            why = trials._difference(arguments, [expected], [got])
            self.assertIn(words, why) if words else self.assertEqual(why, "")


class Programs(IncumbentCase):
    def test_a_program_computes_by_them(self):
        self.patch(region_search, "chosen", lambda *_: [])  # kernels would replace them
        self.patch(program_forms, "DEVICES", ("cpu",))
        played = vendor()
        self.patch(folding.VendorConvolution, "operators", played)
        net = nn.Sequential(Block(), Block()).bfloat16().eval()
        x = torch.randn(2, 8, 6, 6, dtype=torch.bfloat16)
        with torch.no_grad():
            mine = self.compiled(net)
            mine(x)
            played.reset_mock()
            self.assertTrue(weft.verify(net, mine, [x]))
        (program,) = self.programs()
        self.assertEqual(program.state, "ready")
        self.assertIn(program_forms.FOLDED, program.summary)
        self.assertTrue(played.mock_calls)


if __name__ == "__main__":
    unittest.main()
