"""Training with torch.compile and sizes that are symbols: AOTAutograd's forward
graph hands sizes to its backward graph, and both have kernels for any."""

import copy
import types
import unittest
import warnings

import torch
import weft_case
from backend_case import BackendCase, RealSearches
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import weft
from weft.backend.graphs import symbolic_graph
from weft.backend.implementations import composed_module
from weft.capture.tracer_lock import traced
from weft.capture import symbolic_sizes as exporter
from weft.problem.problem import ProblemError

#: The size that is searched for: kernels win by more than a busy machine's noise.
BATCH = 1536
#: None of them is a size that anything was captured, printed or judged at.
BATCHES = (2, 7, 97, 128, 1031, 1)


class Classifier(nn.Module):
    """What is faster as one kernel on any machine, before a product, and a norm and
    a loss after it; gradients of weights are sums over the batch, and that of a
    mean over it is divided by the batch."""

    def __init__(self, width=256, classes=32):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width))
        self.linear = nn.Linear(width, classes)
        self.norm = nn.LayerNorm(classes)

    def forward(self, x, labels):
        y = torch.tanh(x * self.scale).abs().sqrt() * 2 - torch.sigmoid(x)
        y = (y.relu() + x).clamp(-1, 1) * y.exp()
        y = self.norm(nn.functional.gelu(self.linear(y)))
        return nn.functional.cross_entropy(y, labels) + y.tanh().mean()


class Trained:
    """A model, what computes its calls, and an optimiser."""

    def __init__(self, model, call):
        self.parameters = dict(model.named_parameters())
        self.call = call
        self.optimiser = torch.optim.AdamW(model.parameters(), 0.01)

    def step(self, *inputs):
        """The loss, and the gradients."""
        self.optimiser.zero_grad()
        result = self.call(*inputs)
        loss = result if result.dim() == 0 else result.square().mean()
        loss.backward()
        gradients = {name: one.grad.clone() for name, one in self.parameters.items()}
        self.optimiser.step()
        return loss.detach(), gradients


class Training(RealSearches):
    def inputs(self, batch):
        return torch.randn(batch, 256), torch.randint(32, (batch,))

    def pair(self):
        """Both after two steps at the size that is searched for."""
        torch.manual_seed(3)
        model = Classifier()
        other = copy.deepcopy(model)
        eager = Trained(model, model)
        ours = Trained(other, self.compiled(other, dynamic=True, variants=1, target="cpu"))
        for _ in range(2):
            self.check(eager, ours, BATCH)
        return eager, ours

    def check(self, eager, ours, batch):
        inputs = self.inputs(batch)
        self.assert_same(ours.step(*inputs), eager.step(*inputs))

    def calls(self):
        """That kernels computed, by role."""
        return {
            role: sum(
                kernels.calls
                for compiled_graph in self.compiled_graphs(role)
                for kernels in compiled_graph.kernels.values()
            )
            for role in ("forward", "backward")
        }

    @weft_case.long
    def test_both_passes_take_every_batch_after_one_search(self):
        eager, ours = self.until_ours(self.pair)
        # A busy machine may have hidden that one of both is faster.
        roles = {role for role in ("forward", "backward") if self.states(role) == ["ready"]}
        before = self.calls()
        for batch in BATCHES:
            self.check(eager, ours, batch)
            self.check(eager, ours, batch)
        told = str(weft.explain())
        if len(roles) == 2:
            self.assertEqual(len(self.searches), 2, told)
        # But for the first call of Dynamo's own graph for 1, which looks at both.
        counted = 2 * len(BATCHES) - 1
        self.assertEqual(
            self.calls(),
            {role: calls + (counted if role in roles else 0) for role, calls in before.items()},
            told,
        )
        if "backward" in roles:
            self.assert_declines_mixed_sizes(eager, ours)

    def assert_declines_mixed_sizes(self, eager, ours):
        """The backward graph's kernels, of an argument that is shorter than the
        others."""
        kernels = self.compiled_graphs("backward")[0].kernels["any batch"]
        composed, given = kernels.composed, []

        def watched(arguments):
            given.extend(arguments)
            return composed(arguments)

        self.patch(kernels, "composed", watched)
        self.check(eager, ours, 11)
        grown = [i for i in kernels.source.inputs if 11 in given[i].shape]
        self.assertGreater(len(grown), 2)
        for i in grown:
            others = list(given)
            others[i] = given[i].narrow(given[i].shape.index(11), 0, 10)
            with warnings.catch_warnings(), self.assertRaises(composed_module.GuardFailed):
                warnings.simplefilter("ignore")  # it says what did not fit
                composed(others)


class Tokens(nn.Module):
    """Of any batch and length: what is kept for its backward pass are views that
    join both."""

    def __init__(self, width=12):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x):
        return self.second(nn.functional.gelu(self.first(x)))


class Loss(nn.Module):
    """Over all tokens: what is kept for its backward pass joins batch and length,
    and nothing has either alone."""

    def __init__(self, width=12, classes=5):
        super().__init__()
        self.linear = nn.Linear(width, classes, bias=False)

    def forward(self, x, labels):
        y = torch.tanh(self.linear(x).flatten(0, 1) / 5) * 5
        y = (y.sigmoid() * y + y.exp().sqrt()) * torch.tanh(y * 2)
        return nn.functional.cross_entropy(y, labels.flatten()) + y.sigmoid().mean()

    def inputs(self, *sizes):
        return (
            torch.randn(*sizes, self.linear.in_features),
            torch.randint(self.linear.out_features, sizes),
        )


class Half(nn.Module):
    """It gives half of the batch: no multiple of it."""

    def __init__(self, width=12):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.linear(x)[: x.shape[0] // 2 + 1])


class TrainingOfTokens(RealSearches):
    @weft_case.long
    def test_a_backward_graph_of_the_product_alone_has_kernels_for_any(self):
        def pair():
            torch.manual_seed(3)
            model = Loss(16, 512)
            other = copy.deepcopy(model)
            trained = (
                Trained(model, model),
                Trained(other, self.compiled(other, dynamic=True, variants=1, target="cpu")),
            )
            for _ in range(2):
                check(trained, (12, 160))
            return trained

        def check(trained, sizes):
            inputs = Loss(16, 512).inputs(*sizes)
            self.assert_same(*(one.step(*inputs) for one in trained))

        trained = self.until_ours(pair, ready=lambda _: self.states("backward") == ["ready"])
        (backward,) = self.compiled_graphs("backward")
        kernels = backward.kernels["any batch"]
        before, pairs = kernels.calls, ((160, 12), (3, 7), (97, 2), (24, 24))
        for sizes in pairs:
            check(trained, sizes)
        self.assertEqual(kernels.calls, before + len(pairs), weft.explain())


class Handed(BackendCase):
    """What passes from the forward to the backward graph, with played kernels:
    the operators of the problem file for any size."""

    def train(self, model, all_inputs):
        other = copy.deepcopy(model)
        eager = Trained(model, model)
        ours = Trained(other, self.compiled(other, dynamic=True))
        for inputs in all_inputs:
            self.assert_same(ours.step(*inputs), eager.step(*inputs))

    def test_sizes_and_views_of_two_symbols(self):
        self.train(
            Tokens(), [(torch.randn(*sizes, 12),) for sizes in ((5, 8), (2, 3), (13, 7), (3, 31))]
        )
        self.assertEqual(self.states(), ["ready", "ready"], self.reasons())
        self.assertEqual(
            [list(compiled_graph.kernels) for compiled_graph in self.compiled_graphs()],
            [["any batch"]] * 2,
        )
        self.assertEqual(
            [
                kernels.calls
                for compiled_graph in self.compiled_graphs()
                for kernels in compiled_graph.kernels.values()
            ],
            [3, 3],
        )
        self.assertEqual(self.runs(), 2)
        (forward,) = self.compiled_graphs("forward")
        outputs = forward.kernels["any batch"].source.outputs
        self.assertIn("_WeftSize([(1, [(", repr(outputs))
        self.assertIn("view", [one[0] for one in outputs])

    def test_a_backward_graph_of_the_product_alone_is_one_of_one_size(self):
        model = Loss()
        self.train(
            model,
            [
                model.inputs(*sizes)
                for sizes in ((5, 8), (8, 5), (2, 3), (13, 7), (3, 31), (1, 1), (1, 1))
            ],
        )
        self.assertEqual(self.states(), ["ready"] * 4, self.reasons())
        backward, of_one = self.compiled_graphs("backward")
        kernels = backward.kernels["any batch"]
        self.assertEqual(kernels.calls, 4)
        self.assertEqual([one.calls for one in of_one.kernels.values()], [1])
        self.assertEqual(kernels.source.sizes, (40,))
        self.assertEqual(kernels.source.any_size.count(":"), 1)
        self.assertIn("weft_batch", kernels.source.text)
        self.assertNotIn("weft_sequence", kernels.source.text)
        self.assertEqual(self.runs(), 2)

    def test_a_sum_of_each_sequence_is_none_of_the_product(self):
        """The inputs tell the product, and what is computed goes by the length."""

        def graph(batch, length):
            with FakeTensorMode():
                return traced(
                    lambda x: x.view(batch, length, 4).sum(1).square().sum(0),
                    [torch.empty(batch * length, 4)],
                ), {0: symbolic_graph.Look((batch * length, 4), (4, 1))}

        graphs = {sizes: graph(*sizes) for sizes in (*symbolic_graph.SAMPLES[2], (5, 8))}
        with self.assertRaisesRegex(symbolic_graph.Unsupported, "goes by a size"):
            symbolic_graph.source_for_any(graphs, (5, 8), [torch.rand(40, 4)], {})

    def test_what_is_no_multiple_of_a_size_has_kernels_for_each(self):
        # A size other than the first is searched for at its second call.
        self.train(Half(), [(torch.randn(n, 12),) for n in (8, 5, 5)])
        told = str(weft.explain())
        self.assertIn("which is no number plus multiples of the symbols", told)
        self.assertEqual(self.runs(), 4, told)
        self.assertIn("(8,)", told)


class Joined(unittest.TestCase):
    """Inputs of a backward graph, as the exporter is told of them."""

    def check(self, forward, make, sizes):
        model = nn.Module()
        model.forward = forward
        exporter.check(
            types.SimpleNamespace(
                name="p.py", module=(types.SimpleNamespace(WEFT_SIZES=sizes, get_inputs_at=make))
            ),
            model,
            make(*sizes),
        )

    def test_a_dimension_may_join_both_sizes_or_be_a_multiple_of_one(self):
        self.check(
            lambda x, y: x.view(*y.shape, 4) * y[..., None],
            lambda n, m: [torch.rand(n * m, 4), torch.rand(n, m)],
            [53, 67],
        )
        self.check(
            lambda x, y: x.view(-1, 8, 4) * y.view(-1, 8, 4),
            lambda n: [torch.rand(8 * n, 4), torch.rand(n, 32)],
            [53],
        )

    def test_a_branch_on_a_joined_dimension_is_refused(self):
        with self.assertRaisesRegex(ProblemError, "cannot have kernels"):
            self.check(
                lambda x, y: x * 2 if x.shape[0] > 5000 else x.view(*y.shape, 4) * y[..., None],
                lambda n, m: [torch.rand(n * m, 4), torch.rand(n, m)],
                [53, 67],
            )


if __name__ == "__main__":
    unittest.main()
