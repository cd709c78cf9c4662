"""A captured graph at several sizes, as the compiler wants it: one graph, and which
of its integers grow (docs/reference/graph.md, "symbol"). Told here in Python, so that the
compiler's own word for it is not what tests rest on.
"""

import copy
import math

import numpy as np
from captured_cases import graphs_of

#: Of a batch, and of a batch and a length: what differs is told by differences.
SAMPLES = {1: ((8,), (12,), (14,)), 2: ((8, 10), (12, 10), (8, 15), (12, 15), (8, 17), (12, 17))}
#: What grows, in the order of docs/reference/graph.md: how often each size is a factor.
TERMS = {1: ((1,), (2,)), 2: ((1, 0), (0, 1), (1, 1), (0, 2), (1, 2))}


def growing(cases_at, symbols=1):
    """[(name, graph)] of the cases that `cases_at(size, …)` gives."""
    samples = SAMPLES[symbols]
    graphs = [graphs_of(cases_at(*sizes)) for sizes in samples]
    names = [name for name, _, _ in cases_at(*samples[0])]
    return list(zip(names, (grown(samples, one) for one in zip(*graphs))))


def grown(samples, graphs):
    grows = {}
    _walk(samples, graphs, "", grows)
    size = samples[0][0] if len(samples[0]) == 1 else list(samples[0])
    return {**copy.deepcopy(graphs[0]), "symbol": {"size": size, "grows": grows}}


def _walk(samples, values, pointer, grows):
    first = values[0]
    if isinstance(first, dict):
        for key in first:
            _walk(samples, [one[key] for one in values], f"{pointer}/{key}", grows)
    elif isinstance(first, list):
        assert all(len(one) == len(first) for one in values), pointer
        for i, inner in enumerate(zip(*values)):
            _walk(samples, inner, f"{pointer}/{i}", grows)
    elif type(first) is int and len(set(values)) > 1:
        rates = _rates(samples, values)
        rest = {value - _at(rates, sizes) for sizes, value in zip(samples, values)}
        assert len(rest) == 1, pointer
        grows[pointer] = rates
    elif not pointer.endswith("/name"):
        assert all(one == first for one in values), (pointer, values)


def _rates(samples, values):
    """The factors of TERMS, had by solving for them and for the rest."""
    terms = TERMS[len(samples[0])]
    rows = [[*(_term(term, sizes) for term in terms), 1] for sizes in samples]
    solved = np.linalg.solve(np.array(rows, float), np.array(values, float))
    return [round(rate) for rate in solved[:-1]]


def _term(term, sizes):
    return math.prod(size**power for size, power in zip(sizes, term))


def _at(rates, sizes):
    """How much of a number is had by these sizes."""
    return sum(rate * _term(term, sizes) for rate, term in zip(rates, TERMS[len(sizes)]))


def _listed(value):
    return value if isinstance(value, list) else [value]


def at_size(graph, *sizes):
    """The same graph at that batch, or at that batch and length."""
    graph = copy.deepcopy(graph)
    symbol = graph["symbol"]
    for pointer, rates in symbol["grows"].items():
        *path, last = pointer.strip("/").split("/")
        place = graph
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]
        last = int(last) if isinstance(place, list) else last
        place[last] += _at(_listed(rates), sizes) - _at(_listed(rates), _listed(symbol["size"]))
    symbol["size"] = sizes[0] if len(sizes) == 1 else list(sizes)
    return graph
