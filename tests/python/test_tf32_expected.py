"""Where TF32's loss enters what is expected: as if the CPU were a GPU."""

import contextlib
import json
import os
import tempfile
import unittest
from unittest import mock

import torch

import captured_cases
from weft.expect import compare, expected, tf32
from weft.judge import whole_model
from weft.device.device import HOST
from weft.expect.reference import Reference

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x))

def get_inputs():
    return [torch.rand(2, 4, 16, 16)]

def get_init_inputs():
    return []
"""


class Library:
    """Stands for a GPU's: its products are TF32 unless that is forbidden."""

    def __init__(self, uses_tf32):
        self.uses_tf32 = uses_tf32
        self.is_forbidden = False

    @contextlib.contextmanager
    def forbidden(self):
        self.is_forbidden = True
        try:
            yield
        finally:
            self.is_forbidden = False

    @contextlib.contextmanager
    def at_work(self):
        """Products within are this library's."""
        if self.uses_tf32 and not self.is_forbidden:
            with tf32.Lossy(tf32.rounded):
                yield
        else:
            yield


class Expected(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def with_library(self, uses_tf32, asked=False):
        library = Library(uses_tf32)
        for name, value in (
            ("is_allowed", lambda device: True),
            ("is_asked", lambda device: asked),
            ("forbidden", library.forbidden),
        ):
            patched = mock.patch.object(tf32, name, value)
            patched.start()
            self.addCleanup(patched.stop)
        return library

    def of_subgraph(self, library, has_room=True):
        """(what is expected, the result in float32, in TF32)."""
        x, w = torch.rand(2, 4, 16, 16), torch.randn(8, 4, 3, 3)
        case = (
            "conv",
            lambda x, w: torch.relu(
                torch.ops.aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
            ),
            (x, w),
        )
        (graph,) = captured_cases.graphs_of([case])
        maker = expected.CaseMaker(Reference(json.loads(json.dumps(graph))), HOST)
        plain = maker._eager

        def eager(*views):
            with library.at_work():
                return plain(*views)

        maker._eager = eager
        if not has_room:
            maker.run_wide = lambda data, narrow: None
        (one,) = maker.expect("normal", [x.reshape(-1), w.reshape(-1)]).outputs
        with tf32.Lossy(tf32.cut):
            lossy = case[1](x, w)
        return one, case[1](x, w), lossy

    def test_tf32_is_wrong_where_the_library_computed_in_float32(self):
        one, exact, lossy = self.of_subgraph(self.with_library(False))
        self.assertFalse(one.allows_tf32)
        self.assertFalse(compare.compare(exact, one).reason)
        self.assertTrue(compare.compare(lossy, one).reason)

    def test_it_is_right_where_the_library_used_it(self):
        one, exact, lossy = self.of_subgraph(self.with_library(True))
        self.assertTrue(one.allows_tf32)
        self.assertFalse(compare.compare(exact, one).reason)
        self.assertFalse(compare.compare(lossy, one).reason)

    def test_it_is_right_where_the_user_asked_for_it(self):
        library = self.with_library(False, asked=True)
        one, exact, lossy = self.of_subgraph(library)
        self.assertFalse(compare.compare(exact, one).reason)
        self.assertFalse(compare.compare(lossy, one).reason)
        self.assertLess(one.rms_tolerance, one.tolerance)

    def test_without_float64_what_the_library_lost_is_known(self):
        library = self.with_library(True)
        one, exact, lossy = self.of_subgraph(library, has_room=False)
        self.assertFalse(compare.compare(exact, one).reason)
        self.assertFalse(compare.compare(lossy, one).reason)
        library.uses_tf32 = False
        one, exact, lossy = self.of_subgraph(library, has_room=False)
        self.assertFalse(compare.compare(exact, one).reason)
        self.assertTrue(compare.compare(lossy, one).reason)

    def test_of_a_model_and_what_it_keeps(self):
        path = os.path.join(self.folder, "problem.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROBLEM)
        whole = whole_model.WholeModel(path, 1)
        strict = whole.case("given", HOST.generator(1))
        self.assertFalse(whole.framework_used_tf32)
        library = self.with_library(True)
        run = whole._run

        def with_library(model, *args, **named):
            within = named.pop("within", contextlib.nullcontext())
            with within, library.at_work():
                return run(model, *args, **named)

        whole._run = with_library
        case = whole.case("given", HOST.generator(1))
        self.assertTrue(whole.framework_used_tf32)
        self.assertGreater(case.outputs[0].tolerance, strict.outputs[0].tolerance)
        self.assertGreater(case.outputs[0].framework_rms, 30 * strict.outputs[0].framework_rms)
        means = [one for one in case.state_after if "running_mean" in one.name]
        self.assertLess(means[0].rms_tolerance, 1.0)


if __name__ == "__main__":
    unittest.main()
