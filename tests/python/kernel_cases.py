"""Shared by the tests of generated kernels, whatever their target: numbers,
and the check of each kernel against PyTorch in float64.
"""

import random
import tempfile

import torch
import torch.nn.functional as F

import captured_cases
from captured_cases import as_list

INF = float("inf")
NAN = float("nan")


def numbers(*shape, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator) * scale


def special(*shape):
    """Numbers with NaN, infinities, zeros and ties among them."""
    values = numbers(*shape, seed=5)
    flat = values.view(-1)
    picks = [NAN, INF, -INF, 0.0, -0.0, 1.0, 1.0, 1e-40, 90.0, -110.0, 3.0]
    for i, value in enumerate(picks):
        flat[(i * 7 + 3) % flat.numel()] = value
    return values


def doubled(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def kept_cases():
    """A sum of many that two kernels read, so large that one computes it for
    both."""
    many = [numbers(900, 850, seed=seed).abs() for seed in range(8)]

    def read_twice(*parts):
        total = sum(parts[1:], parts[0])
        return total.sum(1), total.mean(0)

    return [
        ("kept", read_twice, tuple(many)),
        ("kept_halves", read_twice, tuple(one.half() for one in many)),
    ]


class OneReader:
    """Beside KernelCases: of the parts' readers one is left."""

    groups = (kept_cases,)
    reads_last = ""  # in a kernel's text

    def test_one_kernel_reads_the_parts(self):
        graphs = captured_cases.graphs_of(kept_cases()[:1])
        (answer,) = self.variants[0].generate(graphs, self.options)
        self.assertEqual(answer["variants"][0]["text"].count(self.reads_last), 1)


def _block(chance, r, x):
    """What is added to a residual: by rows, columns, or one by one."""
    blocks = [
        lambda: F.layer_norm(r, r.shape[1:]),
        lambda: r.softmax(1),
        lambda: r.softmax(0),
        lambda: r * x,
        lambda: r.roll(3, 0),
        lambda: r.roll(1, 1),
        lambda: r - r.mean(0),
        lambda: F.gelu(r),
        lambda: torch.cat([r[1:], r[:1]]),
        lambda: r - r.mean(1, keepdim=True),
    ]
    return chance.choice(blocks)()


def residual_cases(seeds=range(12)):
    """Residuals that each block adds to, and several kernels read."""

    def case(seed):
        def add_blocks(x, y, z):
            chance, results = random.Random(seed), []
            r = x + y * 0.5 + z * 0.25
            for _ in range(chance.choice([2, 3, 4])):
                r = r + _block(chance, r, x) * 0.5 + y * 0.1
                if chance.random() < 0.4:
                    results.append(r.sum(chance.choice([0, 1])))
            return (*results, r, r.amax(0))

        shape = ((24, 40), (17, 33), (32, 64))[seed % 3]
        inputs = tuple(numbers(*shape, seed=3 * seed + i) for i in range(3))
        return (f"residual{seed}", add_blocks, inputs)

    return [case(seed) for seed in seeds]


def half_cases():
    """Tensors of 16 bits: alone, beside others, and where one is asked for."""
    f16, bf16 = torch.float16, torch.bfloat16
    rows = numbers(37, 264)
    long_rows, image = numbers(5, 33_000), numbers(2, 6, 20, 24)
    strange = special(9, 40)
    strange[0, :4] = torch.tensor([70_000.0, 65_519.0, 6e-8, 2.9e-8])
    weight, bias = numbers(264, seed=2), numbers(264, seed=3)
    last = image.half().contiguous(memory_format=torch.channels_last)
    taps = numbers(6, 1, 3, 3, scale=0.5)
    labels = torch.arange(37) * 7 % 264

    def both(name, function, *inputs):
        for dtype in (f16, bf16):
            yield (
                f"{name}_{dtype}".replace("torch.", ""),
                function,
                tuple(t.to(dtype) if t.is_floating_point() else t for t in inputs),
            )

    return [
        *both("half_gelu", F.gelu, rows),
        *both("half_odd", lambda x: x * 2 + 1, numbers(7, 33)),
        *both("half_special", lambda x: x - 1, strange),
        *both("half_row", lambda x, y: x.exp() * y, rows, weight),
        *both("half_turned", lambda x: x.t() + 1, rows),
        *both("half_padded", lambda x: F.pad(x, (1, 2)).relu(), rows),
        *both("half_joined", lambda x, y: torch.cat([x, y.relu()], 1), rows, numbers(37, 24)),
        *both(
            "half_masked",
            lambda x: x.masked_fill(x > 0.5, torch.finfo(x.dtype).min).softmax(1),
            rows,
        ),
        *both("half_softmax", lambda x: x.softmax(1), rows),
        *both("half_softmax_odd", lambda x: x.softmax(1), numbers(9, 333)),
        *both("half_softmax_long", lambda x: x.softmax(1), long_rows),
        *both("half_norm", lambda x, w, b: F.layer_norm(x, (264,), w, b), rows + 3, weight, bias),
        *both("half_norm_long", lambda x: F.layer_norm(x, (33_000,)), long_rows),
        *both("half_group_norm", lambda x: F.group_norm(x, 2).relu(), image),
        *both(
            "half_batch_norm",
            lambda x, m, v: F.batch_norm(x, m, v),
            image,
            numbers(6),
            numbers(6).abs() + 1,
        ),
        *both(
            "half_steps_of_quotients",
            lambda x: [
                (x / x.amax(1, keepdim=True)).floor(),
                torch.where(x / x.amax(1, keepdim=True) >= 1, x, 0),
            ],
            rows,
        ),
        *both("half_sum", lambda x: [x.sum(1), x.mean(0)], rows),
        *both("half_largest", lambda x: [x.amax(0), x.argmax(1)], rows),
        *both("half_scan", lambda x: x.cumsum(1), numbers(5, 200, scale=0.3)),
        *both("half_max_pool", lambda x: F.max_pool2d(x, 3, 2, 1), image),
        *both("half_mean_pool", lambda x: F.avg_pool2d(x, 2), image),
        *both("half_depthwise", lambda x, w: F.conv2d(x, w, padding=1, groups=6), image, taps),
        *both("half_loss", F.cross_entropy, rows, labels),
        *both("half_table", F.embedding, labels, numbers(300, 40)),
        *both("half_swapped", lambda x: torch.where(x > 0, x, -x * 3), rows),
        ("half_last", lambda x: F.group_norm(x.contiguous(), 3), (last,)),
        ("half_widened", lambda x: x.float().softmax(1), (rows.half(),)),
        ("half_narrowed", lambda x: x.softmax(1).half(), (rows,)),
        ("half_narrowed_long", lambda x: x.softmax(1).bfloat16(), (long_rows,)),
        ("half_small", lambda x: x.float() * 1e30, ((numbers(9, 40) * 3e-39).bfloat16(),)),
        ("half_rounded", lambda x: (x.half().float() - x) * 100, (rows,)),
        ("half_rounded_bfloat16", lambda x: (x.bfloat16().float() - x) * 100, (rows,)),
        ("half_of_both", lambda x, y: x + y, (rows.half(), rows.bfloat16())),
        ("half_beside", lambda x, y: [x + y, x * 2], (rows.half(), rows)),
        (
            "half_norm_wide",
            lambda x, w: F.rms_norm(x.float(), (264,)) * w,
            (rows.bfloat16(), weight),
        ),
        ("half_strided", lambda x: x[:, ::2] * x[:, 1::2], (rows.half(),)),
    ]


def long_row_cases():
    """Rows longer than what one program or block of a GPU takes: few of them,
    and many."""
    few, many = numbers(2, 17_001), numbers(9, 16_500) + 3
    tall = numbers(17_001, 3)
    image = numbers(7, 3, 50, 50) + 30
    return [
        ("few_softmax", lambda x: x.softmax(1), (few,)),
        ("few_softmax_down", lambda x: x.softmax(0), (tall,)),
        ("few_variance_down", lambda x: x.var(0), (tall - 100,)),
        ("few_argmin_down", lambda x: x.argmin(0), (tall,)),
        ("few_special", lambda x: [x.sum(1), x.amax(1), x.argmax(1)], (special(2, 17_001),)),
        ("few_batch_norm", lambda x: F.batch_norm(x, None, None, training=True).relu(), (image,)),
        ("few_group_norm", lambda x: F.group_norm(x, 1), (image[:2],)),
        ("many_softmax", lambda x: x.softmax(1), (many,)),
        ("many_layer_norm", lambda x: F.layer_norm(x, (16_500,)), (many,)),
        ("many_special", lambda x: x.logsumexp(1), (special(9, 16_500),)),
        ("many_results", lambda x: [x.softmax(-1), x.sum(0)], (numbers(30, 120),)),
    ]


def level_row_cases():
    """All numbers of a row are one: what is left of them is 0, times 1,000."""
    level = numbers(7, 1) * 20_000
    return [
        ("level_layer_norm", lambda x: F.layer_norm(x.repeat(1, 96), (96,), eps=1e-6), (level,)),
        (
            "level_long_layer_norm",
            lambda x: F.layer_norm(x.repeat(1, 16_500), (16_500,), eps=1e-6),
            (level,),
        ),
        (
            "level_group_norm",
            lambda x: F.group_norm(x.repeat(1, 12).reshape(7, 3, 4), 3, eps=1e-6),
            (level,),
        ),
        (
            "level_last_group_norm",
            lambda x: F.group_norm(x.contiguous(), 3, eps=1e-6),
            (
                level[:2]
                .reshape(2, 1, 1, 1)
                .repeat(1, 33, 5, 7)
                .contiguous(memory_format=torch.channels_last),
            ),
        ),
    ]


def channels_last_cases():
    """What comes out of a convolution with its channels innermost, and is
    normalised and written with its rows innermost."""
    last = (numbers(2, 24, 40, 33) + 3).contiguous(memory_format=torch.channels_last)
    few = numbers(1, 8, 36, 36).contiguous(memory_format=torch.channels_last)
    volume = numbers(2, 12, 3, 5, 24).contiguous(memory_format=torch.channels_last_3d)
    small = numbers(1, 17, 9, 22).contiguous(memory_format=torch.channels_last)
    weight, bias = numbers(24), numbers(24, seed=2)
    index = torch.tensor([5, 0, 23, 5])
    return [
        (
            "last_group_norm",
            lambda x, w, b: F.group_norm(x.contiguous().sigmoid(), 8, w, b),
            (last, weight, bias),
        ),
        ("last_group_norm_of_one", lambda x: F.group_norm(x.contiguous(), 24).relu(), (last,)),
        ("last_group_norm_of_all", lambda x: F.group_norm(x.contiguous() - 100, 1), (few,)),
        ("last_group_norm_pooled", lambda x: F.group_norm(x.contiguous(), 3).mean((2, 3)), (last,)),
        ("last_group_norm_3d", lambda x: F.group_norm(x.contiguous(), 4), (volume,)),
        (
            "last_batch_norm",
            lambda x, w, b: F.batch_norm(x.contiguous().relu(), None, None, w, b, training=True),
            (last, weight, bias),
        ),
        ("last_instance_norm", lambda x: F.instance_norm(x.contiguous()) / 2, (last,)),
        ("last_layer_norm", lambda x: F.layer_norm(x.contiguous(), (24,)), (volume,)),
        (
            "last_layer_norm_of_images",
            lambda x: F.gelu(F.layer_norm(x.contiguous(), (40, 33))),
            (last,),
        ),
        (
            "last_max_pool",
            lambda x: F.mish(F.max_pool2d(F.hardswish(x.contiguous() - 0.5), 2)),
            (small,),
        ),
        ("last_mean_pool", lambda x: F.avg_pool2d(x.contiguous().tanh(), 3, 2, 1), (small,)),
        (
            "last_pool_3d",
            lambda x: F.max_pool3d(x.contiguous(), (1, 2, 1)).softmax(1),
            (volume[:1, :8],),
        ),
        ("last_pool_whole", lambda x: F.avg_pool2d(x.contiguous(), 8, 8), (last[:1],)),
        ("last_softmax_sum", lambda x: x.contiguous().softmax(2).sum(1), (few,)),
        ("last_mean_at", lambda x, i: x.contiguous().mean((2, 3))[:, i], (last, index)),
        ("last_largest_at", lambda x, i: x.contiguous().amax(3).index_select(1, i), (last, index)),
        (
            "turned_sum_at",
            lambda x, i: x.permute(2, 1, 0).sum(-1).index_select(0, i),
            (numbers(33, 5, 24), index),
        ),
        (
            "last_layer_norm_of_all",
            lambda x: F.layer_norm(x, (3, 9, 2)),
            (numbers(1, 9, 2, 3).permute(0, 3, 1, 2),),
        ),
        (
            "last_special",
            lambda x: F.group_norm(x.contiguous(), 2),
            (special(2, 4, 33, 32).contiguous(memory_format=torch.channels_last),),
        ),
    ]


class KernelCases:
    """A test of every case of `groups`, in each of `variants`.

    A variant has a `label`; `cases`, the slice of all cases that it is tried
    on; generate(graphs, options), what the code generator says of each; and
    build(graphs, answers, folder), which gives for each {name: function from
    a list of inputs to a list of outputs}.
    """

    groups = ()
    variants = ()
    options = ()  # what else the code generator is told
    refused = frozenset()  # names of cases that it has no code for
    rounding = 1  # times what a plain sum of these lengths is allowed

    @classmethod
    def setUpClass(cls):
        cls.cases = [case for group in cls.groups for case in group()]
        cls.graphs = captured_cases.graphs_of(cls.cases)
        cls.computed = {}
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.kernels = []
        for variant in cls.variants:
            numbers = range(len(cls.cases))[variant.cases]
            answers = variant.generate([cls.graphs[i] for i in numbers], cls.options)
            good = [
                (i, answer) for i, answer in zip(numbers, answers) if not cls.is_refused(i, answer)
            ]
            built = variant.build(
                [cls.graphs[i] for i, _ in good], [answer for _, answer in good], folder.name
            )
            for (i, _), functions in zip(good, built):
                for name, function in functions.items():
                    label = f"{variant.label}: {name}"
                    cls.kernels.append((label, i, function))

    @classmethod
    def is_refused(cls, number, answer):
        name = cls.cases[number][0]
        if ("error" in answer) != (name in cls.refused):
            told = answer.get("error", "there is code, and should be none")
            raise AssertionError(f"{name}: {told}")
        return "error" in answer

    def test_every_kernel_gives_what_the_framework_gives(self):
        self.assertTrue(self.kernels)
        for label, i, kernel in self.kernels:
            name, function, inputs = self.cases[i]
            with self.subTest(variant=label, case=name):
                self.check(kernel, function, inputs)

    def expected(self, function, inputs):
        """(what the framework computes, and in float64), once for all kernels
        of a case."""
        key = id(function), id(inputs)
        if key not in self.computed:
            self.computed[key] = (
                as_list(function(*inputs)),
                as_list(function(*[doubled(t) for t in inputs])),
            )
        return self.computed[key]

    def check(self, kernel, function, inputs):
        got = kernel(inputs)
        eager, exact = self.expected(function, inputs)
        self.assertEqual(len(got), len(eager))
        for mine, theirs, truth in zip(got, eager, exact):
            self.assertEqual(mine.dtype, theirs.dtype)
            self.assertEqual(mine.shape, theirs.shape)
            if not mine.dtype.is_floating_point:
                self.assertTrue(torch.equal(mine, theirs))
                continue
            # Where the framework itself is off, or rounds to infinity or to
            # zero, so may we.
            dtype = mine.dtype
            mine, theirs = mine.double(), theirs.double()
            same = (mine == theirs) | (mine.isnan() & theirs.isnan())
            same |= mine == truth
            off = (mine - truth).abs()
            theirs_off = (theirs - truth).abs().nan_to_num(0, 0, 0)
            scale = truth.abs().nan_to_num(0, 0, 0)
            limit = self.rounding * (2e-6 * scale + 3e-6) + 4 * theirs_off
            if dtype.itemsize == 2:
                limit += torch.finfo(dtype).eps * scale
            wrong = ~(same | (off <= limit))
            self.assertFalse(
                wrong.any(),
                f"{mine[wrong][:4].tolist()} for {truth[wrong][:4].tolist()}, "
                f"eager {theirs[wrong][:4].tolist()}",
            )
