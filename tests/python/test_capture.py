"""The graph that capture records of a model."""

import json
import os
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import CaptureTest, simple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from weft.capture import capture, check as capture_check, decompositions
from weft.expect import tf32
from weft.problem import problem as problems


class WhatIsRecorded(CaptureTest):
    def test_a_call_has_operator_type_and_source_line(self):
        text = simple("y = torch.relu(x)\nreturn y * 2.5")
        graph = self.capture(text)
        relu, mul = graph["nodes"][1:]
        self.assertEqual(relu["target"], "aten.relu.default")
        self.assertEqual(relu["args"], [{"node": "x"}])
        self.assertEqual(relu["values"], [{"dtype": "float32", "shape": [4, 6], "stride": [6, 1]}])
        self.assertFalse(relu["is_tuple"])
        self.assertEqual(mul["args"], [{"node": "relu"}, 2.5])
        name, line = mul["source"].split(":")
        self.assertEqual(name, "problem.py")
        self.assertIn("return y * 2.5", text.splitlines()[int(line) - 1])
        self.assertEqual(graph["outputs"], [mul["name"]])
        self.assertEqual(graph["output_template"], "{0}")
        self.assertEqual(graph["version"], 1)

    def test_the_source_line_is_the_innermost_of_the_file(self):
        text = simple("return self.act(x)", init="self.act = Act()").replace(
            "class Model",
            "class Act(nn.Module):\n"
            "    def forward(self, x):\n        return x.sin()\n\n"
            "class Model",
        )
        line = int(self.capture(text)["nodes"][1]["source"].split(":")[1])
        self.assertIn("x.sin()", text.splitlines()[line - 1])

    def test_parameters_buffers_and_plain_tensors_keep_their_path(self):
        graph = self.capture(
            simple(
                "return self.inner(x) * self.mask + self.offset",
                init="self.inner = nn.Linear(6, 6)\n"
                "self.mask = torch.ones(6)\n"
                "self.register_buffer('offset', torch.zeros(6))",
            )
        )
        kinds = {target: node["kind"] for target, node in self.kinds(graph).items()}
        self.assertEqual(
            kinds,
            {
                "inner.weight": "parameter",
                "inner.bias": "parameter",
                "mask": "constant",
                "offset": "buffer",
                "x": "input",
            },
        )
        self.assertNotIn("elements", self.kinds(graph)["mask"])

    def test_a_tensor_in_a_list_of_the_model_is_embedded(self):
        graph = self.capture(
            simple("return x * self.parts[0]", init="self.parts = [torch.ones(6)]")
        )
        constants = [node for node in graph["nodes"] if node["kind"] == "constant"]
        self.assertEqual(constants[0]["elements"], [1.0] * 6)

    def test_literals_are_embedded(self):
        graph = self.capture(
            simple(
                "w = torch.tensor([1.0, float('inf'), -2.0])\n"
                "k = torch.tensor([True, False, True])\n"
                "return torch.where(k, x, w)",
                inputs="[torch.randn(4, 3)]",
            )
        )
        elements = [node["elements"] for node in graph["nodes"] if node["kind"] == "constant"]
        self.assertEqual(elements, [[1.0, {"float": "inf"}, -2.0], [True, False, True]])

    def test_numbers_are_specialised(self):
        graph = self.capture(
            simple("return x * s + n", names="x, s, n", inputs="[torch.randn(4), 2.5, 3]")
        )
        kinds = self.kinds(graph)
        self.assertEqual(kinds["s"]["elements"], [2.5])
        self.assertEqual(kinds["s"]["values"], [None])
        self.assertEqual(kinds["n"]["elements"], [3])
        calls = [node for node in graph["nodes"] if node["kind"] == "call"]
        self.assertEqual([call["args"][1] for call in calls], [2.5, 3])

    def test_nested_inputs_are_named_by_their_place(self):
        graph = self.capture(
            simple(
                "return xs[0] + xs[1] + d['a']",
                names="xs, d",
                inputs="[[torch.randn(4), torch.randn(4)], {'a': torch.randn(4)}]",
            )
        )
        inputs = [node["target"] for node in graph["nodes"] if node["kind"] == "input"]
        self.assertEqual(inputs, ["xs[0]", "xs[1]", "d['a']"])

    def test_a_key_that_is_no_text_or_integer_is_refused(self):
        for key in ("(1, 'a')", "2.5", "None"):
            with self.subTest(key):
                self.refuse(
                    simple(
                        f"return d[{key}] + 1", names="d", inputs="[{" + key + ": torch.randn(4)}]"
                    ),
                    "unsupported",
                    "argument d has a dict with the key",
                )
        graph = self.capture(simple("return d[3] + 1", names="d", inputs="[{3: torch.randn(4)}]"))
        self.assertEqual(graph["nodes"][0]["target"], "d[3]")

    def test_an_argument_that_is_none_and_one_left_out_are_no_trouble(self):
        graph = self.capture(
            simple(
                "return x if m is None else x + m",
                names="x, m, k=3",
                inputs="[torch.randn(4), None]",
            ).replace("return x if", "x = x * k\n        return x if")
        )
        self.assertEqual(self.targets(graph), ["aten.mul.Tensor"])

    def test_outputs_nest(self):
        graph = self.capture(simple("return {'a': x + 1, 'b': [x * 2, (x - 1,), None, 3]}, x"))
        self.assertEqual(
            graph["output_template"], "({{'a': {0}, 'b': [{1}, ({2},), None, 3]}}, {3})"
        )
        self.assertEqual(graph["outputs"], ["add", "mul", "sub", "x"])

    def test_a_named_result_keeps_its_type(self):
        graph = self.capture(simple("return x.max(1)"))
        result = eval(graph["output_template"].format("a", "b"), {"torch": torch, "a": 1, "b": 2})
        self.assertIsInstance(result, torch.return_types.max)

    def test_so_does_a_named_tuple_of_the_file_s_own(self):
        graph = self.capture(
            "from collections import OrderedDict, namedtuple\n"
            "Pair = namedtuple('Pair', 'y rest')\n"
            + simple("return Pair(x * 2, OrderedDict(z=x + 1))")
        )
        self.assertEqual(
            graph["output_template"],
            "Pair({0}, __import__('collections').OrderedDict([('z', {1})]))",
        )

    def test_what_nothing_reads_is_dropped(self):
        graph = self.capture(simple("x.half().float()\nreturn x + 1"))
        self.assertEqual(self.targets(graph), ["aten.add.Tensor"])

    def test_integer_and_bool_tensors_are_captured(self):
        graph = self.capture(
            simple(
                "return torch.where(m, i, i * 2), i.sum()",
                names="i, m",
                inputs="[torch.randint(0, 9, (5,)), torch.rand(5) > 0.5]",
            )
        )
        dtypes = {node["name"]: node["values"][0]["dtype"] for node in graph["nodes"]}
        self.assertEqual((dtypes["i"], dtypes["m"]), ("int64", "bool"))

    def test_special_arguments_have_their_own_form(self):
        graph = self.capture(
            simple(
                "m = x.masked_fill(x > 0, float('-inf'))\n"
                "return m.to(torch.float64), torch.zeros(3, dtype=torch.int32)"
            )
        )
        text = json.dumps(graph)
        self.assertIn('{"float": "-inf"}', text)
        self.assertIn('{"dtype": "float64"}', text)
        self.assertIn('{"dtype": "int32"}', text)
        self.assertIn('{"device": "cpu"}', text)

    def test_a_tuple_call_lists_all_its_values(self):
        graph = self.capture(simple("v, i = x.max(1)\nreturn v, i"))
        call = next(node for node in graph["nodes"] if node["is_tuple"])
        self.assertEqual([value["dtype"] for value in call["values"]], ["float32", "int64"])
        self.assertEqual(self.targets(graph), ["aten.max.dim", "getitem", "getitem"])


class WhatStaysOneCall(CaptureTest):
    def assert_calls(self, text, *targets):
        found = self.targets(self.capture(text))
        for target in targets:
            self.assertIn(target, found)

    def test_library_operators(self):
        self.assert_calls(
            simple(
                "y = self.conv(x)\ny = F.interpolate(y, scale_factor=2, "
                "mode='bilinear')\nz = y.flatten(2)\n"
                "z = F.scaled_dot_product_attention(z, z, z)\n"
                "return self.out(z) @ z.mT",
                init="self.conv = nn.Conv2d(3, 4, 3, padding='same')\n"
                "self.out = nn.Linear(144, 144)",
                inputs="[torch.randn(2, 3, 6, 6)]",
            ),
            "aten.convolution.default",
            "aten.upsample_bilinear2d.vec",
            "aten.scaled_dot_product_attention.default",
            "aten.linear.default",
            "aten.matmul.default",
        )

    def test_solvers(self):
        self.assert_calls(
            simple(
                "a = x @ x.T + 9 * torch.eye(4)\n"
                "return torch.linalg.inv(a), torch.linalg.solve(a, x), "
                "torch.linalg.cholesky(a), torch.linalg.det(a)"
            ),
            "aten.linalg_inv.default",
            "aten.linalg_solve.default",
            "aten.linalg_cholesky.default",
            "aten.linalg_det.default",
        )
        self.assert_calls(
            simple(
                "a = x @ x.T + 9 * torch.eye(4)\n"
                "b = torch.linalg.tensorinv(a.reshape(2, 2, 2, 2))\n"
                "return b, torch.linalg.ldl_factor(a)[0], "
                "torch.linalg.tensorsolve(a.reshape(2, 2, 4), a[:2, :2])"
            ),
            "aten.linalg_tensorinv.default",
            "aten.linalg_ldl_factor.default",
            "aten.linalg_solve.default",
        )

    def test_recurrent_layers(self):
        self.assert_calls(
            simple(
                "y, (h, c) = self.lstm(x)\nz, _ = self.gru(y)\nreturn z, h, c",
                init="self.lstm = nn.LSTM(6, 5)\nself.gru = nn.GRU(5, 4)",
                inputs="[torch.randn(3, 2, 6)]",
            ),
            "aten.lstm.input",
            "aten.gru.input",
        )

    def test_activations_and_reductions_that_the_compiler_lowers(self):
        self.assert_calls(
            simple(
                "y = F.mish(F.silu(x)) + F.softplus(x) + F.hardswish(x)\n"
                "y = y.masked_fill(x > 1, 0) + F.logsigmoid(x)\n"
                "y = self.norm(y)\nreturn y.logsumexp(1), y.pow(2).mean()",
                init="self.norm = nn.RMSNorm(6)",
            ),
            "aten.mish.default",
            "aten.silu.default",
            "aten.softplus.default",
            "aten.hardswish.default",
            "aten.masked_fill.Scalar",
            "aten.log_sigmoid.default",
            "aten.rms_norm.default",
            "aten.logsumexp.default",
        )

    def test_spread_has_one_form(self):
        graph = self.capture(
            simple(
                "a = x.std(1, unbiased=False), x.std(), x.var(1, keepdim=True)\n"
                "return a, torch.std_mean(x, 1), torch.var_mean(x, dim=0), "
                "x.std(dim=1, correction=2)"
            )
        )
        self.assertTrue(
            all(
                target.endswith(".correction")
                for target in self.targets(graph)
                if target != "getitem"
            ),
            self.targets(graph),
        )

    def test_each_row_of_a_tensor_is_one_view(self):
        graph = self.capture(
            simple("a, b = x.view(-1, 2, 3).permute(1, 0, 2)\nreturn a + b, x.unbind(-1)[1]")
        )
        targets = self.targets(graph)
        self.assertEqual(targets.count("aten.select.int"), 3, targets)
        self.assertNotIn("aten.squeeze.dims", targets)

    def test_softmax_and_norms_that_the_compiler_lowers(self):
        self.assert_calls(
            simple(
                "y = self.ln(x).softmax(-1) + F.log_softmax(x, -1)\n"
                "y = self.gn(y.unsqueeze(0).mT)\nreturn self.bn(y)",
                init="self.ln = nn.LayerNorm(6)\n"
                "self.gn = nn.GroupNorm(2, 6)\n"
                "self.bn = nn.BatchNorm1d(6).eval()",
            ),
            "aten._softmax.default",
            "aten._log_softmax.default",
            "aten.native_layer_norm.default",
            "aten.native_group_norm.default",
            "aten._native_batch_norm_legit_no_training.default",
        )

    def test_a_devices_softmax_of_halves_is_what_the_host_makes_of_it(self):
        def model(x):
            return x.softmax(-1, dtype=torch.float32)

        table = decompositions.decomposition_table()
        calls = {}
        for device in ("cpu", "cuda"):
            with FakeTensorMode():
                x = torch.empty(4, 8, dtype=torch.float16, device=device)
                graph = make_fx(model, decomposition_table=table)(x).graph
            calls[device] = [
                (str(node.target), node.args[1:])
                for node in graph.nodes
                if node.op == "call_function"
            ]
        self.assertEqual(calls["cuda"], calls["cpu"])
        self.assertEqual(calls["cuda"][-1], ("aten._softmax.default", (-1, False)))


class MutationTest(CaptureTest):
    def test_training_batch_norm_updates_its_statistics(self):
        graph = self.capture(simple("return self.bn(x)", init="self.bn = nn.BatchNorm1d(6)"))
        self.assertIn("aten._native_batch_norm_legit_functional.default", self.targets(graph))
        mutated = [(item["target"], item["is_input"]) for item in graph["mutations"]]
        self.assertEqual(
            sorted(mutated),
            [
                ("bn.num_batches_tracked", False),
                ("bn.running_mean", False),
                ("bn.running_var", False),
            ],
        )

    def test_the_model_is_captured_in_the_mode_that_it_is_in(self):
        graph = self.capture(
            simple("return self.bn(x)", init="self.bn = nn.BatchNorm1d(6)\nself.eval()")
        )
        self.assertEqual(graph["mutations"], [])

    def test_an_input_written_in_place_is_a_mutation(self):
        graph = self.capture(simple("x.add_(1)\nreturn x * 2"))
        self.assertEqual(graph["mutations"], [{"target": "x", "is_input": True, "node": "add"}])

    def assert_changes_kept(self, body, init):
        graph = self.capture(simple(body, init=init))
        self.assertEqual([item["target"] for item in graph["mutations"]], ["kept"])

    def test_a_buffer_written_in_place_is_a_mutation(self):
        self.assert_changes_kept(
            "self.kept += 1\nreturn x * self.kept", "self.register_buffer('kept', torch.zeros(()))"
        )

    def test_what_is_bound_to_an_attribute_is_a_mutation(self):
        for init in ("self.register_buffer('kept', torch.ones(6))", "self.kept = torch.ones(6)"):
            self.assert_changes_kept("self.kept = self.kept + x[0]\nreturn self.kept * 2", init)

    def test_a_plain_tensor_written_in_place_is_a_mutation(self):
        self.assert_changes_kept(
            "self.kept[2:] += x[0, 2:]\nreturn self.kept * x", "self.kept = torch.ones(6)"
        )

    def test_complex_numbers_within(self):
        graph = self.capture(
            simple(
                "z = torch.view_as_complex(x.reshape(4, 3, 2)) * self.turn\n"
                "return torch.view_as_real(z) + torch.fft.fft(z).abs()[..., None]",
                init="self.turn = torch.polar(torch.ones(3), torch.ones(3))",
            )
        )
        self.assertIn(
            "complex64", [value["dtype"] for node in graph["nodes"] for value in node["values"]]
        )

    def test_data_is_the_tensor_itself(self):
        self.assert_changes_kept(
            "self.kept.data.mul_(0.9)\nreturn x.data * self.kept",
            "self.register_buffer('kept', torch.ones(6))",
        )

    def test_a_written_parameter_is_refused(self):
        for write, words in (("add_(1)", "parameter w"), ("mul_(1)", "only buffers and inputs")):
            self.refuse(
                simple(
                    f"with torch.no_grad():\n    self.w.{write}\nreturn x * self.w",
                    init="self.w = nn.Parameter(torch.ones(6))",
                ),
                "unsupported",
                says=("w", words),
            )


class ProductsTest(CaptureTest):
    def nodes(self, was_used):
        with (
            unittest.mock.patch.object(tf32, "is_allowed", lambda device: True),
            unittest.mock.patch.object(tf32, "was_used", lambda results, exact: was_used),
        ):
            graph = self.capture(
                simple(
                    "return torch.relu(x @ x.t()) + self.linear(x).sum()",
                    init="self.linear = nn.Linear(6, 6)",
                )
            )
        return {
            node["target"]: node.get("tf32", False)
            for node in graph["nodes"]
            if node["kind"] == "call"
        }

    def test_those_that_the_library_computes_in_tf32_are_told(self):
        nodes = self.nodes(True)
        self.assertTrue(nodes["aten.linear.default"])
        self.assertFalse(nodes["aten.relu.default"])

    def test_and_no_others(self):
        self.assertFalse(any(self.nodes(False).values()))

    def test_the_processor_has_no_tf32(self):
        graph = self.capture(simple("return torch.relu(x @ x.t())"))
        self.assertFalse(any("tf32" in node for node in graph["nodes"]))


class RandomTest(CaptureTest):
    def assert_same_draws(self, text):
        """Captured, the model gives eager's bits under eager's seed."""
        graph = self.capture(text)
        problem = problems.load_problem(self.write(text))
        model = problems.build_model(problem)
        inputs = problems.make_inputs(problem)
        with torch.no_grad():
            torch.manual_seed(7)
            expected = model(*inputs)
            state = torch.get_rng_state()
            torch.manual_seed(7)
            outputs, _ = capture_check.run_graph(graph, model, inputs)
        self.assertTrue(torch.equal(outputs[0], expected))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        return self.targets(graph)

    def test_dropout_is_the_call_that_eager_makes(self):
        targets = self.assert_same_draws(
            simple("return F.dropout(self.drop(x), 0.5)", init="self.drop = nn.Dropout(0.2)")
        )
        self.assertEqual(targets, ["aten.dropout.default"] * 2)

    def test_dropout_in_place(self):
        targets = self.assert_same_draws(
            simple("y = x * 1.5\nF.dropout(y, 0.3, inplace=True)\nreturn y + 1")
        )
        # On a GPU, dropout's own kernel would draw other numbers.
        self.assertIn("aten.bernoulli.p", targets)
        self.assertNotIn("aten.dropout.default", targets)

    def test_dropout_in_place_draws_in_the_order_of_memory(self):
        for how in (
            "x.transpose(1, 2) * 2",
            "x.clone().t()[0]",
            "(x * 2).permute(2, 0, 1)",
            "x.to(memory_format=torch.channels_last) * 2",
        ):
            inputs = (
                "[torch.randn(2, 3, 4, 5)]"
                if "last" in how
                else ("[torch.randn(6, 5)]" if "t()" in how else "[torch.randn(2, 3, 4)]")
            )
            with self.subTest(how):
                self.assert_same_draws(
                    simple(
                        f"y = {how}\nF.dropout(y, 0.3, inplace=True)\nreturn y + 1", inputs=inputs
                    )
                )

    def test_the_other_dropouts(self):
        self.assert_same_draws(
            simple(
                "x = F.dropout2d(x, 0.3)\nx = F.alpha_dropout(x, 0.2, True)\n"
                "return F.feature_alpha_dropout(x, 0.2, True)",
                inputs="[torch.randn(2, 3, 4, 4)]",
            )
        )

    def test_dropout_in_evaluation_draws_nothing(self):
        self.assert_same_draws(
            simple("return self.drop(x) * 2", init="self.drop = nn.Dropout(0.2).eval()")
        )

    def test_dropout_that_drops_nothing_is_the_tensor_itself(self):
        targets = self.assert_same_draws(
            simple(
                "x = F.dropout2d(x, 0.0)\nreturn F.dropout(x, 0.0) * 2",
                inputs="[torch.randn(2, 3, 4, 4)]",
            )
        )
        self.assertEqual(targets, ["aten.mul.Tensor"])
        graph = self.capture(
            simple("y = self.drop(x)\ny.add_(1)\nreturn x * 2", init="self.drop = nn.Dropout(0.0)")
        )
        self.assertTrue(graph["mutations"][0]["is_input"])

    def test_tensors_drawn_inside_forward(self):
        self.assert_same_draws(
            simple(
                "n = torch.randn(4, 6) + torch.randn_like(x) + torch.rand(6)\n"
                "n = n + torch.randint(0, 5, (6,)) + torch.randperm(6)\n"
                "b = torch.bernoulli(torch.full((4, 6), 0.4))\n"
                "u = torch.empty(4, 6).uniform_(-1, 1)\n"
                "g = torch.empty(4, 6).normal_()\n"
                "return x + n * b + u + g"
            )
        )

    def test_rrelu_and_attention_dropout(self):
        self.assert_same_draws(
            simple(
                "y = F.rrelu(x, training=True)[None]\n"
                "return F.scaled_dot_product_attention(y, y, y, dropout_p=0.2)"
            )
        )

    def test_draws_that_nothing_uses_are_noticed(self):
        path = self.write(simple("torch.rand(3)\nreturn x + torch.rand(6)"))
        reply = capture.reply_of(path, self.out)
        if reply["ok"]:  # this exporter keeps unused draws
            self.assert_same_draws(open(path, encoding="utf-8").read())
        else:
            self.assertEqual(reply["error"]["kind"], "capture_differs")


class CommandLineTest(CaptureTest):
    def run_capture(self, text):
        return self.command("--problem", self.write(text), "--out", self.out)

    def test_the_reply_is_the_only_line_whatever_the_model_prints(self):
        done = self.run_capture(
            "import os\n"
            + simple("print('{\"ok\": false}')\nos.write(1, b'{\"ok\": false}\\n')\nreturn x + 1")
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1)
        reply = json.loads(lines[0])
        self.assertTrue(reply["ok"])
        self.assertEqual(
            sorted(reply["seconds"]),
            ["check", "eager", "export", "import_torch", "inputs", "load", "write"],
        )
        self.assertEqual(os.listdir(self.folder).count("__pycache__"), 0)

    def test_an_error_is_one_line_and_exit_code_1(self):
        done = self.run_capture("class Model: pass\n")
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1)
        self.assertEqual(json.loads(lines[0])["error"]["kind"], "missing_name")
        self.assertEqual(done.stderr, "")

    def test_a_thread_that_stays_does_not_keep_the_process(self):
        done = self.run_capture(
            "import threading\nthreading.Thread(target=threading.Event()"
            ".wait).start()\n" + simple("return x + 1")
        )
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
