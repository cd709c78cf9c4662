"""Every operator that the compiler lowers, against PyTorch in float64.

Needs the program cpu_codegen_cli (tests/compiler/tools): its path is in
WEFT_CPU_CODEGEN, or it stands in build/.
"""

import unittest

import torch
import torch.nn.functional as F

from cpu_kernels import CpuVariant
from kernel_cases import INF, KernelCases, numbers, special


def unary(name, function, *inputs):
    return [(f"{name}_{tuple(x.shape)}_{i}", function, (x,)) for i, x in enumerate(inputs)]


def pointwise_cases():
    ops = dict(
        abs=torch.abs,
        neg=torch.neg,
        exp=torch.exp,
        log=torch.log,
        log1p=torch.log1p,
        expm1=torch.expm1,
        sqrt=torch.sqrt,
        rsqrt=torch.rsqrt,
        reciprocal=torch.reciprocal,
        sin=torch.sin,
        cos=torch.cos,
        tan=torch.tan,
        atan=torch.atan,
        sinh=torch.sinh,
        cosh=torch.cosh,
        tanh=torch.tanh,
        sigmoid=torch.sigmoid,
        erf=torch.erf,
        floor=torch.floor,
        ceil=torch.ceil,
        round=torch.round,
        trunc=torch.trunc,
        sign=torch.sign,
        isnan=torch.isnan,
        isinf=torch.isinf,
        relu=torch.relu,
        gelu=F.gelu,
        gelu_tanh=lambda x: F.gelu(x, approximate="tanh"),
        silu=F.silu,
        mish=F.mish,
        hardtanh=F.hardtanh,
        relu6=F.relu6,
        hardswish=F.hardswish,
        hardsigmoid=F.hardsigmoid,
        leaky=lambda x: F.leaky_relu(x, 0.2),
        elu=F.elu,
        selu=F.selu,
        celu=F.celu,
        softplus=F.softplus,
        softplus2=lambda x: F.softplus(x, 2, 5),
        softsign=F.softsign,
        logsigmoid=F.logsigmoid,
        softshrink=F.softshrink,
        hardshrink=F.hardshrink,
        tanhshrink=F.tanhshrink,
        threshold=lambda x: F.threshold(x, 0.5, -3.0),
        clamp=lambda x: x.clamp(-0.5, 1.0),
        clamp_min=lambda x: x.clamp(min=0),
        clamp_max=lambda x: x.clamp(max=0.25),
        square=torch.square,
        cube=lambda x: x**3,
        pow_half=lambda x: x**0.5,
        pow_minus=lambda x: x**-1,
        pow_other=lambda x: x.abs() ** 1.7,
        rsub=lambda x: 1 - x,
        fmod=lambda x: torch.fmod(x, 0.7),
        remainder=lambda x: torch.remainder(x, 0.7),
        log2=torch.log2,
        log10=torch.log10,
        exp2=torch.exp2,
        asin=torch.asin,
        floor_divide=lambda x: torch.div(x, 0.3, rounding_mode="floor"),
        trunc_divide=lambda x: torch.div(x, 0.3, rounding_mode="trunc"),
        nan_to_zero=lambda x: torch.where(torch.isnan(x), 0.0, x),
        logical=lambda x: torch.logical_not(x > 0) | (x < -1),
        masked=lambda x: x.masked_fill(x > 0.5, -INF),
        erfc=torch.erfc,
        double=lambda x: x.double() * 0.1,
        to_int=lambda x: (x.clamp(-9, 9) * 3).nan_to_num(0).to(torch.int64),
        whole=lambda x: x * torch.full_like(x, 2.5).long(),
        expm1_small=lambda x: torch.expm1(x * 1e-3),
        log1p_small=lambda x: torch.log1p(x * 1e-4),
    )
    cases = []
    for name, op in ops.items():
        cases += unary(name, op, special(5, 17), numbers(1023))
    return cases


def binary_cases():
    a, b = numbers(3, 17), numbers(3, 17, seed=1)
    special_a, special_b = special(40), special(40).flip(0)
    row, column, one = numbers(17), numbers(3, 1), numbers(1)
    whole = torch.arange(-20, 31).reshape(3, 17)
    small = whole.to(torch.int32)
    truth = numbers(3, 17, seed=2) > 0
    ops = dict(
        add=torch.add,
        sub=torch.sub,
        mul=torch.mul,
        div=torch.div,
        minimum=torch.minimum,
        maximum=torch.maximum,
        lt=torch.lt,
        ge=torch.ge,
        eq=torch.eq,
        ne=torch.ne,
        atan2=torch.atan2,
        alpha=lambda x, y: torch.add(x, y, alpha=0.3),
        xlogy=lambda x, y: torch.xlogy(x, y.abs()),
        mse=lambda x, y: F.mse_loss(x, y),
        huber=lambda x, y: F.smooth_l1_loss(x, y),
        clamp=lambda x, y: torch.clamp(x, min=y),
        gt=torch.gt,
    )
    cases = []
    for name, op in ops.items():
        cases.append((name, op, (a, b)))
        cases.append((name + "_special", op, (special_a, special_b)))
        cases.append((name + "_row", op, (a, row)))
        cases.append((name + "_column", op, (column, row)))
        cases.append((name + "_one", op, (a.t(), one)))
    cases += [
        ("int_add", lambda x: x + 3, (whole,)),
        ("int_float", lambda x: x * 0.5, (whole,)),
        ("int_div", lambda x, y: x / y, (whole, small + 40)),
        ("int_floor", lambda x: torch.div(x, 4, rounding_mode="floor"), (whole,)),
        ("int_remainder", lambda x: x % 7, (whole,)),
        ("mixed", lambda x, y: x + y, (small, whole)),
        ("mixed_float", lambda x, y: x + y, (small, a)),
        ("int_compare", lambda x: x > 2.5, (whole,)),
        ("truth", lambda x, y: x & (y > 0), (truth, a)),
        ("where", lambda m, x, y: torch.where(m, x, y), (truth, a, b)),
        ("where_number", lambda m, x: torch.where(m, x, 0.0), (truth, a)),
        ("truth_sum", lambda m, x: m * x, (truth, a)),
        ("f64", lambda x, y: torch.exp(x) * y + torch.tanh(x), (a.double(), b.double())),
        ("f64_where", lambda x: torch.where(x > 0, x, -x), (a.double(),)),
        ("addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), (a, b)),
        ("addcdiv", lambda x, y: torch.addcdiv(x, x, y), (a, b)),
        ("truth_or", lambda x, y: x + (y > 0), (truth, a)),
        ("truth_and", lambda x, y: x * (y > 0), (truth, a)),
        ("truth_maximum", lambda x, y: torch.maximum(x, y > 0), (truth, a)),
        ("truth_order", lambda x, y: x < (y > 0), (truth, a)),
        ("int_beyond_double", lambda x: x + ((1 << 53) + 1), (whole,)),
        ("zero_dim", lambda x, y: x + y, (a, torch.tensor(2.0))),
        ("kl", lambda x, y: F.kl_div(x, y.softmax(1), reduction="batchmean"), (a, b)),
    ]
    return cases


def view_cases():
    x = numbers(2, 6, 5, 4)
    return [
        ("permute", lambda x: x.permute(0, 2, 3, 1) + 1, (x,)),
        ("permute_copy", lambda x: x.permute(3, 1, 0, 2).contiguous() * 2, (x,)),
        ("permute_view", lambda x: x.permute(0, 2, 1, 3).reshape(10, 24).exp(), (x,)),
        ("transpose", lambda x, y: x.t() + y, (numbers(33, 50), numbers(50, 33))),
        (
            "transpose_scaled",
            lambda x, y, z: x.t() * y + z[:, None],
            (numbers(48, 64), numbers(64, 48), numbers(64)),
        ),
        (
            "transpose_double",
            lambda x, y: x.t() + y.t(),
            (numbers(64, 64).double(), numbers(64, 64).double()),
        ),
        (
            "transpose_int",
            lambda x, y: x.t() + y,
            (numbers(37, 40), torch.arange(40 * 37).view(40, 37)),
        ),
        (
            "to_channels_last",
            lambda x: x.permute(0, 2, 3, 1).contiguous() + 1,
            (numbers(2, 24, 9, 11),),
        ),
        ("slice", lambda x: x[:, 1:5:2, :, 1:] * 3, (x,)),
        ("select", lambda x: x[:, 2] + x[1, 3], (x,)),
        ("flip", lambda x: x.flip(1, 3) + x, (x,)),
        ("expand", lambda x: x[:1].expand(2, 6, 5, 4) * x, (x,)),
        ("chunk", lambda x: torch.mul(*x.chunk(2, 1)), (x,)),
        ("split", lambda x: [p.exp() for p in x.split(4, 1)], (x,)),
        ("glu", lambda x: F.glu(x, 1), (x,)),
        ("squeeze", lambda x: (x.unsqueeze(2) + 1).squeeze(2), (x,)),
        ("repeat", lambda x: x.repeat(1, 2, 1, 3) + 1, (x,)),
        ("flatten", lambda x: x.flatten(1).relu(), (x,)),
        ("channels_last", lambda x: x + 1, (x.contiguous(memory_format=torch.channels_last),)),
        ("strided", lambda x: x * 2, (numbers(40, 9)[::2, 1:8:3],)),
        ("full", lambda x: x + torch.full((5, 4), 2.5), (x,)),
        ("arange", lambda x: x + torch.arange(4) * 2, (x,)),
        ("arange_moved", lambda x: x + torch.arange(120).view(5, 24).t().reshape(6, 5, 4), (x,)),
        (
            "mask",
            lambda x: torch.where(torch.arange(4)[None, :] <= torch.arange(5)[:, None], x, -INF),
            (x,),
        ),
        ("ones", lambda x: torch.ones_like(x) - x, (x,)),
        ("one_element", lambda x: x.exp(), (numbers(1),)),
        ("no_dims", lambda x: x.exp() + 1, (torch.tensor(0.5),)),
        ("shuffle", lambda x: x.view(2, 2, 3, 5, 4).transpose(1, 2).reshape(2, 6, 5, 4) + 1, (x,)),
    ]


def reduction_cases():
    ops = dict(
        sum=lambda x, d, k: x.sum(d, keepdim=k),
        mean=lambda x, d, k: x.mean(d, keepdim=k),
        amax=lambda x, d, k: x.amax(d, keepdim=k),
        amin=lambda x, d, k: x.amin(d, keepdim=k),
        var=lambda x, d, k: x.var(d, keepdim=k),
        std0=lambda x, d, k: x.std(d, correction=0, keepdim=k),
        var_mean=lambda x, d, k: torch.var_mean(x, d, keepdim=k),
        norm=lambda x, d, k: torch.linalg.vector_norm(x, 2, d, k),
        norm1=lambda x, d, k: torch.linalg.vector_norm(x, 1, d, k),
        logsumexp=lambda x, d, k: torch.logsumexp(x, d, keepdim=k),
        any=lambda x, d, k: (
            (x > 1).any(d, keepdim=k) if isinstance(d, int) else (x > 1).sum(d, keepdim=k)
        ),
        all=lambda x, d, k: (
            (x > -3).all(d, keepdim=k) if isinstance(d, int) else (x > -3).sum(d, keepdim=k)
        ),
    )
    one_dim = dict(
        argmax=lambda x, d, k: x.argmax(d, keepdim=k),
        argmin=lambda x, d, k: x.argmin(d, keepdim=k),
        max=lambda x, d, k: torch.max(x, d, keepdim=k),
        min=lambda x, d, k: torch.min(x, d, keepdim=k),
        prod=lambda x, d, k: x.prod(d, keepdim=k),
        softmax=lambda x, d, k: x.softmax(d),
        log_softmax=lambda x, d, k: x.log_softmax(d),
    )
    dims = [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (2, 3), (0, 2, 3), (0, 1, 2, 3)]
    x = numbers(3, 5, 7, 17)
    last = x.contiguous(memory_format=torch.channels_last)
    cases = []

    def add(name, op, x, d, keep):
        cases.append((f"{name}_{d}_{keep}", lambda x, op=op, d=d, k=keep: op(x, d, k), (x,)))

    for i, (name, op) in enumerate(ops.items()):
        for j, d in enumerate(dims):
            one = d[0] if len(d) == 1 else d
            add(name, op, last if (i + j) % 4 == 0 else x, one, (i + j) % 2 == 0)
        add(name + "_row", op, numbers(4, 1023), 1, False)
        add(name + "_column", op, numbers(1023, 3), 0, True)
    for name, op in one_dim.items():
        for d in range(4):
            add(name, op, last if d == 2 else x, d, d % 2 == 0)
        add(name + "_special", op, special(6, 40), 1, False)
        add(name + "_special0", op, special(40, 6), 0, False)
        add(name + "_ties", op, torch.ones(3, 100), 1, False)
        add(name + "_empty", op, torch.full((2, 33), -INF), 1, False)
    for name in ("sum", "amax", "amin", "logsumexp", "norm", "var", "std0"):
        add(name + "_special", ops[name], special(6, 40), 1, False)
        add(name + "_special0", ops[name], special(40, 6), 0, False)
    add("logsumexp_minus", ops["logsumexp"], torch.full((2, 33), -INF), 1, False)
    cases += [
        ("sum_all", lambda x: x.sum(), (x,)),
        ("max_all", lambda x: x.max(), (x,)),
        ("min_all", lambda x: x.min(), (x.double(),)),
        ("prod_all", lambda x: x.prod(), (numbers(13),)),
        ("argmax_all", lambda x: x.argmax(), (x,)),
        ("argmax_of_one", lambda x: x.argmax(1), (numbers(5, 1),)),
        ("max_of_one", lambda x: torch.max(x, 1), (numbers(5, 1),)),
        ("argmax_moved", lambda x: x.argmax(), (x.permute(3, 1, 0, 2),)),
        ("argmin_int", lambda x: x.argmin(0), (torch.arange(60).view(12, 5) % 7,)),
        ("int_sum", lambda x: x.sum(1), (torch.arange(60).view(12, 5),)),
        ("int_max", lambda x: x.amax(0), (torch.arange(60).view(12, 5),)),
        ("truth_count", lambda x: (x > 0).sum(), (x,)),
        ("any_all", lambda x: (x > 0).any(), (x,)),
        ("f64_softmax", lambda x: x.softmax(-1), (x.double(),)),
        ("large_sum", lambda x: x.sum(), (numbers(300_007).abs(),)),
        ("large_rows", lambda x: x.mean(1), (numbers(3, 150_001),)),
        ("large_columns", lambda x: x.amax(0), (numbers(20_011, 5),)),
        ("large_var", lambda x: x.var(1), (numbers(2, 200_003) + 100,)),
        ("large_var0", lambda x: x.var(0), (numbers(200_003, 3) - 100,)),
        ("large_argmax", lambda x: x.argmax(1), (numbers(2, 100_003),)),
        ("large_argmax0", lambda x: x.argmax(0), (numbers(100_003, 2),)),
        ("large_softmax", lambda x: x.softmax(1), (numbers(2, 100_003),)),
        ("large_softmax0", lambda x: x.softmax(0), (numbers(100_003, 2),)),
    ]
    return cases


def norm_cases():
    x = numbers(4, 8, 6, 5)
    weight, bias = numbers(8, seed=1), numbers(8, seed=2)
    mean, variance = numbers(8, seed=3), numbers(8, seed=4).abs() + 0.5

    def batch(x, w, b, m, v):
        # Functional form: the updated statistics are results.
        out = torch.ops.aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5)
        return [out[0], out[3], out[4]]

    return [
        ("layer", lambda x, w, b: F.layer_norm(x, (5,), w, b), (x, numbers(5), numbers(5, seed=9))),
        ("layer2", lambda x: F.layer_norm(x, (6, 5)), (x,)),
        ("layer_1023", lambda x: F.layer_norm(x, (1023,)), (numbers(3, 1023) + 50,)),
        ("layer_moved", lambda x: F.layer_norm(x.transpose(1, 3), (8,)), (x,)),
        ("group", lambda x, w, b: F.group_norm(x, 2, w, b), (x, weight, bias)),
        ("group_one", lambda x: F.group_norm(x, 8), (x,)),
        ("group_2d", lambda x: F.group_norm(x, 4), (numbers(5, 16),)),
        (
            "group_last",
            lambda x: F.group_norm(x, 4),
            (x.contiguous(memory_format=torch.channels_last),),
        ),
        ("instance", lambda x: F.instance_norm(x), (x,)),
        (
            "instance_affine",
            lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
            (x, weight, bias),
        ),
        ("batch", batch, (x, weight, bias, mean, variance)),
        (
            "batch_last",
            batch,
            (x.contiguous(memory_format=torch.channels_last), weight, bias, mean, variance),
        ),
        ("batch_2d", batch, (numbers(33, 8), weight, bias, mean, variance)),
        ("batch_large", batch, (numbers(16, 8, 70, 70) + 30, weight, bias, mean, variance)),
        (
            "batch_eval",
            lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
            (x, mean, variance, weight, bias),
        ),
        ("layer_special", lambda x: F.layer_norm(x, (40,)), (special(6, 40),)),
        ("rms_special", lambda x: F.rms_norm(x, (40,)), (special(6, 40),)),
        ("group_special", lambda x: F.group_norm(x, 4), (special(6, 8, 5),)),
        ("batch_special", lambda x: F.batch_norm(x, None, None, training=True), (special(40, 8),)),
        ("rms", lambda x, w: F.rms_norm(x, (5,), w), (x, numbers(5))),
        (
            "rms_channels",
            lambda x: x / torch.sqrt(torch.mean(x**2, dim=1, keepdim=True) + 1e-5),
            (x,),
        ),
        ("normalize", lambda x: F.normalize(x, p=2, dim=1), (x,)),
        ("l1", lambda x: x / torch.mean(torch.abs(x), dim=1, keepdim=True), (x,)),
        ("frobenius", lambda x: x / torch.norm(x, p="fro"), (x,)),
        ("frobenius_large", lambda x: x / torch.norm(x, p="fro"), (numbers(300, 301),)),
        ("cosine", lambda x, y: F.cosine_similarity(x, y), (x, x.flip(1))),
    ]


def fused_cases():
    x, y = numbers(6, 5, 33), numbers(6, 5, 33, seed=1)
    image = numbers(4, 8, 6, 5)
    return [
        ("residual_layer_gelu", lambda x, y: [x + y, F.gelu(F.layer_norm(x + y, (33,)))], (x, y)),
        ("softmax_mean", lambda x: x.softmax(1).mean(2), (x,)),
        ("softmax_twice", lambda x: x.softmax(-1).softmax(1), (x,)),
        ("group_softmax", lambda x: F.group_norm(x, 4).softmax(1).amax((2, 3)), (image,)),
        ("instance_pool", lambda x: F.instance_norm(x).relu().mean((2, 3)), (image,)),
        ("gelu_group", lambda x: F.group_norm(F.gelu(x), 2), (image,)),
        ("several_results", lambda x: [x.sum(1), x.amax(2), x * 2, x.mean()], (x,)),
        (
            "centre_both",
            lambda x: (
                x - x.mean(1, keepdim=True) - x.mean(2, keepdim=True) + x.mean((1, 2), keepdim=True)
            ),
            (x,),
        ),
        ("gram", lambda x: x.softmax(-1) + x.softmax(-1).flip(2), (x,)),
        ("transposed", lambda x: x.softmax(-1).transpose(1, 2).contiguous(), (x,)),
        ("standardise", lambda x: (x - x.mean()) / x.std(), (x,)),
        ("lse_chain", lambda x: F.gelu(F.leaky_relu(torch.logsumexp(x, 1, keepdim=True))), (x,)),
        (
            "attention_mask",
            lambda x, m: (x / 5 + m).softmax(-1),
            (x, torch.zeros(33).masked_fill(torch.arange(33) > 20, -INF)),
        ),
        (
            "cross_entropy_smooth",
            lambda x, y: -(y.softmax(-1) * x.log_softmax(-1)).sum(-1).mean(),
            (x, y),
        ),
        ("large_two_results", lambda x: [x.softmax(-1), x.sum(0)], (numbers(130, 500),)),
    ]


ALL = (pointwise_cases, binary_cases, view_cases, reduction_cases, norm_cases, fused_cases)


# Every case once; what differs by the machine or the variant, for a part of
# them, as compiling takes nearly all of the time. -O1 compiles the same
# statements; one part is built as kernels are.
VARIANTS = (
    CpuVariant("first", 0, 2, 64, 0, 1, "-O1"),
    CpuVariant("as shipped", 1, 2, 64, 0, 7, "-O3"),
    CpuVariant("one core, narrow", 0, 1, 16, 1, 5, "-O1"),
    CpuVariant("last", -1, 4, 32, 2, 5, "-O1"),
)


class CpuKernels(KernelCases, unittest.TestCase):
    groups = ALL
    variants = VARIANTS


if __name__ == "__main__":
    unittest.main()
