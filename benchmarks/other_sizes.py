"""Makes the same problems in other sizes, so that results can be checked at sizes that weft
was not developed with.

    python benchmarks/other_sizes.py KERNELBENCH OUT [--level 1,2]

KERNELBENCH is a checkout, or a folder of problem files. In each file, integers at its
outermost level that are sizes (batches, extents, channels) become others, some of them
primes. Nothing else is changed. A change stays where the model still runs, which is tried
on tensors without values. `weft bench KERNELBENCH --and OUT` then tells the scores of both.
Files that cannot be changed are named and not written.
"""

import argparse
import ast
import hashlib
import math
import operator
import os
import random
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

#: What these set is no size, whatever its value.
NO_SIZE = re.compile(
    r"kernel|stride|pad|dilat|group|pool|scal|factor|heads|layers|axis|seed|"
    r"divisor|value|clamp|eps|momentum|alpha|beta|_p$|(?-i:^k$|_k$)|min|max|num_",
    re.IGNORECASE,
)
BATCH = re.compile(r"batch|^n$", re.IGNORECASE)
CHANNELS = re.compile(r"channel|feature|hidden|embed", re.IGNORECASE)
#: Smaller numbers are sizes only by their name: as a rule they say which
#: dimension, or how often.
SIZE_MIN = 8
#: All tensors that go in, at most so many times the bytes that went in before,
#: and at least.
GROWTH_MAX, GROWTH_MIN = 1.25, 0.3


@dataclass(frozen=True)
class Place:
    """A number in the text: where, and what it is called and was."""

    start: int
    end: int
    name: str
    value: int


def sizes_in(text):
    """The Places of all numbers that are sizes."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            for name, node in _named(statement.targets[0], statement.value):
                value = _integer(node)
                if _is_size(name, value):
                    start = starts[node.lineno - 1] + node.col_offset
                    end = starts[node.end_lineno - 1] + node.end_col_offset
                    found.append(Place(start, end, name, value))
    return found


def _named(target, value):
    """(name, integer's node) of an assignment."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts):
            yield from _named(one, other)
    elif isinstance(target, ast.Name):
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
        for part in parts:
            if _integer(part) is not None:
                yield target.id, part


#: Of sizes that are written as products: 1024 * 2.
_OPERATIONS = {
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.FloorDiv: operator.floordiv,
}


def _integer(node):
    """What that expression of numbers is; None, if it is no integer."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATIONS:
        return None
    left, right = _integer(node.left), _integer(node.right)
    if left is None or right is None or right <= 0:
        return None
    return _OPERATIONS[type(node.op)](left, right)


def _is_size(name, value):
    if NO_SIZE.search(name):
        return False
    if BATCH.search(name) or CHANNELS.search(name):
        return value > 1
    return value >= SIZE_MIN


def is_prime(n):
    return n > 1 and all(n % i for i in range(2, math.isqrt(n) + 1))


def prime_from(n, step):
    """The first prime from n on, in that direction; 2 at the least."""
    while n > 2 and not is_prime(n):
        n += step
    return max(2, n)


def others(place, dice):
    """Other values for it, the one that is tried first before."""
    n = place.value
    below, above = prime_from(n - 1, -1), prime_from(n + 1, 1)
    if BATCH.search(place.name):
        first = [prime_from(max(2, round(0.8 * n)), 1), below]
    elif CHANNELS.search(place.name):
        # What groups divide, and a prime where there are none.
        first = [above, below] if dice.random() < 0.5 else []
        step = 8 if n >= 32 else 2
        first += [n + step, n - step, 3 * n // 2, 2 * n]
    else:
        first = [below, 3 * n // 4, above, n - 8]
        dice.shuffle(first)
    return [m for m in dict.fromkeys(first) if m > 0 and m != n]


def rewritten(text, values):
    """The text with those values at their Places."""
    data = text.encode()
    for place in sorted(values, key=lambda p: p.start, reverse=True):
        data = data[: place.start] + str(values[place]).encode() + data[place.end :]
    return data.decode()


def input_bytes(text):
    """What goes into the model, if it runs; else None. Without any values."""
    import torch
    from torch.utils import _pytree as pytree

    names = {"__name__": "problem"}
    try:
        with warnings.catch_warnings(), torch.no_grad(), torch.device("meta"):
            warnings.simplefilter("ignore")
            exec(compile(text, "problem.py", "exec"), names)
            model = names["Model"](*names["get_init_inputs"]())
            inputs = names["get_inputs"]()
            results = model(*inputs)
    except Exception:  # whatever a model raises for sizes that do not fit
        return None
    tensors = [
        leaf for leaf in pytree.tree_leaves([inputs, results]) if isinstance(leaf, torch.Tensor)
    ]
    return sum(t.nbytes for t in tensors) or None


def in_other_sizes(text, name):
    """The text with as many of its sizes changed as the model lets; None, if it
    lets none. `name` decides on which: the same each time."""
    before = input_bytes(text)
    if before is None:
        return None
    seed = hashlib.sha256(name.encode()).digest()
    dice = random.Random(int.from_bytes(seed[:8], "big"))
    places = sizes_in(text)
    values = {}
    # One after the other; then those of one value together, which may be the
    # same size under several names.
    groups = [[place] for place in places]
    groups += [
        [p for p in places if p.value == value] for value in sorted({p.value for p in places})
    ]
    for group in groups:
        if any(place in values for place in group):
            continue
        for other in others(group[0], dice):
            tried = {**values, **dict.fromkeys(group, other)}
            now = input_bytes(rewritten(text, tried))
            if now and GROWTH_MIN <= now / before <= GROWTH_MAX:
                values = tried
                break
    return rewritten(text, values) if values else None


def folders(root, levels):
    """(folder, its path below the root) of the levels; of loose files."""
    for base in (root / "KernelBench", root):
        found = [base / f"level{n}" for n in levels]
        found = [path for path in found if path.is_dir()]
        if found:
            return [(path, path.relative_to(root)) for path in found]
    return [(root, Path("."))]


def make(root, out, levels):
    """(how many files were made, names of those that were not)."""
    made, left = 0, []
    for folder, below in folders(root, levels):
        for path in sorted(folder.glob("[!_.]*.py")):
            text = in_other_sizes(path.read_text(encoding="utf-8"), path.name)
            if text is None:
                left.append(str(below / path.name))
                continue
            (out / below).mkdir(parents=True, exist_ok=True)
            (out / below / path.name).write_text(text, encoding="utf-8")
            made += 1
    return made, left


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kernelbench", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--level", default="1,2", help="which, with commas")
    options = parser.parse_args()
    if not options.kernelbench.is_dir():
        sys.exit(f"no such folder: {options.kernelbench}")
    if options.out.exists() and os.listdir(options.out):
        sys.exit(f"{options.out} is not empty: name another folder")
    levels = [int(level) for level in options.level.split(",")]
    made, left = make(options.kernelbench, options.out, levels)
    print(f"{made} problems in other sizes in {options.out}")
    for name in left:
        print(f"left out, no size of it could be changed: {name}")
    if not made:
        sys.exit(1)


if __name__ == "__main__":
    main()
