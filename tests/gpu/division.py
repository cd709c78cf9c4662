"""How a GPU divides, by eager and by Triton: which of them rounds as IEEE 754
wants it, and whether weft's kernels give eager's own quotients.

    python3 tests/gpu/division.py [--device cuda:0] [--count 4000000]

Needs PyTorch with CUDA, and Triton. Prints a line for each way; exit code 1 if
`tl.div_rn`, which kernels are printed with, is not eager's quotient everywhere.
"""

import argparse
import sys

import torch
import triton
import triton.language as tl

#: What `x / NUMBER` is in eager: a GPU may multiply by the inverse.
NUMBERS = (3.0, 7.0, 0.1, 49.0, 1e-3)


@triton.jit
def quotients(x, y, full, rounded, count, BLOCK: tl.constexpr):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < count
    a = tl.load(x + lane, mask=inside, other=1.0)
    b = tl.load(y + lane, mask=inside, other=1.0)
    tl.store(full + lane, a / b, mask=inside)
    tl.store(rounded + lane, tl.div_rn(a, b), mask=inside)


def drawn(count, device):
    """Pairs of all sizes, and the special ones."""
    bits = torch.randint(-(2**31), 2**31 - 1, (2, count), device=device, dtype=torch.int64).to(
        torch.int32
    )
    x, y = bits.view(torch.float32)
    close = count // 2  # quotients of like numbers, as a softmax has
    x[:close] = torch.rand(close, device=device)
    y[:close] = 1 + torch.rand(close, device=device)
    y[: count // 8] = x[: count // 8]
    return x.contiguous(), y.contiguous()


def different(one, other):
    return int(((one != other) & ~(one.isnan() & other.isnan())).sum())


def exact(x, y):
    """Correctly rounded: float64's quotient of two float32 has room to spare
    (53 bits >= 2 * 24 + 2; Figueroa, 1995)."""
    return (x.double() / y.double()).float()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--count", type=int, default=4_000_000)
    options = parser.parse_args()
    torch.manual_seed(1)
    x, y = drawn(options.count, options.device)
    full, rounded = torch.empty_like(x), torch.empty_like(x)
    block = 1024
    quotients[(triton.cdiv(options.count, block),)](x, y, full, rounded, options.count, BLOCK=block)
    eager, truth = x / y, exact(x, y)
    print(
        f"{torch.cuda.get_device_name(options.device)}, "
        f"{options.count} quotients; not the correctly rounded one:"
    )
    print(f"  eager x / y      {different(eager, truth)}")
    print(f"  Triton x / y     {different(full, truth)}")
    print(f"  Triton div_rn    {different(rounded, truth)}")
    for number in NUMBERS:
        made, divisor = x / number, torch.full_like(x, number)
        inverse = float(torch.tensor(1.0) / torch.tensor(number))
        print(
            f"  eager x / {number:<6g} {different(made, exact(x, divisor))}"
            f", other than x * (1 / {number:g}): "
            f"{different(made, x * inverse)}"
        )
    wrong = different(rounded, eager)
    print(f"div_rn is {'eager' if not wrong else 'NOT eager'}'s quotient ({wrong} differ)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
