"""Scans, and what puts tensors together, pads them, or reads where an integer
tensor says, against PyTorch in float64.
"""

import unittest

import torch
import torch.nn.functional as F

from cpu_kernels import CpuVariant
from kernel_cases import INF, KernelCases, numbers, special


def scan_cases():
    x, row, column = numbers(3, 5, 37), numbers(4, 1023), numbers(1023, 6)
    near_one = 1 + numbers(5, 200, scale=0.05)
    mask = numbers(4, 1023, seed=2) > 0

    def exclusive(x):
        # As a problem of the benchmark has it.
        shifted = torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), x), dim=1)[:, :-1]
        return torch.cumsum(shifted, dim=1)

    def exclusive_after(x):
        sums = torch.cumsum(x.narrow(1, 0, x.size(1) - 1), dim=1)
        return torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), sums), dim=1)

    return [
        (
            "turned_cumsum",
            lambda x: x.transpose(1, 2).reshape(3, -1).cumsum(1),
            (numbers(3, 8, 20),),
        ),
        ("cumsum_last", lambda x: x.cumsum(2), (x,)),
        ("cumsum_middle", lambda x: x.cumsum(1), (x,)),
        ("cumsum_first", lambda x: x.cumsum(0), (x,)),
        ("cumsum_row", lambda x: x.cumsum(1), (row,)),
        ("cumsum_column", lambda x: x.cumsum(0), (column,)),
        ("cumsum_one", lambda x: x.cumsum(0), (numbers(1, 9),)),
        ("cumsum_vector", lambda x: x.cumsum(0), (numbers(77),)),
        ("cumsum_special", lambda x: x.cumsum(1), (special(6, 40),)),
        ("cumsum_special_down", lambda x: x.cumsum(0), (special(40, 6),)),
        ("cumsum_double", lambda x: x.cumsum(1), (row.double(),)),
        ("cumsum_int", lambda x: x.cumsum(0), (torch.arange(60).view(12, 5),)),
        ("cumsum_truth", lambda x: (x > 0).cumsum(1), (row,)),
        ("cumsum_moved", lambda x: x.transpose(0, 1).cumsum(1), (column,)),
        ("cumsum_long", lambda x: x.cumsum(1), (numbers(2, 40_001).abs(),)),
        ("cumprod", lambda x: x.cumprod(1), (near_one,)),
        ("cumprod_first", lambda x: x.cumprod(0), (near_one,)),
        ("reverse", lambda x: x.flip(1).cumsum(1).flip(1), (row,)),
        ("exclusive", exclusive, (row,)),
        ("exclusive_after", exclusive_after, (row,)),
        ("masked", lambda x, m: torch.cumsum(x * m, dim=1), (row, mask)),
        ("chained", lambda x: (x.exp().cumsum(1) * 2 + x).tanh(), (row,)),
        ("chained_column", lambda x: x.cumsum(0) * 2 + x, (column,)),
        ("then_folded", lambda x: x.cumsum(1).mean(1), (row,)),
        ("of_softmax", lambda x: x.softmax(1).cumsum(1), (row,)),
        ("twice", lambda x: x.cumsum(1).cumsum(2), (x,)),
        ("two_results", lambda x: [x.cumsum(1), x.sum(1), x.cumsum(1) + 1], (row,)),
        ("split_store", lambda x: x.cumsum(1).view(4, 31, 33) + 1, (row,)),
    ]


def movement_cases():
    x, y = numbers(3, 5, 7), numbers(3, 2, 7, seed=1)
    square = numbers(2, 9, 9)
    return [
        ("cat", lambda x, y: torch.cat((x, y, x), 1), (x, y)),
        ("cat_first", lambda x, y: torch.cat((x, y)), (x, x.exp())),
        ("cat_last", lambda x, y: torch.cat((x, y), -1) * 2, (x, numbers(3, 5, 20))),
        ("cat_mixed", lambda x, y: torch.cat((x, y), 1), (x, torch.arange(42).view(3, 2, 7))),
        ("cat_norm", lambda x, y: F.layer_norm(torch.cat((x, y), 1), (7,)), (x, y)),
        ("cat_sum", lambda x, y: torch.cat((x.relu(), y), 1).sum((1, 2)), (x, y)),
        (
            "cat_shuffled",
            lambda x, y: torch.cat((x, y), 1).permute(2, 0, 1).reshape(7, 21) + 1,
            (x, y),
        ),
        ("stack", lambda x, y: torch.stack((x, y), 1), (x, x.exp())),
        ("stack_last", lambda x, y: torch.stack((x, y), -1), (x, x.exp())),
        ("pad", lambda x: F.pad(x, (1, 2)), (x,)),
        ("pad_2d", lambda x: F.pad(x, (1, 2, 0, 3), value=-INF), (x,)),
        ("pad_cut", lambda x: F.pad(x, (-1, 2, 1, -2), value=1.5), (x,)),
        ("pad_log", lambda x: F.pad(x.abs().log(), (3, 0)).sum(-1), (x,)),
        ("pad_twice", lambda x: F.pad(F.pad(x, (1, 1), value=2.0), (2, 0)), (x,)),
        ("pad_int", lambda x: F.pad(x, (1, 1), value=4), (torch.arange(12).view(3, 4),)),
        ("pad_truth", lambda x: F.pad(x > 0, (1, 1), value=True), (x,)),
        ("roll", lambda x: x.roll(2, 1), (x,)),
        ("roll_two", lambda x: x.roll((-1, 9), (0, 2)) + x, (x,)),
        ("roll_all", lambda x: x.roll(4), (x,)),
        ("tril", lambda x: x.tril(), (square,)),
        ("triu", lambda x: x.triu(2), (x,)),
        ("tril_moved", lambda x: x.transpose(1, 2).tril(-1), (square,)),
        ("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 1, 5, 2), (x, y)),
        ("slice_scatter_end", lambda x, y: torch.slice_scatter(x, y, 1, -2), (x, y)),
        (
            "copied_over",
            lambda x, y: torch.ops.aten.copy(x, y) * 2,
            (x, torch.arange(7, dtype=torch.int32)),
        ),
        ("select_scatter", lambda x, y: torch.select_scatter(x, y, 1, -2), (x, numbers(3, 7))),
        ("unfold", lambda x: x.unfold(2, 3, 2) + 1, (x,)),
        ("diagonal", lambda x: torch.diagonal(x, 1, 1, 2) + 1, (square,)),
        ("diagonal_low", lambda x: torch.diagonal(x, -2) * 2, (numbers(9, 6, 2),)),
    ]


def lookup_cases():
    table = numbers(11, 6)
    indices = torch.tensor([[0, 10, 3], [7, 7, 1]])
    negative = torch.tensor([-1, 0, 4, -11])
    x = numbers(3, 5, 7)
    return [
        ("embedding", F.embedding, (indices, table)),
        ("embedding_sum", lambda i, w: F.embedding(i, w).relu().sum(1), (indices, table)),
        ("embedding_small", F.embedding, (indices.to(torch.int32), table)),
        ("index_select", lambda x, i: x.index_select(1, i), (x, torch.tensor([4, 0, 0, 2]))),
        ("gather", lambda x, i: x.gather(1, i), (table, indices[:, :2] % 6)),
        ("gather_first", lambda x, i: x.exp().gather(0, i), (table, indices)),
        ("gather_of_result", lambda x, i: x.softmax(1).gather(1, i) + 1, (table, indices % 6)),
        ("index", lambda x, i: x[i], (table, negative)),
        ("index_truths", lambda x, i: (x > 0)[i], (table, negative)),
        ("index_middle", lambda x, i: x[:, i], (x, indices % 5)),
        (
            "index_two",
            lambda x, i, j: x[:, i, j] * 2,
            (x, torch.tensor([[1], [4]]), torch.tensor([0, 6, -1])),
        ),
        ("index_argmax", lambda x: x[x.argmax(0)], (table,)),
        ("index_moved", lambda x, i: x.t()[i], (table, indices % 6)),
        (
            "index_of_a_row",
            lambda x, w, i: x[i].unsqueeze(-1) * w[i],
            (numbers(11), table, indices),
        ),
        (
            "index_of_a_channel",
            lambda x, w, i: x * w[i][:, None, None],
            (x, numbers(9), torch.tensor([4, 0, 8, 2][: x.shape[0]])),
        ),
    ]


VARIANTS = (
    CpuVariant("first", 0, 2, 64, 0, 1, "-O1"),
    CpuVariant("as shipped", 1, 1, 64, 1, 3, "-O3"),
    CpuVariant("narrow", -1, 1, 16, 0, 3, "-O1"),
)


class MovementKernels(KernelCases, unittest.TestCase):
    groups = (scan_cases, movement_cases, lookup_cases)
    variants = VARIANTS


if __name__ == "__main__":
    unittest.main()
