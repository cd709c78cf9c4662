"""weft.optimize: what forward() reads or changes besides its arguments and its
modules' own attributes."""

import array
import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import logging
import os
import random
import sys
import threading
import types

import numpy
import torch
from backend_case import BUDGET_S, OptimizingCase
from torch import nn

import weft
import weft.backend
from weft.backend import captured as captures, piece as pieces

log = logging.getLogger("weft.test")
COUNT = 0
FACTOR = 2.0
SETTINGS = types.SimpleNamespace(factor=2.0)
SEEN = []
MODE = contextvars.ContextVar("MODE", default=2.0)


class Kind(enum.Enum):
    TANH = 1
    RELU = 2


@dataclasses.dataclass
class Config:
    factor: float = 2.0
    kind: Kind = Kind.TANH
    calls: int = 0


@dataclasses.dataclass(slots=True)
class Slots:
    factor: float = 2.0


class Scaler:
    def __init__(self):
        self.factor = 2.0

    def scaled(self, x):
        return x * self.factor


class Made(nn.Module):
    """Its forward() is a function of it; it holds an object."""

    calls = 0

    def __init__(self, function, held=None):
        super().__init__()
        self.function, self.held = function, held

    def forward(self, *given):
        return self.function(self, *given)


class Reads(nn.Module):
    factor = 2.0

    def __init__(self):
        super().__init__()
        self.config = Config()
        self.slots = Slots()
        self.space = types.SimpleNamespace(inner=Config())
        self.array = numpy.full(4, 2.0)
        self.scalar = numpy.array(2.0)
        self.bytes = bytearray(b"\2\2")
        self.deque = collections.deque([2.0])
        self.list = [2.0] * 2000
        self.whole = [2]
        self.objects = [Config()]
        self.tensors = [torch.full((8,), 2.0)]
        self.number = {"a": torch.tensor(2.0)}
        self.layers = [nn.Linear(8, 8), nn.Dropout(0.0).eval()]
        self.partial = functools.partial(torch.mul, self.objects[0])
        self.bound = Scaler().scaled
        self.unread = types.SimpleNamespace(step=0)

    def forward(self, x):
        log.debug("called with %s", x.shape)
        y = x.tanh() * self.config.factor * self.slots.factor
        y = y + (x.relu() if self.config.kind is Kind.RELU else x.sin())
        y = y * self.space.inner.factor + float(self.array[0] * self.scalar) * self.bytes[0]
        y = y + self.deque[0] * self.list[7] + self.objects[0].factor
        y = y + self.tensors[0] * float(self.number["a"]) - self.factor
        y = y + (1 if type(self.whole[0]) is int else 2)
        y = self.bound(self.layers[1](self.layers[0](y)))
        y = y * self.partial.args[0].factor
        return y * FACTOR * SETTINGS.factor + MODE.get() + float(
            os.environ.get("WEFT_TEST_FACTOR", "2"))


def set_item(of, key, value):
    before = float(of[key]) if key is ... else of[key]
    of[key] = value
    return lambda: of.__setitem__(key, before)


def set_name(of, name, value):
    before = getattr(of, name)
    setattr(of, name, value)
    return lambda: setattr(of, name, before)


def set_environment():
    os.environ["WEFT_TEST_FACTOR"] = "3"
    return lambda: os.environ.pop("WEFT_TEST_FACTOR")


def set_mode():
    token = MODE.set(3.0)
    return lambda: MODE.reset(token)


#: Each changes what Reads reads, and gives what undoes that.
CHANGES = {
    "a dataclass": lambda m: set_name(m.config, "factor", 3.0),
    "an enum": lambda m: set_name(m.config, "kind", Kind.RELU),
    "slots": lambda m: set_name(m.slots, "factor", 3.0),
    "an object in an object": lambda m: set_name(m.space.inner, "factor", 3.0),
    "an array": lambda m: set_item(m.array, 0, 3.0),
    "an array of no dimension": lambda m: set_item(m.scalar, ..., 3.0),
    "bytes": lambda m: set_item(m.bytes, 0, 3),
    "a deque": lambda m: set_item(m.deque, 0, 3.0),
    "a long list": lambda m: set_item(m.list, 7, 3.0),
    "a number's type": lambda m: set_item(m.whole, 0, 2.0),
    "an object in a list": lambda m: set_name(m.objects[0], "factor", 3.0),
    "a tensor in a list": lambda m: set_item(m.tensors, 0, torch.ones(8)),
    "a module in a list": lambda m: set_item(m.layers, 0, nn.Linear(8, 8)),
    "its weight": lambda m: set_name(
        m.layers[0], "weight", nn.Parameter(torch.ones(8, 8))),
    "its mode": lambda m: set_name(m.layers[1], "training", True),
    "a bound method's object": lambda m: set_name(m.bound.__self__, "factor", 3.0),
    "a global": lambda m: set_name(sys.modules[__name__], "FACTOR", 3.0),
    "a global object": lambda m: set_name(SETTINGS, "factor", 3.0),
    "a class": lambda m: set_name(Reads, "factor", 3.0),
    "a context's variable": lambda m: set_mode(),
    "the environment": lambda m: set_environment(),
}


def count_in(held):
    held["n"] += 1
    return held["n"]


def count_at(held):
    held[0] += 1
    return int(held[0])


def count_of(held):
    held.calls += 1
    return held.calls


def count_global(held):
    global COUNT
    COUNT += 1
    return COUNT


def count_class(held):
    Made.calls += 1
    return Made.calls


def note(held):
    held.append(1)
    return len(held)


def count_default(held, memo={"n": 0}):  # noqa: B006
    memo["n"] += 1
    return memo["n"]


def counting():
    n = 0

    def count(held):
        nonlocal n
        n += 1
        return n

    return count


#: (what forward() holds, what it computes of that, changing it)
CHANGED = [
    (collections.Counter, count_in),
    (lambda: collections.OrderedDict(n=0), count_in),
    (collections.deque, note),
    (lambda: types.SimpleNamespace(calls=0), count_of),
    (Config, count_of),
    (lambda: bytearray(1), count_at),
    (lambda: array.array("i", [0]), count_at),
    (lambda: numpy.zeros(1), count_at),
    (lambda: SEEN, note),
    (lambda: None, count_global),
    (lambda: None, count_class),
    (lambda: None, count_default),
    (lambda: None, counting()),
    (lambda: random.Random(0), lambda held: held.random()),
    (lambda: numpy.random.default_rng(0), lambda held: held.random()),
    (lambda: numpy.random.RandomState(0), lambda held: held.rand()),
    (lambda: itertools.count(1), next),
]


class Surroundings(OptimizingCase):
    @torch.no_grad()
    def test_what_is_read_is_looked_at_each_time(self):
        module, x = Reads(), torch.randn(4, 8)
        mine = self.optimized(module, x)
        for what, change in CHANGES.items():
            with self.subTest(what):
                self.is_by_kernels(mine, module, x, True)
                undo = change(module)
                try:
                    self.is_by_kernels(mine, module, x, False)
                finally:
                    undo()
        module.unread.step += 1
        self.is_by_kernels(mine, module, x, True)
        module.number["a"].fill_(3.0)
        self.is_by_kernels(mine, module, x, False)

    def is_by_kernels(self, mine, module, x, is_by_kernels):
        before = self.calls(mine)
        torch.testing.assert_close(mine(x), module(x))
        self.assertEqual(self.calls(mine) - before, is_by_kernels)

    @torch.no_grad()
    def test_names_that_are_computed_may_be_any(self):
        module = Made(lambda self, x: x.tanh() * getattr(
            self.held, "fac" + "tor"), Config())
        x = torch.randn(4, 8)
        mine = self.optimized(module, x)
        self.is_by_kernels(mine, module, x, True)
        module.held.factor = 3.0
        self.is_by_kernels(mine, module, x, False)

    @torch.no_grad()
    def test_what_is_changed_is_refused_and_put_back(self):
        for make, compute in CHANGED:
            with self.subTest(f"{make} {compute}"):
                held, x = make(), torch.randn(4, 8)
                module = Made(lambda self, x, compute=compute: x.tanh() * compute(
                    self.held), held)
                mine = self.optimized(module, x, ready=False)
                self.assertRegex(self.report.reason, "changes|draws|may read")
                got = [mine(x)[0, 0] / x.tanh()[0, 0] for _ in range(3)]
                if compute is next or not isinstance(held, (
                        random.Random, numpy.random.Generator,
                        numpy.random.RandomState)):
                    torch.testing.assert_close(torch.stack(got),
                                               torch.tensor([1.0, 2.0, 3.0]))
                else:
                    other = make()
                    torch.testing.assert_close(torch.stack(got), torch.tensor(
                        [compute(other) for _ in range(3)]))

    @torch.no_grad()
    def test_no_tensor_of_a_capture_is_left(self):
        def cached(self, x):
            if not hasattr(self.held, "cache"):
                self.held.cache = x.tanh()
            SEEN.append(x)
            return x + self.held.cache

        module = Made(cached, types.SimpleNamespace())
        seen = list(SEEN)
        self.optimized(module, torch.randn(4, 8), ready=False)
        self.assertEqual(vars(module.held), {})
        self.assertEqual(SEEN, seen)

    def test_an_interrupt_goes_through_and_leaves_nothing(self):
        def interrupted(self, x):
            self.held.calls += 1
            random.random()
            raise KeyboardInterrupt

        module, x = Made(interrupted, Config()), torch.randn(4, 8)
        state, tracer = random.getstate(), sys.gettrace()
        with self.assertRaises(KeyboardInterrupt):
            weft.optimize(module, [x], budget_s=BUDGET_S)
        self.assertEqual((module.held.calls, random.getstate(), sys.gettrace()),
                         (0, state, tracer))
        module.function = lambda self, x: x.tanh()
        self.optimized(module, x)

    @torch.no_grad()
    def test_a_list_that_is_an_argument_is_not_changed(self):
        def noting(self, x, seen):
            seen.append(x)
            return x.tanh() * len(seen)

        module = Made(noting)
        x, seen = torch.randn(4, 8), [torch.randn(8)]
        mine = self.optimized(module, x, seen, ready=False)
        self.assertIn("argument", self.report.reason)
        mine(x, seen)
        self.assertEqual(len(seen), 2)

    @torch.no_grad()
    def test_others_draw_while_it_is_captured(self):
        drawn, stop = [], threading.Event()

        def draw():
            while not stop.is_set():
                drawn.append(random.random())

        thread = threading.Thread(target=draw)
        thread.start()
        try:
            self.optimized(Made(lambda self, x: x.tanh()), torch.randn(4, 8))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(len(set(drawn)), len(drawn))  # none of them twice

    @torch.no_grad()
    def test_others_draw_while_it_is_searched_for(self):
        module, x = Made(lambda self, x: torch.dropout(x, 0.5, True)), torch.ones(4, 8)
        drawn, find = [], pieces._Searches._find

        def drawing(*given):
            drawn.append(torch.rand(()))
            find(*given)

        self.patch(pieces._Searches, "_find", drawing)
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        self.optimized(module, x)
        self.assertEqual([*drawn, torch.rand(())], list(expected))

    @torch.no_grad()
    def test_who_sets_the_generators_is_no_graph(self):
        def seeded(self, x):
            torch.manual_seed(3)
            return x.tanh() + torch.rand(8)

        def forked(self, x):
            with torch.random.fork_rng():
                return seeded(self, x)

        x = torch.randn(4, 8)
        before = torch.get_rng_state()
        for function in (seeded, forked):
            self.optimized(Made(function), x, ready=False)
            self.assertIn("generators", self.report.reason)
            self.assertTrue(torch.equal(torch.get_rng_state(), before))

    @torch.no_grad()
    def test_who_asks_of_gradients_is_answered_by_forward(self):
        def asking(self, x):
            if torch.is_grad_enabled():
                return x.relu()
            return x.tanh() if x.requires_grad else x.sin()

        module, x = Made(asking), torch.randn(4, 8)
        mine = self.optimized(module, x)
        self.is_by_kernels(mine, module, x, True)
        self.is_by_kernels(mine, module, x.clone().requires_grad_(), False)
        with torch.enable_grad():
            self.is_by_kernels(mine, module, x, False)

    @torch.no_grad()
    def test_copies_have_surroundings_of_their_own(self):
        path = os.path.join(self.folder, "saved.pt")
        module, x = Made(scaled, Config()), torch.randn(4, 8)
        mine = self.optimized(module, x)
        weft.save(mine, path)
        loaded = weft.load(path)
        self.is_by_kernels(loaded, module, x, True)
        loaded.held.factor = module.held.factor = 3.0
        self.is_by_kernels(loaded, module, x, False)
        loaded.held.factor = module.held.factor = 2.0
        self.is_by_kernels(loaded, module, x, True)
        self.addCleanup(set_name(SETTINGS, "factor", 3.0))
        self.is_by_kernels(loaded, module, x, False)

    @torch.no_grad()
    def test_too_much_to_look_at_is_refused(self):
        for held in (numpy.zeros(1 << 17), [0.5] * 20_000):
            module = Made(lambda self, x: x.tanh() * self.held[3], held)
            self.optimized(module, torch.randn(4, 8), ready=False)
            self.assertIn("held", self.report.reason)

    @torch.no_grad()
    def test_what_sizes_change_makes_kernels_for_one_size(self):
        def cached(self, x):
            if x.shape[0] not in self.held.cache:
                self.held.cache[x.shape[0]] = float(x.shape[0])
            return x.tanh() * self.held.cache[x.shape[0]]

        module, x = Made(cached, types.SimpleNamespace(cache={})), torch.randn(4, 8)
        module(x)
        with torch.no_grad():
            mine, report = weft.optimize(module, [x], budget_s=BUDGET_S,
                                         shapes_max=1, dynamic_batch=True)
        self.assertTrue(report.ready, str(report))
        self.assertEqual(module.held.cache, {4: 4.0})
        self.is_by_kernels(mine, module, x, True)
        wide = torch.randn(6, 8)
        self.is_by_kernels(mine, module, wide, False)

    def test_nothing_is_looked_at_where_there_is_no_code_but_pytorch_s(self):
        module, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8)
        mine = self.optimized(module, x)
        entry = mine.__dict__["_weft"].entries[0]
        self.assertIsInstance(entry.captured, captures.Captured)
        self.assertIsNone(entry.captured.surroundings)


def scaled(self, x):
    return x.tanh() * self.held.factor * SETTINGS.factor
