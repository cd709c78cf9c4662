"""The functions that a composed forward() calls in place of an operator's
overload (the table in compiler/compose/forward_source.cpp) do what the overload does.
"""

import operator
import os
import re
import unittest

import torch

from captured_cases import ROOT
from kernel_cases import numbers

X, IMAGE = numbers(4, 5, 6), numbers(2, 3, 8, 8)
HEADS = numbers(2, 3, 5, 4)
#: What each is called with, as a graph has it: by position, lists for sizes.
CALLS = {
    "aten.addmm.default": [((X[0, 0], X[1], numbers(6, 6)), {"alpha": 2})],
    "aten.as_strided.default": [((X, [3, 4], [2, 5], 1), {})],
    "aten.bmm.default": [((X, X.transpose(1, 2)), {})],
    "aten.cat.default": [(([X, X[:, :2]], 1), {}), (([X, X],), {})],
    "aten.clone.default": [
        ((X.transpose(0, 1),), {"memory_format": torch.contiguous_format}),
        ((X[:, 1],), {}),
    ],
    "aten.contiguous.default": [((X.transpose(0, 1),), {}), ((X,), {})],
    "aten.convolution.default": [
        ((IMAGE, numbers(4, 3, 3, 3), numbers(4), [2, 1], [1, 1], [1, 1], False, [0, 0], 1), {})
    ],
    "aten.embedding.default": [((X[0], torch.tensor([[3, 0]]), 0), {})],
    "aten.expand.default": [((X[:, :1], [-1, 7, -1]), {})],
    "aten.linear.default": [((X, numbers(3, 6), numbers(3)), {}), ((X, numbers(3, 6)), {})],
    "aten.matmul.default": [((X, X[0].t()), {})],
    "aten.mm.default": [((X[0], X[1].t()), {})],
    "aten.permute.default": [((X, [2, 0, -2]), {})],
    "aten.scaled_dot_product_attention.default": [
        ((HEADS, HEADS, HEADS, None, 0.0, True), {"scale": 0.3}),
        ((HEADS, HEADS, HEADS, numbers(5, 5)), {}),
        ((HEADS, HEADS, HEADS), {"attn_mask": numbers(5, 5), "scale": 0.3}),
        ((HEADS, HEADS, HEADS), {"is_causal": True, "scale": 1.0}),
    ],
    "aten.select.int": [((X, 1, -2), {})],
    "aten.split_with_sizes.default": [((X, [2, 3], 1), {}), ((X, [1, 3]), {})],
    "aten.squeeze.dims": [((X[:, :1, :1], [1, 2, 0]), {})],
    "aten.unsqueeze.default": [((X, -2), {})],
    "aten.view.default": [((X, [2, -1, 3]), {})],
}


def table():
    path = os.path.join(ROOT, "compiler", "compose", "forward_source.cpp")
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r'\{"(aten\.[^"]+)",\s*"(torch\.[^"]+)"\}', file.read()))


def seen(result):
    """The tensors of a result, and how they lie."""
    tensors = result if isinstance(result, (list, tuple)) else [result]
    return [(t.tolist(), t.stride(), t.storage_offset()) for t in tensors]


class ForwardCalls(unittest.TestCase):
    def test_the_function_does_what_the_overload_does(self):
        self.assertEqual(set(table()), set(CALLS))
        for target, function in table().items():
            overload = operator.attrgetter(target)(torch.ops)
            own = operator.attrgetter(function.removeprefix("torch."))(torch)
            for given, named in CALLS[target]:
                with self.subTest(target=target):
                    self.assertEqual(seen(own(*given, **named)), seen(overload(*given, **named)))


if __name__ == "__main__":
    unittest.main()
