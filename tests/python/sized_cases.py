"""A captured graph at several batch sizes, as the compiler wants it: one graph,
and which of its integers grow (docs/graph.md, "symbol"). Told here in Python, so
that the compiler's own word for it is not what tests rest on.
"""

import copy

from captured_cases import graphs_of

SAMPLES = (8, 12)


def growing(cases_at):
    """[(name, graph)] of the cases that `cases_at(batch)` gives."""
    low, high = (graphs_of(cases_at(size)) for size in SAMPLES)
    names = [name for name, _, _ in cases_at(1)]
    return list(zip(names, map(grown, low, high)))


def grown(low, high):
    grows = {}
    _walk(low, high, "", grows)
    return {**copy.deepcopy(low),
            "symbol": {"size": SAMPLES[0], "grows": grows}}


def _walk(low, high, pointer, grows):
    if isinstance(low, dict):
        for key in low:
            _walk(low[key], high[key], f"{pointer}/{key}", grows)
    elif isinstance(low, list):
        assert len(low) == len(high), pointer
        for i, (a, b) in enumerate(zip(low, high)):
            _walk(a, b, f"{pointer}/{i}", grows)
    elif type(low) is int and low != high:
        per, rest = divmod(high - low, SAMPLES[1] - SAMPLES[0])
        assert rest == 0, pointer
        grows[pointer] = per
    elif not pointer.endswith("/name"):
        assert low == high, (pointer, low, high)


def at_size(graph, size):
    """The same graph at that batch."""
    graph = copy.deepcopy(graph)
    for pointer, per in graph["symbol"]["grows"].items():
        *path, last = pointer.strip("/").split("/")
        place = graph
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]
        last = int(last) if isinstance(place, list) else last
        place[last] += per * (size - graph["symbol"]["size"])
    graph["symbol"]["size"] = size
    return graph
