"""ModelNew sees what is changed in the model's parts after it was captured, and
then does what Model does.

Needs the program compose_cli (tests/compiler/tools): its path is in
WEFT_COMPOSE, or build/compose_cli.
"""

import copy
import glob
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from capture_case import HEADER, ROOT, CaptureTest, simple
from captured_cases import program
from weft_case import module_of

import torch
import torch.nn as nn
import torch.nn.functional as F

from weft.capture import capture
from weft.problem.problem import init_arguments

#: Settings of many kinds.
PROBLEM = (
    "from dataclasses import dataclass"
    + HEADER
    + """
@dataclass
class Config:
    gain: float = 0.5

class Scale(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by, self.on, self.calls = by, True, 0
    def forward(self, x):
        self.calls += 1
        return x * self.by if self.on else x

class Other(nn.Module):
    def forward(self, x):
        return x - 1

class Model(nn.Module):
    class Shift(Other):
        pass

    def __init__(self, eps=1e-5):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(4, eps=eps)
        self.drop = nn.Dropout(0.25)
        self.scale = self.same = Scale(2.0)
        self.tail = nn.Sequential(nn.Tanh(), Model.Shift())
        self.config = Config()
        self.act, self.down, self.__more, self.by = F.relu, None, 1.5, [1.0, 2]
    def forward(self, x):
        y = self.drop(self.act(self.bn(self.conv(x))))
        y = self.tail(self.scale(y) + self.same(y)) * self.by[1] * self.__more
        y = y * self.config.gain
        return y if self.down is None else self.down(y)

def get_inputs():
    return [torch.randn(2, 3, 8, 8)]

def get_init_inputs():
    return []
"""
)

#: Parts of the framework that keep something of their own.
KINDS = simple(
    "y = self.lstm(x)[0]\ny = self.attend(y, y, y)[0]\n"
    "y = self.one(y) + self.two(y) + self.three(y)\n"
    "return torch.tanh(self.layer(y) * 2)",
    init="from torch.nn.utils import parametrizations as p\n"
    "self.lstm = nn.LSTM(6, 6)\n"
    "self.attend = nn.MultiheadAttention(6, 2)\n"
    "self.one = nn.utils.weight_norm(nn.Linear(6, 6))\n"
    "self.two = p.spectral_norm(nn.Linear(6, 6))\n"
    "self.three = p.weight_norm(nn.Linear(6, 6))\n"
    "self.layer = nn.TransformerEncoderLayer(6, 2, 8, 0.0)",
)


def setUpModule():
    global folder
    folder = tempfile.mkdtemp(prefix="weft-parts-")
    os.environ["WEFT_KERNEL_CACHE"] = os.path.join(folder, "kernels")


def tearDownModule():
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ["WEFT_KERNEL_CACHE"]


def composed_text(path):
    graph = os.path.join(folder, "graph.json")
    reply = capture.reply_of(path, graph)
    assert reply["ok"], reply
    with open(graph, encoding="utf-8") as file:
        return subprocess.run(
            [program("compose_cli", "WEFT_COMPOSE"), path],
            stdin=file,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


def write(name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def both(name, text):
    """The problem's module, and the composed one's."""
    path = write(name + ".py", text)
    new = write(name + "_new.py", composed_text(path))
    return module_of(path), module_of(new)


def noting(model):
    """The list of calls that go to its original forward()."""
    gone, original = [], type(model).forward_reference

    def forward_reference(self, *inputs):
        gone.append(self)
        return original(self, *inputs)

    patch = unittest.mock.patch.object(type(model), "forward_reference", forward_reference)
    return gone, patch


class Doubled(nn.Conv2d):
    """An adapter: the same weights, another result."""

    def forward(self, x):
        return super().forward(x) * 2


def doubled(model):
    model.conv.__class__ = Doubled


def hooked(model):
    model.bn.register_forward_hook(lambda part, inputs, result: result + 1)


def hooked_before(model):
    model.bn.register_forward_pre_hook(lambda part, inputs: inputs[0] * 2)


def parametrized(model):
    class Half(nn.Module):
        def forward(self, weight):
            return weight / 2

    nn.utils.parametrize.register_parametrization(model.conv, "weight", Half())


def set_to(path, value):
    """A change: the model's attribute of that path is that value."""
    part, _, name = path.rpartition(".")
    return lambda model: setattr(model.get_submodule(part), name, value)


def other(path):
    """A change: the part there is another of the file's own."""
    return lambda model: setattr(model, path, sys.modules[type(model).__module__].Other())


CHANGES = {
    "a part's own mode": lambda model: model.bn.eval(),
    "another part's": lambda model: model.drop.eval(),
    "a momentum": set_to("bn.momentum", 0.5),
    "an epsilon": set_to("bn.eps", 0.1),
    "a probability": set_to("drop.p", 0.0),
    "a stride": set_to("conv.stride", (2, 2)),
    "a padding mode": set_to("conv.padding_mode", "circular"),
    "a bias where there was none": set_to("conv.bias", nn.Parameter(torch.ones(4))),
    "a number": set_to("scale.by", 3.0),
    "a number of another type": set_to("scale.by", 2),
    "no number": set_to("scale.by", float("nan")),
    "a flag": set_to("scale.on", False),
    "a flag that is a number": set_to("scale.on", 0),
    "a list": set_to("by", [1.0, 3]),
    "what a list holds": lambda model: model.by.insert(0, 4.0),
    "what a record holds": lambda model: setattr(model.config, "gain", 2.0),
    "a function": set_to("act", F.gelu),
    "a forward": set_to("tail.0.forward", torch.sin),
    "another class with the same weights": doubled,
    "another class of the file": other("scale"),
    "one of a part's two names": other("same"),
    "a part where there was none": set_to("down", nn.Tanh()),
    "one part more": lambda model: model.tail.append(nn.Tanh()),
    "one part less": lambda model: model.tail.pop(1),
    "a hook": hooked,
    "a hook before": hooked_before,
    "a parametrization": parametrized,
}


def turned(model):
    weight = model.conv.weight
    weight.data = weight.data.transpose(0, 1).contiguous().transpose(0, 1)


def moved(model):
    model.conv.weight.data = model.conv.weight.data.clone()


def another(model):
    model.conv.weight = nn.Parameter(model.conv.weight.detach() * 2)


#: Changes of tensors, and whether these look otherwise then.
TENSORS = {
    "another layout": (turned, True),
    "another shape": (
        lambda model: setattr(model.bn, "num_batches_tracked", torch.zeros(1, dtype=int)),
        True,
    ),
    "other memory": (moved, False),
    "another parameter": (another, False),
    "one under two names": (lambda model: setattr(model.bn, "weight", model.bn.bias), False),
    "none": (lambda model: setattr(model.bn, "bias", None), True),
    "no gradients": (lambda model: model.requires_grad_(False), False),
}


class ComposedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.old, cls.new = both("settings", PROBLEM)

    def check(self, ours, model, goes, context=torch.no_grad):
        """Both do the same; `goes`: whether ours goes to the original."""
        x = torch.randn(2, 3, 8, 8)
        gone, patch = noting(ours)
        ours.load_state_dict(model.state_dict(), strict=False)
        with torch.no_grad():
            torch.manual_seed(5)
            with context():
                expected = model(x)
            torch.manual_seed(5)
            with patch, context():
                got = ours(x)
        self.assertEqual(len(gone), goes)
        torch.testing.assert_close(got, expected, equal_nan=True)
        for (name, one), two in zip(
            ours.state_dict().items(), model.state_dict().values(), strict=True
        ):
            torch.testing.assert_close(one, two, msg=name)

    def pair(self, *arguments):
        return self.new.ModelNew(*arguments), self.old.Model(*arguments)

    def test_tensors_that_look_otherwise(self):
        for what, (change, goes) in TENSORS.items():
            with self.subTest(what):
                ours, model = self.pair()
                self.check(ours, model, goes=False)
                known = self.new._weft_known
                self.assertIsNotNone(known)
                change(ours), change(model)
                self.check(ours, model, goes=goes)
                # No guards are made where they would not know it again.
                made = what == "no gradients"
                self.assertEqual(self.new._weft_known is not known, made)
                self.check(*self.pair(), goes=False)

    def test_what_is_changed_after_the_first_call(self):
        for what, change in CHANGES.items():
            with self.subTest(what):
                ours, model = self.pair()
                self.check(ours, model, goes=False)
                change(ours), change(model)
                self.check(ours, model, goes=True)

    def test_what_is_changed_before_it(self):
        for what, change in CHANGES.items():
            with self.subTest(what):
                ours, model = self.pair()
                change(ours), change(model)
                self.check(ours, model, goes=True)

    def test_what_other_arguments_of_the_constructor_change(self):
        self.check(*self.pair(0.5), goes=True)
        self.check(*self.pair(1e-5), goes=False)

    def test_autocast_around_the_call(self):
        ours, model = self.pair()
        self.check(ours, model, goes=True, context=lambda: torch.autocast("cpu"))
        self.check(ours, model, goes=False)

    def test_what_is_undone(self):
        ours, model = self.pair()
        for change in (lambda m: m.bn.eval(), set_to("bn.eps", 0.1)):
            change(ours), change(model)
            self.check(ours, model, goes=True)
        for change in (lambda m: m.bn.train(), set_to("bn.eps", 1e-5)):
            change(ours), change(model)
        self.check(ours, model, goes=False)
        ours.eval(), model.eval()
        self.check(ours, model, goes=True)
        ours.train(), model.train()
        self.check(ours, model, goes=False)

    def test_a_hook_of_the_model_itself_is_no_change(self):
        ours, model = self.pair()
        for one in (ours, model):
            one.register_forward_hook(lambda part, inputs, result: result * 3)
        self.check(ours, model, goes=False)

    def test_copies_take_the_kernels(self):
        ours, model = self.pair()
        file = io.BytesIO()
        torch.save(ours, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        for one in (
            copy.deepcopy(ours),
            loaded,
            ours.cpu(),
            ours.to("cpu"),
            self.new.ModelNew(),
            ours,
        ):
            self.check(one, model, goes=False)

    def test_nothing_is_added_to_the_model(self):
        ours, model = self.pair()
        self.check(ours, model, goes=False)
        for one, two in zip(ours.modules(), model.modules(), strict=True):
            names = [name.replace("ModelNew", "Model") for name in vars(one)]
            self.assertEqual(names, list(vars(two)))


class KernelsTest(unittest.TestCase):
    def test_parts_of_the_framework_take_the_kernels(self):
        old, new = both("kinds", KINDS)
        torch.manual_seed(1)
        ours = new.ModelNew()
        torch.manual_seed(1)
        model = old.Model()
        gone, patch = noting(ours)
        with patch, torch.no_grad():
            for _ in range(2):
                x = torch.randn(4, 6)
                torch.testing.assert_close(ours(x), model(x))
        self.assertFalse(gone)

    def test_so_does_each_example(self):
        for path in sorted(glob.glob(os.path.join(ROOT, "examples", "*.py"))):
            with self.subTest(os.path.basename(path)):
                text = composed_text(path)
                self.assertIn("def _weft_build(", text)
                # Building its kernels is not what is looked at.
                text = "import unittest.mock\n" + text.replace(
                    "def _weft_build(",
                    "_weft_build = unittest.mock.MagicMock()\n\n\ndef _weft_no_build(",
                )
                new = module_of(write("example_new.py", text))
                args, kwargs = init_arguments(new.ModelNew, new.get_init_inputs())
                model = new.ModelNew(*args, **kwargs)
                for _ in range(2):
                    self.assertTrue(new._weft_as_captured(model))


class CapturedTest(CaptureTest):
    def parts(self, body, init, head=""):
        text = simple(body, init=init).replace("class Model", head + "class Model")
        return {part["module"]: part for part in self.capture(text)["parts"]}

    def test_what_forward_reads_of_each_part(self):
        parts = self.parts("return self.bn(x)", "self.bn = nn.BatchNorm1d(6)")
        self.assertEqual(list(parts), ["", "bn"])
        self.assertEqual(
            parts["bn"],
            {
                "module": "bn",
                "size": 0,
                "hooks": [],
                "empty": [],
                "class": "torch.nn.modules.batchnorm.BatchNorm1d",
                "settings": {
                    "eps": "1e-05",
                    "momentum": "0.1",
                    "track_running_stats": "True",
                    "training": "True",
                },
                "absent": ["_check_input_dim", "forward"],
            },
        )

    def test_what_it_does_not_read_is_no_setting(self):
        parts = self.parts("return x * self.by", "self.by, self.unread = 2.0, 3.0")
        self.assertEqual(parts[""]["settings"], {"by": "2.0"})

    def test_what_it_binds_is_none(self):
        parts = self.parts(
            "self.calls += 1\nself.n = x.shape[0]\nwas = self.part.training\n"
            "self.part.train(False)\ny = self.part(x) * self.n\n"
            "self.part.train(was)\nreturn y",
            "self.calls, self.n = 0, None\nself.part = nn.Dropout(0.5)",
        )
        self.assertEqual(parts[""]["settings"], {})
        self.assertNotIn("training", parts["part"]["settings"])

    def test_values_that_can_be_written_down(self):
        parts = self.parts(
            "for one in (self.a, self.b, self.c, self.d, self.e, self.f,\n"
            "            self.g):\n"
            "    pass\nreturn x * 2",
            "self.a, self.b = {'n': (1, [True])}, float('nan')\n"
            "self.c, self.d = torch.float16, F.relu\n"
            "self.e, self.f = [torch.ones(1)], list(range(9999))\n"
            "self.g = types.SimpleNamespace(a=1)",
            head="import types\n\n",
        )
        self.assertEqual(
            parts[""]["settings"],
            {
                "a": "{'n': (1, [True])}",
                "b": "nan",
                "c": "torch.float16",
                "d": "relu",
                "g": "namespace(a=1)",
            },
        )

    def test_what_it_looks_for_in_vain(self):
        parts = self.parts(
            "return self.part(x) * getattr(self, 'by', 2.0)",
            "self.part = nn.Linear(6, 6, bias=False)",
        )
        self.assertEqual((parts[""]["absent"], parts[""]["empty"]), (["by"], ["by"]))
        self.assertEqual(parts["part"]["empty"], ["bias"])

    def test_classes_hooks_and_a_part_of_two_names(self):
        parts = self.parts(
            "return self.one(x)",
            "self.one = self.two = nn.Sequential(Own())\nself.one.register_forward_hook(note)",
            head="def note(part, inputs, result):\n    pass\n\n"
            "class Own(nn.Module):\n    def forward(self, x):\n"
            "        return x * 2\n\n",
        )
        self.assertEqual(list(parts), ["", "one", "one.0", "two", "two.0"])
        self.assertEqual(
            [part["class"] for part in parts.values()][:3],
            [".Model", "torch.nn.modules.container.Sequential", ".Own"],
        )
        self.assertEqual([part["size"] for part in parts.values()], [2, 1, 0, 1, 0])
        self.assertEqual(parts["two"]["hooks"], ["note"])


if __name__ == "__main__":
    unittest.main()
