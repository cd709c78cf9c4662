"""Regions of decomposed graphs: which there are, what they cost, and a graph with
operators in their place."""

import dataclasses
import types
import unittest

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from weft.regions import attribution, insertion, roofline
from weft.regions.extraction import extracted
from weft.regions.regions import (
    Kind,
    Partition,
    groups_of,
    key_of,
    region_inputs,
    region_nodes,
    region_results,
    regions_of,
)


def graph_of(function, *inputs):
    """The graph as Inductor gets it: decomposed, with fake values."""
    from torch._inductor.decomposition import select_decomp_table

    module = make_fx(function, decomposition_table=select_decomp_table(), tracing_mode="fake")(
        *inputs
    )
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def names(nodes):
    return [node.name for node in nodes]


def layers(x, w1, b1, w2, b2):
    for _ in range(2):
        y = torch.nn.functional.layer_norm(x, x.shape[-1:])
        y = torch.nn.functional.gelu(torch.addmm(b1, y, w1))
        x = x + torch.addmm(b2, y, w2)
    return x


def layer_inputs():
    return (
        torch.randn(6, 8),
        torch.randn(8, 16),
        torch.randn(16),
        torch.randn(16, 8),
        torch.randn(8),
    )


class Partitions(unittest.TestCase):
    def test_repeated_layers_are_one_group(self):
        module = graph_of(layers, *layer_inputs())
        groups = groups_of(regions_of(module.graph))
        gelu = [
            group
            for group in groups
            if group.first.kind is Kind.POINTWISE and "erf" in group.first.operators(9)
        ]
        self.assertEqual([len(group.regions) for group in gelu], [2])
        products = [group for group in groups if group.first.kind is Kind.PRODUCT]
        self.assertEqual(sorted(len(group.regions) for group in products), [2, 2])

    def test_a_product_has_its_epilogue_and_its_prologue(self):
        module = graph_of(
            lambda x, w: torch.relu(torch.mm(torch.tanh(x), w) * 2) + 1,
            torch.randn(4, 8),
            torch.randn(8, 8),
        )
        (region,) = [one for one in regions_of(module.graph) if one.kind is Kind.PRODUCT]
        self.assertEqual(names(region.nodes), ["tanh", "mm", "mul", "relu", "add"])

    def test_a_prologue_that_others_read_stays_outside(self):
        def f(x, w):
            y = torch.tanh(x)
            return torch.mm(y, w) + 1, y

        module = graph_of(f, torch.randn(8, 8), torch.randn(8, 8))
        (region,) = [one for one in regions_of(module.graph) if one.kind is Kind.PRODUCT]
        self.assertIn("mm", names(region.nodes))
        self.assertEqual(region.nodes[0].name, "mm")

    def test_a_norm_is_no_prologue(self):
        module = graph_of(layers, *layer_inputs())
        for region in regions_of(module.graph):
            if region.kind is Kind.PRODUCT:
                self.assertNotIn("rsqrt", names(region.nodes))

    def test_a_chain_around_a_product_is_two_regions(self):
        def residual(x, w):
            y = torch.tanh(x)
            return torch.sigmoid(y + torch.mm(y, w))

        module = graph_of(residual, torch.randn(8, 8), torch.randn(8, 8))
        chains = Partition(module.graph).fused_chains()
        self.assertEqual([names(one.nodes) for one in chains], [["tanh"], ["add", "sigmoid"]])

    def test_every_region_is_convex(self):
        module = graph_of(layers, *layer_inputs())
        partition = Partition(module.graph)
        for region in regions_of(module.graph):
            self.assertTrue(partition.is_convex(set(region.nodes)), region.name)
        ends = [
            next(node for node in module.graph.nodes if node.name == name)
            for name in ("rsqrt", "add_3")
        ]
        self.assertFalse(partition.is_convex(set(ends)))

    def test_what_draws_or_writes_is_in_no_region(self):
        def draws(x, seen):
            seen.add_(1)
            return torch.relu(x) + torch.rand_like(x)

        module = graph_of(draws, torch.randn(4, 4), torch.zeros(4))
        inside = {node.name for one in regions_of(module.graph) for node in one.nodes}
        self.assertTrue(inside)
        self.assertFalse([name for name in inside if "rand" in name or "_" in name])

    def test_attention_is_a_region(self):
        shape = (1, 2, 4, 8)
        module = graph_of(
            lambda q, k, v: (
                torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0] * 2
            ),
            *[torch.randn(shape) for _ in range(3)],
        )
        kinds = [one.kind for one in regions_of(module.graph)]
        self.assertIn(Kind.ATTENTION, kinds)

    def test_keys_tell_sizes_and_numbers_apart(self):
        keys = set()
        for width, factor in ((4, 2.0), (8, 2.0), (4, 3.0)):

            def f(x):
                return torch.tanh(x) * factor

            module = graph_of(f, torch.randn(3, width))
            keys.add(key_of(regions_of(module.graph)[0]))
        self.assertEqual(len(keys), 3)


class Results(unittest.TestCase):
    def test_a_view_that_is_read_outside_gives_what_it_is_a_view_of(self):
        def f(x, w):
            y = torch.tanh(x) + 1
            return torch.mm(y.view(8, 4).t().contiguous().view(4, 8), w), y

        module = graph_of(f, torch.randn(4, 8), torch.randn(8, 8))
        region = Partition(module.graph).fused_chains()[0]
        nodes = region_nodes(region)
        self.assertEqual(names(region_inputs(region, nodes)), ["x_1"])
        for node in region_results(region, nodes):
            self.assertIn(node, region.nodes)


class Insertion(unittest.TestCase):
    """Every region, alone and with others, computes what it did."""

    def check(self, function, *inputs, choose=lambda one: True):
        module = graph_of(function, *inputs)
        expected = module(*inputs)
        regions = [one for one in regions_of(module.graph) if choose(one)]
        self.assertTrue(regions)
        together, taken = [], set()
        for region in regions:
            one = self.operator(region)
            self.assert_same(insertion.with_inserted(module, [one]), inputs, expected)
            if taken.isdisjoint(region.nodes):
                together.append(one)
                taken.update(region.nodes)
        self.assert_same(insertion.with_inserted(module, together), inputs, expected)
        self.assert_same(module, inputs, expected)

    def operator(self, region):
        own = extracted(region)
        self.ran = []

        def kernel(arguments):
            self.ran.append(region)
            return own.module(*arguments)

        target = insertion.operator_for(
            key_of(region), "text", kernel, insertion.layouts_of(own), len(own.inputs)
        )
        return insertion.Replacement(region, own, insertion.call_graph(target, own))

    def assert_same(self, module, inputs, expected):
        torch.testing.assert_close(module(*inputs), expected)

    def test_layers(self):
        self.check(layers, *layer_inputs())

    def test_gradients(self):
        inputs = [one.requires_grad_() for one in layer_inputs()]

        def step(*inputs):
            return torch.autograd.grad(layers(*inputs).square().sum(), inputs)

        self.check(step, *inputs)

    def test_several_results_and_views(self):
        def f(x, w):
            y = torch.softmax(x, -1)
            a, b = torch.tanh(y).chunk(2, -1)
            return torch.mm(a, w) + b, y.transpose(0, 1), torch.relu(a)

        self.check(f, torch.randn(4, 8), torch.randn(4, 4))

    def test_convolution(self):
        self.check(
            lambda x, w: torch.relu(torch.conv2d(x, w)) + 1,
            torch.randn(1, 2, 5, 5),
            torch.randn(3, 2, 3, 3),
        )

    def test_conversions_have_the_name_that_problem_files_know(self):
        module = graph_of(lambda x: (x.to(torch.bfloat16) + 1).float(), torch.randn(4, 8))
        own = extracted(regions_of(module.graph)[0])
        self.assertNotIn("prims", own.module.code)
        x = torch.randn(4, 8)
        torch.testing.assert_close(own.module(x)[0], module(x))

    def test_the_call_is_no_longer_of_the_region_s_operators(self):
        module = graph_of(lambda x: torch.tanh(x) + 1, torch.randn(4))
        (region,) = regions_of(module.graph)
        made = insertion.with_inserted(module, [self.operator(region)])
        targets = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
        self.assertEqual(len(targets), 1)
        self.assertIn("weft_region", targets[0])
        made(torch.randn(4))
        self.assertEqual(len(self.ran), 1)

    def test_the_name_has_the_module_s_text(self):
        module = graph_of(lambda x: torch.tanh(x) + 1, torch.randn(4))
        (region,) = regions_of(module.graph)
        own = extracted(region)
        found = {
            insertion.operator_for(
                key_of(region), text, lambda _: None, insertion.layouts_of(own), 1
            )
            for text in ("a", "a", "b")
        }
        self.assertEqual(len(found), 2)


class Sums(unittest.TestCase):
    """Products of few rows as sums."""

    def check(self, function, *inputs, is_summed=True):
        module = graph_of(function, *inputs)
        region = max(regions_of(module.graph), key=lambda one: len(one.nodes))
        own = extracted(region, is_summed=True)
        targets = {str(node.target) for node in own.module.graph.nodes}
        self.assertEqual("aten.sum.dim_IntList" in targets, is_summed, targets)
        given = {
            node.name: one for node, one in zip(module.graph.find_nodes(op="placeholder"), inputs)
        }
        # Views of arguments lie outside of the region.
        values = [
            given[node.name] if node.op == "placeholder" else given[node.args[0].name].t()
            for node in own.inputs
        ]
        (made,) = own.module(*values)
        self.assertEqual(made.dtype, inputs[0].dtype)
        torch.testing.assert_close(made, function(*inputs))

    def test_a_product_and_its_epilogue(self):
        for dtype in (torch.float32, torch.bfloat16):
            x, w, b = (torch.randn(shape, dtype=dtype) for shape in ((1, 16), (8, 16), (8,)))
            self.check(lambda x, w: torch.relu(torch.mm(x, w.t())), x, w)
            self.check(lambda b, x, w: torch.addmm(b, x, w.t()) * 2, b, x, w)

    def test_many_rows_stay_a_product(self):
        self.check(
            lambda x, w: torch.relu(torch.mm(x, w)),
            torch.randn(9, 4),
            torch.randn(4, 4),
            is_summed=False,
        )


class Tokens(unittest.TestCase):
    """On a GPU, one token's products are sums, and chains go through them. Fake tensors
    take the place of a GPU's."""

    def graph(self, rows, device):
        module = graph_of(
            lambda x, up, down: x + torch.tanh((x / x.sum(1, True)) @ up) @ down,
            torch.empty(rows, 8),
            torch.empty(8, 16),
            torch.empty(16, 8),
        )
        return self.moved(module.graph, device)

    def moved(self, graph, device):
        """The graph, whose fake values are on that device."""
        with FakeTensorMode():
            for node in graph.nodes:
                value = node.meta.get("val")
                if value is not None:
                    node.meta["val"] = torch.empty(value.shape, dtype=value.dtype, device=device)
        return graph

    def kinds(self, rows, device):
        return [one.operators(9) for one in regions_of(self.graph(rows, device))]

    def test_a_chain_goes_through_the_products_of_one_row(self):
        self.assertEqual(self.kinds(1, "cuda"), ["sum+div+mm+tanh+add"])

    def test_a_lookup_is_in_no_such_chain(self):
        def looked_up(table, place, up):
            return (table[place] + 1) @ up

        module = graph_of(
            looked_up, torch.empty(5, 8), torch.zeros(1, dtype=torch.long), torch.empty(8, 16)
        )
        for region in regions_of(self.moved(module.graph, "cuda")):
            operators = region.operators(9).split("+")
            self.assertFalse("mm" in operators and "index" in operators, operators)

    def test_products_of_two_rows_part_it(self):
        self.assertGreater(len(self.kinds(2, "cuda")), 1)

    def test_so_they_do_on_a_processor(self):
        self.assertGreater(len(self.kinds(1, "cpu")), 1)


class Ranges(unittest.TestCase):
    def test_a_range_has_the_name_that_problem_files_know(self):
        module = graph_of(lambda x: x + torch.arange(8), torch.randn(3, 8))
        (region,) = regions_of(module.graph)
        own = extracted(region)
        targets = {
            str(node.target) for node in own.module.graph.nodes if node.op == "call_function"
        }
        self.assertFalse([one for one in targets if one.startswith("prims")])
        x = torch.randn(3, 8)
        torch.testing.assert_close(own.module(x)[0], x + torch.arange(8))

    def test_other_names_of_that_kind_are_in_no_region(self):
        module = graph_of(lambda x: torch.ops.prims.exp2(x) + 1, torch.randn(3, 8))
        inside = {node.name for one in regions_of(module.graph) for node in one.nodes}
        self.assertFalse([one for one in inside if one.startswith("exp2")])


class Rooflines(unittest.TestCase):
    def test_bytes_are_counted_once(self):
        module = graph_of(
            lambda x, y: (torch.tanh(x) + y, torch.tanh(x)),
            torch.randn(4, 8),
            torch.randn(8).expand(4, 8),
        )
        region = max(regions_of(module.graph), key=lambda one: len(one.nodes))
        self.assertLessEqual(roofline.region_bytes(region), 4 * (32 + 8 + 2 * 32))

    def test_operations_of_a_product(self):
        module = graph_of(torch.mm, torch.randn(4, 8), torch.randn(8, 16))
        (region,) = regions_of(module.graph)
        self.assertEqual(roofline.region_flops(region), 2 * 4 * 8 * 16)

    def test_of_a_table_only_the_selected_rows_are_read(self):
        module = graph_of(
            lambda table, at: torch.embedding(table, at) + 1,
            torch.randn(1000, 8),
            torch.tensor([3, 4]),
        )
        (region,) = regions_of(module.graph)
        self.assertEqual(roofline.region_bytes(region), 2 * 8 + 2 * 2 * 8 * 4)

    def test_the_speed_is_that_of_the_product_s_dtype(self):
        def f(x, w):
            return torch.mm((x.float() * 2).to(torch.bfloat16), w)

        module = graph_of(
            f, torch.randn(16, 8, dtype=torch.bfloat16), torch.randn(8, 8, dtype=torch.bfloat16)
        )
        (region,) = [one for one in regions_of(module.graph) if one.kind is Kind.PRODUCT]
        self.assertGreater(len(region.nodes), 1)
        self.assertEqual(roofline.region_dtype(region), torch.bfloat16)

    def test_the_larger_bound_counts(self):
        device = roofline.Device(1e9, 1e12)
        self.assertEqual(device.roofline_s(1_000_000, 1), 1e-3)
        self.assertEqual(device.roofline_s(1, 10**10), 1e-2)

    def test_a_device_is_probed(self):
        found = roofline.probed(torch.device("cpu"), torch.float32)
        self.assertGreater(found.bytes_per_s, 0)
        self.assertGreater(found.flops_per_s, 0)


@dataclasses.dataclass
class Event:
    """As the profiler gives it."""

    name: str
    start: float = 0
    cpu_time_total: float = 0  # µs
    device_time_total: float = 0
    cpu_children: list = dataclasses.field(default_factory=list)

    @property
    def time_range(self):
        return types.SimpleNamespace(start=self.start)


class Attribution(unittest.TestCase):
    """By events that a GPU's profile and a processor's have."""

    KERNELS = {
        "triton_per_fused_add_0:1": [1, 2],
        "extern_kernels.addmm:2": [3],
        "triton_poi_fused_gelu_1:3": [4],
        "torch.ops.aten._scaled_dot_product_flash_attention.default:4": [5],
        "extern_kernels.mm:5": [6],
    }

    def test_a_gpu_s_launches_have_their_kernels_times(self):
        inner = Event(
            "## Call CompiledFxGraph abc ##",
            1,
            cpu_children=[
                Event("triton_per_fused_add_0", 2, device_time_total=3),
                Event("aten::addmm", 3, device_time_total=50),
                Event("aten::empty_strided", 4),
                Event("triton_poi_fused_gelu_1", 5, device_time_total=7),
                Event("aten::_scaled_dot_product_flash_attention", 6, device_time_total=40),
                Event("aten::mm", 7, device_time_total=20),
            ],
        )
        profile = attribution.profile_of(
            Event(attribution.RANGE, device_time_total=120, cpu_children=[inner]), "cuda"
        )
        times = attribution.kernel_times([profile], self.KERNELS, {})
        self.assertEqual([round(one * 1e6) for one in times.values()], [3, 50, 7, 40, 20])

    def test_kernels_without_events_share_the_rest(self):
        profile = attribution.profile_of(
            Event(
                attribution.RANGE,
                cpu_time_total=100,
                cpu_children=[Event("aten::addmm", 1, cpu_time_total=50)],
            ),
            "cpu",
        )
        times = attribution.kernel_times(
            [profile],
            {"cpp_fused_tanh_0:1": [0], "extern_kernels.addmm:2": [1], "cpp_fused_add_1:3": [2]},
            {"cpp_fused_tanh_0:1": 3.0, "cpp_fused_add_1:3": 1.0},
        )
        self.assertEqual([round(one * 1e7) for one in times.values()], [375, 500, 125])

    def test_one_kernel_that_runs_twice_has_both_times(self):
        profile = attribution.Profile(
            (attribution.Launch("triton_a", 1e-6), attribution.Launch("triton_a", 3e-6)), 4e-6
        )
        times = attribution.kernel_times([profile], {"triton_a:1": [0], "triton_a:2": [1]}, {})
        self.assertEqual(list(times.values()), [1e-6, 3e-6])

    def test_a_launch_that_no_kernel_is_known_of_is_left_out(self):
        profile = attribution.Profile(
            (attribution.Launch("aten::fill_", 9e-6), attribution.Launch("triton_a", 1e-6)), 10e-6
        )
        times = attribution.kernel_times([profile], {"triton_a:1": [0]}, {})
        self.assertEqual(list(times.values()), [1e-6])

    def test_a_kernel_s_time_is_divided_among_its_nodes(self):
        module = graph_of(lambda x: torch.tanh(x) + 1, torch.randn(64))
        nodes = list(module.graph.nodes)
        times = attribution.node_times({"k:1": [1, 2]}, {"k:1": 4e-6}, nodes)
        self.assertAlmostEqual(sum(times.values()), 4e-6)
        self.assertEqual(names(times), ["tanh", "add"])

    def test_regions_are_ranked_by_their_time_above_the_roofline(self):
        module = graph_of(layers, *layer_inputs())
        groups = groups_of(regions_of(module.graph))
        nodes = list(module.graph.nodes)
        erf = {node: 5e-6 for node in nodes if "erf" in node.name}
        found = attribution.region_times(groups, erf, lambda _: 1e-6)
        self.assertIn("erf", names(found[0].group.first.nodes))
        self.assertAlmostEqual(found[0].seconds, 1e-5)
        self.assertAlmostEqual(found[0].excess_s, 1e-5 - 2e-6)

    def test_a_real_profile(self):
        def function(given):
            return torch.mm(torch.tanh(given[0]), given[0])

        x = torch.randn(16, 16)
        profiles = attribution.profiled(lambda: [x], function, x.device)
        self.assertEqual(len(profiles), attribution.CALLS)
        for profile in profiles:
            self.assertEqual([one.name for one in profile.launches], ["aten::tanh", "aten::mm"])
            self.assertGreater(profile.seconds, 0)


if __name__ == "__main__":
    unittest.main()
