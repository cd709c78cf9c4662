"""Shared by the tests of kernels for any sizes, whatever their target: graphs
that grow, and the check of one text against PyTorch at many of them.
"""

import torch
import torch.nn.functional as F

import captured_cases
from kernel_cases import numbers
from sized_cases import at_size, growing


def cases(batch):
    """(name, function, inputs) of which each has code for any batch."""
    rows = numbers(batch, 48)
    deep = numbers(batch, 5, 24)
    image = numbers(batch, 4, 6, 10)
    table = numbers(11, 24, seed=3)
    places = torch.arange(batch * 5).reshape(batch, 5) * 7 % 11
    weight, bias = numbers(48, seed=1), numbers(48, seed=2)
    return [
        ("one_dimension", lambda x: x.relu() * 2, (numbers(batch),)),
        ("rows", lambda x, w: (x + w).sigmoid(), (rows, weight)),
        ("wide_rows", lambda x: x.tanh() - 1, (numbers(batch, 1000),)),
        ("large_rows", lambda x: x.abs() + 1, (numbers(batch, 20_000),)),
        ("two_inputs", lambda x, y: x * y + 1, (rows, numbers(batch, 1))),
        ("softmax", lambda x: x.softmax(-1), (deep,)),
        ("log_softmax_of_middle", lambda x: x.log_softmax(1), (deep,)),
        ("layer_norm", lambda x, w, b: F.gelu(F.layer_norm(x, (48,), w, b)), (rows, weight, bias)),
        ("group_norm", lambda x: F.group_norm(x, 2), (image,)),
        ("row_sums", lambda x: [x.sum(-1), x.amax(-1)], (deep,)),
        ("pooled", lambda x: x.mean((2, 3)), (image,)),
        ("windows", lambda x: F.max_pool2d(x, 2).relu(), (image,)),
        ("flattened", lambda x: (x.view(-1, 24) * 2).relu(), (deep,)),
        ("flattened_rows", lambda x: x.flatten(1).softmax(-1), (deep,)),
        ("turned_inside", lambda x: x.transpose(1, 2).relu() + 1, (deep,)),
        ("turned_batch", lambda x: x.t().contiguous() + 1, (rows,)),
        ("joined", lambda x, y: torch.cat([x, y.relu()], 1), (rows, rows)),
        ("joined_batches", lambda x, y: torch.cat([x, y.relu()], 0), (rows, numbers(3, 48))),
        ("largest_place", lambda x: x.argmax(1) * 2, (rows,)),
        ("running_sums", lambda x: x.cumsum(1), (rows,)),
        (
            "decays",
            lambda x: torch.exp(x.cumsum(-1)[:, :, None] - x.cumsum(-1)[:, None]).tril(),
            (-numbers(3, batch).abs(),),
        ),
        ("looked_up", lambda t, i: F.embedding(i, t) + 1, (table, places)),
        ("padded", lambda x: F.pad(x, (1, 2)).relu(), (rows,)),
        ("without_first", lambda x: (x[:, 1:] - x[:, :-1]).abs(), (rows,)),
        ("rolled_inside", lambda x: x.roll(3, 1) + 1, (rows,)),
        ("masked", lambda x: x.masked_fill(x > 0, -1.0).exp(), (rows,)),
        ("sum_of_batch", lambda x: x.sum(0) * 2, (rows,)),
        ("sums_of_batch_and_rows", lambda x: x.sum((0, 2)), (deep,)),
        ("mean_of_all", lambda x: x.relu().mean(), (rows,)),
        ("mean_of_much", lambda x: x.mean() + 1, (numbers(batch, 20_000),)),
        ("loss", lambda x, y: F.mse_loss(x, y.tanh()), (rows, rows + 1)),
        (
            "mean_s_gradient",
            lambda x, g: g.expand_as(x) / x.numel() * x + (x.shape[0] - 2),
            (rows, numbers(1)[0]),
        ),
        ("softmax_of_batch", lambda x: x.softmax(0), (rows,)),
        ("softmax_of_turned_batch", lambda x: x.t().softmax(-1), (rows,)),
        (
            "deviations_from_batch",
            lambda x: (x - x.mean(0)) * (x.var(0, correction=0) + 0.1).rsqrt(),
            (rows,),
        ),
        ("lengths_of_columns", lambda x: x.norm(dim=0) + 1, (rows,)),
        ("largest_of_batch", lambda x: [x.amax(0), x.amin(0)], (rows,)),
        ("outer_sums", lambda x, y: (x[:, None] * y).sum((0, 1)), (numbers(batch), numbers(48))),
        ("variance_of_batch", lambda x: x.var(0).nan_to_num() + 1, (rows,)),
        (
            "corrected",
            lambda x: [x.var(1, correction=2), x.std(0) + 1],
            (torch.cat([rows, rows + 1, rows - 1]),),
        ),
        ("norm_of_batch", lambda x: F.layer_norm(x.t(), x.shape[:1]), (rows,)),
        ("each_with_each", lambda x: (x[:, None] - x).abs().softmax(-1), (numbers(batch),)),
        ("softmax_of_squares", lambda x: x.flatten(1).softmax(-1), (numbers(4, batch, batch),)),
        (
            "masked_scores",
            lambda x: torch.where(torch.ones_like(x).tril() > 0, x, -1e9).softmax(-1),
            (numbers(batch, batch),),
        ),
        *scans(batch),
    ]


def scans(batch):
    """Along the batch."""
    rows = numbers(batch, 48)
    return [
        ("running_sums_of_batch", lambda x: x.relu().cumsum(0) * 2, (rows,)),
        ("running_sums_of_rows_of_batch", lambda x: x.t().cumsum(-1), (rows,)),
        ("running_products_of_batch", lambda x: (x * 0.1 + 1).cumprod(0), (rows,)),
        ("running_counts", lambda x: (x > 0).long().cumsum(0), (rows,)),
        ("sums_from_the_end", lambda x: x.flip(0).cumsum(0).flip(0), (rows,)),
        ("sums_before", lambda x: x.cumsum(0) - x, (rows,)),
    ]


def refused_cases(batch):
    """What the batch may not be: the message says it."""
    rows = numbers(batch, 48)
    return [
        ("place_in_batch", lambda x: x.argmax(0), (rows,)),
        ("rolled_batch", lambda x: x.roll(3, 0) + 1, (rows,)),
    ]


def pair_cases(batch, length):
    """The same for any batch and any length of a sequence."""
    deep = numbers(batch, length, 24)
    other = numbers(batch, length, 24, seed=4)
    weight, bias = numbers(24, seed=1), numbers(24, seed=2)
    table = numbers(11, 24, seed=3)
    places = torch.arange(batch * length).reshape(batch, length) * 7 % 11
    heads = deep.view(batch, length, 4, 6)
    return [
        ("two_dimensions", lambda x: x.relu() * 2, (deep[..., 0].contiguous(),)),
        ("rows", lambda x, w: (x + w).sigmoid(), (deep, weight)),
        ("wide_rows", lambda x: x.tanh() - 1, (numbers(batch, length, 1000),)),
        ("two_inputs", lambda x, y: x * y + 1, (deep, numbers(batch, length, 1))),
        (
            "of_each_size",
            lambda x, b, s: x * b + s,
            (deep, numbers(batch, 1, 1), numbers(length, 24)),
        ),
        ("softmax", lambda x: x.softmax(-1), (deep,)),
        ("layer_norm", lambda x, w, b: F.gelu(F.layer_norm(x, (24,), w, b)), (deep, weight, bias)),
        ("row_sums", lambda x: [x.sum(-1), x.amax(-1)], (deep,)),
        ("flattened", lambda x: (x.view(-1, 24) * 2).relu(), (deep,)),
        ("heads_to_the_front", lambda x: x.transpose(1, 2).contiguous() + 1, (heads,)),
        ("sequence_first", lambda x: x.transpose(0, 1).contiguous() * 2, (deep,)),
        ("joined_rows", lambda x, y: torch.cat([x, y.relu()], 2), (deep, other)),
        (
            "joined_sequences",
            lambda x, y: torch.cat([x, y.relu()], 1),
            (deep, numbers(batch, 3, 24)),
        ),
        ("looked_up", lambda t, i: F.embedding(i, t) + 1, (table, places)),
        ("longer", lambda x: F.pad(x, (0, 0, 2, 1)).relu() + 1, (deep,)),
        ("of_the_product_alone", lambda x: x.relu() + 1, (numbers(batch * length, 24),)),
        ("of_the_length_alone", lambda x: x.relu() + 1, (numbers(length, 24),)),
        ("sum_of_sequence", lambda x: x.sum(1) * 2, (deep,)),
        ("running_sums", lambda x: x.exp().cumsum(1) + 1, (deep,)),
        (
            "running_means",
            lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None],
            (deep,),
        ),
        ("running_sums_of_both", lambda x: x.flatten(0, 1).cumsum(0), (deep,)),
        (
            "running_sums_of_squares",
            lambda x: x.cumsum(1).cumsum(2),
            (numbers(batch, length, length),),
        ),
        ("softmax_of_sequence", lambda x: x.softmax(1), (deep,)),
        (
            "mean_of_what_counts",
            lambda x, m: (x * m).sum(1) / (m.sum(1) + 1),
            (deep, (other[..., :1] > 0).float()),
        ),
        ("mean_of_all", lambda x: x.relu().mean(), (deep,)),
        (
            "softmax_of_squares",
            lambda x: x.flatten(1).softmax(-1),
            (numbers(batch, length, length),),
        ),
        (
            "variance_of_squares",
            lambda x: x.var((1, 2), correction=0) + 1,
            (numbers(batch, length, length),),
        ),
        ("mean_of_squares", lambda x: x.relu().mean() + 1, (numbers(batch, length, length),)),
        (
            "mean_s_gradient",
            lambda x, g: g.expand_as(x) / x.numel() * x + (x.shape[1] + x.shape[0]),
            (deep, numbers(1)[0]),
        ),
        ("sum_of_batch", lambda x: x.sum(0) * 2, (deep,)),
        (
            "scores",
            lambda x, m: (x * 0.2 + m).softmax(-1),
            (numbers(batch, 2, length, length), numbers(length, length, seed=6)),
        ),
    ]


def refused_pair_cases(batch, length):
    deep = numbers(batch, length, 24)
    return [
        ("rolled_sequence", lambda x: x.roll(3, 1) + 1, (deep,)),
        (
            "length_unknown",
            lambda x, y: x.view(batch, length, 24) + y,
            (numbers(batch * length, 24), numbers(batch, 1, 24)),
        ),
    ]


def counting(batch):
    """What divides by how many elements a large tensor has, which is not read."""
    return [("counting", lambda x, y: y / x.numel(), (numbers(1).expand(batch), numbers(33)))]


#: Of these floats and doubles have no number of their own; some lie just above
#: half of what is between two of them.
COUNTS = (1, 2**24 + 1, 2**31 - 1, 2**31 + 129, 2**53 + 1, 2**53 + 2**29 + 1, 2**62 - 1)


class AnySize:
    """For a unittest.TestCase, which says what its target is: SIZES,
    generate(graphs), built({case: text}) and
    run_kernel(kernel, graph, inputs, sizes); and, where they are others, how many
    SYMBOLS there are, what CASES have code and which are REFUSED."""

    TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
    SYMBOLS = 1
    CASES = staticmethod(cases)
    REFUSED = staticmethod(refused_cases)

    @classmethod
    def setUpClass(cls):
        cls.graphs = dict(growing(cls.CASES, cls.SYMBOLS))
        cls.answers = dict(zip(cls.graphs, cls.generate(cls.graphs.values())))

    def test_one_text_computes_what_the_framework_does_at_every_size(self):
        texts = {}
        for i, (name, answer) in enumerate(self.answers.items()):
            self.assertEqual(answer.get("error", ""), "", name)
            variants = answer["variants"]  # each of them in some case
            texts[name] = variants[i % len(variants)]["text"]
        kernels = self.built(texts)
        for sizes in self.SIZES:
            for name, function, inputs in self.CASES(*sizes):
                with self.subTest(name, sizes=sizes):
                    graph = at_size(self.graphs[name], *sizes)
                    got = self.run_kernel(kernels[name], graph, inputs, sizes)
                    wanted = captured_cases.as_list(function(*inputs))
                    for one, want in zip(got, wanted, strict=True):
                        torch.testing.assert_close(one, want, **self.TOLERANCE)

    def test_what_a_size_cannot_be_is_said(self):
        graphs = dict(growing(self.REFUSED, self.SYMBOLS))
        for name, answer in zip(graphs, self.generate(graphs.values())):
            with self.subTest(name):
                self.assertRegex(
                    answer.get("error", "it has code"),
                    "any batch|another size|differs in|PyTorch|as a dimension",
                )

    def sources_of_other_captures(self):
        """(case, sources, sources) of the same graphs, had at two sizes."""
        graphs = self.graphs.values()
        low, high = (
            self.generate([at_size(graph, *sizes) for graph in graphs])
            for sizes in ((8, 10)[: self.SYMBOLS], (24, 22)[: self.SYMBOLS])
        )
        for name, one, other in zip(self.graphs, low, high):
            yield name, one["variants"], other["variants"]


class HugeCounts:
    """The same of a target."""

    @classmethod
    def setUpClass(cls):
        cls.graphs = dict(growing(counting))
        cls.answers = dict(zip(cls.graphs, cls.generate(cls.graphs.values())))

    def test_they_are_rounded_as_the_framework_rounds_them(self):
        text = self.answers["counting"]["variants"][0]["text"]
        kernel = self.built({"counting": text})["counting"]
        for count in COUNTS:
            with self.subTest(count=count):
                ((_, function, inputs),) = counting(count)
                graph = at_size(self.graphs["counting"], count)
                (got,) = self.run_kernel(kernel, graph, inputs, (count,))
                self.assertTrue(torch.equal(got, function(*inputs)))
