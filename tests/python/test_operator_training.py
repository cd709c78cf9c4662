"""One model per differentiable operator of PyTorch's own tests (OpInfo): its step
of training is captured as two graphs that write into nothing, and these give
eager's gradients. WEFT_LONG_TESTS=1 takes all operators."""

from __future__ import annotations

import os
import unittest
import warnings

import torch
from torch.utils import _pytree as pytree

from operator_tests import OpInfo, op_db
from opinfo_cases import Case, case_of
from weft.backend.graphs.problem_source import Unsupported
from weft.training import joint, training_run

IS_LONG = os.environ.get("WEFT_LONG_TESTS") == "1"
#: Derivatives that write into tensors of their own, and some that do not.
SAMPLE = (
    "cumprod",
    "cumsum",
    "prod",
    "norm",
    "linalg.norm",
    "linalg.vector_norm",
    "nn.functional.normalize",
    "nn.functional.cosine_similarity",
    "renorm",
    "cdist",
    "index_put",
    "masked_scatter",
    "masked_fill",
    "std",
    "kthvalue",
    "max_pool2d_with_indices_backward",
    "nn.functional.embedding",
    "nn.functional.layer_norm",
    "nn.functional.linear_cross_entropy",
    "logcumsumexp",
    "put",
    "take",
    "sort",
    "nn.functional.hinge_embedding_loss",
    "as_strided",
    "trace",
)
#: Words of the reasons for which operators are refused: their results' shapes or
#: their work depend on values, or they are another library's.
REFUSALS = (
    "depends on the values",
    "no operator on tensors",
    "not PyTorch's own",
    "is complex",
    "of the dtype complex",
    "depends on the data",
    "no input but the model's own state",
    "computes nothing",
)
#: Running statistics among their arguments are written, which --train refuses.
WRITES_INPUTS = (
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_batch_norm_with_update",
    "nn.functional.batch_norm",
    "nn.functional.instance_norm",
)


class Model(torch.nn.Module):
    """An operator and a product, so that its results are no views of inputs."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.function

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return [one * 2 if one.is_floating_point() else one + 0 for one in self.function(*tensors)]


def differentiable(op: OpInfo) -> Case | None:
    """The first sample with real results that have a gradient."""
    torch.manual_seed(1)
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=True):
        case = case_of(op.name, op, sample)
        if case is None:
            continue
        given = [
            leaf
            for leaf in pytree.tree_leaves(((sample.input, *sample.args), sample.kwargs))
            if isinstance(leaf, torch.Tensor)
        ]
        for one, like in zip(case.inputs, given, strict=True):
            one.requires_grad_(like.requires_grad)
        results = case.function(*case.inputs)
        if any(one.requires_grad and one.numel() for one in results) and not any(
            one.is_complex() for one in results
        ):
            return case
    return None


class OperatorTraining(unittest.TestCase):
    def setUp(self) -> None:
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def assert_trains(self, case: Case) -> None:
        """The two graphs give eager's gradients, and have problem files."""
        step = joint.capture(Model(case), case.inputs)
        for graph in (step.forward, step.backward):
            self.assertEqual(joint.mutable_calls(graph), [])
        training_run.sources_of(step)
        if step.draws:
            return
        tangents = [torch.randn(shape, dtype=dtype) for shape, dtype in step.tangents]
        results = step.forward(*(one.detach() for one in step.arguments))
        found = step.backward(*results[step.count :], *tangents)
        wanted = [case.inputs[step.captured.arguments[i].leaf] for i in step.wanted]
        expected = torch.autograd.grad(
            [one for one in Model(case)(*case.inputs) if one.requires_grad],
            wanted,
            tangents,
            allow_unused=True,
        )
        for one, other in zip(found, expected, strict=True):
            if other is None:
                self.assertTrue(one is None or not one.any())
            else:
                torch.testing.assert_close(one, other, equal_nan=True)

    def test_each_operator_s_gradients_are_eager_s(self) -> None:
        count = 0
        for op in op_db:
            if (
                not op.supports_autograd
                or torch.float32 not in op.supported_dtypes("cpu")
                or not (IS_LONG or op.name in SAMPLE)
            ):
                continue
            with self.subTest(op=op.name, variant=op.variant_test_name):
                case = differentiable(op)
                if case is None:
                    continue
                count += 1
                try:
                    self.assert_trains(case)
                except Unsupported as error:
                    refusals = ("writes into",) if op.name in WRITES_INPUTS else REFUSALS
                    if not any(one in str(error) for one in refusals):
                        raise
        self.assertGreater(count, 400 if IS_LONG else 20)


if __name__ == "__main__":
    unittest.main()
