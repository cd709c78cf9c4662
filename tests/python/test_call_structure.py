"""weft.optimize: arguments and results that hold objects, such as the key-value cache
of a language model."""

import collections
import copy
import dataclasses
import os
import pickle
import sys
import types
import unittest

import torch
from backend_case import OptimizingCase
from torch import nn
from torch.utils import _pytree as pytree

import weft
from weft.backend.graphs import call_structure
from weft.backend.graphs.call_matcher import CallMatcher
from weft.backend.graphs.problem_source import Unsupported

#: As PEFT's forward() names the module `transformers`.
LIBRARY = types.ModuleType("library")
LIBRARY.settings = types.SimpleNamespace(scale=2.0, other=object())


class Layer:
    def __init__(self):
        self.keys = None
        self.is_filled = False

    def update(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        self.is_filled, self.device = True, keys.device
        return self.keys


class Cache:
    """As DynamicCache: objects in a list, filled by the first call."""

    def __init__(self, layers=2):
        self.layers = [Layer() for _ in range(layers)]


class Registered(Cache):
    pass


pytree.register_pytree_node(
    Registered,
    lambda cache: ([layer.keys for layer in cache.layers], None),
    lambda keys, _: registered(keys),
)


def registered(keys):
    made = Registered(len(keys))
    for layer, one in zip(made.layers, keys):
        layer.keys = one
    return made


@dataclasses.dataclass
class Result:
    y: torch.Tensor
    cache: object
    name: str = "result"


class Decoder(nn.Module):
    """Takes a cache, fills it, and gives it; makes one if there is none."""

    def __init__(self, kind=Cache):
        super().__init__()
        self.weight, self.kind = nn.Parameter(torch.rand(8)), kind

    def forward(self, x, cache=None, use_cache=True):
        if cache is None and use_cache:
            cache = self.kind()
        y = x * self.weight
        if cache is not None:
            for layer in cache.layers:
                y = (
                    torch.tanh(y).sum(1, keepdim=True)
                    + Layer.update(layer, y).sum(1, keepdim=True) * LIBRARY.settings.scale
                )
        return Result(y, cache)


def keys_of(cache):
    return [layer.keys for layer in cache.layers]


class Structures(unittest.TestCase):
    def test_objects_are_taken_apart_and_made_again(self):
        cache = Cache()
        cache.layers[1].update(torch.ones(2, 3))
        tree = {"a": (1, cache), "b": [None]}
        flat = call_structure.flatten(tree)
        self.assertEqual(len(flat.objects), 3)
        made = []
        again = call_structure.restore(flat.structure, flat.leaves, made=made)
        self.assertEqual([type(one) for one in made], [Cache, Layer, Layer])
        self.assertIs(again["a"][1].layers[1].keys, cache.layers[1].keys)
        self.assertIsNot(again["a"][1], cache)
        structure = pickle.loads(pickle.dumps(flat.structure))
        self.assertEqual(structure, flat.structure)
        cache.layers[0].more = 1
        self.assertNotEqual(call_structure.flatten(tree).structure, structure)

    def test_calls_of_one_structure_are_taken_apart_alike(self):
        Pair = collections.namedtuple("Pair", "a b")
        cache, x = Cache(), torch.ones(2)
        trees = [
            ((x,), {}),
            ((x, 1), {}),
            ((1, x), {}),
            ((x,), {"a": 1}),
            ((x,), {"a": 1, "b": 2}),
            ((x,), {"b": 2, "a": 1}),
            ([x], {}),
            (([x],), {}),
            (((x,),), {}),
            (((),), {}),
            ((cache,), {}),
            ((Cache(3),), {}),
            ((types.SimpleNamespace(a=x),), {}),
            ((types.SimpleNamespace(b=x),), {}),
            ((Pair(x, 1),), {}),
            (((x, 1),), {}),
            ((Registered(),), {}),
            ((collections.OrderedDict(a=1),), {}),
            ((None,), {}),
            ((Result(x, cache),), {}),
        ]
        structures = [call_structure.flatten(tree).structure for tree in trees]
        for tree in trees:
            flat = call_structure.flatten(tree)
            for structure in structures:
                found = CallMatcher(structure).match(tree)
                if structure == flat.structure:
                    for got, expected in zip(found, (flat.leaves, flat.objects)):
                        self.assertEqual([*map(id, got)], [*map(id, expected)])
                else:
                    self.assertIsNone(found, (tree, structure.spec))
        two = CallMatcher(call_structure.flatten([Layer(), Layer()]).structure)
        layer = Layer()
        self.assertIsNone(two.match([layer, layer]))

    def test_known_objects_are_references(self):
        cache = Cache()
        flat = call_structure.flatten([cache, 5], [cache])
        self.assertEqual(flat.leaves, [5])
        self.assertIs(call_structure.restore(flat.structure, [5], [cache])[0], cache)

    def test_an_object_at_two_places_is_refused(self):
        cache = Cache()
        itself = types.SimpleNamespace()
        itself.me = itself
        for tree in ([cache, cache], itself):
            with self.assertRaisesRegex(Unsupported, "two places"):
                call_structure.flatten(tree)

    def test_what_is_no_plain_object(self):
        class Slots:
            __slots__ = ("a",)

        for value in (
            1,
            "a",
            None,
            [1],
            torch.ones(1),
            nn.ReLU(),
            Slots(),
            len,
            Cache,
            torch.float32,
            torch.distributions.Normal(0.0, 1.0),
        ):
            self.assertFalse(call_structure.is_plain_object(value), value)
        for value in (Cache(), Result(None, None), types.SimpleNamespace()):
            self.assertTrue(call_structure.is_plain_object(value), value)

    def test_values_are_compared_as_what_they_are(self):
        for a, b, is_same in (
            (1, 1, True),
            (1, 1.0, False),
            (1, True, False),
            (0.0, -0.0, False),
            (float("2"), 2.0, True),
            (torch.device("cpu"), torch.device("cpu"), True),
            ([1], [1], False),
        ):
            self.assertEqual(call_structure.is_same_value(a, b), is_same, (a, b))


class Caches(OptimizingCase):
    @torch.no_grad()
    def check(self, module, mine, make, by_kernels=True):
        """Both calls give the same, and leave the same in the cache that they get."""
        before = self.calls(mine)
        x, one, other = torch.randn(2, 3, 8), make(), make()
        got, expected = mine(x, one), module(x, other)
        self.assertEqual(self.calls(mine) - before, by_kernels)
        self.assertIs(type(got), Result)
        self.assertIs(type(got.cache), type(expected.cache))
        self.assertEqual(got.name, "result")
        self.assert_same(got.y, expected.y)
        self.assert_same(keys_of(got.cache), keys_of(expected.cache))
        if one is not None:
            self.assertIs(expected.cache, other)
            self.assert_same(keys_of(one), keys_of(other))
            self.assertEqual(
                [vars(layer).keys() for layer in one.layers],
                [vars(layer).keys() for layer in other.layers],
            )
        return got

    def filled(self, length=3, kind=Cache):
        cache = kind()
        for layer in cache.layers:
            layer.update(torch.ones(2, length, 8))
        return cache

    def test_a_cache_that_forward_makes_is_a_result(self):
        module = Decoder()
        mine = self.optimized(module, torch.randn(2, 3, 8))
        x = torch.randn(2, 3, 8)
        got, expected = mine(x), module(x)
        self.assert_same(got.y, expected.y)
        for _ in range(2):
            self.check(module, mine, lambda: None, by_kernels=False)
        made = copy.copy(mine(x).cache.layers[0])
        self.assertTrue(made.is_filled)
        self.assertEqual(made.device, torch.device("cpu"))

    def test_a_cache_that_is_given_is_changed_and_is_the_result(self):
        module = Decoder()
        for make in (Cache, self.filled):
            mine = self.optimized(module, torch.randn(2, 3, 8), make())
            for _ in range(2):
                got = self.check(module, mine, make)
            before = self.calls(mine)
            with torch.no_grad():  # a longer cache is another kind of inputs
                self.assert_same(
                    mine(torch.ones(2, 3, 8), got.cache).y.shape, torch.Size([2, 1, 8])
                )
            self.assertEqual(self.calls(mine), before)

    @torch.no_grad()
    def test_a_cache_of_any_length_has_one_search(self):
        """If its tensors are marked, as those of an argument."""
        module, marked = Decoder(), self.filled(5)
        for layer in marked.layers:
            torch._dynamo.mark_dynamic(layer.keys, 1)
        mine = self.optimized(module, torch.randn(2, 1, 8), marked)
        self.assertEqual(self.report.one_size, "")
        cache, other = self.filled(7), self.filled(7)
        for step in range(3):  # as a decoder calls it
            x = torch.randn(2, 1, 8)
            got, expected = mine(x, cache), module(x, other)
            self.assert_same(got.y, expected.y)
            self.assertIs(got.cache, cache)
            self.assert_same(keys_of(cache), keys_of(other))
            self.assertEqual(self.calls(mine), step + 1)
        self.assertEqual(self.runs(), 1)

    def test_a_registered_cache(self):
        module = Decoder(Registered)
        mine = self.optimized(module, torch.randn(2, 3, 8))
        x = torch.randn(2, 3, 8)
        with torch.no_grad():
            self.assert_same(keys_of(mine(x).cache), keys_of(module(x).cache))
        self.assertEqual(self.calls(mine), 1)
        self.assertIs(type(mine(x).cache), Registered)

    def test_it_is_saved(self):
        module, path = Decoder(), os.path.join(self.folder, "module.pt")
        mine = self.optimized(module, torch.randn(2, 3, 8), self.filled())
        weft.save(mine, path)
        self.check(module, weft.load(path), self.filled)

    @torch.no_grad()
    def test_other_numbers_in_an_object_are_another_call(self):
        class Scaled(nn.Module):
            def forward(self, x, settings):
                return x.tanh() * settings.scale

        module, x = Scaled(), torch.randn(4, 8)
        mine = self.optimized(module, x, types.SimpleNamespace(scale=2.0))
        for scale, calls in ((2.0, 1), (3.0, 1), (2, 1), (2.0, 2)):
            settings = types.SimpleNamespace(scale=scale)
            self.assert_same(mine(x, settings), module(x, settings))
            self.assertEqual(self.calls(mine), calls)

    @torch.no_grad()
    def test_what_cannot_be_given_by_a_graph_is_refused(self):
        class Normal(nn.Module):
            def forward(self, x):
                return torch.distributions.Normal(x.tanh(), 1.0, validate_args=False)

        class Noting(nn.Module):
            def forward(self, x, seen):
                seen.append(x)
                return x.tanh() * len(seen)

        x = torch.randn(4, 8)
        self.optimized(Normal(), x, ready=False)
        self.assertIn("returns a Normal", self.report.reason)
        seen = [torch.randn(8)]
        self.optimized(Noting(), x, seen, ready=False)
        self.assertIn("list or dictionary that is its argument", self.report.reason)
        self.assertEqual(len(seen), 1)


class Installed(OptimizingCase):
    """Real models, where their packages are installed."""

    def test_a_language_model_with_its_defaults(self):
        try:
            from transformers import LlamaConfig, LlamaForCausalLM
        except ImportError:
            self.skipTest("no transformers")
        model = LlamaForCausalLM(
            LlamaConfig(
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=2,
                vocab_size=100,
            )
        ).eval()
        ids = torch.randint(0, 100, (2, 8))
        with torch.no_grad():
            mine, report = weft.optimize(model, [], kwargs={"input_ids": ids})
            self.assertTrue(report.ready, str(report))
            got, expected = mine(input_ids=ids), model(input_ids=ids)
            self.assertEqual(self.calls(mine), 1)
            self.assertEqual(list(got), list(expected))
            self.assert_same(got.logits, expected.logits)
            self.assertEqual(got.past_key_values.get_seq_length(), 8)
            given = {"input_ids": ids[:, :1]}
            mine, report = weft.optimize(
                mine,
                [],
                kwargs={**given, "past_key_values": copy.deepcopy(expected.past_key_values)},
            )
            self.assertTrue(report.ready, str(report))
            marked = copy.deepcopy(expected.past_key_values)
            results = [
                one(**given, past_key_values=copy.deepcopy(expected.past_key_values))
                for one in (mine, model)
            ]
            self.assertEqual(self.calls(mine), 2)
            self.assert_same(*[one.logits for one in results])
            self.assert_same(
                *[[layer.keys for layer in one.past_key_values.layers] for one in results]
            )
            for layer in marked.layers:
                for tensor in (layer.keys, layer.values):
                    torch._dynamo.mark_dynamic(tensor, 2)
            mine, report = weft.optimize(model, [], kwargs={**given, "past_key_values": marked})
            self.assertEqual((report.ready, report.one_size), (True, ""), str(report))
            caches = [copy.deepcopy(expected.past_key_values) for _ in range(2)]
            for step in range(3):  # the caches grow
                results = [
                    one(**given, past_key_values=cache) for one, cache in zip((mine, model), caches)
                ]
                self.assert_same(*[one.logits for one in results])
                self.assertEqual(self.calls(mine), step + 1)
                self.assertEqual(caches[0].get_seq_length(), 9 + step)
            self.assert_same(
                mine.generate(ids, max_new_tokens=4, do_sample=False),
                model.generate(ids, max_new_tokens=4, do_sample=False),
            )

    def test_a_model_with_an_adapter(self):
        try:
            import peft
        except ImportError:
            self.skipTest("no peft")
        model = peft.get_peft_model(
            nn.Sequential(nn.Linear(8, 8), nn.GELU()), peft.LoraConfig(r=2, target_modules=["0"])
        ).eval()
        mine, x = self.optimized(model, torch.randn(4, 8)), torch.randn(4, 8)
        with torch.no_grad():
            self.assert_same(mine(x), model(x))
        self.assertEqual(self.calls(mine), 1)


if __name__ == "__main__":
    sys.modules["library"] = LIBRARY
    unittest.main()
