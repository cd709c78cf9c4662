"""Refusals of capture: one clear message each, with its kind and line."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import CaptureTest, simple

import torch

from weft.capture import capture
from weft.problem import problem as problems


class BadFileTest(CaptureTest):
    def error_of(self, path):
        return capture.reply_of(path, self.out)["error"]

    def test_a_missing_file(self):
        error = self.error_of(os.path.join(self.folder, "none.py"))
        self.assertEqual(error["kind"], "missing_file")
        self.assertIn("none.py", error["message"])

    def test_a_directory(self):
        self.assertEqual(self.error_of(self.folder)["kind"], "unreadable")

    def test_an_unreadable_file(self):
        path = os.path.join(self.folder, "loop.py")
        os.symlink(path, path)  # root may read whatever has permissions
        self.assertEqual(self.error_of(path)["kind"], "unreadable")

    def test_a_syntax_error_names_its_line(self):
        self.refuse(
            "import torch\nclass Model(:\n", "syntax_error", says="line 2", line="class Model(:"
        )

    def test_bytes_that_are_no_text(self):
        path = self.write("")
        for content in (b"\xff\xfe\x00rubbish", b"x = 1\0"):
            with open(path, "wb") as file:
                file.write(content)
            self.assertEqual(self.error_of(path)["kind"], "syntax_error")

    def test_an_import_that_fails(self):
        self.refuse(
            "import torch\nimport no_such_package\n",
            "import_failed",
            says=["no_such_package", sys.executable, "--python"],
            line="import no_such_package",
        )

    def test_a_file_that_exits(self):
        self.refuse(
            "import sys\nsys.exit(3)\n", "import_failed", says="SystemExit", line="sys.exit"
        )

    def test_memory_of_two_names_is_not_written(self):
        text = simple(
            "y = x + 1\nx.add_(100)\nreturn y * part",
            inputs="(lambda x: [x, x[1:]])(torch.randn(5, 6))",
            names="x, part",
        ).replace("y * part", "y[1:] * part")
        error = self.refuse(
            text, "unsupported", line="x.add_(100)", says=["two tensors share (x and part)"]
        )
        self.assertNotIn("GraphModule", error["message"])

    def test_a_recursion_without_an_end_is_named(self):
        self.refuse(simple("return self(x)"), "forward_failed", says="RecursionError")

    def test_each_missing_name_is_named(self):
        whole = simple("return x")
        for name, start in (
            ("Model", "class Model"),
            ("get_inputs", "def get_inputs"),
            ("get_init_inputs", "def get_init_inputs"),
        ):
            text = whole.replace(start, start.replace(name, "other"))
            self.refuse(text, "missing_name", says=f"has no {name}")

    def test_a_constructor_that_raises(self):
        self.refuse(
            simple("return x", init="raise ValueError('bad width')"),
            "constructor_failed",
            says=("ValueError", "bad width"),
            line="raise ValueError",
        )

    def test_a_constructor_that_takes_other_arguments(self):
        text = simple("return x").replace("    return []", "    return [1, 2]")
        self.refuse(text, "constructor_failed", says="get_init_inputs()")

    def test_a_model_that_is_no_module(self):
        self.refuse(
            simple("return x").replace("(nn.Module)", "(object)"),
            "no_module",
            says="torch.nn.Module",
        )

    def test_get_inputs_that_raises(self):
        self.refuse(
            simple("return x", inputs="[torch.randn(-1)]"),
            "inputs_failed",
            says="get_inputs()",
            line="torch.randn(-1)",
        )

    def test_get_inputs_that_returns_no_list(self):
        self.refuse(
            simple("return x", inputs="torch.randn(3)"), "inputs_failed", says="returned a Tensor"
        )

    def test_get_init_inputs_that_raises(self):
        text = simple("return x").replace("    return []", "    return 1 / 0")
        self.refuse(text, "init_inputs_failed", says="ZeroDivisionError", line="1 / 0")

    def test_a_model_too_large_for_memory(self):
        self.refuse(
            simple("return x", init="self.w = torch.empty(1 << 46)"),
            "out_of_memory",
            says="smaller",
            line="1 << 46",
        )
        self.refuse(
            simple("return x.expand(1 << 20, 1 << 26) + 1", inputs="[torch.randn(1)]"),
            "out_of_memory",
            says="smaller",
            line="1 << 26",
        )

    def test_inputs_of_another_number(self):
        self.refuse(
            simple("return x + y", names="x, y"),
            "inputs_do_not_fit",
            says=("returns 1 values", "'y'"),
            line="def forward",
        )

    def test_inputs_of_another_shape(self):
        self.refuse(
            simple("return self.fc(x)", init="self.fc = nn.Linear(5, 5)"),
            "forward_failed",
            says="get_inputs()",
            line="self.fc(x)",
        )

    def test_forward_that_raises(self):
        self.refuse(
            simple("raise KeyError('lost')"),
            "forward_failed",
            says=("KeyError", "lost"),
            line="raise KeyError",
        )

    def test_forward_that_returns_no_tensor(self):
        for result, told in (("None", "None"), ("3.0", "a float"), ("{'x': [2]}", "a dict")):
            self.refuse(
                simple(f"return {result}"),
                "forward_failed",
                says=f"Model.forward returns {told}, and no tensor",
                line="def forward",
            )

    def test_a_result_on_another_device(self):
        self.refuse(
            simple("return torch.empty(3, device='meta')"),
            "forward_failed",
            says="returns a tensor on meta",
            line="def forward",
        )

    def test_init_arguments_in_their_wider_forms(self):
        text = simple("return x * self.k", init="self.k = k * scale")
        text = text.replace("__init__(self)", "__init__(self, k, *, scale=1)")
        for form in ("[2]", "(2,)", "{'k': 2}", "[[2], {'scale': 3}]"):
            self.capture(text.replace("    return []", f"    return {form}"))

    def test_a_cut_output_folder(self):
        path = self.write(simple("return x + 1"))
        error = capture.reply_of(path, os.path.join(self.folder, "no", "g"))
        self.assertEqual(error["error"]["kind"], "cannot_write")
        self.assertEqual(error["error"]["code"], "failed")

    def test_a_full_disk_leaves_no_half_file(self):
        path = self.write(simple("return x + 1"))
        full = os.path.join(self.folder, "full")
        os.symlink("/dev/full", full + ".part")
        reply = capture.reply_of(path, full)
        self.assertEqual(reply["error"]["kind"], "cannot_write")
        self.assertIn("No space", reply["error"]["message"])
        self.assertFalse(os.path.lexists(full + ".part"))


class UncapturableTest(CaptureTest):
    def test_an_if_on_data(self):
        self.refuse(
            simple("if x.sum() > 0:\n    return x\nreturn -x"),
            "data_dependent",
            says="torch.where",
            line="x.sum() > 0",
        )

    def test_an_item(self):
        self.refuse(simple("n = x.sum().item()\nreturn x * n if n > 1 else x"), "data_dependent")

    def test_other_memory_for_a_tensor(self):
        self.refuse(
            simple("x.data = x * 2\nreturn x + 1"),
            "unsupported",
            says=("x.data = y", "copy_"),
            line="x.data = x",
        )

    def test_an_argument_that_is_kept_as_it_is(self):
        self.refuse(
            simple(
                "y = x + self.kept\nself.kept = x\nreturn y",
                init="self.kept = torch.ones(4, 6)",
                inputs="[torch.rand(4, 6)]",
            ),
            "unsupported",
            says="copy_(x)",
        )

    def test_a_scripted_part(self):
        self.refuse(
            simple("return self.part(x)", init="self.part = torch.jit.script(torch.nn.ReLU())"),
            "unsupported",
            says=("part is a scripted module",),
        )

    def test_a_loop_over_data(self):
        self.refuse(
            simple("while x.max() > 1:\n    x = x / 2\nreturn x"),
            "data_dependent",
            line="x.max() > 1",
        )

    def test_an_item_inside_a_helper_names_the_helper(self):
        text = simple("return scaled(x)").replace(
            "class Model", "def scaled(x):\n    return x * int(x.max())\n\nclass Model"
        )
        self.refuse(text, "data_dependent", line="int(x.max())")

    def test_nonzero(self):
        self.refuse(simple("return x.nonzero().sum()"), "data_dependent")

    def test_a_boolean_index(self):
        self.refuse(simple("return x[x > 0]"), "data_dependent")

    def test_unique(self):
        self.refuse(simple("return torch.unique(x)"), "data_dependent")

    def test_a_number_from_data_that_nothing_branches_on(self):
        self.refuse(simple("return x * x.sum().item()"), "data_dependent")

    def test_a_complex_result(self):
        self.refuse(
            simple("return torch.fft.fft(x)"),
            "unsupported",
            says=("its result is complex64", "view_as_real"),
            line="torch.fft",
        )

    def test_a_complex_buffer_that_changes(self):
        self.refuse(
            simple(
                "self.kept *= 2\nreturn x * self.kept.abs()",
                init="self.register_buffer('kept', torch.ones(6) + 1j)",
            ),
            "unsupported",
            says=("kept is complex64",),
        )

    def test_complex_inputs(self):
        self.refuse(
            simple("return x.abs()", inputs="[torch.randn(3, dtype=torch.complex64)]"),
            "unsupported",
            says="complex64",
        )

    def test_sparse_tensors(self):
        self.refuse(simple("return x.to_sparse().to_dense()"), "unsupported")

    def test_quantised_tensors(self):
        self.refuse(
            simple("q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)\nreturn q.dequantize()"),
            "unsupported",
        )

    def test_numpy_inside_forward(self):
        self.refuse(
            simple("return torch.from_numpy(x.numpy() * 2)"), "unsupported", line="x.numpy()"
        )

    def test_a_large_constant_of_no_attribute(self):
        self.refuse(
            simple("return x + BIG")
            .replace("class Model", "BIG = torch.ones(5000)\nclass Model")
            .replace("(4, 6)", "(5000)"),
            "unsupported",
            says="5000 elements",
        )

    def test_an_empty_or_huge_constant(self):
        self.refuse(
            simple("return torch.cat([x[0], torch.tensor([])])"), "unsupported", says="0 elements"
        )
        self.refuse(simple("return x + torch.tensor([2 ** 60 + 1])"), "unsupported", says="above")

    def test_control_flow_operators(self):
        self.refuse(
            simple("return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))"),
            "unsupported",
            says="torch.where",
            line="torch.cond",
        )

    def test_a_generator_of_the_model(self):
        self.refuse(
            simple("g = torch.Generator()\nreturn x + torch.randn(6, generator=g)"),
            "unsupported",
            says="default generator",
        )

    def test_a_layer_without_sizes(self):
        self.refuse(
            simple("return self.fc(x)", init="self.fc = nn.LazyLinear(6)"),
            "unsupported",
            says="fc.weight",
        )

    def test_an_input_of_an_unknown_type(self):
        self.refuse(
            simple("return x", names="x, o", inputs="[torch.randn(3), object()]"),
            "inputs_do_not_fit",
            says="tensors and numbers",
        )

    def test_an_output_that_is_no_tensor(self):
        self.refuse(simple("return {x.shape: x}.items()"), "forward_failed")


class FrameworkTest(unittest.TestCase):
    def test_versions_are_read(self):
        self.assertEqual(problems.torch_version("2.13.0+cpu"), (2, 13))
        self.assertEqual(problems.torch_version("2.6.0a0+git1"), (2, 6))
        self.assertEqual(problems.torch_version("nightly"), (0, 0))

    def test_an_old_torch_is_refused(self):
        version = torch.__version__
        try:
            torch.__version__ = "2.5.1"
            with self.assertRaises(problems.ProblemError) as caught:
                problems.import_torch()
        finally:
            torch.__version__ = version
        self.assertEqual(caught.exception.code, "missing")
        self.assertIn("2.5.1 is too old", caught.exception.message)

    def test_no_torch_is_refused(self):
        torch_module = sys.modules["torch"]
        try:
            sys.modules["torch"] = None  # makes the import fail
            with self.assertRaises(problems.ProblemError) as caught:
                problems.import_torch()
        finally:
            sys.modules["torch"] = torch_module
        self.assertEqual(caught.exception.code, "missing")
        self.assertEqual(caught.exception.kind, "torch_missing")


if __name__ == "__main__":
    unittest.main()
